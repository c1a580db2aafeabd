"""Defines how a team's own metric is read from the bins of a histogram: as the mean of the values of its bins."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.limits import MAX_SIZE_VARIATION

__all__ = ["MUTE_ERRORS", "BinMetric", "find_mute"]

MUTE_ERRORS = 3.0
"""Standard errors of the noise within which the reports outside of one bin may be none at all."""


@dataclass(frozen=True)
class BinMetric:
    """A metric whose bins stand in the place of latency bins.

    Attributes:
        name: in sentences for people.
        bin_values: result that stands for each bin, finite, at least 0, rising strictly; two or more.
            Where the metric needs a record, the first is not read, and the others rise.
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
        is_rising = all(low < high for low, high in pairwise(values[int(self.needs_record) :]))
        if len(values) < 2 + self.needs_record or not (values[0] >= 0.0 and math.isfinite(values[-1]) and is_rising):
            raise ArgumentError("bin_values", "two or more, finite, at least 0 and rising strictly", values)

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest mean that there can be."""
        return self.bin_values[1 if self.needs_record else 0], self.bin_values[-1]

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


def find_mute(aggregates: Sequence[Aggregate], metric: BinMetric, arms: Sequence[int]) -> str:
    """Return what is wrong where all reports are in one bin, as far as noise lets see; "" where they are not.

    Where noise hides the size of an arm, nothing can be said of its bins.

    Args:
        aggregates: the reports, of each stage.
        metric: of their bins.
        arms: that are compared.
    """
    shape = aggregates[-1].estimates.shape
    for arm in arms:
        size, noise = _sum(aggregates, (np.arange(shape[0]) == arm)[:, None, None] * np.ones(shape))
        if size < 1.0 or noise > MAX_SIZE_VARIATION * size:
            return ""
    for place, value in enumerate(metric.bin_values):
        outside = np.zeros(shape)
        outside[list(arms)] = np.arange(shape[2]) != place
        size, noise = _sum(aggregates, outside)
        if size > MUTE_ERRORS * noise and size > 0.0:
            continue
        if place == 0:
            return "nothing says that it was recorded; is it recorded under this name?"
        return f"all reports are in the bin of {value:g}, so that no difference can be seen"
    return ""


def _sum(aggregates: Sequence[Aggregate], weights: FloatArray) -> tuple[float, float]:
    """Return a sum of cells over all aggregates, and the standard error of the noise in it."""
    flat = weights.ravel()
    size = math.fsum(float(flat @ each.estimates.ravel()) for each in aggregates)
    variance = math.fsum(max(float(flat @ each.noise_covariance @ flat), 0.0) for each in aggregates)
    return size, math.sqrt(variance)
