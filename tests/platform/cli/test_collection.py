"""People are told how many windows were collected, which wait, and why one is missing."""

from alcove.platform.cli.collection import collection_lines
from alcove.platform.client import Collection, UncollectedWindow

REASON = "invalidBatchSize: 57 reports, fewer than 100"


def test_windows_of_one_reason_have_one_line() -> None:
    """Those that wait and those that were given up apart, and when the next one is asked for."""
    windows = [
        UncollectedWindow(window=at, start_s=1_800_000_000 + 3600 * at, is_missing=at < 2, reason=REASON)
        for at in range(4)
    ]
    windows.append(UncollectedWindow(window=5, start_s=1_800_018_000, reason="the aggregators are at it"))
    found = Collection(
        collected_count=7, waiting_count=3, missing_count=2, uncollected=tuple(windows), next_at_s=1_800_028_800
    )
    assert list(collection_lines(found)) == [
        "windows: 7 collected, 3 asked for again and again, 2 given up, the next is asked for at 2027-01-15 16:00:00Z",
        f"  given up, 2027-01-15 08:00:00Z to 2027-01-15 09:00:00Z (2 windows): {REASON}",
        f"  waits, 2027-01-15 10:00:00Z to 2027-01-15 11:00:00Z (2 windows): {REASON}",
        "  waits, 2027-01-15 13:00:00Z: the aggregators are at it",
    ]


def test_task_that_the_aggregators_refuse_is_said_first() -> None:
    """Before any window is over."""
    found = Collection(problem="invalidTask: epsilon 1 is more than 1/2", next_at_s=1_800_000_000)
    assert list(collection_lines(found)) == [
        "the aggregators take no part: invalidTask: epsilon 1 is more than 1/2",
        "windows: 0 collected, the next is asked for at 2027-01-15 08:00:00Z",
    ]
