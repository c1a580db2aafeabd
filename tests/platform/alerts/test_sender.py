"""Deliveries end to end inside a process: at least once, under one id, whatever fails or is killed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from alcove.platform.alerts.config import AlertsConfig
from alcove.platform.alerts.monitors import Monitors
from alcove.platform.alerts.outcomes import ATTEMPTS
from alcove.platform.alerts.running import Alerts, run_alerts
from alcove.platform.alerts.sender import CLAIM_S, AlertSender
from alcove.platform.alerts.webhook import Webhook
from alcove.platform.domain.alerts.alert import Alert, AlertKind
from alcove.platform.domain.errors import StoreUnavailableError
from alcove.platform.store import Store
from alcove.platform.store.alerts import Delivery, DeliveryState, add_deliveries, get_delivery, list_deliveries
from alcove.runtime.testing_seams import ManualClock

from tests.platform.alerts.receivers import (
    HttpReceiver,
    MailReceiver,
    mailbox,
    make_alert,
    receive_http,
    receive_mail,
    status,
    wait_until,
    webhook,
    write_entry,
    write_rollout,
)

NOW_S = 1_800_000_000


class PowerCutError(BaseException):
    """The process ends here."""


class CutStore:
    """A store whose process ends at its nth step: before a write, or right after it."""

    def __init__(self, store: Store, at: int) -> None:
        self._store = store
        self.left = at

    def step(self) -> None:
        """Count a step, and end at the chosen one."""
        self.left -= 1
        if self.left == 0:
            raise PowerCutError

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Any]:
        """Write, and perhaps end before the commit or after it."""
        self.step()
        async with self._store.write() as session:
            yield session
            self.step()
        self.step()


@asynccontextmanager
async def open_sender(store: Store, receiver: HttpReceiver) -> AsyncIterator[tuple[AlertSender, ManualClock]]:
    """A sender to a receiver, with one alert that waits."""
    clock = ManualClock(NOW_S)
    async with store.write() as session:
        await add_deliveries(session, make_alert(), ["pager"], now_s=NOW_S)
    yield make_sender(store, receiver, clock), clock


def make_sender(store: Any, receiver: HttpReceiver, clock: ManualClock, **more: Any) -> AlertSender:
    """A sender without jitter."""
    port = Webhook(webhook(receiver.url), source="alcove", console="", now=clock.now_s)
    return AlertSender(store, "pager", port, clock, timeout_s=10, jitter=lambda: 0.0, **more)


async def only(store: Store) -> Delivery:
    """The one delivery."""
    async with store.read() as session:
        (found,) = await list_deliveries(session, list(DeliveryState), limit=9)
    return found


async def test_a_receiver_that_fails_is_asked_again_until_it_takes_it(store: Store) -> None:
    """Later each time, under one id, with the problem shown meanwhile; each attempt is signed with its own time."""
    async with receive_http(HttpReceiver(status(500))) as receiver, open_sender(store, receiver) as (sender, clock):
        for attempt, wait_s in enumerate((5, 20, 80), 1):
            await sender.run()
            held = await only(store)
            assert (held.state, held.attempts, held.problem) == ("waiting", attempt, "localhost answered 500")
            assert held.next_at_s == clock.time_s + wait_s
            clock.time_s += wait_s - 1
            await sender.run()  # too early
            clock.time_s += 1
        receiver.answer = status(204)
        await sender.run()
    assert (await only(store)).state == "delivered"
    assert len(receiver.ids) == 4
    assert len(set(receiver.ids)) == 1
    assert len({each.headers["webhook-timestamp"] for each in receiver.requests}) == 4


async def test_a_receiver_that_never_takes_it_leaves_a_dead_letter(store: Store) -> None:
    """After the last attempt it is kept, with the problem, and not sent any more."""
    counted: list[tuple[str, str]] = []
    async with receive_http(HttpReceiver(status(503, "Retry-After: 40"))) as receiver, open_sender(store, receiver):
        clock = ManualClock(NOW_S)
        sender = make_sender(store, receiver, clock, count=lambda name, outcome: counted.append((name, outcome)))
        for _ in range(ATTEMPTS + 3):
            await sender.run()
            clock.time_s = (await only(store)).next_at_s
    held = await only(store)
    assert (held.state, held.attempts, held.problem) == ("dead", ATTEMPTS, "localhost answered 503")
    assert counted == [("pager", "failed")] * (ATTEMPTS - 1) + [("pager", "dead")]


async def test_a_receiver_that_is_gone_is_asked_once(store: Store) -> None:
    """410 says that it wants no more."""
    async with receive_http(HttpReceiver(status(410))) as receiver, open_sender(store, receiver) as (sender, _):
        await sender.run()
    assert (await only(store)).state == "dead"


async def test_a_server_killed_at_any_step_sends_once_or_twice_under_one_id(store: Store) -> None:
    """For every step of a delivery: end there, start again after the claim, and it is delivered, never lost."""
    for at in range(1, 99):
        async with receive_http(HttpReceiver()) as receiver:
            clock = ManualClock(NOW_S + 1000 * at)
            async with store.write() as session:
                await add_deliveries(session, make_alert(at), ["pager"], now_s=clock.time_s)
            cut = CutStore(store, at)

            try:
                await make_sender(cut, receiver, clock).run()
            except PowerCutError:
                clock.time_s += 10 + CLAIM_S
                await make_sender(store, receiver, clock).run()
            assert 1 <= len(receiver.ids) <= 2
            assert set(receiver.ids) == {make_alert(at).alert_id}
            async with store.read() as session:
                assert (await get_delivery(session, at)).state == "delivered"
            if cut.left > 0:
                assert at > 6
                return
    pytest.fail("a delivery never ended")


async def test_a_server_that_stops_ends_an_attempt_and_its_successor_sends_at_once(store: Store) -> None:
    """A silent receiver holds up no end; the row waits for no claim."""
    async with (
        receive_http(HttpReceiver(lambda _request: None)) as receiver,
        open_sender(store, receiver) as (sender, clock),
    ):
        sending = asyncio.create_task(sender.run())
        await wait_until(lambda: bool(receiver.requests))
        sender.stop()
        await sending
        assert (await only(store)).next_at_s == clock.time_s
        receiver.answer = status(204)
        await make_sender(store, receiver, clock).run()
    assert (await only(store)).state == "delivered"
    assert len(set(receiver.ids)) == 1


def make_alerts(store: Any, config: AlertsConfig, clock: ManualClock, monitors: Monitors | None = None) -> Alerts:
    """All of it, without conditions."""

    async def nothing() -> list[Alert]:
        return []

    return Alerts(
        config,
        store,
        clock,
        monitors=monitors or Monitors(clock),
        find_conditions=nothing,
        count=lambda _name, _outcome: None,
    )


async def test_an_audit_entry_becomes_a_webhook_and_a_mail(store: Store) -> None:
    """From the entry in the database to both receivers; a destination that is down holds up no other."""
    clock = ManualClock(NOW_S)
    await write_rollout(store)
    async with receive_http(HttpReceiver()) as receiver, receive_mail(MailReceiver()) as mails:
        hooks = (webhook(receiver.url), webhook("http://localhost:1/", "down"))
        config = AlertsConfig(webhook=hooks, email=(mailbox(mails.port),))
        async with run_alerts(make_alerts(store, config, clock), look_s=0.01):
            await write_entry(store, "halt rollout", now_s=NOW_S, from_basis_points=1000, reason="crashes")
            await wait_until(lambda: bool(receiver.requests and mails.mails))
    assert b"alcove.rollout.halted" in receiver.requests[0].body
    assert "was halted at 10 % of the devices: crashes." in mails.mails[0].get_content()


class AwayStore:
    """A store that can be away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_away = False

    @asynccontextmanager
    async def _open(self, name: str) -> AsyncIterator[Any]:
        if self.is_away:
            raise StoreUnavailableError("db", "no route")
        async with getattr(self._store, name)() as session:
            yield session

    def read(self) -> Any:
        """Read, unless it is away."""
        return self._open("read")

    def write(self) -> Any:
        """Write, unless it is away."""
        return self._open("write")


async def test_that_the_database_is_away_is_said_without_it(store: Store) -> None:
    """Nothing can be queued then: it is sent once directly, and its end is queued when the database is back."""
    clock, away = ManualClock(NOW_S), AwayStore(store)
    async with receive_http(HttpReceiver(status(500))) as receiver:
        alerts = make_alerts(away, AlertsConfig(webhook=(webhook(receiver.url),)), clock)
        await alerts.run()
        away.is_away = True
        for _ in range(4):
            clock.time_s += 299
            await alerts.run()
            await alerts.finish()
        assert len(receiver.ids) == 2  # the first looks were too early; what failed is tried again
        receiver.answer = status(204)
        for _ in range(3):
            await alerts.run()
            await alerts.finish()
        assert len(receiver.ids) == 3
        assert len(set(receiver.ids)) == 1
        away.is_away = False
        for _ in range(3):
            await alerts.run()
            await alerts.finish()
    kinds = [AlertKind.MONITOR_FAILED, AlertKind.MONITOR_RECOVERED]
    assert [kind for kind in kinds if kind.encode() in receiver.requests[-1].body] == [AlertKind.MONITOR_RECOVERED]
    assert len(receiver.ids) == 4
