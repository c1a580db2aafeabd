"""A device in a task of two aggregators reports every window once, whatever its arm was and happened in it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from alcove.sdk import TransportError
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
from tests.sdk.conftest import Device, World
from tests.sdk.test_outcomes import crash_three_times

MakeDevice = Callable[..., Device]


@pytest.fixture
def fake(device: Device) -> FakeAggregators:
    """Both aggregators of the device's task."""
    return FakeAggregators(device)


# --- what is reported


def test_outcome_of_a_window_is_one_report_of_its_cell(device: Device, fake: FakeAggregators) -> None:
    """After the window, not in it; debited; the aggregators together read the cell that was recorded."""
    client = enroll(device, fake)
    use(client)
    early = client.report()
    assert (early.sent, early.waiting, early.dropped, early.error) == (0, 0, 0, None)
    assert fake.requests == []
    end_window(device)
    result = client.report()
    assert (result.sent, result.waiting, result.dropped, result.error) == (1, 0, 0, None)
    assert result.epsilon_spent == 1
    task = task_of(device.world)
    assert fake.cells(task) == [task.cell_index(1, 1, 1.0)]
    assert windows_of(fake) == [0]
    summary = client.privacy_summary()
    assert summary.reports_made == 1
    assert summary.report_bytes_sent == sum(len(sent.body) for sent in fake.requests) > 500
    again = client.report()
    assert (again.sent, again.waiting, again.dropped, again.error) == (0, 0, 0, None)


def test_every_window_is_reported_used_or_not(device: Device, fake: FakeAggregators) -> None:
    """Used, idle, failed, and used again: one report each, the idle cell where nothing was recorded."""
    client = enroll(device, fake, policy=CHEAP)
    task = task_of(device.world)
    used = [True, False, False, True, True, False]
    for is_used in used:
        if is_used:
            use(client)
        end_window(device)
        client.report()
    assert windows_of(fake) == list(range(len(used)))
    cell = task.cell_index(1, 1, 1.0)
    assert fake.cells(task) == [cell if is_used else task.cell_count for is_used in used]
    assert client.privacy_summary().reports_made == len(used)


@pytest.mark.parametrize("arm", [0, 1])
def test_used_and_idle_devices_send_alike(released_world: World, make_device: MakeDevice, arm: int) -> None:
    """Same requests of the same sizes to the same servers: nothing of use shows outside of the cell."""
    traces = []
    for name, outcomes in (("idle", []), ("used", [True]), ("refused", [False, False, True])):
        device = make_device(released_world, name)
        own = FakeAggregators(device)
        client = enroll(device, own, arm, policy=CHEAP)
        for accepted in outcomes:
            use(client, accepted=accepted)
        end_window(device)
        client.report()
        traces.append([(sent.server, sent.method, sent.path, len(sent.wire)) for sent in own.requests])
    assert len(traces[0]) == 3
    assert traces[0] == traces[1] == traces[2]


def test_outcome_of_the_present_window_waits_for_its_end(device: Device, fake: FakeAggregators) -> None:
    """All outcomes of a window are in the draw, also those after the report of the window before."""
    client = enroll(device, fake, policy=CHEAP)
    use(client)
    end_window(device)
    use(client, accepted=False)
    assert client.report().sent == 1
    end_window(device)
    assert client.report().sent == 1
    task = task_of(device.world)
    assert fake.cells(task) == [task.cell_index(1, 1, 1.0), task.cell_index(1, 0, 1.0)]


# --- whether there is a report tells nothing of the arm (T1)


def crash(device: Device) -> None:
    """Have the version of arm 1 crash three times here, if it is there."""
    crash_three_times(device, "2.0.0")


EVENTS: dict[str, Callable[[Device], None]] = {
    "arm 1 crashes": crash,
    "arm 1 is halted": lambda device: device.world.halt("2.0.0"),
    "arm 0 is halted": lambda device: device.world.halt("1.0.0"),
    "arm 1 is halted and the feature frozen": lambda device: device.world.halt("2.0.0", is_frozen=True),
    "the feature is frozen": lambda device: device.world.halt(is_frozen=True),
    "arm 0 is below the minimum": lambda device: device.world.raise_min_version("2.0.0"),
    "both are below the minimum": lambda device: device.world.raise_min_version("3.0.0"),
    "the experiment ends": lambda device: device.world.set_policy("1.0.0"),
    "the policy leaves the feature out": lambda device: device.world.drop_from_policy(),
    "the policy is the same": lambda _device: None,
}


@pytest.mark.parametrize(
    ("name", "is_rollout"),
    [(name, False) for name in EVENTS] + [(name, True) for name in ("arm 0 is halted", "arm 1 is halted")],
)
def test_participation_is_the_same_in_every_arm(
    released_world: World, make_device: MakeDevice, name: str, is_rollout: bool
) -> None:
    """Whatever happens to one arm's version, and however far a sync comes: both arms report the same windows."""
    terms: dict[str, Any] = (
        {"rollout": ("2.0.0", 5000), "control": 5000} if is_rollout else {"arms": ("1.0.0", "2.0.0")}
    )
    released_world.set_policy("1.0.0", window_s=WINDOW_S, aggregation=make_aggregation(), **terms, **CHEAP)
    places = [(arm, is_cut) for is_cut in (False, True) for arm in (0, 1)]
    devices = [make_device(released_world, f"device{arm}{is_cut}") for arm, is_cut in places]
    secrets = [
        SeededEntropy(devices[0].seed_for_arm(arm, salt="roll-salt" if is_rollout else "exp-salt")) for arm, _ in places
    ]
    for device, secret in zip(devices, secrets, strict=True):
        assert open_client(device, FakeAggregators(device), entropy=secret).sync().error is None
    for device in devices if EVENTS[name] is crash else devices[:1]:
        EVENTS[name](device)
    kept = []
    for device, (_, is_cut) in zip(devices, places, strict=True):
        device.transport.fault = cut_downloads if is_cut else None
        own = FakeAggregators(device)
        client = open_client(device, own)
        for _ in range(2):
            client.sync()
        members = json.loads((device.folder / "reports" / "tasks.json").read_bytes())
        for _ in range(2):
            end_window(device)
            client.report()
        kept.append(([one | {"key": ""} for one in members], windows_of(own)))
    assert kept[0] == kept[1]
    assert kept[2] == kept[3]


def cut_downloads(method: str, path: str) -> None:
    """Let metadata through and nothing else."""
    if path.startswith(("/blobs", "/targets")):
        raise TransportError(method=method, path=path, reason="the cable was cut")


def test_device_whose_arm_crashed_reports_that_and_every_window(device: Device, fake: FakeAggregators) -> None:
    """The fallback is in the cell, where only sums show it."""
    client = enroll(device, fake, 1, policy=CHEAP | {"outcomes": 4})
    crash(device)
    client = open_client(device, fake)
    client.sync()
    use(client)
    for _ in range(2):
        end_window(device)
        client.report()
    task = task_of(device.world)
    first, second = fake.cells(task)
    assert task.layout.axes(first)[:2] == (1, 3)
    assert second == task.cell_count
