"""Simulates what the server learns of each window's true cells: sums with the noise of one of two mechanisms.

Both draw the noise of sums, not of devices, from exactly the distribution that the devices' or aggregators' own noise
adds up to: of n devices with one cell, the number that tell it is binomial, and the others spread evenly over the rest,
as do the other cells of those that tell a set.
"""

from fractions import Fraction
from typing import Protocol

import numpy as np
from alcove.platform.stats import (
    Aggregate,
    Mechanism,
    aggregate_from_noised_histogram,
    aggregate_from_randomized_response,
    pool,
)
from alcove.platform.stats.aggregator_noise import draw_noise
from alcove.privacy.subset_selection import SubsetSelection
from alcove.registry.policy import TaskPolicy
from numpy.typing import NDArray

__all__ = ["AggregationMechanism", "aggregation_mechanism"]


class AggregationMechanism(Protocol):
    """The server's sums of one task under a privacy mechanism."""

    def add(self, true_counts: NDArray[np.int64]) -> None:
        """Take in one window's true counts, with noise."""
        ...

    def aggregate(self) -> Aggregate:
        """Return all windows so far."""
        ...


def aggregation_mechanism(
    mechanism: Mechanism, task: TaskPolicy, rng: np.random.Generator, *, lost_replies: float = 0.0
) -> AggregationMechanism:
    """Return an empty record of a task.

    Args:
        mechanism: how reports become sums.
        task: of the reports.
        rng: of everything random.
        lost_replies: chance that the reply to a randomized report is lost, so that its device sends it again and it
            counts twice; aggregators know a report again.
    """
    if mechanism is Mechanism.RANDOMIZED_RESPONSE:
        return _Randomized(task, rng, lost_replies)
    return _Shared(task, rng)


class _Randomized:
    def __init__(self, task: TaskPolicy, rng: np.random.Generator, lost_replies: float) -> None:
        self._task, self._rng, self._lost_replies = task, rng, lost_replies
        mechanism = SubsetSelection(task.cell_count, task.epsilon_fraction, task.subset_size)
        self._keep, self._size = float(mechanism.keep_probability), task.subset_size
        self._counts = np.zeros(task.cell_count, np.int64)

    def add(self, true_counts: NDArray[np.int64]) -> None:
        twice = np.zeros_like(true_counts)
        if self._lost_replies:
            twice = self._rng.binomial(true_counts, self._lost_replies).astype(np.int64)
            self._counts += 2 * self._randomize(twice)
        self._counts += self._randomize(true_counts - twice)

    def _randomize(self, true_counts: NDArray[np.int64]) -> NDArray[np.int64]:
        cells = len(true_counts)
        counts = np.zeros(cells, np.int64)
        for cell, devices in enumerate(true_counts.tolist()):
            kept = int(self._rng.binomial(devices, self._keep))
            counts[cell] += kept
            rest = np.arange(cells) != cell
            counts[rest] += _draw_sets(self._rng, devices - kept, cells - 1, self._size)
            counts[rest] += _draw_sets(self._rng, kept, cells - 1, self._size - 1)
        return counts

    def aggregate(self) -> Aggregate:
        task = self._task
        return aggregate_from_randomized_response(
            self._counts.tolist(), task.layout, epsilon=task.epsilon_fraction, subset_size=self._size
        )


def _draw_sets(rng: np.random.Generator, devices: int, cells: int, size: int) -> NDArray[np.int64]:
    """Return how many of the devices' uniform sets of `size` cells each cell is in.

    Cell by cell: of the devices that still have r cells to name, and as many cells left as l, a part r / l names it.
    """
    if size == 1:
        return rng.multinomial(devices, np.full(cells, 1 / cells)).astype(np.int64)
    to_name = np.arange(size + 1)
    waiting = np.zeros(size + 1, np.int64)
    waiting[size] = devices
    counts = np.zeros(cells, np.int64)
    for cell in range(cells):
        named = rng.binomial(waiting, np.minimum(to_name / (cells - cell), 1.0))
        counts[cell] = named.sum()
        waiting -= named
        waiting[:-1] += named[1:]
    return counts


class _Shared:
    def __init__(self, task: TaskPolicy, rng: np.random.Generator) -> None:
        self._rng, self._epsilon = rng, Fraction(task.epsilon_fraction)
        self._layout = task.layout
        self._windows: list[Aggregate] = []

    def add(self, true_counts: NDArray[np.int64]) -> None:
        noised = true_counts + draw_noise(self._rng, true_counts.shape, self._epsilon)
        reports = int(true_counts.sum())
        window = aggregate_from_noised_histogram(noised, layout=self._layout, reports=reports, epsilon=self._epsilon)
        self._windows = [pool([*self._windows, window])]

    def aggregate(self) -> Aggregate:
        return self._windows[0]
