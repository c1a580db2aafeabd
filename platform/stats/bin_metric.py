"""Defines how a team's own metric is read from the bins of a histogram: as the mean of the values of its bins."""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError

__all__ = ["BinMetric"]


@dataclass(frozen=True)
class BinMetric:
    """A metric whose bins stand in the place of latency bins.

    Attributes:
        name: in sentences for people.
        bin_values: result that stands for each bin, finite, at least 0, rising strictly; two or more.
        is_more_better: whether the higher mean is better.
        needs_record: devices of bin 0, which recorded nothing, have no result.

    Raises:
        ArgumentError: the values are none of these.
    """

    name: str
    bin_values: tuple[float, ...]
    is_more_better: bool = False
    needs_record: bool = False

    def __post_init__(self) -> None:
        values = self.bin_values
        is_rising = all(low < high for low, high in pairwise(values))
        if len(values) < 2 or not (values[0] >= 0.0 and math.isfinite(values[-1]) and is_rising):
            raise ArgumentError("bin_values", "two or more, finite, at least 0 and rising strictly", values)

    def weights(self, aggregate: Aggregate) -> tuple[FloatArray, FloatArray]:
        """Return each cell's weight in the numerator and in the denominator of the mean, [outcomes, bins].

        Raises:
            ArgumentError: the aggregate has other bins.
        """
        if aggregate.bins != len(self.bin_values):
            raise ArgumentError("bin_values", f"one for each of {aggregate.bins} bins", self.bin_values)
        base = np.ones((aggregate.outcomes, aggregate.bins))
        if self.needs_record:
            base[:, 0] = 0.0
        return base * np.array(self.bin_values), base
