"""Runs an aggregator: opens its database, keys and port, works on what waits, and closes them in order."""

import asyncio
import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
import structlog
from aiohttp import web
from alcove.platform.aggregator.aggregation import Aggregation
from alcove.platform.aggregator.app import (
    MAX_PARTNER_BYTES,
    MAX_UPLOAD_BYTES,
    create_helper_app,
    create_leader_app,
)
from alcove.platform.aggregator.collection import Collection
from alcove.platform.aggregator.config import AggregatorConfig, Seat, read_config
from alcove.platform.aggregator.figures import AggregatorFigures, create_page
from alcove.platform.aggregator.helper import Helper
from alcove.platform.aggregator.keys import READ_AGAIN_S, KeyRing, read_keys
from alcove.platform.aggregator.leases import end_leases
from alcove.platform.aggregator.peer import HttpHelper, HttpIssuer
from alcove.platform.aggregator.settings import AggregatorSettings
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.tasks import TaskBook
from alcove.platform.aggregator.token_keys import TokenKeys
from alcove.platform.aggregator.uploads import Uploads
from alcove.platform.core.log import configure_log
from alcove.platform.domain.errors import AggregatorFileError, ServerError
from alcove.platform.listening.accepting import raise_file_limit
from alcove.platform.listening.connections import Connections
from alcove.platform.listening.http import end_task, listen_http, open_tls, start_http, start_listening
from alcove.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["USUAL_PORTS", "RunningAggregator", "run_aggregator", "serve_aggregator"]

USUAL_PORTS: Final = {Seat.LEADER: 7490, Seat.HELPER: 7491}
"""Where the seats listen behind a proxy, if nobody says another port."""

_HTTP_PORT: Final = 80

IDLE_S: Final = 0.5
"""Seconds between two looks for work, where there was none."""

GATHER_S: Final = 0.2
"""Seconds in which reports gather for the next job."""

_log = structlog.get_logger()


@dataclass(frozen=True)
class RunningAggregator:
    """An aggregator that answers.

    Attributes:
        seat: which one it is.
        url: where it listens.
        metrics_url: where it answers Prometheus; None: nowhere.
        figures: returns its sums.
    """

    seat: Seat
    url: str
    metrics_url: str | None
    figures: Callable[[], AggregatorFigures]

    def ready_line(self) -> str:
        """Return the one line of JSON that tells a parent process where it answers."""
        line = {"ready": True, "seat": self.seat, "http": self.url, "pid": os.getpid()}
        return json.dumps(line | ({} if self.metrics_url is None else {"metrics": self.metrics_url}))


class _FolderKeys:
    """The keys of a folder, read again now and then."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._ring = read_keys(self._folder, clock.now_s())
        self._read_at_s = time.monotonic()

    def __call__(self) -> KeyRing:
        if time.monotonic() - self._read_at_s >= READ_AGAIN_S:
            self._read_at_s = time.monotonic()
            try:
                self._ring = read_keys(self._folder, self._clock.now_s())
            except (ServerError, OSError) as error:  # the keys in memory are still right
                _log.error("the folder of keys cannot be read", problem=str(error))
        return self._ring


@asynccontextmanager
async def run_aggregator(
    settings: AggregatorSettings, seat: Seat, listener: socket.socket, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[RunningAggregator]:
    """Answer on a listening socket inside the block; on leaving it, answers under way get a few seconds.

    Raises:
        ServerError: the database, the configuration or a key cannot be used.
        RegistryError: a file of secrets is open to others.
        OSError: a port or file cannot be used.
    """
    config = read_config(settings.config_path)
    if config.seat is not seat:
        raise AggregatorFileError(settings.config_path, f"it is of the {config.seat}, not of the {seat}")
    async with AsyncExitStack() as stack:
        database = await AggregatorDatabase.open(settings.database)
        stack.push_async_callback(database.close)
        keys, gateway_keys = (_FolderKeys(each, clock) for each in (settings.keys_folder, settings.gateway_keys_folder))
        connections = Connections(replace(settings.limits, most=min(raise_file_limit(), settings.connections)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        issuer = None if config.token_issuer is None else HttpIssuer(session, config.token_issuer)
        token_keys = TokenKeys(database, issuer, clock)
        parts = _Parts(config, database, keys, gateway_keys, token_keys, session, clock, connections)
        app, figures = await (_start_leader if seat is Seat.LEADER else _start_helper)(stack, parts)
        body_bytes = MAX_UPLOAD_BYTES if seat is Seat.LEADER else MAX_PARTNER_BYTES
        port = await start_listening(stack, app, listener, connections, open_tls(settings), body_bytes=body_bytes)
        url, metrics_url = f"{settings.scheme}://{settings.url_host}:{port}", None
        if settings.metrics_port is not None:
            metrics = listen_http(settings.host, settings.metrics_port)
            metrics_url = f"http://{settings.url_host}:{await start_http(stack, create_page(figures), metrics)}/metrics"
        yield RunningAggregator(seat, url, metrics_url, figures)


@dataclass(frozen=True)
class _Parts:
    """What both seats are made of."""

    config: AggregatorConfig
    database: AggregatorDatabase
    keys: Callable[[], KeyRing]
    gateway_keys: Callable[[], KeyRing]
    token_keys: TokenKeys
    session: aiohttp.ClientSession
    clock: Clock
    connections: Connections


_Started = tuple[web.Application, Callable[[], AggregatorFigures]]


async def _start_leader(stack: AsyncExitStack, parts: _Parts) -> _Started:
    config, database, keys, clock = parts.config, parts.database, parts.keys, parts.clock
    if not database.is_shared:
        await end_leases(database)
    helper = HttpHelper(parts.session, config.helper_url, config.leader_token.get_secret_value())
    book = TaskBook(database, config)
    uploads = Uploads(database, keys, parts.token_keys, clock)
    aggregation = Aggregation(database, book, keys, helper, clock=clock)
    collection = Collection(database, config, book, helper, clock=clock)
    for step in (partial(_run_job, aggregation), collection.run_job):
        stack.push_async_callback(end_task, asyncio.create_task(_work(step)))
    stack.push_async_callback(uploads.close)
    app = create_leader_app(
        config,
        book,
        uploads,
        collection,
        announce_to_helper=helper.announce,
        keys=keys,
        token_keys=parts.token_keys,
        clock=clock,
        connections=parts.connections,
        gateway_keys=parts.gateway_keys,
    )

    def figures() -> AggregatorFigures:
        return AggregatorFigures(
            uploaded=uploads.acknowledged,
            added=aggregation.added,
            released=collection.released,
            left_out=dict(uploads.refused + aggregation.rejected),
            connections=len(parts.connections),
            is_helper_away=aggregation.is_helper_away,
        )

    return app, figures


async def _start_helper(_stack: AsyncExitStack, parts: _Parts) -> _Started:
    book = TaskBook(parts.database, parts.config)
    helper = Helper(parts.database, parts.config, parts.keys, parts.token_keys, parts.clock)
    app = create_helper_app(
        parts.config,
        book,
        helper,
        keys=parts.keys,
        token_keys=parts.token_keys,
        clock=parts.clock,
        connections=parts.connections,
        gateway_keys=parts.gateway_keys,
    )

    def figures() -> AggregatorFigures:
        return AggregatorFigures(
            added=helper.added,
            released=helper.released,
            left_out=dict(helper.rejected),
            connections=len(parts.connections),
        )

    return app, figures


async def _run_job(aggregation: Aggregation) -> bool:
    """Run a job if there is one; if it was not full, let reports gather: one report costs a job as much as hundreds."""
    worked = await aggregation.run_job()
    if worked and not aggregation.has_more:
        await asyncio.sleep(GATHER_S)
    return worked


async def _work(step: Callable[[], Awaitable[bool]]) -> None:
    """Take step after step as long as there is work, then wait a moment."""
    while True:
        try:
            if await step():
                continue
        except ServerError as error:
            _log.warning("work is put off", problem=str(error))
        except Exception as error:  # noqa: BLE001 - one job's fault must not stop all others
            _log.error("internal error", exc_info=error)
        await asyncio.sleep(IDLE_S)


def _find_port(config: AggregatorConfig) -> int:
    """Return the port to listen on where nobody named one."""
    url = urlsplit(config.leader_url if config.seat is Seat.LEADER else config.helper_url)
    return url.port or _HTTP_PORT if url.scheme == "http" else USUAL_PORTS[config.seat]


async def serve_aggregator(settings: AggregatorSettings, seat: Seat, clock: Clock = SYSTEM_CLOCK) -> None:
    """Answer until SIGTERM or SIGINT; prints the ready line when the port answers.

    Raises:
        ServerError, RegistryError, OSError: as `run_aggregator`.
    """
    configure_log()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    port = _find_port(read_config(settings.config_path)) if settings.port is None else settings.port
    with listen_http(settings.host, port) as listener:
        async with run_aggregator(settings, seat, listener, clock) as running:
            gc.freeze()  # what is there now stays: each full collection would walk it again, a seventh of the time
            sys.stdout.write(running.ready_line() + "\n")
            sys.stdout.flush()
            _log.info("serving", seat=str(seat), http=running.url)
            await stopped.wait()
            _log.info("stopping")
