"""Computes the width of confidence sequences: intervals that hold however often they are read.

An asymptotic confidence sequence holds at all sample sizes at once: looking every day and stopping at will
does not raise its error above alpha. Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit
theory and asymptotic confidence sequences", arXiv 2103.06476, Theorem 2.2 (also eq. 9 of the preprint): for n
independent observations with estimated standard deviation s, the mean lies for all n within

    mean +- s sqrt( 2 (n rho^2 + 1) / (n^2 rho^2) * log( sqrt(n rho^2 + 1) / alpha ) )

With SE = s / sqrt(n) and m = n rho^2 this is SE times

    critical_value = sqrt( (1 + 1/m) (log(1 + m) + 2 log(1/alpha)) )

rho is free but must be fixed before the data are seen; `rho_squared` makes the interval nearly the tightest at a
planned n. The reports of devices are the observations: each carries its own noise, so that sampling and noise are
in s alike, and a ratio is a mean of influence functions up to a smaller order (section 3 there).
"""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.limits import MAX_REPORTS

_NORMAL: Final = NormalDist()
_PRECISION: Final = 1e-9  # of a critical value


def rho_squared(*, alpha: float, planned_reports: int) -> float:
    """Return rho^2 for which the interval at error `alpha` is nearly the tightest at `planned_reports`.

    Source: arXiv 2103.06476, appendix on optimizing rho: rho^2 = (-2 log alpha + log(-2 log alpha + 1)) / n.

    Raises:
        ArgumentError: alpha not in (0, 1), or planned_reports not in [1, 10**12].
    """
    _validate_alpha(alpha)
    if not 1 <= planned_reports <= MAX_REPORTS:
        raise ArgumentError("planned_reports", f"in [1, {MAX_REPORTS}]", planned_reports)
    exponent = -2.0 * math.log(alpha)
    return (exponent + math.log1p(exponent)) / planned_reports


def critical_value(*, reports: float, alpha: float, planned_reports: int) -> float:
    """Return how many standard errors the always-valid interval reaches to each side.

    Args:
        reports: reports so far; 0 gives infinity (nothing can be said).
        alpha: error over all analyses together, in (0, 1), two-sided.
        planned_reports: where the interval shall be tightest; chosen before the data are seen, and then kept.

    Raises:
        ArgumentError: alpha not in (0, 1), planned_reports not in [1, 10**12], or reports < 0.
    """
    if reports < 0:
        raise ArgumentError("reports", "at least 0", reports)
    m = reports * rho_squared(alpha=alpha, planned_reports=planned_reports)
    if m == 0.0:
        return math.inf
    return math.sqrt((1.0 + 1.0 / m) * (math.log1p(m) - 2.0 * math.log(alpha)))


def one_sided_critical_value(*, reports: float, alpha: float, planned_reports: int) -> float:
    """Return how many standard errors an always-valid bound lies from the estimate, on one side only.

        critical_value = sqrt( 2 (1 + 1/m) log(1 + sqrt(1 + m) / (2 alpha)) ),   m = reports * rho^2

    with rho^2 of the two-sided interval at 2 alpha. Source: Howard, Ramdas, McAuliffe and Sekhon, "Time-uniform,
    nonparametric, nonasymptotic confidence sequences", Annals of Statistics 2021 (arXiv 1810.08240), one-sided normal
    mixture, section 3.2; asymptotic as above (arXiv 2103.06476, appendix on one-sided sequences).

    Args:
        reports: reports so far; 0 gives infinity (nothing can be said).
        alpha: error of the one bound over all analyses together, in (0, 0.5).
        planned_reports: where the bound shall be tightest; chosen before the data are seen, and then kept.

    Raises:
        ArgumentError: alpha not in (0, 0.5), planned_reports not in [1, 10**12], or reports < 0.
    """
    if not 0.0 < alpha < 0.5:
        raise ArgumentError("alpha", "in (0, 0.5) for a bound on one side", alpha)
    if reports < 0:
        raise ArgumentError("reports", "at least 0", reports)
    m = reports * rho_squared(alpha=2.0 * alpha, planned_reports=planned_reports)
    if m == 0.0:
        return math.inf
    return math.sqrt(2.0 * (1.0 + 1.0 / m) * math.log1p(math.sqrt(1.0 + m) / (2.0 * alpha)))


def mixture_critical_value(*, reports: float, alpha: float, planned: Sequence[tuple[float, int]]) -> float:
    """Return how many standard errors a bound lies from the estimate that is sharp at several numbers of reports.

    The mean of test martingales is one. With m_i = reports * rho_i^2 and weights w_i the bound is the z at which

        sum w_i E(z, m_i) = 1 / alpha
        E(z, m) = 2 / sqrt(1 + m) exp( z^2 m / (2 (1 + m)) ) Phi( z sqrt(m / (1 + m)) )

    E is the one-sided normal mixture whose bound `one_sided_critical_value` states from above, as there.

    Args:
        reports: reports so far; 0 gives infinity (nothing can be said).
        alpha: error of the one bound over all analyses together, in (0, 0.5).
        planned: weights, of sum 1, and where the bound shall be sharp; chosen before the data are seen, and then kept.

    Raises:
        ArgumentError: alpha not in (0, 0.5), a number of planned reports not in [1, 10**12], weights that are not
            positive or not of sum 1, or reports < 0.
    """
    if not 0.0 < alpha < 0.5:
        raise ArgumentError("alpha", "in (0, 0.5) for a bound on one side", alpha)
    if reports < 0:
        raise ArgumentError("reports", "at least 0", reports)
    if not all(weight > 0.0 for weight, _ in planned) or not math.isclose(math.fsum(w for w, _ in planned), 1.0):
        raise ArgumentError("planned", "of positive weights, of sum 1", planned)
    parts = [(weight, reports * rho_squared(alpha=2.0 * alpha, planned_reports=at)) for weight, at in planned]
    if reports == 0:
        return math.inf

    def evidence(score: float) -> float:
        logs = [
            math.log(2.0 * weight)
            - 0.5 * math.log1p(m)
            + 0.5 * score * score * m / (1.0 + m)
            + math.log(_NORMAL.cdf(score * math.sqrt(m / (1.0 + m))))
            for weight, m in parts
        ]
        highest = max(logs)
        return highest + math.log(math.fsum(math.exp(each - highest) for each in logs))

    low, high = 0.0, 1.0
    while evidence(high) < -math.log(alpha):
        high *= 2.0
    while high - low > _PRECISION * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if evidence(middle) < -math.log(alpha) else (low, middle)
    return high


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile at `probability`, in (0, 1).

    Raises:
        ArgumentError: probability not in (0, 1).
    """
    if not 0.0 < probability < 1.0:
        raise ArgumentError("probability", "in (0, 1)", probability)
    return NormalDist().inv_cdf(probability)


def _validate_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 1.0:
        raise ArgumentError("alpha", "in (0, 1)", alpha)
