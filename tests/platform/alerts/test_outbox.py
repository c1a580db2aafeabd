"""The outbox on both databases: each entry of the audit log is read once, and every alert is kept until it is sent."""

import asyncio
from typing import Any

import pytest
from alcove.platform.alerts import outbox as outbox_module
from alcove.platform.alerts.config import AlertsConfig
from alcove.platform.alerts.monitors import Monitors
from alcove.platform.alerts.outbox import OLDEST_S, AlertOutbox
from alcove.platform.domain.alerts.alert import AlertKind
from alcove.platform.domain.alerts.from_audit import alert_of_entry
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.store import Store
from alcove.platform.store.alerts import (
    KEEP_DEAD_S,
    KEEP_DELIVERED_S,
    Delivery,
    DeliveryState,
    add_deliveries,
    claim_deliveries,
    end_delivery,
    find_due_destinations,
    forget_deliveries,
    get_delivery,
    list_deliveries,
    postpone_delivery,
    read_queue_state,
    retry_delivery,
)
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.runtime.testing_seams import ManualClock

from tests.platform.alerts.receivers import mailbox, make_alert, webhook, write_entry, write_rollout

NOW_S = 1_800_000_000


def config(*names: str, apps: tuple[str, ...] = ()) -> AlertsConfig:
    """A configuration with a webhook of each name."""
    return AlertsConfig(webhook=tuple(webhook("http://localhost:1/", name, apps=apps) for name in names))


async def everything(store: Store) -> list[Delivery]:
    """All deliveries, the oldest first."""
    async with store.read() as session:
        return (await list_deliveries(session, list(DeliveryState), limit=1000))[::-1]


async def test_entries_are_read_once_from_the_first_start_on(store: Store) -> None:
    """What was there before the first start is passed over; then each entry gives one delivery a destination."""
    clock = ManualClock(NOW_S)
    await write_rollout(store)
    await write_entry(store, "halt rollout", now_s=NOW_S, reason="before alerts")
    outbox = AlertOutbox(store, config("a", "b"), clock)
    await outbox.follow_audit()
    assert await everything(store) == []
    await write_entry(store, "halt rollout", now_s=NOW_S, from_basis_points=1000, reason="crashes")
    await write_entry(store, "resume rollout", now_s=NOW_S)
    for _ in range(3):
        await outbox.follow_audit()
    assert [(each.destination, each.alert.kind) for each in await everything(store)] == [
        ("a", AlertKind.ROLLOUT_HALTED),
        ("b", AlertKind.ROLLOUT_HALTED),
    ]
    assert {each.alert.app for each in await everything(store)} == {"mail"}


async def test_two_servers_read_each_entry_once(store: Store) -> None:
    """Servers that share a database make one delivery of an entry."""
    clock = ManualClock(NOW_S)
    outboxes = [AlertOutbox(store, config("a"), clock) for _ in range(3)]
    await outboxes[0].follow_audit()
    await write_rollout(store)
    for number in range(20):
        await write_entry(store, "pause rollout", now_s=NOW_S + number, reason=f"reason {number}")
        if number % 5 == 4:
            await asyncio.gather(*(outbox.follow_audit() for outbox in outboxes))
    found = [dict(each.alert.facts)["reason"] for each in await everything(store)]
    assert found == [f"reason {number}" for number in range(20)]


async def test_a_destination_of_one_app_hears_of_no_other(store: Store) -> None:
    """Filters hold before anything is written."""
    outbox = AlertOutbox(store, config("a", apps=("maps",)), ManualClock(NOW_S))
    await outbox.follow_audit()
    await write_rollout(store)
    await write_rollout(store, "ro-2", app="maps")
    for rollout in ("ro-1", "ro-2"):
        await write_entry(store, "halt rollout", rollout, now_s=NOW_S, reason="x")
    await outbox.follow_audit()
    assert [each.alert.subject for each in await everything(store)] == ["ro-2"]


async def test_what_is_old_when_alerts_are_switched_on_again_is_passed_over(store: Store) -> None:
    """A month without alerts ends in silence, not in a flood."""
    clock = ManualClock(NOW_S)
    outbox = AlertOutbox(store, config("a"), clock)
    await outbox.follow_audit()
    for at_s in (NOW_S, NOW_S + 10):
        await write_entry(store, "revoke version", "text 1.0.0", now_s=at_s, reason="x")
    clock.time_s = NOW_S + 5 + OLDEST_S
    await outbox.follow_audit()
    assert [each.alert.at_s for each in await everything(store)] == [NOW_S + 10]


async def test_more_entries_than_one_transaction_takes_are_all_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst is read in parts."""
    monkeypatch.setattr("alcove.platform.alerts.outbox.BATCH", 4)
    outbox = AlertOutbox(store, config("a"), ManualClock(NOW_S))
    await outbox.follow_audit()
    async with store.write() as session:
        for number in range(12):
            await UnitOfWork(session, "p", NOW_S).audit("revoke version", f"text {number}", reason="x")
    await outbox.follow_audit()
    assert len(await everything(store)) == 12


async def test_an_entry_that_gives_no_alert_holds_up_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in one sentence costs that alert, not all that come after it."""
    real = alert_of_entry

    def fail(source: str, entry: Any, thing: Any) -> Any:
        if entry.subject == "text 1.0.0":
            raise KeyError(entry.subject)
        return real(source, entry, thing)

    monkeypatch.setattr(outbox_module, "alert_of_entry", fail)
    outbox = AlertOutbox(store, config("a"), ManualClock(NOW_S))
    await outbox.follow_audit()
    for version in ("1.0.0", "2.0.0"):
        await write_entry(store, "revoke version", f"text {version}", now_s=NOW_S, reason="x")
    await outbox.follow_audit()
    assert [each.alert.subject for each in await everything(store)] == ["text 2.0.0"]


async def test_a_condition_that_holds_is_added_once(store: Store) -> None:
    """D1: the same alert again changes nothing, whatever became of it."""
    outbox = AlertOutbox(store, config("a"), ManualClock(NOW_S))
    await outbox.add([make_alert()])
    async with store.write() as session:
        (claimed,) = await claim_deliveries(session, "a", now_s=NOW_S, until_s=NOW_S + 60, size=5)
        await end_delivery(session, claimed, DeliveryState.DELIVERED, now_s=NOW_S)
    await outbox.add([make_alert(), make_alert(2)])
    assert [each.state for each in await everything(store)] == [DeliveryState.DELIVERED, DeliveryState.WAITING]


async def test_a_claim_keeps_others_away_until_it_ends(store: Store) -> None:
    """D2: what is claimed is not due; when the claim has ended it is, and the first claimer changes nothing more."""
    async with store.write() as session:
        await add_deliveries(session, make_alert(), ["a"], now_s=NOW_S)
        (first,) = await claim_deliveries(session, "a", now_s=NOW_S, until_s=NOW_S + 60, size=5)
        assert await claim_deliveries(session, "a", now_s=NOW_S + 59, until_s=NOW_S + 99, size=5) == []
        (second,) = await claim_deliveries(session, "a", now_s=NOW_S + 60, until_s=NOW_S + 120, size=5)
        await postpone_delivery(session, first, next_at_s=0, problem="late")
        await end_delivery(session, first, DeliveryState.DEAD, now_s=NOW_S)
    assert (first.attempts, second.attempts) == (1, 2)
    (held,) = await everything(store)
    assert (held.state, held.problem, held.next_at_s) == (DeliveryState.WAITING, "", NOW_S + 120)


async def test_a_wait_that_a_wrong_clock_wrote_ends(store: Store) -> None:
    """A clock that was a year ahead holds nothing up for a year."""
    async with store.write() as session:
        await add_deliveries(session, make_alert(), ["a"], now_s=NOW_S + 365 * 86_400)
        assert await find_due_destinations(session, NOW_S) == {"a"}


async def test_what_a_configuration_forgot_is_dead(store: Store) -> None:
    """A destination that was removed leaves dead letters, not a queue that grows."""
    outbox = AlertOutbox(store, config("a"), ManualClock(NOW_S))
    await outbox.add([make_alert()])
    await outbox.bury("a")
    (held,) = await everything(store)
    assert (held.state, held.problem) == (DeliveryState.DEAD, "the configuration has no destination named a")
    async with store.write() as session:
        assert (await read_queue_state(session)).dead == 1
        again = await retry_delivery(session, held.sequence, now_s=NOW_S + 5)
        assert (again.state, again.attempts, again.alert.alert_id) == (DeliveryState.WAITING, 0, held.alert.alert_id)
        state = await read_queue_state(session)
        assert (state.dead, state.waiting, state.oldest_at_s) == (0, 1, NOW_S)
        with pytest.raises(ResourceNotFoundError):
            await get_delivery(session, 999)


async def test_what_ended_long_ago_is_forgotten_and_what_waits_is_not(store: Store) -> None:
    """D3: delivered ones go after months, dead ones after a year, waiting ones never."""
    async with store.write() as session:
        for number, state in enumerate(DeliveryState):
            await add_deliveries(session, make_alert(number), ["a"], now_s=NOW_S)
            (claimed,) = await claim_deliveries(session, "a", now_s=NOW_S, until_s=NOW_S + 60, size=1)
            if state is not DeliveryState.WAITING:
                await end_delivery(session, claimed, state, now_s=NOW_S)
        for later_s, left in ((KEEP_DELIVERED_S, 3), (KEEP_DELIVERED_S + 1, 2), (KEEP_DEAD_S + 1, 1)):
            await forget_deliveries(session, now_s=NOW_S + later_s)
            assert len(await list_deliveries(session, list(DeliveryState), limit=9)) == left


def test_a_short_failure_is_no_alert_and_a_long_one_is_said_twice() -> None:
    """Failing and recovered, each until it is kept; what recovers in time is never said."""
    clock = ManualClock(NOW_S)
    monitors = Monitors(clock, after_s=300)
    report = monitors.reporter("the analysis", 60)
    report(ValueError("secret"))
    clock.time_s += 299
    assert monitors.find_alerts("s") == {}
    report(None)
    report(ResourceNotFoundError("app", "x"))
    clock.time_s += 300
    for _ in range(2):  # until it is kept
        (alert,) = monitors.find_alerts("s").values()
        assert alert.summary == "The analysis has failed for 5 minutes: no app named 'x'."
    monitors.mark("the analysis")
    report(ValueError("secret"))
    assert monitors.find_alerts("s") == {}
    report(None)
    (over,) = monitors.find_alerts("s").values()
    assert over.kind is AlertKind.MONITOR_RECOVERED
    monitors.mark("the analysis")
    assert monitors.find_alerts("s") == {}


def test_a_library_s_error_is_named_by_its_kind() -> None:
    """What others write into errors may be a URL with a password."""
    clock = ManualClock(NOW_S)
    monitors = Monitors(clock, after_s=0)
    monitors.reporter("the analysis", 60)(ValueError("postgresql://ann:pw@db/"))
    assert "ann:pw" not in str(monitors.find_alerts("s"))
    assert mailbox(25).smtp_port == 25
