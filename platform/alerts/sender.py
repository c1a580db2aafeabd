"""Sends what is due to one destination, one alert after the other.

    claimed (a row) ─▶ sent ─▶ delivered (a row)          killed anywhere: the claim ends, and it is sent again
                         └─ failed ─▶ later, or dead

At least once: the receiver knows a repetition by the alert's id, which stays.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final, Protocol

import structlog
from alcove.platform.alerts.outcomes import ATTEMPTS, Outcome, delay_after
from alcove.platform.domain.alerts.alert import Alert
from alcove.platform.store import Store
from alcove.platform.store.alerts import (
    Delivery,
    DeliveryState,
    claim_deliveries,
    end_delivery,
    postpone_delivery,
)
from alcove.runtime.clock import Clock

__all__ = ["AlertPort", "AlertSender", "CountOutcome"]

CLAIM_S: Final = 20  # seconds that a claim lasts beyond the longest attempt: writing down what came of it
_log = structlog.get_logger()

CountOutcome = Callable[[str, str], None]
"""Counts an attempt: by destination, and "delivered", "failed" or "dead"."""


class AlertPort(Protocol):
    """Sends to one destination (`Webhook`, `Mail`)."""

    async def send(self, alert: Alert) -> Outcome:
        """Send an alert once, and return what came of it."""
        ...


class AlertSender:
    """The sending to one destination.

    Args:
        store: of the rows.
        name: of the destination.
        port: sends.
        clock: says what is due.
        timeout_s: seconds that an attempt may take.
        count: is called for each attempt.
        jitter: gives numbers in [0, 1).
    """

    def __init__(
        self,
        store: Store,
        name: str,
        port: AlertPort,
        clock: Clock,
        *,
        timeout_s: float,
        count: CountOutcome = lambda _name, _outcome: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._name = name
        self._port = port
        self._clock = clock
        self._claim_s = int(timeout_s) + CLAIM_S
        self._count = count
        self._jitter = jitter
        self._under_way: asyncio.Future[Outcome] | None = None
        self._is_stopping = False

    async def run(self) -> None:
        """Send what is due, until nothing is, or an attempt fails.

        Raises:
            ServerError: the database does not take it now; what was sent may be sent again.
        """
        while not self._is_stopping:
            now_s = self._clock.now_s()
            async with self._store.write() as session:
                claimed = await claim_deliveries(
                    session, self._name, now_s=now_s, until_s=now_s + self._claim_s, size=1
                )
            if not claimed or not await self._deliver(claimed[0]):
                return

    def stop(self) -> None:
        """End an attempt that is under way, and begin no other."""
        self._is_stopping = True
        if self._under_way is not None:
            self._under_way.cancel()

    async def _deliver(self, claimed: Delivery) -> bool:
        """Send one; return whether it arrived."""
        outcome = await self._send(claimed.alert)
        now_s = self._clock.now_s()
        if outcome is None:  # the server stops: its successor sends it at once
            async with self._store.write() as session:
                await postpone_delivery(session, claimed, next_at_s=now_s, problem="the server stopped")
            return False
        is_dead = bool(outcome.problem) and (outcome.is_final or claimed.attempts >= ATTEMPTS)
        async with self._store.write() as session:
            if not outcome.problem:
                await end_delivery(session, claimed, DeliveryState.DELIVERED, now_s=now_s)
            elif is_dead:
                await end_delivery(session, claimed, DeliveryState.DEAD, now_s=now_s, problem=outcome.problem)
            else:
                wait_s = max(outcome.wait_s, delay_after(claimed.attempts, self._jitter()))
                await postpone_delivery(session, claimed, next_at_s=now_s + wait_s, problem=outcome.problem)
        self._count(self._name, "dead" if is_dead else "failed" if outcome.problem else "delivered")
        if outcome.problem:
            say = _log.error if is_dead else _log.warning
            words = "an alert is given up" if is_dead else "an alert is not delivered yet"
            say(words, destination=self._name, alert=claimed.alert.alert_id, problem=outcome.problem)
        return not outcome.problem

    async def _send(self, alert: Alert) -> Outcome | None:
        """Return what came of an attempt; None: the server stops."""
        self._under_way = asyncio.ensure_future(self._port.send(alert))
        try:
            return await self._under_way
        except asyncio.CancelledError:
            if not self._is_stopping:
                raise
            return None
        finally:
            self._under_way = None
