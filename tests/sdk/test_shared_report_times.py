"""Reports to two aggregators leave at a drawn time of the next window, of the windows that the device was in a task."""

import json
from typing import Any

import pytest
from alcove.sdk import TransportError
from alcove.sdk.background import report_turn
from alcove.sdk.participation import Membership
from alcove.sdk.testing import SeededEntropy

from tests.sdk.aggregators import (
    CHEAP,
    WINDOW_S,
    FakeAggregators,
    end_window,
    enroll,
    make_aggregation,
    open_client,
    task_of,
    use,
    windows_of,
)
from tests.sdk.conftest import NOW, Device, World


@pytest.fixture
def fake(device: Device) -> FakeAggregators:
    """Both aggregators of the device's task."""
    return FakeAggregators(device)


# --- when


def test_report_leaves_at_the_time_that_was_drawn(device: Device, fake: FakeAggregators) -> None:
    """Not a second before, and a restart draws no other time."""
    client = enroll(device, fake)
    use(client)
    due_in_s = client.report().next_due_s
    assert due_in_s is not None
    assert WINDOW_S <= due_in_s < WINDOW_S + 3 * WINDOW_S / 4
    for seed in range(5):
        assert open_client(device, fake, entropy=SeededEntropy(seed)).report().next_due_s == due_in_s
    device.clock.time_s = NOW + due_in_s - 1
    assert client.report().next_due_s == 1
    assert fake.requests == []
    device.clock.time_s += 1
    result = client.report()
    assert result.sent == 1
    # The next report is due in the window after the present one, whose report it is.
    assert result.next_due_s is not None
    assert NOW + 2 * WINDOW_S <= device.clock.time_s + result.next_due_s < NOW + 3 * WINDOW_S


def test_times_are_drawn_evenly_over_three_quarters_of_the_window(released_world: World) -> None:
    """Over keys and over windows, so that neither the device nor the hour of its sync shows in them."""
    released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), aggregation=make_aggregation())
    task = task_of(released_world)
    one = Membership("greeting", task, 0, None, bytes(16))
    many = [Membership("greeting", task, 0, None, bytes([key]) * 16).due_at_s(7) for key in range(256)]
    for times, window in ((many, [7] * 256), ([one.due_at_s(number) for number in range(256)], range(256))):
        starts = [task.first_window_start_s + (number + 1) * task.window_s for number in window]
        parts = [(at_s - start_s) / task.window_s for at_s, start_s in zip(times, starts, strict=True)]
        assert min(parts) >= 0
        assert max(parts) < 0.75
        quarters = [sum(low / 4 <= part < (low + 1) / 4 for part in parts) for low in range(3)]
        assert all(55 < count < 120 for count in quarters), quarters


def test_background_wakes_at_the_drawn_time_and_sends_one_a_turn(device: Device, fake: FakeAggregators) -> None:
    """Whatever the interval is: the turn before says when."""
    client = enroll(device, fake)
    turn = report_turn(lambda: client._report(most=1))
    assert turn.next_due_s is not None
    device.clock.pass_s(turn.next_due_s)
    turn = report_turn(lambda: client._report(most=1))
    assert len(fake.reports) == 1
    assert (turn.left, turn.is_failed) == (0, False)


def test_device_that_was_off_reports_the_last_window_alone(device: Device, fake: FakeAggregators) -> None:
    """No burst of what was missed, and the true cells of it are gone."""
    client = enroll(device, fake, policy=CHEAP)
    use(client)
    end_window(device, windows=5)
    result = client.report()
    assert (result.sent, result.dropped) == (1, 1)
    assert windows_of(fake) == [4]
    assert fake.cells(task_of(device.world)) == [task_of(device.world).cell_count]
    assert json.loads((device.folder / "reports" / "pending.json").read_bytes()) == []


def test_report_that_could_not_leave_within_its_window_is_given_up(device: Device, fake: FakeAggregators) -> None:
    """It is gone from the disk with its cell; the budget stays spent."""
    client = enroll(device, fake, policy=CHEAP)
    use(client)

    def be_away(_when: str, method: str, path: str) -> None:
        if method == "POST":
            raise TransportError(method=method, path=path, reason="the cable was cut")

    fake.fault = be_away
    end_window(device)
    assert client.report().waiting == 1
    fake.fault = lambda _when, _method, _path: None
    end_window(device)
    result = client.report()
    assert (result.sent, result.dropped) == (1, 1)
    assert windows_of(fake) == [1]
    assert client.privacy_summary().reports_made == 2
    assert json.loads((device.folder / "reports" / "outbox.json").read_bytes()) == []


# --- which windows


def test_windows_before_the_device_met_the_task_are_not_reported(device: Device, fake: FakeAggregators) -> None:
    """It knows nothing of them."""
    client = enroll(device, fake)
    result = client.report()
    assert (result.sent, fake.requests) == (0, [])
    end_window(device)
    client.report()
    assert windows_of(fake) == [0]


def test_device_that_leaves_reports_its_last_window_and_no_other(device: Device, fake: FakeAggregators) -> None:
    """The windows from the sync that put it in to the sync that took it out, both included."""
    client = enroll(device, fake, policy=CHEAP)
    task = task_of(device.world)
    end_window(device)
    client.report()
    use(client)
    device.world.set_policy("1.0.0")
    assert client.sync().error is None
    for _ in range(4):
        end_window(device)
        client.report()
    assert windows_of(fake) == [0, 1]
    assert fake.cells(task) == [task.cell_count, task.cell_index(1, 1, 1.0)]
    client.sync()
    assert json.loads((device.folder / "reports" / "tasks.json").read_bytes()) == []


def test_device_that_comes_back_reports_from_then_on(device: Device, fake: FakeAggregators) -> None:
    """A policy that takes a task away and gives it back leaves the windows between unreported."""
    client = enroll(device, fake, policy=CHEAP)
    device.world.set_policy("1.0.0")
    client.sync()
    end_window(device, windows=3)
    client.report()
    terms: dict[str, Any] = {"window_s": WINDOW_S, "aggregation": make_aggregation()} | CHEAP
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), **terms)
    client.sync()
    assert client.report().sent == 0
    end_window(device)
    assert client.report().sent == 1
    assert windows_of(fake) == [3]


def test_device_that_cannot_sync_reports_on(device: Device, fake: FakeAggregators) -> None:
    """What the last policy said holds until another is heard."""
    client = enroll(device, fake, policy=CHEAP)

    def be_away(method: str, path: str) -> None:
        raise TransportError(method=method, path=path, reason="the cable was cut")

    device.transport.fault = be_away
    for _ in range(3):
        assert client.sync().error is not None
        end_window(device)
        assert client.report().sent == 1
    assert windows_of(fake) == [0, 1, 2]


def test_feature_that_a_sync_cannot_settle_stays_in_its_task(device: Device, fake: FakeAggregators) -> None:
    """Frozen: nothing of it changes, and its windows are reported on."""
    client = enroll(device, fake, policy=CHEAP)
    device.world.halt(is_frozen=True)
    for _ in range(2):
        client.sync()
        end_window(device)
        assert client.report().sent == 1
    (one,) = json.loads((device.folder / "reports" / "tasks.json").read_bytes())
    assert one["last_window"] is None


@pytest.mark.parametrize("jump_s", [WINDOW_S, 10 * WINDOW_S, 10 * 365 * 86_400, -10 * WINDOW_S, -800 * WINDOW_S])
def test_no_jump_of_the_clock_makes_two_reports_of_a_window_or_a_burst(
    device: Device, fake: FakeAggregators, jump_s: int
) -> None:
    """Set wrong and right again, with syncs and restarts between: one report a window, and soon all is as before.

    The window that was reported while the clock was ahead is not reported again.
    """
    client = enroll(device, fake, policy=CHEAP)
    for _ in range(2):
        end_window(device)
        client.report()
    for _ in range(3):
        device.clock.time_s += jump_s
        for _ in range(2):
            before = len(fake.reports)
            open_client(device, fake).report()
            client.sync()
            client.report()
            assert len(fake.reports) - before <= 1
        device.clock.time_s -= jump_s
        open_client(device, fake).report()
    client.sync()
    before = len(fake.reports)
    for _ in range(3):
        end_window(device)
        client.report()
    assert len(fake.reports) - before >= 2
    windows = windows_of(fake)
    assert windows[-1] == 4
    assert len(windows) == len(set(windows))
    assert client.privacy_summary().reports_made == len(windows)


def test_clock_that_stood_too_far_ahead_when_the_task_was_met_silences_nobody(
    device: Device, fake: FakeAggregators
) -> None:
    """T4: once the clock is right the next sync puts the first window right."""
    device.clock.time_s += 20 * WINDOW_S
    client = enroll(device, fake, policy=CHEAP)
    device.clock.time_s = NOW
    assert client.report().sent == 0
    client.sync()
    end_window(device)
    assert client.report().sent == 1
    assert windows_of(fake) == [0]
