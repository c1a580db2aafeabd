"""Times calls for figures: pinned to one core, interleaved, the lowest of the medians of several repeats."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

REPEATS = 7
CALLS_PER_REPEAT = 400


@dataclass(frozen=True)
class Figure:
    """One number of the report.

    Attributes:
        name: what was measured.
        value: the number.
        unit: its unit.
        note: how, or beside what.
    """

    name: str
    value: float
    unit: str
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return asdict(self)

    def text(self) -> str:
        """Return the value with a sensible number of digits, and the unit."""
        digits = 0 if self.value >= 1000 or float(self.value).is_integer() else 2
        return f"{self.value:,.{digits}f} {self.unit}".strip()


def pin() -> int:
    """Pin this process to the last core it may use; return the core's number."""
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def median_us(calls: Sequence[Callable[[], object]], *, per_repeat: int = CALLS_PER_REPEAT) -> list[float]:
    """Time several calls against each other: repeats take turns, so that a slow moment hits all of them.

    Returns:
        for each call the lowest median over the repeats, in microseconds.
    """
    best = [float("inf")] * len(calls)
    for call in calls:
        call()
    for _ in range(REPEATS):
        for index, call in enumerate(calls):
            times = []
            for _ in range(per_repeat):
                start_ns = time.perf_counter_ns()
                call()
                times.append(time.perf_counter_ns() - start_ns)
            best[index] = min(best[index], statistics.median(times) / 1000)
    return best
