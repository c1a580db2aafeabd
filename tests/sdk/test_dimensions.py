"""A device reports as one value of an experiment's dimension to its end: one report a window, paid for once."""

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from alcove.privacy.report import report_from_bytes
from alcove.registry.policy import DeviceAttributes, TaskPolicy
from alcove.sdk import Client
from alcove.sdk.testing import SeededEntropy

from tests.sdk.aggregators import PAIR, WINDOW_S, FakeAggregators, end_window, make_aggregation
from tests.sdk.aggregators import use as use_once
from tests.sdk.conftest import FEATURE, Device, World
from tests.sdk.test_reports import WINDOW, use

MakeDevice = Callable[..., Device]
BY_OS = "os=android,ios"


def tasks_of(world: World, place: int = 0) -> tuple[TaskPolicy, ...]:
    """Return the tasks of a running experiment."""
    policy = world.tree.policy("messenger")
    assert policy is not None
    return policy.features[FEATURE].experiments[place].tasks


def enroll(device: Device, os: str | None, dimension: str = BY_OS, **options: Any) -> Client:
    """Return a client of arm 1 on a system."""
    terms: dict[str, Any] = {"arms": ("1.0.0", "2.0.0"), "epsilon": "0.5", "window_s": WINDOW, "dimension": dimension}
    device.world.set_policy("1.0.0", **terms)
    return open_on(device, os, **options)


def open_on(device: Device, os: str | None, **options: Any) -> Client:
    """Return a synced client of the installation, on a system."""
    seed = {"entropy": SeededEntropy(device.seed_for_arm(1))}
    client = device.client(device=DeviceAttributes(os=os), **(seed | options))
    assert client.sync().error is None
    return client


def task_id_of(client: Client) -> str:
    """Return the task that the policy gives the device."""
    found = client.assignments()
    assert found is not None
    resolution = found.resolutions[FEATURE]
    assert resolution is not None
    assert resolution.task is not None
    return resolution.task.task_id


def reports_of(device: Device) -> list[tuple[str, int]]:
    """Return task and window of each report that was sent."""
    found = map(report_from_bytes, device.transport.reports)
    return [(report.task_id.hex(), report.window) for report in found]


@pytest.mark.parametrize(("os", "value"), [("android", 0), ("ios", 1), ("web", 2), (None, 2)])
def test_report_names_the_task_of_the_value(device: Device, os: str | None, value: int) -> None:
    """An unknown system, and none, are "other"; a report costs what it costs without a dimension."""
    client = enroll(device, os)
    use(client)
    result = client.report()
    assert (result.sent, result.epsilon_spent) == (1, Fraction(1, 2))
    assert reports_of(device) == [(tasks_of(device.world)[value].task_id, 1000)]
    assert task_id_of(client) == tasks_of(device.world)[value].task_id
    assert client.privacy_summary().answers_30_days == 1


def test_only_the_task_tells_the_value(released_world: World, make_device: MakeDevice) -> None:
    """Three systems ask for and send the same but for the name of the task, 32 bytes of a report."""
    traces = []
    terms: dict[str, Any] = {"arms": ("1.0.0", "2.0.0"), "window_s": WINDOW, "dimension": BY_OS}
    released_world.set_policy("1.0.0", **terms)
    for name in ("android", "ios", "web"):
        device = make_device(released_world, name)
        client = open_on(device, name)
        use(client)
        client.report()
        traces.append([(one.method, one.path, len(one.wire)) for one in device.transport.requests])
    assert traces[0] == traces[1] == traces[2]


def test_updated_device_reports_as_before_once_a_window(device: Device) -> None:
    """An attribute that changes, in a window and between two, moves no report: one a window, paid once."""
    client = enroll(device, "android")
    use(client)
    assert client.report().sent == 1
    client.close()
    other = open_on(device, "ios")
    use(other)
    assert other.report().sent == 0
    device.clock.pass_s(WINDOW)
    other.sync()
    use(other)
    assert other.report().sent == 1
    assert reports_of(device) == [(tasks_of(device.world)[0].task_id, window) for window in (1000, 1001)]
    summary = other.privacy_summary()
    assert (summary.epsilon_total, summary.answers_30_days) == (Fraction(1), 1)


def test_updated_device_of_aggregators_reports_each_window_once(device: Device) -> None:
    """As the one value that it began with: never in two tasks at once."""
    fake = FakeAggregators(device)
    terms: dict[str, Any] = {"epsilon": "0.1", "window_s": WINDOW_S, "aggregation": make_aggregation()}
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), dimension=BY_OS, **terms)
    for number, os in enumerate(("android", "ios", "web")):
        seed = {"entropy": SeededEntropy(device.seed_for_arm(1) if number == 0 else 1000 + number)}
        client = open_on(device, os, transport=fake.connect, aggregators=[PAIR], **seed)
        use_once(client)
        end_window(device)
        assert client.report().sent == 1
        client.close()
    assert len({report.metadata.time for report in fake.sealings()}) == len(fake.sealings()) == 3
    assert len(fake.cells(tasks_of(device.world)[0])) == 3


def test_next_experiment_asks_again_and_pays_where_the_answer_is_new(device: Device) -> None:
    """The same dimension again costs nothing while the answer stays; a changed one is a new answer."""
    client = enroll(device, "android")
    for number, (os, value, answers) in enumerate((("android", 0, 1), ("ios", 1, 2), ("android", 0, 3))):
        client.close()
        terms: dict[str, Any] = {"arms": ("1.0.0", "2.0.0"), "window_s": WINDOW, "dimension": BY_OS}
        device.world.set_policy("1.0.0", experiment_id=f"next-{number}", **terms)
        client = open_on(device, os)
        assert task_id_of(client) == tasks_of(device.world)[value].task_id
        assert client.privacy_summary().answers_30_days == answers
    known = json.loads((device.folder / "reports" / "strata.json").read_bytes())
    assert known == {"next-2": 0}


def test_author_who_asks_for_one_dimension_after_the_other_learns_four_answers(device: Device) -> None:
    """Then the device reports as "other", in whatever it is asked: silence and "none of these" look alike."""
    seen = []
    client = None
    for number, os in enumerate(("ios", "web", "linux", "macos", "android", "android+ios")):
        if client is not None:
            client.close()
        terms: dict[str, Any] = {"arms": ("1.0.0", "2.0.0"), "window_s": WINDOW, "dimension": f"os={os}"}
        device.world.set_policy("1.0.0", experiment_id=f"asked-{number}", **terms)
        client = open_on(device, "android")
        drawn = task_id_of(client)
        seen.append([task.task_id for task in tasks_of(device.world)].index(drawn))
        assert client.privacy_summary().answers_30_days == min(number + 1, 4)
    assert seen == [1] * 6


@pytest.mark.parametrize(
    "damage", [b"", b"\0", b"[]", b"{", b'{"exp": -1}', b'{"exp": 3}', b'{"exp": "0"}', b'{"exp": true}', b"[" * 9999]
)
def test_damaged_value_is_settled_again(device: Device, damage: bytes) -> None:
    """Nothing is lost but the value; the same device settles on the same one, and pays nothing for it."""
    client = enroll(device, "ios")
    client.close()
    (device.folder / "reports" / "strata.json").write_bytes(damage)
    client = open_on(device, "ios")
    assert task_id_of(client) == tasks_of(device.world)[1].task_id
    use(client)
    assert client.report().sent == 1
    assert client.privacy_summary().answers_30_days == 1


def test_end_of_an_experiment_forgets_the_value(device: Device) -> None:
    """The file has the values of what the policy names, and no others."""
    client = enroll(device, "ios")
    device.world.set_policy("1.0.0")
    client.sync()
    assert json.loads((device.folder / "reports" / "strata.json").read_bytes()) == {}
