"""Models the noise that two aggregators add, and makes the `Aggregate` of a histogram with it.

Each aggregator of a Prio3 histogram adds to every cell of its share an independent discrete Laplace variable,
P(X = x) = (1 - a) / (1 + a) a^|x| with a = exp(-epsilon / sensitivity): both add the full noise, so that the promise
holds when one of them is dishonest. Replacing one device's one-hot report changes two cells by one: sensitivity 2.
The variance of one variable is 2 a / (1 - a)^2; the noises of aggregators, cells and windows are independent, and add.

Sources: Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms", STOC 2009 (the
geometric mechanism); Canonne, Kamath and Steinke, "The discrete Gaussian", NeurIPS 2020, section 5 (its variance); the
research note on two aggregators: a standard deviation of 3.96 per cell at epsilon 1.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray
from alcove.platform.stats.errors import ArgumentError
from alcove.privacy.errors import ParameterError
from alcove.privacy.limits import MAX_EPSILON, MIN_EPSILON
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy.layout import HistogramLayout
from numpy.typing import NDArray

SENSITIVITY = 2
"""Largest L1 change of a one-hot histogram when one device's report is replaced by another, in counts."""

AGGREGATORS = 2
"""How many add their noise."""


@dataclass(frozen=True)
class IdleReports:
    """The devices that reported that they have nothing to report, in a cell beside those of the histogram.

    Attributes:
        count: noised count of that cell.
        released: all reports that were summed, theirs among them; known exactly.
    """

    count: int
    released: int


def cell_variance(epsilon: Fraction, *, sensitivity: int = SENSITIVITY, aggregators: int = AGGREGATORS) -> float:
    """Return the variance of the noise in one cell of one window, in reports squared.

    Args:
        epsilon: privacy loss of one window's histogram against everybody but one of the aggregators; bounds in
            privacy/limits.py.
        sensitivity: largest L1 change one device can cause, in counts, >= 1.
        aggregators: how many add noise, >= 1.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """
    ratio = _ratio(epsilon, sensitivity, aggregators)
    return aggregators * 2.0 * ratio / (1.0 - ratio) ** 2


def aggregate_from_noised_histogram(
    counts: NDArray[np.int64] | FloatArray,
    *,
    reports: int,
    epsilon: Fraction,
    windows: int = 1,
    layout: HistogramLayout | None = None,
    local_epsilon: Fraction | None = None,
    idle: IdleReports | None = None,
    is_attested: bool = False,
    sensitivity: int = SENSITIVITY,
    aggregators: int = AGGREGATORS,
) -> Aggregate:
    """Return the aggregate of one window, or of several: what the aggregators' shares add up to, each with its noise.

    Windows are added by `pool`, noise and all, or as counts before: both give the same.

    Args:
        counts: noised counts, may be negative: one for each cell of `layout`, or [arms, outcomes, bins]; bins of
            latency times those of the earlier share where reports tell it (`pre_period.py`).
        reports: how many reports the counts are of: those that were summed (published with the batch), without an
            estimate of the idle ones.
        epsilon: as in `cell_variance`.
        windows: that are summed in the counts, each with noise of its own; >= 0.
        layout: the cells that can occur; the others of the aggregate are zero and hold no noise.  None: all can.
        local_epsilon: privacy loss of the randomized response by which devices chose their cells, the idle one among
            them; None: they told their own.
        idle: the reports of devices without anything to report; None: there is no cell for them.
        is_attested: as in `Aggregate`.
        sensitivity: as in `cell_variance`.
        aggregators: as in `cell_variance`.

    Raises:
        ArgumentError: an argument is out of its bounds.
        AggregateError: the counts are malformed.
    """
    if windows < 0:
        raise ArgumentError("windows", "at least 0", windows)
    variance = windows * cell_variance(epsilon, sensitivity=sensitivity, aggregators=aggregators)
    values = np.asarray(counts, dtype=np.float64)
    if layout is not None and values.shape != (layout.cell_count,):
        raise ArgumentError("counts", f"one for each of {layout.cell_count} cells", f"of shape {values.shape}")
    noise = np.eye(values.size) * variance
    if local_epsilon is not None:
        values, noise = _correct(values, noise, local_epsilon, reports if idle is None else idle.released, idle)
    if layout is None:
        return Aggregate(values, noise, reports, is_attested)
    full = layout.expand(values).reshape(*layout.shape[:2], -1)
    return Aggregate(full, layout.expand_covariance(noise), reports, is_attested)


def _correct(
    values: FloatArray, noise: FloatArray, local_epsilon: Fraction, randomized: int, idle: IdleReports | None
) -> tuple[FloatArray, FloatArray]:
    """Return the counts before devices randomized their cells, and the noise in them; `randomized` reports in all."""
    beside = [] if idle is None else [float(idle.count)]
    try:
        mechanism = RandomizedResponse(values.size + len(beside), local_epsilon)
    except ParameterError as error:
        raise ArgumentError("local_epsilon", error.bound, error.value) from error
    other = float(mechanism.other_probability)
    gap = float(mechanism.keep_probability) - other
    named = np.maximum(np.append(values.ravel(), beside), 0.0)  # the noised counts stand in for the counts
    randomization = mechanism.covariance(named)[: values.size, : values.size]
    return (values - randomized * other) / gap, randomization + noise / gap**2


def draw_noise(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    epsilon: Fraction,
    *,
    sensitivity: int = SENSITIVITY,
    aggregators: int = AGGREGATORS,
) -> NDArray[np.int64]:
    """Return the summed noise of the aggregators for simulations; never for real devices (privacy/noise.py draws that).

    A discrete Laplace variable is the difference of two geometric ones.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """
    stop = 1.0 - _ratio(epsilon, sensitivity, aggregators)
    drawn = rng.geometric(stop, (2, aggregators, *shape))
    noise: NDArray[np.int64] = (drawn[0] - drawn[1]).sum(axis=0)
    return noise


def _ratio(epsilon: Fraction, sensitivity: int, aggregators: int) -> float:
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise ArgumentError("epsilon", f"in [{MIN_EPSILON}, {MAX_EPSILON}]", epsilon)
    if sensitivity < 1:
        raise ArgumentError("sensitivity", "at least 1", sensitivity)
    if aggregators < 1:
        raise ArgumentError("aggregators", "at least 1", aggregators)
    return math.exp(-float(epsilon) / sensitivity)
