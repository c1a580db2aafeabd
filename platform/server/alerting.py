"""Starts the server's repeated works, notes which of them fail, and starts the alerts."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from alcove.platform.alerts.config import AlertsConfig
from alcove.platform.alerts.expiries import find_expiries
from alcove.platform.alerts.monitors import Monitors
from alcove.platform.alerts.running import Alerts, run_alerts
from alcove.platform.core.repeating import repeating
from alcove.platform.domain.alerts.alert import Alert
from alcove.platform.server.collector import Collector
from alcove.platform.server.metrics import Metrics
from alcove.platform.services.mutations import Mutations

__all__ = ["LEADER", "Repeated", "ask_for_windows", "note_unanalyzed", "repeat_works", "start_alerts"]

LEADER: Final = "the leading aggregator"
Work = Callable[[], Awaitable[None]]
Repeated = tuple[str, float, Work]
"""A work: its name in words, the seconds between two times, and what is done."""


async def repeat_works(stack: AsyncExitStack, monitors: Monitors, works: Iterable[Repeated]) -> None:
    """Repeat works until the stack unwinds; one that fails is noted."""
    for name, every_s, work in works:
        await stack.enter_async_context(repeating(every_s, work, monitors.reporter(name, every_s)))


def ask_for_windows(collector: Collector, monitors: Monitors) -> Work:
    """Return the work that collects what is over, and notes whether the leader answers."""

    async def work() -> None:
        await collector.run()
        monitors.note(LEADER, collector.away_problem)

    return work


def note_unanalyzed(monitors: Monitors, kind: str, wanted: Iterable[str], done: Iterable[str]) -> None:
    """Note of each rollout or experiment whether its analysis failed; why is in the log."""
    analyzed = set(done)
    for each in wanted:
        monitors.note(f"the analysis of {kind} {each}", "" if each in analyzed else "the server's log says why")


async def start_alerts(
    stack: AsyncExitStack,
    config: AlertsConfig,
    mutations: Mutations,
    monitors: Monitors,
    *,
    metrics: Metrics | None,
    certificate: Path | None,
) -> None:
    """Send alerts until the stack unwinds.

    Args:
        stack: is unwound at the server's end.
        config: says which go where.
        mutations: of the rows that alerts are made of.
        monitors: say what fails.
        metrics: count attempts; None: nobody does.
        certificate: PEM chain of the server, which may expire; None: it has none.
    """
    store, clock = mutations.store, mutations.clock

    async def find_conditions() -> list[Alert]:
        now_s = clock.now_s()
        return await find_expiries(store, mutations.tree, certificate=certificate, source=config.source, now_s=now_s)

    def count(destination: str, outcome: str) -> None:
        if metrics is not None:
            metrics.alert_ended(destination, outcome)

    alerts = Alerts(config, store, clock, monitors=monitors, find_conditions=find_conditions, count=count)
    await stack.enter_async_context(run_alerts(alerts))
