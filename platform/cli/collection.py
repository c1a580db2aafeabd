"""Says in words what became of the windows of a task by Prio3."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from alcove.platform.cli.output import when

if TYPE_CHECKING:
    from alcove.platform.client import Collection

__all__ = ["collection_lines"]


def collection_lines(found: "Collection") -> Iterator[str]:
    """Give how many windows were collected, and why others were not; windows of one reason have one line."""
    if found.problem:
        yield f"the aggregators take no part: {found.problem}"
    counts = [f"{found.collected_count} collected"]
    if found.waiting_count:
        counts.append(f"{found.waiting_count} asked for again and again")
    if found.missing_count:
        counts.append(f"{found.missing_count} given up")
    if found.next_at_s:
        counts.append(f"the next is asked for at {when(found.next_at_s)}")
    yield f"windows: {', '.join(counts)}"
    by_reason: dict[tuple[str, bool], list[str]] = {}
    for window in found.uncollected:
        by_reason.setdefault((window.reason, window.is_missing), []).append(when(window.start_s))
    for (reason, is_missing), starts in by_reason.items():
        span = starts[0] if len(starts) == 1 else f"{starts[0]} to {starts[-1]} ({len(starts)} windows)"
        yield f"  {'given up' if is_missing else 'waits'}, {span}: {reason}"
