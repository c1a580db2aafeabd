"""Models how uncertain the arms' ratios will be, from what devices are expected to report and how it is made private.

With N devices in all arms, a metric R = sum w n / sum b n per arm (`metric_model.py`) has residuals rho_c = N r_c that
don't depend on N, so that the covariance of the arms' ratios falls apart into three matrices, [arms, arms]:

    Cov = S / devices  +  A / (devices * windows)  +  L / (devices^2 * windows)

    S   sampling: Var(w - R b) / (share of the arm), in the diagonal; not divided by the windows, the worst case in
        which a device answers the same in each
    A   randomized response: each report brings its own noise; for residuals a and b of two arms
        sum_j pi_j (E_j[a b] - E_j[a] E_j[b]) / (p - q)^2, where E_j is over the reports of cell j: a is the sum of the
        residuals of the cells that a report names (`randomized_response.py`, `privacy/subset_selection.py`); arms share
        a report's cells, so that their noise is correlated a little
    L   aggregators: each window brings the noise of its cells; variance of a cell times sum rho_c^2, in the diagonal;
        where devices also randomize, A comes to it and L is divided by (p - q)^2; the cell of devices that have nothing
        to tell is then one of A's, with rho = 0; with a dimension each value has sums of its own, and L is multiplied
        by their number

Sources: the delta method as in `_ratio.py`; variances as cited.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.aggregator_noise import cell_variance
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.mechanism import Mechanism
from alcove.platform.stats.metric_model import MetricModel
from alcove.privacy.errors import ParameterError
from alcove.privacy.subset_selection import SubsetSelection


@dataclass(frozen=True)
class ReportModel:
    """How reports become sums.

    Attributes:
        mechanism: how they are made private.
        epsilon: privacy loss of one report (randomized response) or one window (aggregators); ignored for EXACT.
        local_epsilon: privacy loss of one report against both aggregators together, where devices also randomize;
            None: they do not.
        subset_size: cells that a randomized report names; 1 with aggregators.
        idle: devices that have nothing to tell, for each one that has; where devices randomize for aggregators, they
            name a cell too, and their own may be named by others. Else they bring no noise.
        sums: noised sums of a window: with aggregators one for each value of a dimension, which are added up.
    """

    mechanism: Mechanism
    epsilon: Fraction
    local_epsilon: Fraction | None = None
    subset_size: int = 1
    idle: float = 0.0
    sums: int = 1


@dataclass(frozen=True, eq=False)
class ArmCovariance:
    """The three parts of the covariance of something that each arm has; see the module's docstring.

    Attributes:
        sampling: float64 [arms, arms], S.
        per_report: float64 [arms, arms], A.
        per_window: float64 [arms, arms], L.
    """

    sampling: FloatArray
    per_report: FloatArray
    per_window: FloatArray

    def noise(self, devices: float, windows: float) -> FloatArray:
        """Return the part of privacy noise, [arms, arms], with `devices` devices in all arms together."""
        return self.per_report / (devices * windows) + self.per_window / (devices * devices * windows)

    def total(self, devices: float, windows: float) -> FloatArray:
        """Return the covariance, [arms, arms], with `devices` devices in all arms together."""
        return self.sampling / devices + self.noise(devices, windows)


def ratio_covariance(models: Sequence[MetricModel], shares: Sequence[float], reports: ReportModel) -> ArmCovariance:
    """Return the covariance of the arms' ratios.

    Args:
        models: of each arm, of the same cells.
        shares: part of the reports in each arm, > 0, summing to 1.
        reports: how they are made private.

    Raises:
        ArgumentError: epsilon is out of its bounds for so many cells.
    """
    spreads = [
        (model.weights - model.rate * model.base) / float((model.probabilities * model.base).sum()) for model in models
    ]
    own = [float((model.probabilities * spread**2).sum()) for model, spread in zip(models, spreads, strict=True)]
    noise = _noise(models, shares, spreads, reports)
    return ArmCovariance(np.diag(np.asarray(own) / np.asarray(shares)), *noise)


def size_covariance(models: Sequence[MetricModel], shares: Sequence[float], reports: ReportModel) -> ArmCovariance:
    """Return the covariance of the sizes of the ratios' denominators, each relative to itself; without sampling.

    Raises:
        ArgumentError: as `ratio_covariance`.
    """
    sizes = [model.base / float((model.probabilities * model.base).sum()) for model in models]
    arms = len(models)
    return ArmCovariance(np.zeros((arms, arms)), *_noise(models, shares, sizes, reports))


def _noise(
    models: Sequence[MetricModel], shares: Sequence[float], residuals: Sequence[FloatArray], reports: ReportModel
) -> tuple[FloatArray, FloatArray]:
    """Return A and L of the module's docstring for residuals of each arm, which are divided by its share here."""
    arms, cells = len(models), models[0].probabilities.size
    rho = np.zeros((arms, arms, cells))
    for arm, (residual, share) in enumerate(zip(residuals, shares, strict=True)):
        rho[arm, arm] = residual.ravel() / share
    flat = rho.reshape(arms, -1)
    probabilities = np.concatenate(
        [share * model.probabilities.ravel() for share, model in zip(shares, models, strict=True)]
    )
    return residual_noise(probabilities, flat, reports)


def residual_noise(
    probabilities: FloatArray, residuals: FloatArray, reports: ReportModel
) -> tuple[FloatArray, FloatArray]:
    """Return A and L of the module's docstring for sums of any residuals, [rows, rows] each.

    Args:
        probabilities: of the cells of all arms, of sum 1.
        residuals: of each sum over these cells, [rows, cells].
        reports: how they are made private.

    Raises:
        ArgumentError: epsilon is out of its bounds for so many cells.
    """
    rows = len(residuals)
    per_report = per_window = np.zeros((rows, rows))
    if reports.mechanism is Mechanism.RANDOMIZED_RESPONSE:
        per_report, _ = _response_noise(probabilities, residuals, reports.epsilon, reports.subset_size)
    elif reports.mechanism is Mechanism.PRIO3:
        gap = 1.0
        if reports.local_epsilon is not None:
            every, beside = np.append(probabilities, reports.idle), np.zeros((rows, 1))
            per_report, gap = _response_noise(every, np.hstack([residuals, beside]), reports.local_epsilon)
        per_window = reports.sums * cell_variance(reports.epsilon) * (residuals @ residuals.T) / gap**2
    return per_report, per_window


def _response_noise(
    cells: FloatArray, rho: FloatArray, epsilon: Fraction, subset_size: int = 1
) -> tuple[FloatArray, float]:
    """Return A of the module's docstring for rho, [arms, cells], and p - q; `cells`: devices in each."""
    chances = _answer_chances(cells.size, epsilon, subset_size)
    rest = rho.sum(axis=1, keepdims=True) - rho
    own, crossed, others = (rho * cells) @ rho.T, (rho * cells) @ rest.T, (rest * cells) @ rest.T
    squares = (chances.keep - chances.other + chances.pairs) * own
    squares += (chances.other - chances.pairs) * cells.sum() * (rho @ rho.T)
    squares += chances.with_true * (crossed + crossed.T) + chances.pairs * others
    means = chances.keep * rho + chances.other * rest
    gap = chances.keep - chances.other
    return (squares - (means * cells) @ means.T) / gap**2, gap


class _Chances(NamedTuple):
    """Chances that a report names its true cell, another one, the true one and another, and two others."""

    keep: float
    other: float
    with_true: float
    pairs: float


@lru_cache(maxsize=256)
def _answer_chances(cells: int, epsilon: Fraction, subset_size: int) -> _Chances:
    try:
        mechanism = SubsetSelection(cells, epsilon, subset_size)
    except ParameterError as error:
        raise ArgumentError(error.name, error.bound, error.value) from error
    found = (mechanism.keep_probability, mechanism.other_probability, *mechanism.pair_probabilities)
    return _Chances(*map(float, found))
