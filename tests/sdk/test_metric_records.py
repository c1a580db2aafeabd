"""Records of an app's own metrics: added up on the device, one bin a window, errors the same on every device."""

import asyncio
import json
import math
import threading
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from alcove.privacy import report_from_bytes
from alcove.registry.policy import ArmBuckets
from alcove.registry.policy.metric import MetricKind, MetricTerms
from alcove.sdk import Client, OutOfBoundError, RecordedMetric
from alcove.sdk.storage import Files
from alcove.sdk.testing import SeededEntropy

from tests.sdk import aggregators
from tests.sdk.aggregators import WINDOW_S, FakeAggregators
from tests.sdk.conftest import FEATURE, Device
from tests.sdk.test_reports import task_of

WINDOW = 3600
COUNT = MetricTerms(name="undone_edits", version=2, kind=MetricKind.COUNT, edges=(3, 5))
SHARE = MetricTerms(name="kept_replies", version=1, kind=MetricKind.SHARE, edges=(0.5,))
VALUE = MetricTerms(name="minutes", version=1, kind=MetricKind.VALUE, edges=(1.5, 60))


def enroll(device: Device, metric: MetricTerms | None, arm: int = 1, **options: Any) -> Client:
    """Return a client in an arm of an experiment whose task asks for a metric."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), epsilon="1", window_s=WINDOW, metric=metric)
    client = device.client(entropy=SeededEntropy(device.seed_for_arm(arm)), **options)
    assert client.sync().error is None
    return client


def pending(device: Device) -> list[dict[str, Any]]:
    """What the device keeps of windows that are not reported."""
    path = device.folder / "reports" / "pending.json"
    found: list[dict[str, Any]] = json.loads(path.read_bytes()) if path.exists() else []
    return found


def bins(device: Device) -> list[tuple[int, int]]:
    """Arm and bin of each window that the device keeps."""
    layout = task_of(device.world).layout
    return [(axes.arm, axes.latency) for axes in (layout.axes(one["cell"]) for one in pending(device))]


@pytest.mark.parametrize(
    ("metric", "values", "expected"),
    [
        (COUNT, [], [0]),
        (COUNT, [1, True, 99.5, 0], [1, 1, 2, 2]),
        (COUNT, [1] * 7, [1, 1, 2, 2, 3, 3, 3]),
        (SHARE, [True, False, False, True], [2, 2, 1, 2]),
        (VALUE, [0, 1.25, 0.25, 58.5, 1e300, 1e300], [0, 1, 2, 3, 3, 3]),
        (VALUE, [np.float32(2.0), np.int64(3)], [2, 2]),
    ],
)
def test_a_windows_result_is_the_bin_of_all_that_was_recorded(
    device: Device, metric: MetricTerms, values: list[Any], expected: list[int]
) -> None:
    """After each record, in the device's arm; where nothing was recorded but the feature was used, bin 0."""
    handle = enroll(device, metric).feature(FEATURE)
    if not values:
        handle.record_outcome(True, handle.predict("hi"))
        assert bins(device) == [(1, 0)]
    for value, after in zip(values, expected, strict=bool(values)):
        handle.record(metric.name, value)
        assert bins(device) == [(1, after)]


def test_a_device_that_changes_its_arm_adds_nothing_of_the_new_one_to_the_window(device: Device) -> None:
    """The shares of a running experiment moved: the window stays with the first arm, the next one has the new arm."""
    client = enroll(device, COUNT)
    handle = client.feature(FEATURE)
    handle.record("undone_edits")
    swapped = (ArmBuckets(arm=0, first=0, count=5000), ArmBuckets(arm=1, first=5000, count=5000))
    device.world.set_policy(
        "1.0.0", arms=("1.0.0", "2.0.0"), epsilon="1", window_s=WINDOW, metric=COUNT, buckets=swapped
    )
    assert client.sync().error is None
    for _ in range(4):
        handle.record("undone_edits")
    assert bins(device) == [(1, 1)]
    device.clock.time_s += WINDOW
    handle.record("undone_edits")
    assert bins(device) == [(1, 1), (0, 1)]


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, -0.001, "1", None, b"1", Decimal(1), 1j, 10**400, [1]])
@pytest.mark.parametrize("metric", [VALUE, None], ids=["asked", "unasked"])
def test_a_value_that_is_none_is_an_error_on_every_device(
    device: Device, metric: MetricTerms | None, value: Any
) -> None:
    """In an experiment or not: what only some devices raised would reach users and no developer."""
    handle = enroll(device, metric).feature(FEATURE)
    with pytest.raises(OutOfBoundError, match="value must be"):
        handle.record("minutes", value)
    assert pending(device) == []


@pytest.mark.parametrize("name", ["", "Minutes", "a b", "1st", "x" * 65, "minutes\n", 7, None])
def test_a_name_that_no_metric_can_have_is_an_error(device: Device, name: Any) -> None:
    """Whatever the task."""
    with pytest.raises(OutOfBoundError, match="name must be"):
        enroll(device, VALUE).feature(FEATURE).record(name, 1)


def test_what_nobody_asks_for_is_counted_and_touches_no_file(device: Device) -> None:
    """No error, no file and no report; the app can see which of its names reach a task."""
    touched: list[str] = []
    files = Files(lambda step, _path: touched.append(step))
    client = enroll(device, VALUE, files=files)
    handle = client.feature(FEATURE)
    touched.clear()
    for _ in range(3):
        handle.record("minuets", 5)
    assert touched == []
    assert pending(device) == []
    handle.record("minutes", 5)
    assert client.recorded_metrics() == (
        RecordedMetric(FEATURE, "minuets", kept=0, unasked=3, unfit=0),
        RecordedMetric(FEATURE, "minutes", kept=1, unasked=0, unfit=0),
    )


def test_a_bug_that_makes_names_fills_no_memory(device: Device) -> None:
    """Beyond 256 they are counted together."""
    client = enroll(device, None)
    for number in range(300):
        client.feature(FEATURE).record(f"n{number}")
    found = client.recorded_metrics()
    assert len(found) == 257
    assert found[0] == RecordedMetric(FEATURE, "", kept=0, unasked=44, unfit=0)


def test_a_value_that_the_kind_has_no_use_for_is_left_out_and_counted(device: Device) -> None:
    """Half a truth is none; it raises nothing, for only devices whose task asks for a share could know."""
    client = enroll(device, SHARE)
    handle = client.feature(FEATURE)
    handle.record("kept_replies", 0.5)
    assert pending(device) == []
    handle.record("kept_replies", 1.0)
    assert client.recorded_metrics() == (RecordedMetric(FEATURE, "kept_replies", kept=1, unasked=0, unfit=1),)
    assert bins(device) == [(1, 2)]


def test_a_window_is_reported_once_it_is_over_and_the_next_begins_at_nothing(device: Device) -> None:
    """Until then its result may change; one report comes of any number of records."""
    client = enroll(device, COUNT)
    handle = client.feature(FEATURE)
    for _ in range(4):
        handle.record("undone_edits")
    assert client.report().sent == 0
    device.clock.time_s += WINDOW
    handle.record("undone_edits")
    assert bins(device) == [(1, 2), (1, 1)]
    result = client.report()
    assert (result.sent, result.error) == (1, None)
    assert bins(device) == [(1, 1)]
    (body,) = device.transport.reports
    task = task_of(device.world)
    assert report_from_bytes(body).window == 1000
    assert report_from_bytes(body).cell < task.cell_count == 8


def test_the_result_of_a_window_survives_the_process(device: Device) -> None:
    """It is in a file, for the next process to go on with; a saturated result is written no more."""
    enroll(device, VALUE).feature(FEATURE).record("minutes", 1)
    touched: list[str] = []
    handle = device.client(files=Files(lambda step, _path: touched.append(step))).feature(FEATURE)
    handle.record("minutes", 100)
    assert bins(device) == [(1, 3)]
    assert pending(device)[0]["total"] == 60  # nothing beyond the last edge is kept
    touched.clear()
    handle.record("minutes", 100)
    assert touched == []


def test_a_damaged_result_is_dropped(device: Device) -> None:
    """A cell that is not its numbers' is no result; the window begins again."""
    handle = enroll(device, VALUE).feature(FEATURE)
    handle.record("minutes", 2)
    path = device.folder / "reports" / "pending.json"
    sound = path.read_text()
    for wrong in ('"total": 0.5', '"total": NaN', '"total": -1.0', '"total": Infinity', '"total": "x"'):
        path.write_text(sound.replace('"total": 2.0', wrong))
        handle.record("minutes", 70)
        assert bins(device) == [(1, 3)]
        assert pending(device)[0]["seen"] == 1, wrong


def test_nothing_is_recorded_without_consent(device: Device) -> None:
    """A no removes what was kept, and counts nothing more."""
    client = enroll(device, VALUE)
    handle = client.feature(FEATURE)
    handle.record("minutes", 2)
    client.set_reports(False)
    handle.record("minutes", 2)
    assert pending(device) == []
    assert client.recorded_metrics()[0].kept == 1


def test_records_of_several_threads_and_of_an_event_loop_are_all_counted(device: Device) -> None:
    """None is lost between reading and writing the file."""
    metric = MetricTerms(name="sent", version=1, kind=MetricKind.COUNT, edges=(100,))
    client = enroll(device, metric)
    handle = client.feature(FEATURE)

    def record_ten() -> None:
        for _ in range(10):
            handle.record("sent")

    threads = [threading.Thread(target=record_ten) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def record() -> None:
        handle.record("sent")

    async def record_all() -> None:
        await asyncio.gather(*(record() for _ in range(10)))

    asyncio.run(record_all())
    assert pending(device)[0]["seen"] == 50
    assert client.recorded_metrics()[0].kept == 50


def test_a_task_of_outcomes_hears_of_no_metric(device: Device) -> None:
    """And a task of a metric of no outcome but that the feature was used."""
    client = enroll(device, None)
    client.feature(FEATURE).record("minutes", 5)
    assert pending(device) == []
    client = enroll(device, VALUE)
    handle = client.feature(FEATURE)
    handle.record("minutes", 5)
    for accepted in (True, False):
        handle.record_outcome(accepted, handle.predict("hi"))
    assert bins(device) == [(1, 2)]


def test_two_aggregators_count_the_bin_of_a_window_and_the_idle_cell_of_one_without_use(device: Device) -> None:
    """The cell is that of the whole window; a device that did not use the feature is in none of the bins."""
    fake = FakeAggregators(device)
    client = aggregators.enroll(device, fake, policy={"epsilon": "0.25", "metric": COUNT})
    task = task_of(device.world)
    for records in (4, 0, 1):
        for _ in range(records):
            client.feature(FEATURE).record("undone_edits")
        end_s = (device.clock.time_s // WINDOW_S + 2) * WINDOW_S - 1  # when all reports of this window are due
        device.clock.pass_s(end_s - device.clock.time_s)
        client.report()
    assert fake.cells(task) == [task.metric_cell(1, 4, 0), task.cell_count, task.metric_cell(1, 1, 0)]


def test_a_device_that_used_the_feature_and_recorded_nothing_is_in_the_first_bin(device: Device) -> None:
    """A prediction alone makes it part of the denominator; its window is reported when it is over."""
    client = enroll(device, COUNT)
    client.feature(FEATURE).predict("hi")
    client.report()
    assert bins(device) == [(1, 0)]
    device.clock.time_s += WINDOW
    assert client.report().sent == 1
