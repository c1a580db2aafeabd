"""A device in a task of two aggregators reports every window once, whatever happened in it, and tells neither what."""

from collections.abc import Callable

import pytest
from alcove.sdk import ReportResult

from tests.sdk.aggregators import (
    WINDOW_S,
    FakeAggregators,
    enroll,
    task_of,
    use,
)
from tests.sdk.conftest import NOW, Device

MakeDevice = Callable[..., Device]


@pytest.fixture
def fake(device: Device) -> FakeAggregators:
    """Both aggregators of the device's task."""
    return FakeAggregators(device)


def end_window(device: Device, share: float = 1.0) -> None:
    """Go to the place of the next window that `share` says: 1.0 is its last second."""
    device.clock.time_s = device.clock.time_s // WINDOW_S * WINDOW_S + WINDOW_S + int((WINDOW_S - 1) * share)


def test_outcome_of_a_window_is_one_report_of_its_cell(device: Device, fake: FakeAggregators) -> None:
    """After the window, not in it; debited; the aggregators together read the cell that was recorded."""
    client = enroll(device, fake)
    use(client)
    assert client.report() == ReportResult(next_due_s=client.report().next_due_s)
    assert fake.requests == []
    end_window(device)
    result = client.report()
    assert (result.sent, result.waiting, result.dropped, result.error) == (1, 0, 0, None)
    assert result.epsilon_spent == 1
    task = task_of(device.world)
    assert fake.cells(task) == [task.cell_index(1, 1, 1.0)]
    (report,) = fake.sealings()
    assert report.metadata.time == NOW // WINDOW_S
    assert client.privacy_summary().reports_made == 1
    again = client.report()
    assert (again.sent, again.waiting, again.dropped, again.error) == (0, 0, 0, None)
