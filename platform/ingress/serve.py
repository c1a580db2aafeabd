"""Runs what devices see: opens the port, the database and the tree, and closes them in order.

A process of its own, so that nothing that a stranger sends takes a moment of the one that operators call, and so that
no key that signs is in the memory of what reads strangers' bytes.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

import structlog
from aiohttp import web
from alcove.platform.core.log import configure_log
from alcove.platform.ingress.app import create_ingress
from alcove.platform.ingress.check_ins import OUTCOMES
from alcove.platform.ingress.figures import IngressFigures
from alcove.platform.ingress.page import create_ingress_page
from alcove.platform.ingress.reports import ReportCollector
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.ingress.token_handler import token_routes
from alcove.platform.issuer import SoftwareAttestor, TokenIssuer, read_attestation_key
from alcove.platform.issuer.arithmetic import GmpArithmetic
from alcove.platform.listening.accepting import raise_file_limit
from alcove.platform.listening.connections import Connections
from alcove.platform.listening.http import end_task, listen_http, open_tls, start_http, start_listening
from alcove.platform.listening.rate import RateLimit
from alcove.platform.store import Store
from alcove.platform.store.note import compare_stores
from alcove.privacy.entropy import OsEntropy
from alcove.registry.blobs import BlobStore, open_blob_store
from alcove.registry.errors import StorageError
from alcove.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["Ingress", "reach_blobs", "run_ingress", "serve_ingress"]

LOG_S: Final = 10.0  # seconds between two lines about refusals
_log = structlog.get_logger()


@dataclass(frozen=True)
class Ingress:
    """A running ingress.

    Attributes:
        collector: counts its reports.
        connections: of its devices.
        http_url: where it answers devices.
        metrics_url: where it answers Prometheus; None: nowhere.
    """

    collector: ReportCollector
    connections: Connections
    http_url: str
    check_ins: Counter[str]
    metrics_url: str | None = None

    def figures(self) -> IngressFigures:
        """Return its sums."""
        refused = dict(self.collector.refused + self.connections.refused)
        return IngressFigures(self.collector.counted, refused, len(self.connections), dict(self.check_ins))

    def ready_line(self) -> str:
        """Return the one line of JSON that tells a parent process that devices are answered, and where."""
        line = {"ready": True, "http": self.http_url, "pid": os.getpid()}
        return json.dumps(line | ({} if self.metrics_url is None else {"metrics": self.metrics_url}))


@asynccontextmanager
async def run_ingress(
    settings: IngressSettings, listener: socket.socket, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[Ingress]:
    """Answer devices on a listening socket inside the block; on leaving it, answers under way get a few seconds.

    Raises:
        ServerError: the database cannot be used, a store is not the data folder's, or the TLS files are none.
        RegistryError: the store of blobs cannot be reached.
        OSError: a port or file cannot be used.
    """
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(compare_stores, settings.data_dir, database=settings.database, blobs=settings.blobs)
        store = await Store.join(settings.database)
        stack.push_async_callback(store.close)
        blobs = None if settings.blobs is None else await asyncio.to_thread(reach_blobs, settings.blobs)
        allowed = raise_file_limit()
        if allowed < settings.connections:
            _log.warning("too few open files for the connections allowed (ulimit -n)", connections=allowed)
        connections = Connections(replace(settings.limits, most=min(allowed, settings.connections)))
        collector = ReportCollector(store, clock)
        stack.push_async_callback(collector.close)
        rate = RateLimit(settings.reports_per_second, time.monotonic)
        bodies = RateLimit(settings.bodies_per_second, time.monotonic)
        check_ins: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        app = create_ingress(
            settings.tree,
            collector,
            rate,
            bodies,
            blobs=blobs,
            connections=connections,
            routes=_issuer_routes(settings, store, collector, clock),
            check_ins=check_ins,
        )
        port = await start_listening(stack, app, listener, connections, open_tls(settings))
        ingress = Ingress(collector, connections, f"{settings.scheme}://{settings.url_host}:{port}", check_ins)
        if settings.metrics_port is not None:
            page = create_ingress_page(ingress.figures)
            metrics_port = await start_http(stack, page, listen_http(settings.host, settings.metrics_port))
            ingress = replace(ingress, metrics_url=f"http://{settings.url_host}:{metrics_port}/metrics")
        stack.push_async_callback(end_task, asyncio.create_task(_log_refusals(ingress)))
        yield ingress


def _issuer_routes(
    settings: IngressSettings, store: Store, collector: ReportCollector, clock: Clock
) -> list[web.RouteDef]:
    """Return the routes of the issuer of tokens; none where this server issues none.

    Raises:
        KeyFileError: the attestor's key cannot be read.
    """
    if settings.token_issuer is None or settings.software_attestation is None:
        return []
    issuer = TokenIssuer(
        store,
        settings.token_issuer,
        SoftwareAttestor(read_attestation_key(settings.software_attestation)),
        clock=clock,
        entropy=OsEntropy(),
        arithmetic=GmpArithmetic(),
    )
    rate = RateLimit(settings.tokens_per_second, time.monotonic)
    return token_routes(issuer, settings.token_issuer, rate, collector.refused)


async def serve_ingress(settings: IngressSettings, clock: Clock = SYSTEM_CLOCK) -> None:
    """Answer devices until SIGTERM or SIGINT; prints the ready line when the port answers.

    Raises:
        ServerError, RegistryError, OSError: as `run_ingress`.
    """
    configure_log()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    with listen_http(settings.host, settings.http_port) as listener:
        async with run_ingress(settings, listener, clock) as ingress:
            sys.stdout.write(ingress.ready_line() + "\n")
            sys.stdout.flush()
            _log.info("serving devices", http=ingress.http_url)
            await stopped.wait()
            _log.info("stopping")


async def _log_refusals(ingress: Ingress) -> None:
    """Write how many were refused for which reason, now and then and only if there are more: never a line for each."""
    logged: dict[str, int] = {}
    try:
        while True:
            await asyncio.sleep(LOG_S)
            logged = log_refusals(ingress.figures().refused, logged)
    finally:
        log_refusals(ingress.figures().refused, logged)


def log_refusals(refused: Mapping[str, int], logged: Mapping[str, int]) -> dict[str, int]:
    """Write a line if sums have grown since the last one; return them."""
    if refused != logged:
        _log.info("refused since the start", **dict(sorted(refused.items())))
    return dict(refused)


def reach_blobs(url: str) -> BlobStore:
    """Return the store, asked for a blob that is not there: a wrong key or name fails at the start.

    Raises:
        RegistryError: it cannot be reached, or refuses.
    """
    blobs = open_blob_store(url)
    try:
        blobs.has("0" * 64)
    except StorageError as error:
        raise StorageError(f"--blobs {url}", error.problem) from error
    return blobs
