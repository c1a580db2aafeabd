"""Simulates what the server learns of each window's true cells: sums with the noise of one of two mechanisms.

Both draw the noise of sums, not of devices, from exactly the distribution that the devices' or aggregators' own noise
adds up to: of n devices with one cell, the number that tell it is binomial, and the others spread evenly over the rest.
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
from alcove.privacy.randomized_response import RandomizedResponse
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


def aggregation_mechanism(mechanism: Mechanism, task: TaskPolicy, rng: np.random.Generator) -> AggregationMechanism:
    """Return an empty record of a task."""
    return (_Randomized if mechanism is Mechanism.RANDOMIZED_RESPONSE else _Shared)(task, rng)


class _Randomized:
    def __init__(self, task: TaskPolicy, rng: np.random.Generator) -> None:
        self._task, self._rng = task, rng
        self._keep = float(RandomizedResponse(task.cell_count, task.epsilon_fraction).keep_probability)
        self._counts = np.zeros(task.cell_count, np.int64)

    def add(self, true_counts: NDArray[np.int64]) -> None:
        cells = len(true_counts)
        others = np.full(cells - 1, 1 / (cells - 1))
        for cell, devices in enumerate(true_counts.tolist()):
            kept = int(self._rng.binomial(devices, self._keep))
            self._counts[cell] += kept
            self._counts[np.arange(cells) != cell] += self._rng.multinomial(devices - kept, others)

    def aggregate(self) -> Aggregate:
        task = self._task
        return aggregate_from_randomized_response(self._counts.tolist(), task.layout, epsilon=task.epsilon_fraction)


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
