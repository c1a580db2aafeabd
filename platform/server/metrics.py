"""Answers Prometheus on a port of its own, only where one is set: figures of this process and of the devices'.

Nothing here tells who called or who reported: methods, statuses, states, roles and the names of destinations of alerts
are the only labels.

    GET /metrics on --metrics-port
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog
from aiohttp import web
from alcove.platform.ingress.page import IngressGauges
from alcove.platform.services.collection import count_windows
from alcove.platform.store.alerts import read_queue_state
from alcove.platform.store.usage import count_alarms, experiments_by_state, rollouts_by_state
from alcove.platform.store.value_overrides import standing_overrides
from alcove.registry.rules import delegations
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

if TYPE_CHECKING:
    from alcove.platform.server.collector import Collector
    from alcove.platform.server.ingress_process import IngressProcess
    from alcove.platform.store import Store
    from alcove.registry.repository import Repository
    from alcove.runtime.clock import Clock

__all__ = ["Metrics", "create_metrics_page"]

EDGES_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_log = structlog.get_logger()


class Metrics:
    """The server's own figures; one registry for each server, so that two in one process do not mix."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, processor time, open files of this process
        self._calls = Histogram(
            "alcove_rpc_seconds",
            "Calls that ended, and the seconds they took.",
            ("method", "status"),
            buckets=EDGES_S,
            registry=registry,
        )
        self._refreshed = Gauge(
            "alcove_refresh_timestamp_seconds",
            "When signatures were last checked.",
            registry=registry,
        )
        self._failures = Counter(
            "alcove_refresh_failures", "Times that looking at signatures failed.", registry=registry
        )
        self.ingress = IngressGauges(registry)
        self.restarts = Gauge(
            "alcove_ingress_restarts", "Times that the devices' process ended by itself.", registry=registry
        )
        self.rollouts = Gauge("alcove_rollouts", "Rollouts by state.", ("state",), registry=registry)
        self.experiments = Gauge("alcove_experiments", "Experiments by state.", ("state",), registry=registry)
        self.overrides = Gauge(
            "alcove_value_overrides",
            "Features of apps whose values an operator has overridden on every device.",
            registry=registry,
        )
        self.alarms = Gauge(
            "alcove_evidence_alarms",
            "Rollouts on devices whose present stage has reports that no devices can have sent.",
            registry=registry,
        )
        self.windows = Gauge(
            "alcove_windows",
            "Windows of tasks by Prio3 that are over: collected, waiting to be, or given up (missing).",
            ("state",),
            registry=registry,
        )
        self.leader_away = Gauge(
            "alcove_leader_away", "1 if the last call of the leading aggregator failed.", registry=registry
        )
        self.expiry = Gauge(
            "alcove_signature_expiry_timestamp_seconds", "When a role's metadata expires.", ("role",), registry=registry
        )

        self._alerts = Counter(
            "alcove_alert_deliveries",
            "Attempts to deliver an alert: delivered, failed (and made again), or dead.",
            ("destination", "outcome"),
            registry=registry,
        )
        self.alerts_dead = Gauge("alcove_alerts_dead", "Alerts that were given up and kept.", registry=registry)
        self.alerts_age = Gauge(
            "alcove_alert_queue_age_seconds", "Age of the oldest alert that waits; 0: none does.", registry=registry
        )

    def alert_ended(self, destination: str, outcome: str) -> None:
        """Count an attempt to deliver an alert."""
        self._alerts.labels(destination, outcome).inc()

    def call_ended(self, method: str, status: str, seconds: float) -> None:
        """Count a call."""
        self._calls.labels(method, status).observe(seconds)

    def record_refresh(self) -> None:
        """Note that signatures were looked at, and renewed where it was time."""
        self._refreshed.set(time.time())

    def refresh_failed(self) -> None:
        """Note that they were not."""
        self._failures.inc()


def create_metrics_page(
    metrics: Metrics,
    store: Store,
    tree: Repository,
    clock: Clock,
    *,
    ingress: IngressProcess | None,
    collector: Collector | None,
) -> web.Application:
    """Return the application that answers GET /metrics; each answer asks rows, signatures and the devices' process."""

    async def answer(_request: web.Request) -> web.Response:
        async with store.read() as session:
            states = await rollouts_by_state(session)
            experiments = await experiments_by_state(session)
            overrides = await standing_overrides(session)
            alarms = await count_alarms(session)
            windows = await count_windows(session, clock.now_s())
            alerts = await read_queue_state(session)
        oldest_at_s = clock.now_s() if alerts.oldest_at_s is None else alerts.oldest_at_s
        metrics.alerts_dead.set(alerts.dead)
        metrics.alerts_age.set(max(0, clock.now_s() - oldest_at_s))
        metrics.alarms.set(alarms)
        for state, count in states.items():
            metrics.rollouts.labels(state).set(count)
        for state, count in experiments.items():
            metrics.experiments.labels(state).set(count)
        metrics.overrides.set(len(overrides))
        for state, count in windows.items():
            metrics.windows.labels(state).set(count)
        if collector is not None:
            metrics.leader_away.set(collector.is_leader_away)
        for role, expires_s in (await asyncio.to_thread(_expiries, tree)).items():
            metrics.expiry.labels(role).set(expires_s)
        if ingress is not None:
            metrics.ingress.show(await ingress.figures())
            metrics.restarts.set(ingress.restarts)
        page = generate_latest(metrics.registry)
        return web.Response(body=page, headers={"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"})

    if ingress is not None:
        ProcessCollector("alcove_ingress", pid=lambda: ingress.pid or "none", registry=metrics.registry)
    app = web.Application()
    app.add_routes([web.get("/metrics", answer)])
    return app


def _expiries(tree: Repository) -> dict[str, int]:
    """Return when each role's metadata expires, bins left out: there are thousands, and their team's says the same."""
    state = tree.state()
    signed = {"root": state.root, "targets": state.targets, "snapshot": state.snapshot, "timestamp": state.timestamp}
    moments = {role: int(metadata.expires.timestamp()) for role, metadata in signed.items()}
    named = {role: held for role, held in state.roles.items() if role in delegations(state.targets)}
    return moments | {role: int(held.metadata.signed.expires.timestamp()) for role, held in named.items()}
