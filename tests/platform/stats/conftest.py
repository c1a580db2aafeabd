"""What the statistics' tests share: a made-up fleet whose truth is known."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import Aggregate
from alcove.privacy.randomized_response import RandomizedResponse
from numpy.typing import NDArray

VALUES_MS = (1.0, 2.0, 4.0, 8.0)
"""Bin values; a fleet with fewer bins uses the first of them."""


@dataclass(frozen=True, eq=False)
class Fleet:
    """Devices that meet known accuracies and latencies and answer by randomized response, or exactly.

    Attributes:
        accuracies: per arm.
        latencies: per bin, equal in all arms.
        epsilon: None for exact counts.
        shares: per arm; equal if empty.
    """

    accuracies: tuple[float, ...]
    latencies: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    epsilon: Fraction | None = Fraction(2)
    shares: tuple[float, ...] = ()
    mechanism: RandomizedResponse | None = field(init=False)

    def __post_init__(self) -> None:
        cells = len(self.accuracies) * 2 * len(self.latencies)
        object.__setattr__(self, "mechanism", self.epsilon and RandomizedResponse(cells, self.epsilon))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Arms, outcomes, bins."""
        return len(self.accuracies), 2, len(self.latencies)

    @property
    def bin_values_ms(self) -> tuple[float, ...]:
        """Values of the bins used."""
        return VALUES_MS[: len(self.latencies)]

    def cell_probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the true cells, [cells]."""
        shares = self.shares or (1.0 / len(self.accuracies),) * len(self.accuracies)
        arms = [
            share * np.outer([1.0 - accuracy, accuracy], self.latencies).ravel()
            for share, accuracy in zip(shares, self.accuracies, strict=True)
        ]
        return np.concatenate(arms)

    def response_probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the reported cells, [cells]."""
        cells = self.cell_probabilities()
        if self.mechanism is None:
            return cells
        other = float(self.mechanism.other_probability)
        return other + (float(self.mechanism.keep_probability) - other) * cells

    def randomize(self, rng: np.random.Generator, reports: int, size: int) -> NDArray[np.int64]:
        """Return reported counts of `size` fleets, [size, cells]."""
        return rng.multinomial(reports, self.response_probabilities(), size=size)

    def aggregate(self, counts: NDArray[np.int64]) -> Aggregate:
        """Return the aggregate of reported counts, [cells]."""
        if self.mechanism is None:
            return exact(counts.reshape(self.shape))
        return Aggregate(
            self.mechanism.estimate(counts).reshape(self.shape), self.mechanism.covariance(counts), int(counts.sum())
        )


def exact(counts: NDArray[np.int64]) -> Aggregate:
    """Return an aggregate without noise from counts [arms, outcomes, bins]."""
    return Aggregate(counts.astype(np.float64), np.zeros((counts.size, counts.size)), int(counts.sum()))


def without_noise(aggregate: Aggregate) -> Aggregate:
    """Return the same estimates as if they were exact: the wrong reading that our tests must catch."""
    return Aggregate(aggregate.estimates, np.zeros_like(aggregate.noise_covariance), aggregate.reports)


@pytest.fixture(name="fleet")
def fleet_factory() -> type[Fleet]:
    """Maker of fleets."""
    return Fleet


@pytest.fixture(name="exact")
def exact_factory() -> Callable[[NDArray[np.int64]], Aggregate]:
    """Maker of aggregates without noise."""
    return exact


@pytest.fixture(name="without_noise")
def without_noise_reader() -> Callable[[Aggregate], Aggregate]:
    """The naive reading."""
    return without_noise
