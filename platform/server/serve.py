"""How does the server start, run and end?

keys and folders checked ─▶ database migrated ─▶ rows completed from the tree ─▶ decisions published
─▶ ports open ─▶ ready line ─▶ … ─▶ SIGTERM ─▶ health says "not serving" ─▶ calls end ─▶ ports closed
"""

import asyncio
import errno
import json
import os
import signal
import ssl
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import grpc
import structlog
from aiohttp import web
from alcove.api.experiment.v1.experiment_pb2_grpc import add_ExperimentServiceServicer_to_server
from alcove.api.registry.v1.registry_pb2_grpc import add_RegistryServiceServicer_to_server
from alcove.api.rollout.v1.rollout_pb2_grpc import add_RolloutServiceServicer_to_server
from alcove.platform.core import limits
from alcove.platform.ingress import SILENT, create_ingress
from alcove.platform.ingress.rate import RateLimit
from alcove.platform.ingress.reports import ReportCollector
from alcove.platform.policy_compiler import Publisher
from alcove.platform.publishing import HeldDisk, TreeLock, VersionPublisher
from alcove.platform.server.experiment_service import ExperimentService
from alcove.platform.server.guard import check_keys, hold_data_folder, load_keys, refuse_foreign_keys
from alcove.platform.server.interceptor import CallInterceptor
from alcove.platform.server.log import configure_log
from alcove.platform.server.mutations import Mutations
from alcove.platform.server.registry_service import RegistryService
from alcove.platform.server.rollout_service import RolloutService
from alcove.platform.server.settings import Settings
from alcove.platform.store import Store
from alcove.registry.blobs import BlobStore, open_blob_store
from alcove.registry.clock import SYSTEM_CLOCK, Clock
from alcove.registry.keys import OnlineKeys
from alcove.registry.tree import Tree
from grpc_health.v1 import health_pb2_grpc
from grpc_health.v1.health import aio as health_aio  # type: ignore[attr-defined]  # missing in the stubs
from grpc_health.v1.health_pb2 import HealthCheckResponse

__all__ = ["Running", "run", "serve"]

_log = structlog.get_logger()


@dataclass(frozen=True)
class Running:
    """Where a started server answers."""

    grpc_address: str
    http_url: str

    def ready_line(self) -> str:
        """Return the one line of JSON that tells a parent process that the server answers, and where."""
        return json.dumps({"ready": True, "grpc": self.grpc_address, "http": self.http_url, "pid": os.getpid()})


@asynccontextmanager
async def run(settings: Settings, clock: Clock = SYSTEM_CLOCK) -> AsyncIterator[Running]:
    """Run the server inside the block; on leaving it, calls under way get a few seconds to end.

    Raises:
        ServerError: the folders or keys are not as they must be.
        RegistryError: the tree is damaged.
        OSError: a port or folder cannot be used.
    """
    async with AsyncExitStack() as stack:
        stack.enter_context(hold_data_folder(settings))
        keys = await asyncio.to_thread(_checked_keys, settings)
        store = await Store.open(settings.database)
        stack.push_async_callback(store.close)
        lock = TreeLock(store)
        blobs = None if settings.blobs is None else await asyncio.to_thread(_reached, settings.blobs)
        files, note = HeldDisk(lock), settings.published_note
        tree = Tree(settings.tree, keys=keys, blobs=blobs, clock=clock, files=files, published_note=note)
        publisher = Publisher(store, tree, lock)
        versions = VersionPublisher(store, tree, lock, clock)
        await versions.reconcile()
        await publisher.flush()
        await _refresh(tree, lock)

        collector = ReportCollector(store, clock)
        mutations = Mutations(store, publisher, tree, clock, on_decision=collector.forget_tasks)
        await mutations.follow_teams()
        await publisher.flush()
        grpc_port = await _start_grpc(stack, settings, mutations, versions)
        rate = RateLimit(settings.reports_per_second, time.monotonic)
        bodies = RateLimit(settings.bodies_per_second, time.monotonic)
        ingress = create_ingress(settings.tree, collector, rate, bodies, blobs)
        http_port = await _start_http(stack, settings, ingress)
        await stack.enter_async_context(_keeping_fresh(settings, tree, lock, mutations))
        scheme = "https" if settings.tls_key else "http"
        host = settings.url_host
        yield Running(f"{host}:{grpc_port}", f"{scheme}://{host}:{http_port}")


async def serve(settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; prints the ready line when every port answers.

    Raises:
        ServerError, RegistryError, OSError: as `run`.
    """
    configure_log()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with run(settings) as running:
        sys.stdout.write(running.ready_line() + "\n")
        sys.stdout.flush()
        _log.info("serving", grpc=running.grpc_address, http=running.http_url)
        await stopped.wait()
        _log.info("stopping")


def _checked_keys(settings: Settings) -> OnlineKeys:
    refuse_foreign_keys(settings)
    keys = load_keys(settings)
    settings.uploads.mkdir(mode=0o700, exist_ok=True)
    check_keys(settings, keys, Tree(settings.tree).state())
    return keys


def _reached(url: str) -> BlobStore:
    """Return the store, asked for a blob that is not there: a wrong key or name is told at the start."""
    blobs = open_blob_store(url)
    blobs.has("0" * 64)
    return blobs


async def _start_grpc(
    stack: AsyncExitStack, settings: Settings, mutations: Mutations, versions: VersionPublisher
) -> int:
    """Start the gRPC server; return its port."""
    server = grpc.aio.server(
        interceptors=[CallInterceptor(mutations.store, mutations.clock)],
        maximum_concurrent_rpcs=limits.CALLS_AT_ONCE,
        options=[
            ("grpc.max_receive_message_length", limits.MESSAGE_BYTES),
            ("grpc.max_send_message_length", limits.MESSAGE_BYTES),
            ("grpc.max_connection_age_ms", limits.CONNECTION_AGE_MS),
            ("grpc.so_reuseport", 0),  # a second server on the port must fail, not share it
        ],
    )
    watch = health_aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(watch, server)
    add_RegistryServiceServicer_to_server(RegistryService(mutations, versions, settings.uploads), server)
    add_RolloutServiceServicer_to_server(RolloutService(mutations), server)
    add_ExperimentServiceServicer_to_server(ExperimentService(mutations), server)
    port = _listen(server, settings)
    await server.start()
    await watch.set("", HealthCheckResponse.SERVING)

    async def stop() -> None:
        await watch.enter_graceful_shutdown()
        await server.stop(limits.SHUTDOWN_GRACE_S)

    stack.push_async_callback(stop)
    return port


def _listen(server: grpc.aio.Server, settings: Settings) -> int:
    """Open the gRPC port; return its number.

    Raises:
        OSError: the port is taken or not ours to open, or the TLS files cannot be read.
    """
    address = f"{settings.url_host}:{settings.grpc_port}"
    try:
        if settings.tls_key is None or settings.tls_certificate is None:
            return server.add_insecure_port(address)
        pair = (settings.tls_key.read_bytes(), settings.tls_certificate.read_bytes())
        return server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
    except RuntimeError:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), address) from None


async def _start_http(stack: AsyncExitStack, settings: Settings, app: web.Application) -> int:
    """Start the HTTP server; return its port."""
    tls: ssl.SSLContext | None = None
    if settings.tls_certificate is not None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(settings.tls_certificate, settings.tls_key)
    runner = web.AppRunner(app, access_log=None, logger=SILENT, shutdown_timeout=limits.SHUTDOWN_GRACE_S)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, settings.host, settings.http_port, ssl_context=tls)
    await site.start()
    return int(runner.addresses[0][1])


@asynccontextmanager
async def _keeping_fresh(settings: Settings, tree: Tree, lock: TreeLock, mutations: Mutations) -> AsyncIterator[None]:
    """Renew signatures in time, and publish what a failing disk left unpublished, while the block runs.

    The task is asked to end, not cancelled: a cancelled database call takes its connection with it.
    """
    is_over = asyncio.Event()

    async def keep() -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), settings.refresh_s)
                return
            try:
                await _refresh(tree, lock)
                await mutations.follow_teams()
                await mutations.publisher.flush()
            except Exception as error:  # noqa: BLE001 - a full disk today must not end the renewal of tomorrow
                _log.error("refresh failed, will be tried again", exc_info=error)

    task = asyncio.create_task(keep())
    try:
        yield
    finally:
        is_over.set()
        await task


async def _refresh(tree: Tree, lock: TreeLock) -> None:
    async with lock:
        refreshed = await asyncio.to_thread(tree.refresh)
    if refreshed.renewed:
        _log.info("signatures renewed", roles=list(refreshed.renewed))
    for role, expires_at_s in refreshed.expiring.items():
        _log.warning("a signature expires soon: its owner must renew it", role=role, expires_at_s=expires_at_s)
