"""Times calls, and fits nonnegative costs of counted work to the times by relative least squares."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

Name = TypeVar("Name")

ROUNDS: Final = 7
LEAST_NS: Final = 2_000_000
"""A turn of a form repeats its call for this long."""


@dataclass(frozen=True)
class Fit:
    """Costs of one form, ns for each thing counted.

    Attributes:
        form: its name.
        present: those of `runtime/compiler/costs.py`.
        fitted: those with the least relative squared error here.
        spread: the least and the greatest expected time as a share of the measured one, with the present costs.
        fitted_spread: the same with the fitted ones.
    """

    form: str
    present: tuple[float, ...]
    fitted: tuple[float, ...]
    spread: tuple[float, float]
    fitted_spread: tuple[float, float]


def fit(form: str, points: Sequence[tuple[tuple[float, ...], float]], present: tuple[float, ...]) -> Fit:
    """Return costs of 0 or more for points of counts and ns."""
    counts = np.array([count for count, _ in points])
    times = np.array([spent for _, spent in points])
    shares = counts / times[:, None]
    used = list(range(counts.shape[1]))
    while True:  # a cost that would be negative is none
        found, *_ = np.linalg.lstsq(shares[:, used], np.ones(len(times)), rcond=None)
        if (found >= 0).all():
            break
        del used[int(found.argmin())]
    fitted = np.zeros(counts.shape[1])
    fitted[used] = found

    def spread(costs: Sequence[float]) -> tuple[float, float]:
        ratios = counts @ np.array(costs) / times
        return float(ratios.min()), float(ratios.max())

    return Fit(form, present, tuple(fitted.tolist()), spread(present), spread(fitted.tolist()))


def lowest(calls: Mapping[Name, Callable[[], object]]) -> dict[Name, float]:
    """Return the lowest ns of each call, in turns, so that a slow moment hits all."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], _once(call))
    return best


def _once(call: Callable[[], object]) -> float:
    """Return the ns of one call, the mean of a few."""
    call()
    count, start = 0, time.perf_counter_ns()
    while count < 3 or time.perf_counter_ns() - start < LEAST_NS:
        call()
        count += 1
    return (time.perf_counter_ns() - start) / count
