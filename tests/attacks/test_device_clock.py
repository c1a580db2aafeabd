"""Somebody has power over the clock of a device."""

from typing import Any

import pytest
from alcove.registry.errors import ExpiredMetadataError
from alcove.sdk.freshness import Record, advance_record
from alcove.sdk.limits import MAX_STALE_S
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sdk.conftest import Device

DAY = 86_400
YEAR = 365 * DAY
ANSWER = "one 1.0.0 default"
NS = 1_000_000_000


@pytest.fixture
def installed(device: Device, unsynced: None) -> Device:
    """A device on 1.0.0 that has heard the server now."""
    assert device.client().sync().error is None
    return device


def renew(device: Device) -> None:
    """The server continues: half a day later, a new timestamp."""
    device.world.clock.time_s += DAY // 2 + 1
    device.world.tree.refresh()


@pytest.mark.parametrize("years", [10, -10, 100, -25])
@pytest.mark.parametrize("is_synced", [False, True], ids=["offline", "synced meanwhile"])
@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
def test_one_jump_bricks_nothing(installed: Device, years: int, is_synced: bool, is_restarted: bool) -> None:
    """The version answers while the clock is wrong; once it is right, the next sync goes well and nothing is stale."""
    right_s = installed.clock.time_s
    installed.clock.time_s += years * YEAR
    if is_restarted:
        installed.clock.restart()
    client = installed.client()
    if is_synced:
        client.sync()
    assert installed.answer(client) == ANSWER
    installed.clock.time_s = right_s
    renew(installed)
    installed.clock.pass_s(DAY // 2 + 1)
    client = installed.client()
    assert client.sync().error is None
    assert not client.is_stale
    assert installed.answer(client) == ANSWER


def test_jump_there_and_back_again_and_again_is_one_jump(installed: Device) -> None:
    """What the wall clock showed once counts once: playing with it does not add up."""
    for _ in range(50):
        installed.clock.time_s += 10 * YEAR
        assert installed.answer(installed.client()) == ANSWER
        installed.clock.time_s -= 10 * YEAR
        assert installed.answer(installed.client()) == ANSWER


def test_held_clock_does_not_keep_a_timestamp_alive(installed: Device) -> None:
    """A day later by the monotonic clock the tree has expired, whatever the wall clock shows, and stays so."""
    client = installed.client()
    installed.clock.pass_s(DAY - 60, is_held=True)
    assert client.sync().error is None
    installed.clock.pass_s(120, is_held=True)
    assert client.is_stale
    assert isinstance(client.sync().error, ExpiredMetadataError)
    installed.clock.restart(is_held=True)
    client = installed.client()
    assert client.is_stale
    assert isinstance(client.sync().error, ExpiredMetadataError)
    assert installed.answer(client) == ANSWER


def test_newer_signature_lifts_the_floor_of_a_held_clock(installed: Device) -> None:
    """A clock held for a year, an honest server, then a mirror that stops: one more day, not for ever."""
    client = installed.client()
    for _ in range(20):
        renew(installed)
        installed.clock.pass_s(60, is_held=True)
        assert client.sync().error is None
    assert not client.is_stale
    installed.clock.pass_s(DAY, is_held=True)
    assert isinstance(client.sync().error, ExpiredMetadataError)
    renew(installed)
    renew(installed)
    assert client.sync().error is None


def test_floor_falls_with_the_keys_that_signed_it(installed: Device) -> None:
    """Dates that a thief signed count no longer once root names other keys."""
    client = installed.client()
    freshness = client._freshness
    keys = freshness._record.keys if freshness._record else ()
    assert freshness.floor_s(keys) > 0
    assert freshness.floor_s(("another",)) == 0
    assert freshness.floor_s(()) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-40 * YEAR, 40 * YEAR), st.integers(0, 3 * DAY), st.booleans()), min_size=1, max_size=30
    )
)
def test_no_walk_of_the_clocks_hides_time_or_invents_much(steps: list[tuple[int, int, bool]]) -> None:
    """Age is at least the monotonic time within each start, and at most that and half the bound for each look."""
    jump_ns = int(MAX_STALE_S / 2) * NS
    record = Record(wall_s=1_800_000_000, boot="0")
    wall_s, reading_ns, certain_ns, start = record.wall_s, 0, 0, 0
    for jump_s, ran_s, is_restarted in steps:
        if is_restarted:
            start, reading_ns = start + 1, 0
        else:
            certain_ns += ran_s * NS
        reading_ns += ran_s * NS
        wall_s = max(0, wall_s + ran_s + jump_s)
        before = record
        record = advance_record(record, wall_s=wall_s, monotonic_ns=reading_ns, boot=str(start), jump_ns=jump_ns)
        assert record.age_ns >= before.age_ns
        assert certain_ns <= record.age_ns
        assert record.floor_s() == 0
    assert record.age_ns <= certain_ns + len(steps) * jump_ns
    assert record.here_ns <= certain_ns


def test_wrong_count_that_believes_the_wall_clock_alone_is_caught(
    installed: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test for the tests: with the wall clock as the one measure, a held clock hides everything."""

    def wrong(record: Record, **read: Any) -> Record:
        return advance_record(record, **(read | {"monotonic_ns": record.monotonic_ns, "boot": record.boot}))

    monkeypatch.setattr("alcove.sdk.freshness.advance_record", wrong)
    with pytest.raises(AssertionError):
        test_held_clock_does_not_keep_a_timestamp_alive(installed)
