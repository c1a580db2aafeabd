"""Finds how the parts of a running server are: stores, queues, aggregators, processes and repeated works.

Each look is bounded (`probes`), and callers within `FRESH_S` share one: many dashboards cost as much as one.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from alcove.platform.alerts.monitors import Monitors, Work
from alcove.platform.core.sharing import Shared
from alcove.platform.domain.health import HealthCheck, HealthState
from alcove.platform.server.alerting import LEADER
from alcove.platform.server.collector import Collector
from alcove.platform.server.kept_process import KeptProcess
from alcove.platform.server.probes import Probe
from alcove.platform.services.collection import count_windows
from alcove.platform.store import Store
from alcove.platform.store.alerts import read_queue_state
from alcove.platform.store.manifests import newest_manifests
from alcove.platform.store.publications import count_waiting
from alcove.registry.repository import Repository
from alcove.runtime.clock import Clock

__all__ = ["FRESH_S", "HealthChecks", "HealthReport", "ServerParts"]

FRESH_S: Final = 5.0  # seconds that what was found is given to others who ask
SLOW_MS: Final = 500.0  # milliseconds of a read of one row, above which a store is slow
PUBLICATION_LATE_S: Final = 120  # seconds that a decision may wait for the tree: one look at signatures is shorter
ALERT_LATE_S: Final = 3600  # seconds, as the rule AlcoveAlertsWait has it
TIMES_MISSED: Final = 3  # times that a repeated work may be missed before it counts as stopped
ANSWER_S: Final = 1.5  # seconds that a process may take to answer one line
PROBLEMS_SHOWN: Final = 5
_LOG: Final = "The server's log says why."
OK, DEGRADED, FAILED, OFF = HealthState.OK, HealthState.DEGRADED, HealthState.FAILED, HealthState.OFF


@dataclass(frozen=True)
class ServerParts:
    """The parts that are looked at.

    Attributes:
        store: the database.
        tree: the signed tree and its object store.
        clock: dates what is found.
        monitors: know which repeated works fail.
        processes: those that the server keeps, by name; None: it has none of this name.
        collector: asks the aggregators; None: there are none.
        has_alerts: whether alerts are sent to anybody.
    """

    store: Store
    tree: Repository
    clock: Clock
    monitors: Monitors
    processes: Mapping[str, KeptProcess | None]
    collector: Collector | None
    has_alerts: bool


@dataclass(frozen=True)
class HealthReport:
    """What was found, and when (seconds since 1970-01-01 UTC)."""

    checks: tuple[HealthCheck, ...]
    checked_at_s: int


class HealthChecks:
    """Looks at the parts of a server."""

    def __init__(self, parts: ServerParts) -> None:
        self._parts = parts
        database = "See that the database runs and can be reached from the server; calls fail until then."
        objects = "See that the object store can be reached and that its credentials hold; devices may get no programs."
        self._probes = [
            Probe("database", self._look_at_database, database),
            Probe("object store", self._look_at_objects, objects),
            Probe("publication queue", self._look_at_publications, _LOG),
            Probe("collection of reports", self._look_at_windows, _LOG),
            Probe("alert deliveries", self._look_at_alerts, _LOG),
            *(Probe(name, partial(self._look_at_process, name), _LOG) for name in parts.processes),
        ]
        self._shared = Shared(self._look, FRESH_S)

    async def read(self) -> HealthReport:
        """Return how the parts are; what fails is a part of the answer."""
        return await self._shared.get()

    async def close(self) -> None:
        """Wait until what is under way has ended."""
        await self._shared.close()
        for probe in self._probes:
            await probe.close()

    async def _look(self) -> HealthReport:
        found = await asyncio.gather(*(probe.run() for probe in self._probes))
        works = [self._describe_work(work) for work in self._parts.monitors.list_works()]
        checks = (*found, self._describe_leader(), *works, *self._describe_others())
        return HealthReport(checks, self._parts.clock.now_s())

    async def _look_at_database(self) -> HealthCheck:
        store, loop = self._parts.store, asyncio.get_running_loop()
        began_s = loop.time()
        revision = await store.find_revision()
        is_slow = (loop.time() - began_s) * 1000 > SLOW_MS
        kind = "PostgreSQL, shared by servers" if store.is_shared else "SQLite"
        summary = f"{kind}; schema revision {revision or 'none'}."
        if revision != store.schema.head:
            other = f"This server knows revision {store.schema.head}: start the same version of alcove everywhere."
            return HealthCheck("database", FAILED, summary, other)
        if is_slow:
            remedy = "Look at the database's disk and processor; calls wait for it."
            return HealthCheck("database", DEGRADED, f"{summary} It answers slowly.", remedy)
        return HealthCheck("database", OK, summary)

    async def _look_at_objects(self) -> HealthCheck:
        name = "object store"
        manifests = await newest_manifests(self._parts.store)
        digests = [variant["sha256"] for text in manifests[:1] for variant in json.loads(text)["variants"]]
        if not digests:
            is_there = await asyncio.to_thread(self._parts.tree.blobs.has, "0" * 64)
            return HealthCheck(name, OK, "It answers and holds no program yet." if not is_there else "It answers.")
        if await asyncio.to_thread(self._parts.tree.blobs.has, digests[0]):
            return HealthCheck(name, OK, "It answers and holds the program that was published last.")
        lost = "It does not hold the program that was published last."
        return HealthCheck(name, FAILED, lost, "See which store --blobs names, or restore it: alcove registry check.")

    async def _look_at_publications(self) -> HealthCheck:
        name, now_s = "publication queue", self._parts.clock.now_s()
        async with self._parts.store.read() as session:
            waiting, halts, oldest_at_s = await count_waiting(session)
        if not waiting:
            return HealthCheck(name, OK, "All decisions are in the signed tree.")
        waited_s = max(0, now_s - oldest_at_s) if oldest_at_s else 0
        summary = f"{waiting} decisions wait for the signed tree, the oldest for {_span(waited_s)}."
        summary += f" {halts} of them stop a version." if halts else ""
        if waited_s < PUBLICATION_LATE_S:
            return HealthCheck(name, DEGRADED if halts else OK, summary)
        remedy = "The disk is full, or a signature has expired: see the server's log and the page of trust."
        return HealthCheck(name, FAILED, summary, remedy)

    async def _look_at_windows(self) -> HealthCheck:
        name = "collection of reports"
        async with self._parts.store.read(is_long=True) as session:
            counts = await count_windows(session, self._parts.clock.now_s())
        if self._parts.collector is None and not any(counts.values()):
            return HealthCheck(name, OFF, "This server collects from no aggregators; reports come to it alone.")
        summary = (
            f"{counts['collected']} windows are collected, {counts['waiting']} wait, {counts['missing']} are lost."
        )
        if self._parts.collector is None and counts["waiting"]:
            return HealthCheck(name, FAILED, summary, "Start the server with --aggregators: nobody collects them.")
        if counts["missing"]:
            remedy = "See that both aggregators run: what they have not released in two weeks is lost to the analysis."
            return HealthCheck(name, DEGRADED, summary, remedy)
        return HealthCheck(name, OK, summary)

    async def _look_at_alerts(self) -> HealthCheck:
        name = "alert deliveries"
        async with self._parts.store.read() as session:
            queue = await read_queue_state(session)
        if queue.dead:
            summary = f"{queue.dead} alerts were given up: somebody has not heard of them."
            remedy = "On the server's machine: alcove alert list --state dead, then alcove alert retry --all-dead."
            return HealthCheck(name, FAILED, summary, remedy)
        if not self._parts.has_alerts:
            return HealthCheck(name, OFF, "Nobody is alerted.", "Start the server with --alerts to tell people.")
        waited_s = 0 if queue.oldest_at_s is None else self._parts.clock.now_s() - queue.oldest_at_s
        if waited_s > ALERT_LATE_S:
            summary = f"{queue.waiting} alerts wait, the oldest for {_span(waited_s)}."
            remedy = "Its receiver is away or refuses it: alcove alert list on the server's machine says which."
            return HealthCheck(name, DEGRADED, summary, remedy)
        return HealthCheck(name, OK, f"{queue.waiting} alerts wait." if queue.waiting else "All alerts are delivered.")

    async def _look_at_process(self, name: str) -> HealthCheck:
        process = self._parts.processes[name]
        if process is None:
            return HealthCheck(name, OFF, "This server does not run it.")
        times = (
            f" It has ended by itself {process.restarts} times since the server started." if process.restarts else ""
        )
        if process.has_ended:
            return HealthCheck(name, FAILED, f"It has ended and is started again.{times}", _LOG)
        try:
            answer = await process.ask("figures", ANSWER_S)
        except (TimeoutError, OSError):
            answer = b""
        if not answer:
            return HealthCheck(name, FAILED, f"It does not answer.{times}", _LOG)
        return HealthCheck(name, OK, f"It answers.{times}")

    def _describe_leader(self) -> HealthCheck:
        collector = self._parts.collector
        if collector is None:
            return HealthCheck(LEADER, OFF, "This server collects from no aggregators.")
        last_ok_s = collector.answered_at_s
        if collector.is_leader_away:
            remedy = "Windows wait for two weeks: call its operator."
            detail = collector.away_problem
            return HealthCheck(LEADER, FAILED, "It does not answer.", remedy, detail, last_ok_s=last_ok_s)
        summary = "It answered the last call." if last_ok_s else "It was not called since the server started."
        return HealthCheck(LEADER, OK, summary, last_ok_s=last_ok_s)

    def _describe_work(self, work: Work) -> HealthCheck:
        monitors, now_s = self._parts.monitors, self._parts.clock.now_s()
        if work.problem:
            summary = "It failed the last time and is tried again."
            return HealthCheck(work.name, FAILED, summary, _LOG, work.problem, last_ok_s=work.last_ok_s)
        silent_s = now_s - max(work.last_ok_s, monitors.started_at_s)
        every = _span(int(work.every_s)).removeprefix("1 ")
        if silent_s > TIMES_MISSED * work.every_s + 60:
            summary = f"It has not run for {_span(silent_s)}, and does so every {every} otherwise."
            remedy = "The server hangs, or its clock was moved: start it again."
            return HealthCheck(work.name, FAILED, summary, remedy, last_ok_s=work.last_ok_s)
        begun = "" if work.last_ok_s else " It has not run yet since the server started."
        return HealthCheck(work.name, OK, f"Every {every}.{begun}", last_ok_s=work.last_ok_s)

    def _describe_others(self) -> list[HealthCheck]:
        """Return one check for all rollouts and experiments whose analysis fails; the leader has its own."""
        failing = {name: why for name, why in self._parts.monitors.list_others().items() if name != LEADER}
        if not failing:
            return []
        names = ", ".join(list(failing)[:PROBLEMS_SHOWN])
        more = f" and {len(failing) - PROBLEMS_SHOWN} more" if len(failing) > PROBLEMS_SHOWN else ""
        detail = "; ".join(list(failing.values())[:PROBLEMS_SHOWN])
        return [HealthCheck("other works", DEGRADED, f"These fail: {names}{more}.", _LOG, detail)]


def _span(seconds: int) -> str:
    """Return a time span in one unit."""
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{seconds} second{'s' if seconds != 1 else ''}"
