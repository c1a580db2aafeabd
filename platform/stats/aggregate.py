"""Defines `Aggregate`, the estimated counts that every comparison reads, wherever they came from.

An `Aggregate` is a histogram of estimated counts and the covariance of the *privacy noise* in it. Two sources of
uncertainty meet in every interval, and each is counted once:

    Cov(estimates) = E[ Cov(estimates | true cells) ]  +  Cov( true cells )
                     the noise the mechanism added         which devices happened to report, and what they met

`noise_covariance` is the first term alone: what would still vary if the same devices reported the same cells
again through the same mechanism. The second term, the multinomial sampling of the devices, is added by the inference
(`_ratio.py`) from the estimates; a source that already put it into its covariance would have it counted twice.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from alcove.platform.stats.errors import AggregateError
from alcove.platform.stats.limits import COVARIANCE_TOLERANCE, MAX_CELLS, MAX_MAGNITUDE, MAX_REPORTS
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IndexArray: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Aggregate:
    """Unbiased counts per arm, outcome and bin, with the covariance of the privacy noise in them.

    Both arrays are copied and made read-only.

    Analyses over time: the reports of a later analysis must contain those of the earlier one, each report with its own
    noise drawn once (randomized response), or each window noised once and windows summed by `pool`. Then the
    estimates have independent increments, which is what makes the intervals valid at every analysis. A total that is
    noised afresh at each analysis does not have that property.

    Attributes:
        estimates: float64 [arms, outcomes, bins], in reports; unbiased, so single cells may be negative.
        noise_covariance: float64 [cells, cells] over the estimates flattened in C order, in reports squared: the
            covariance of the estimates *given the true cells* (see the module's docstring); all zero for exact
            counts.
        reports: how many reports were read, known exactly; in [0, 10**12].
        is_attested: each report came from an enrolled device that can add one count and no more; False: anybody can
            have sent any number of them.

    Raises:
        AggregateError: a shape, a non-finite or too large entry, an asymmetric or indefinite covariance, a negative
            variance, or a number of reports out of bounds.
    """

    estimates: FloatArray
    noise_covariance: FloatArray
    reports: int
    is_attested: bool = False

    def __post_init__(self) -> None:
        if type(self.reports) is not int or not 0 <= self.reports <= MAX_REPORTS:  # bool is no count
            raise AggregateError("reports", f"an integer in [0, {MAX_REPORTS}]", repr(self.reports))
        estimates = _float_array("estimates", self.estimates)
        if estimates.ndim != 3 or min(estimates.shape) < 1 or estimates.shape[1] < 2:
            raise AggregateError(
                "estimates", "of shape [arms >= 1, outcomes >= 2, bins >= 1]", f"of shape {estimates.shape}"
            )
        if estimates.size > MAX_CELLS:
            raise AggregateError("estimates", f"at most {MAX_CELLS} cells", f"{estimates.size} cells")
        covariance = _float_array("noise_covariance", self.noise_covariance)
        if covariance.shape != (estimates.size, estimates.size):
            raise AggregateError(
                "noise_covariance", f"of shape {(estimates.size, estimates.size)}", f"of shape {covariance.shape}"
            )
        _validate_covariance(covariance)
        covariance = (
            covariance + covariance.T
        ) / 2.0  # exactly symmetric, so that the order of the arms changes no bit
        for array in (estimates, covariance):
            array.setflags(write=False)
        object.__setattr__(self, "estimates", estimates)
        object.__setattr__(self, "noise_covariance", covariance)

    @property
    def arms(self) -> int:
        """Number of arms."""
        return int(self.estimates.shape[0])

    @property
    def outcomes(self) -> int:
        """Number of outcomes."""
        return int(self.estimates.shape[1])

    @property
    def bins(self) -> int:
        """Number of bins."""
        return int(self.estimates.shape[2])


def pool(aggregates: Sequence[Aggregate]) -> Aggregate:
    """Return the sum of independent aggregates of one shape, such as the windows of an experiment.

    The noises of different windows are independent, so their covariances add.

    Raises:
        AggregateError: no aggregate was given, shapes differ, or the sum exceeds the bounds of an `Aggregate`.
    """
    if not aggregates:
        raise AggregateError("aggregates", "at least one", "none")
    shapes = {aggregate.estimates.shape for aggregate in aggregates}
    if len(shapes) > 1:
        raise AggregateError("aggregates", "of one shape", f"of shapes {sorted(shapes)}")
    return Aggregate(
        estimates=np.sum([aggregate.estimates for aggregate in aggregates], axis=0),
        noise_covariance=np.sum([aggregate.noise_covariance for aggregate in aggregates], axis=0),
        reports=sum(aggregate.reports for aggregate in aggregates),
        is_attested=all(aggregate.is_attested for aggregate in aggregates),
    )


def regroup(aggregate: Aggregate, targets: IndexArray, shape: tuple[int, int, int]) -> Aggregate:
    """Return the aggregate of other cells, each a sum of cells of this one: A' = M A, V' = M V M^T.

    Args:
        aggregate: the counts.
        targets: for each cell, flattened in C order, the cell of the new aggregate that it is added to; [cells].
        shape: of the new aggregate, [arms, outcomes, bins].

    Raises:
        AggregateError: a target is missing or not in the new aggregate, or its shape is none of an `Aggregate`.
    """
    size = math.prod(shape)
    if targets.shape != (aggregate.estimates.size,) or targets.min() < 0 or targets.max() >= size:
        raise AggregateError("targets", f"{aggregate.estimates.size} cells in [0, {size})", f"of {targets.shape}")
    matrix = np.zeros((size, aggregate.estimates.size))
    matrix[targets, np.arange(len(targets))] = 1.0
    return Aggregate(
        estimates=(matrix @ aggregate.estimates.ravel()).reshape(shape),
        noise_covariance=matrix @ aggregate.noise_covariance @ matrix.T,
        reports=aggregate.reports,
        is_attested=aggregate.is_attested,
    )


def select_bins(aggregate: Aggregate, bins: Sequence[int]) -> Aggregate:
    """Return the aggregate of some bins alone; its reports are the whole number nearest to what they hold.

    Raises:
        AggregateError: a bin is not in the aggregate.
    """
    if not bins or min(bins) < 0 or max(bins) >= aggregate.bins:
        raise AggregateError("bins", f"some in [0, {aggregate.bins})", str(list(bins)))
    places = np.arange(aggregate.estimates.size).reshape(aggregate.estimates.shape)[:, :, list(bins)]
    estimates = aggregate.estimates[:, :, list(bins)]
    return Aggregate(
        estimates=estimates,
        noise_covariance=aggregate.noise_covariance[np.ix_(places.ravel(), places.ravel())],
        reports=min(max(round(math.fsum(estimates.ravel().tolist())), 0), aggregate.reports),
        is_attested=aggregate.is_attested,
    )


def _float_array(name: str, values: object) -> FloatArray:
    """Return an owned float64 copy of `values`, or raise for anything that is not a finite array of numbers."""
    try:
        raw = np.asarray(values)
    except ValueError as error:
        raise AggregateError(name, "an array of numbers", "ragged") from error
    if raw.dtype.kind not in "iuf":
        raise AggregateError(name, "an array of numbers", f"of type {raw.dtype}")
    array = np.array(raw, dtype=np.float64, order="C")
    if not np.isfinite(array).all():
        raise AggregateError(name, "finite", "NaN or infinite in places")
    if array.size and np.abs(array).max() > MAX_MAGNITUDE:
        raise AggregateError(name, f"at most {MAX_MAGNITUDE:g} in magnitude", f"{np.abs(array).max():g}")
    return array


def _validate_covariance(covariance: FloatArray) -> None:
    """Raise `AggregateError` unless `covariance` is symmetric and positive semidefinite up to rounding."""
    scale = float(np.abs(covariance).max())
    if scale == 0.0:
        return
    asymmetry = float(np.abs(covariance - covariance.T).max()) / scale
    if asymmetry > COVARIANCE_TOLERANCE:
        raise AggregateError("noise_covariance", "symmetric", f"asymmetric by {asymmetry:.3g} of its largest entry")
    smallest = float(np.linalg.eigvalsh(covariance / scale)[0])
    if smallest < -COVARIANCE_TOLERANCE * covariance.shape[0]:
        raise AggregateError(
            "noise_covariance", "positive semidefinite", f"with an eigenvalue of {smallest:.3g} of its largest entry"
        )
