"""Starts, runs and ends the server: gRPC here, devices in a process of their own that this one keeps.

keys and folders checked ─▶ database migrated ─▶ rows completed from the tree ─▶ decisions published
─▶ ports open ─▶ ready line ─▶ … ─▶ SIGTERM ─▶ health says "not serving" ─▶ calls end ─▶ ports closed
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp
import grpc
import grpc.aio
import structlog
from aiohttp import web
from alcove.api.audit.v1 import audit_pb2
from alcove.api.audit.v1.audit_pb2_grpc import add_AuditServiceServicer_to_server
from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.experiment.v1.experiment_pb2_grpc import add_ExperimentServiceServicer_to_server
from alcove.api.metric.v1.metric_pb2_grpc import add_MetricServiceServicer_to_server
from alcove.api.planner.v1 import planner_pb2
from alcove.api.planner.v1.planner_pb2_grpc import add_PlannerServiceServicer_to_server
from alcove.api.policy.v1 import policy_pb2
from alcove.api.policy.v1.policy_pb2_grpc import add_PolicyServiceServicer_to_server
from alcove.api.registry.v1 import registry_pb2
from alcove.api.registry.v1.registry_pb2_grpc import add_RegistryServiceServicer_to_server
from alcove.api.rollout.v1 import rollout_pb2
from alcove.api.rollout.v1.rollout_pb2_grpc import add_RolloutServiceServicer_to_server
from alcove.api.session.v1 import session_pb2
from alcove.api.session.v1.session_pb2_grpc import add_SessionServiceServicer_to_server
from alcove.api.status.v1 import status_pb2
from alcove.api.status.v1.status_pb2_grpc import add_StatusServiceServicer_to_server
from alcove.platform.aggregator.collector import CollectorClient, CollectorConfig, read_collector_config
from alcove.platform.alerts.config import read_alerts_config
from alcove.platform.alerts.monitors import Monitors
from alcove.platform.core.log import configure_log
from alcove.platform.domain import limits
from alcove.platform.domain.errors import AggregatorFileError
from alcove.platform.ingress.serve import reach_blobs
from alcove.platform.listening.accepting import raise_file_limit
from alcove.platform.listening.http import listen_http, open_tls, start_http
from alcove.platform.server.alerting import Repeated, ask_for_windows, note_unanalyzed, repeat_works, start_alerts
from alcove.platform.server.audit_service import AuditService
from alcove.platform.server.collector import Collector
from alcove.platform.server.connections import Connections
from alcove.platform.server.console_process import (
    ConsoleProcess,
    console_door,
    console_settings,
    listen_console,
    make_console_key,
)
from alcove.platform.server.experiment_service import ExperimentService
from alcove.platform.server.health import HealthService
from alcove.platform.server.health_checks import ServerParts
from alcove.platform.server.identity import CertificateList, Identity
from alcove.platform.server.ingress_process import IngressProcess
from alcove.platform.server.interceptor import CallInterceptor
from alcove.platform.server.kept_process import KeptProcess
from alcove.platform.server.metric_service import MetricService
from alcove.platform.server.metrics import Metrics, create_metrics_page
from alcove.platform.server.planner_service import PlannerService
from alcove.platform.server.policy_service import PolicyService
from alcove.platform.server.ports import GRPC_OPTIONS, listen, listen_for_certificates
from alcove.platform.server.rate_limits import CallerLimits
from alcove.platform.server.registry_service import RegistryService
from alcove.platform.server.rollout_service import RolloutService
from alcove.platform.server.session_service import SessionService
from alcove.platform.server.settings import Settings
from alcove.platform.server.sign_ins import open_sign_ins
from alcove.platform.server.startup_checks import (
    hold_data_folder,
    load_keys,
    refuse_foreign_keys,
    verify_blobs,
    verify_keys,
)
from alcove.platform.server.status_service import StatusService
from alcove.platform.server.traces import tracing
from alcove.platform.services.experiments.allocator import due_bandits, move_all
from alcove.platform.services.experiments.monitor import analyze_all as analyze_experiments
from alcove.platform.services.experiments.monitor import due_experiments
from alcove.platform.services.mutations import Mutations
from alcove.platform.services.policy import PolicyPublisher
from alcove.platform.services.publishing import LockedDisk, RepositoryLock, VersionPublisher, collect_garbage
from alcove.platform.services.readouts.monitor import end_all as end_readouts
from alcove.platform.services.rollouts.monitor import analyze_all as analyze_rollouts
from alcove.platform.services.rollouts.reports import StoredReports
from alcove.platform.services.validation import ChildChecks
from alcove.platform.store import Store
from alcove.platform.store.manifests import newest_manifests
from alcove.platform.store.note import compare_stores, note_stores
from alcove.platform.store.readouts import running_readouts
from alcove.platform.store.rollouts import watched_rollouts
from alcove.registry.garbage_collection import GRACE_S
from alcove.registry.keys import OnlineKeys
from alcove.registry.policy import Aggregation
from alcove.registry.repository import Repository
from alcove.runtime.clock import SYSTEM_CLOCK, Clock
from grpc_health.v1 import health_pb2_grpc
from grpc_reflection.v1alpha.reflection import SERVICE_NAME, enable_server_reflection

__all__ = ["Running", "run", "serve"]

SERVICES = tuple(
    file.services_by_name[name].full_name
    for file in (
        registry_pb2.DESCRIPTOR,
        rollout_pb2.DESCRIPTOR,
        experiment_pb2.DESCRIPTOR,
        policy_pb2.DESCRIPTOR,
        planner_pb2.DESCRIPTOR,
        audit_pb2.DESCRIPTOR,
        session_pb2.DESCRIPTOR,
        status_pb2.DESCRIPTOR,
    )
    for name in file.services_by_name
)
_log = structlog.get_logger()


@dataclass(frozen=True)
class Running:
    """Addresses of a started server.

    Attributes:
        http_url: where devices are answered; "" where another server does it.
        ingress: the process that does it.
    """

    grpc_address: str
    http_url: str
    mtls_address: str | None = None
    metrics_url: str | None = None
    ingress: IngressProcess | None = None
    console_url: str | None = None
    console: ConsoleProcess | None = None

    def ready_line(self) -> str:
        """Return the one line of JSON that tells a parent process that the server answers, and where."""
        more = {"http": self.http_url or None, "mtls": self.mtls_address, "metrics": self.metrics_url}
        more["console"] = self.console_url
        line = {"ready": True, "grpc": self.grpc_address, "pid": os.getpid()}
        return json.dumps(line | {name: where for name, where in more.items() if where is not None})


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
        await asyncio.to_thread(_verify_stores_and_tls, settings)
        stack.enter_context(tracing(settings.traces))
        keys = await asyncio.to_thread(_checked_keys, settings)
        aggregators = await asyncio.to_thread(_read_aggregators, settings)
        alerts = None if settings.alerts is None else await asyncio.to_thread(read_alerts_config, settings.alerts)
        http_port, ingress = await _launch_ingress(stack, settings)
        console = await _launch_console(stack, settings)
        store = await _open_store(stack, settings)
        lock = RepositoryLock(store)
        blobs = None if settings.blobs is None else await asyncio.to_thread(reach_blobs, settings.blobs)
        files, note = LockedDisk(lock), settings.rollback_note
        tree = Repository(settings.tree, keys=keys, blobs=blobs, clock=clock, files=files, rollback_note=note)
        publisher = PolicyPublisher(store, tree, lock)
        versions = VersionPublisher(store, tree, lock, clock, ChildChecks())
        await _settle_stores(settings, store, tree)
        await versions.reconcile()
        await publisher.flush()
        await _refresh(tree, lock)

        mutations = Mutations(store, publisher, tree, clock)
        await mutations.follow_teams()
        await publisher.flush()
        metrics = None if settings.metrics_port is None else Metrics()
        aggregation = None if aggregators is None else aggregators.aggregation
        collector = await _make_collector(stack, store, aggregators, clock)
        monitors = Monitors(clock)
        kept: dict[str, KeptProcess | None] = {
            "the devices' process": ingress,
            "the console's process": console.process,
        }
        parts = ServerParts(store, tree, clock, monitors, kept, collector, alerts is not None)
        service = _Service(mutations, versions, metrics, aggregation, console, ingress, parts)
        grpc_port, mtls_port = await _start_grpc(stack, settings, service)
        await _open_kept(stack, kept.values())
        metrics_url = None
        if metrics is not None:
            page = create_metrics_page(metrics, store, tree, clock, ingress=ingress, collector=collector)
            metrics_url = await _start_metrics(stack, settings, page)
        works: list[Repeated] = [
            ("the renewal of signatures", settings.refresh_s, _refreshing(tree, lock, mutations, metrics)),
            ("the analysis of reports", settings.analysis_interval_s, _analyzer(mutations, monitors)),
            ("the collection of garbage", limits.COLLECT_S, _collecting(store, tree, lock, clock)),
        ]
        if collector is not None:
            works.append(
                ("the collection of reports", settings.analysis_interval_s, ask_for_windows(collector, monitors))
            )
        await repeat_works(stack, monitors, works)
        if collector is not None:
            stack.push_async_callback(collector.stop)
        if alerts is not None:
            certificate = settings.tls_certificate
            await start_alerts(stack, alerts, mutations, monitors, metrics=metrics, certificate=certificate)
        host = settings.url_host
        mtls_address = None if mtls_port is None else f"{host}:{mtls_port}"
        url = "" if ingress is None else f"{settings.ingress.scheme}://{host}:{http_port}"
        yield Running(f"{host}:{grpc_port}", url, mtls_address, metrics_url, ingress, console.url, console.process)


async def serve(settings: Settings, clock: Clock = SYSTEM_CLOCK) -> None:
    """Run until SIGTERM or SIGINT; prints the ready line when every port answers.

    Raises:
        ServerError, RegistryError, OSError: as `run`.
    """
    configure_log()
    raise_file_limit()  # before strangers' connections could take all that a service has, 1,024
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(limits.THREADS))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with run(settings, clock) as running:
        sys.stdout.write(running.ready_line() + "\n")
        sys.stdout.flush()
        _log.info("serving", grpc=running.grpc_address, http=running.http_url, console=running.console_url)
        await stopped.wait()
        _log.info("stopping")


async def _start_metrics(stack: AsyncExitStack, settings: Settings, page: web.Application) -> str:
    """Answer Prometheus; return where."""
    port = await start_http(stack, page, listen_http(settings.host, settings.metrics_port or 0))
    return f"http://{settings.url_host}:{port}/metrics"


async def _open_store(stack: AsyncExitStack, settings: Settings) -> Store:
    """Open the database and migrate it; say so where it was an older version's."""
    store = await Store.open(settings.database)
    stack.push_async_callback(store.close)
    if store.migrated_from is not None:
        note = "an older version needs `alcove server migrate --to` of this one, or a backup from before"
        _log.warning("database migrated", before=store.migrated_from, revision=Store.schema.head, note=note)
    return store


def _checked_keys(settings: Settings) -> OnlineKeys:
    for path in refuse_foreign_keys(settings):
        _log.warning("the server can read a key that is not its own: only for a try-out", path=str(path))
    keys = load_keys(settings)
    settings.uploads.mkdir(mode=0o700, exist_ok=True)
    verify_keys(settings, keys, Repository(settings.tree).state())
    return keys


def _verify_stores_and_tls(settings: Settings) -> None:
    compare_stores(settings.data_dir, database=settings.database, blobs=settings.blobs)
    open_tls(settings.ingress)


async def _settle_stores(settings: Settings, store: Store, tree: Repository) -> None:
    await asyncio.to_thread(verify_blobs, tree.blobs, await newest_manifests(store), settings)
    await asyncio.to_thread(note_stores, settings.data_dir, database=settings.database, blobs=settings.blobs)


async def _launch_ingress(stack: AsyncExitStack, settings: Settings) -> tuple[int, IngressProcess | None]:
    """Open the devices' port and start the process that will answer on it; none where only gRPC is asked for."""
    if settings.only == "grpc":
        return 0, None
    listener = stack.enter_context(listen_http(settings.host, settings.http_port))
    ingress = IngressProcess(settings.ingress, listener)
    stack.push_async_callback(ingress.close)
    await ingress.launch()  # it imports what it needs while this process looks at its keys and rows
    return int(listener.getsockname()[1]), ingress


@dataclass(frozen=True)
class _Console:
    """The console that was launched; nothing of it where there is none.

    Attributes:
        door: its own address for calls.
        url: at which people reach it.
        key: by which it proves itself.
    """

    door: str | None = None
    url: str | None = None
    key: str = ""
    process: ConsoleProcess | None = None


async def _launch_console(stack: AsyncExitStack, settings: Settings) -> _Console:
    """Start the process that will show the console."""
    if not settings.console:
        return _Console()
    door, key = stack.enter_context(console_door()), make_console_key()
    listener = stack.enter_context(listen_console(settings))
    made = console_settings(settings, door, key)
    process = ConsoleProcess(made, listener)
    stack.push_async_callback(process.close)
    await process.launch()
    url = settings.console_url or f"{made.scheme}://{made.url_host}:{listener.getsockname()[1]}"
    return _Console(door, url, key, process)


async def _open_kept(stack: AsyncExitStack, processes: Iterable[KeptProcess | None]) -> None:
    for process in processes:
        if process is not None:
            await process.open()
            stack.callback(process.ask_to_stop)  # all end at the same time


def _read_aggregators(settings: Settings) -> CollectorConfig | None:
    """Return the aggregators that the server collects from; None: it does not.

    Raises:
        KeyFileError, AggregatorFileError: their file cannot be used, or names another issuer than this server.
    """
    if settings.aggregators is None:
        return None
    found = read_collector_config(settings.aggregators)
    if settings.token_issuer not in (None, found.token_issuer):
        problem = f"token_issuer is {found.token_issuer}, and this server issues tokens at {settings.token_issuer}"
        raise AggregatorFileError(settings.aggregators, problem)
    return found


async def _make_collector(
    stack: AsyncExitStack, store: Store, aggregators: CollectorConfig | None, clock: Clock
) -> Collector | None:
    if aggregators is None:
        return None
    session = await stack.enter_async_context(aiohttp.ClientSession())
    return Collector(store, CollectorClient(session, aggregators), aggregators.aggregation, clock)


@dataclass(frozen=True)
class _Service:
    """What answers calls."""

    mutations: Mutations
    versions: VersionPublisher
    metrics: Metrics | None
    aggregators: Aggregation | None
    console: _Console
    ingress: IngressProcess | None
    parts: ServerParts


async def _start_grpc(stack: AsyncExitStack, settings: Settings, service: _Service) -> tuple[int, int | None]:
    """Start the gRPC server; return its port, and the one for client certificates."""
    mutations, aggregators = service.mutations, service.aggregators
    figures = None if service.ingress is None else service.ingress.figures
    listed = settings.client_certificates
    certificates = None if listed is None else await asyncio.to_thread(CertificateList, listed)
    clock, idle_s = mutations.clock, settings.session_idle_minutes * 60
    sign_ins = await asyncio.to_thread(open_sign_ins, settings, service.console.url or "", certificates, clock)
    connections = Connections()
    interceptor = CallInterceptor(
        Identity(mutations.store, clock, certificates, console_key=service.console.key, idle_s=idle_s),
        CallerLimits(settings.calls_per_second),
        connections,
        call_s_max=settings.call_s_max,
        metrics=service.metrics,
    )
    server = grpc.aio.server(interceptors=[interceptor], options=GRPC_OPTIONS)
    health = HealthService()
    health_pb2_grpc.add_HealthServicer_to_server(health, server)
    add_RegistryServiceServicer_to_server(RegistryService(mutations, service.versions, settings.uploads), server)
    add_RolloutServiceServicer_to_server(RolloutService(mutations, aggregators), server)
    add_ExperimentServiceServicer_to_server(ExperimentService(mutations, aggregators), server)
    add_PolicyServiceServicer_to_server(PolicyService(mutations, aggregators, figures), server)
    add_MetricServiceServicer_to_server(MetricService(mutations), server)
    add_AuditServiceServicer_to_server(AuditService(mutations.store), server)
    sessions = SessionService(mutations.store, clock, sign_ins, idle_s=idle_s)
    add_SessionServiceServicer_to_server(sessions, server)
    status = StatusService(service.parts, settings.tls_certificate)
    add_StatusServiceServicer_to_server(status, server)
    add_PlannerServiceServicer_to_server(PlannerService(aggregators, mutations.store), server)
    if settings.reflection:
        enable_server_reflection([*SERVICES, SERVICE_NAME], server)
    port, mtls_port = listen(server, settings), listen_for_certificates(server, settings)
    if service.console.door is not None:
        server.add_insecure_port(service.console.door)
    await server.start()
    await stack.enter_async_context(connections.watch(*(one for one in (port, mtls_port) if one is not None)))

    async def stop() -> None:
        health.stop()
        interceptor.stop(limits.SHUTDOWN_GRACE_S - limits.SHUTDOWN_TELL_S)
        await server.stop(limits.SHUTDOWN_GRACE_S)
        await status.close()

    stack.push_async_callback(stop)
    return port, mtls_port


def _refreshing(
    tree: Repository, lock: RepositoryLock, mutations: Mutations, metrics: Metrics | None
) -> Callable[[], Awaitable[None]]:
    """Renew signatures in time, and publish what a failing disk left unpublished."""
    if metrics is not None:
        metrics.record_refresh()  # at the start of the server

    async def work() -> None:
        try:
            await _refresh(tree, lock)
            await mutations.follow_teams()
            await mutations.publisher.flush()
        except Exception:
            if metrics is not None:
                metrics.refresh_failed()
            raise
        if metrics is not None:
            metrics.record_refresh()

    return work


def _collecting(store: Store, tree: Repository, lock: RepositoryLock, clock: Clock) -> Callable[[], Awaitable[None]]:
    """Remove the blobs that nothing has named for a day."""

    async def work() -> None:
        done = await collect_garbage(store, tree, lock, now_s=clock.now_s(), grace_s=GRACE_S)
        if done.removed:
            _log.info("unreferenced blobs removed", count=len(done.removed), bytes=done.freed_bytes)

    return work


def _analyzer(mutations: Mutations, monitors: Monitors) -> Callable[[], Awaitable[None]]:
    """Analyze the rollouts that are watched, and the experiments whose analysis is due; move shares, end read-outs."""
    source = StoredReports()

    async def work() -> None:
        async with mutations.store.read() as session:
            watched, due = await watched_rollouts(session), await due_experiments(session)
            readouts = [one.readout_id for one in await running_readouts(session)]
            moving = await due_bandits(session, mutations.clock.now_s())
        rollouts = await analyze_rollouts(watched, mutations.act, source)
        note_unanalyzed(monitors, "rollout", watched, [one.rollout_id for one in rollouts])
        experiments = await analyze_experiments(due, mutations.act)
        note_unanalyzed(monitors, "experiment", due, [one.experiment_id for one in experiments])
        await move_all(moving, mutations.act)
        await end_readouts(readouts, mutations.act)

    return work


async def _refresh(tree: Repository, lock: RepositoryLock) -> None:
    async with lock:
        refreshed = await asyncio.to_thread(tree.refresh)
    if refreshed.renewed:
        _log.info("signatures renewed", roles=list(refreshed.renewed))
    for role, expires_at_s in refreshed.expiring.items():
        _log.warning("a signature expires soon: its owner must renew it", role=role, expires_at_s=expires_at_s)
