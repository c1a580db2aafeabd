"""Computes group-sequential boundaries: how far a difference must reach at each of a few interim analyses.

Reading at will has its price (`confidence_sequence.py`). A plan of K analyses, when the reports first reach k / K of
a horizon, pays much less: each analysis may spend a part of alpha, by how much of the information is in (Lan and
DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 1983). The spending is theirs of O'Brien and
Fleming's
type: nearly nothing at first, nearly all at the end, so that the last analysis is little stricter than a single one.
Each of the two sides has a = alpha / 2 of its own, as tables of two-sided boundaries have it, so that both together
spend

    alpha(t) = 2 (2 - 2 Phi( z_{1-a/2} / sqrt(t) )),    t = information / horizon, at most 1

The scores Z_k = difference / standard error are those of a Brownian motion at times I_k: S_k = Z_k sqrt(I_k) has
independent increments of variance I_k - I_{k-1}. With g_k the density of S_k where no analysis has called yet,

    g_k(s) = integral of g_{k-1}(u) phi((s - u) / d) / d  over |u| < c_{k-1} sqrt(I_{k-1}),     d^2 = I_k - I_{k-1}

and c_k is where the part of g_k beyond +- c_k sqrt(I_k) is what the analysis spends. Recursive integration: Armitage,
McPherson and Rowe, JRSS A 1969; Jennison and Turnbull, Group Sequential Methods, 2000, chapter 19; here by Simpson's
rule. Intervals of c_k standard errors are Jennison and Turnbull's repeated confidence intervals (chapter 9), and the
smallest alpha at which an analysis would call is a p-value that holds at all analyses together.

Information is counted in reports. Under randomized response each report brings its own noise, so the variance of a
difference falls as 1 / reports, noise included. Where devices report in several windows the true information grows
more slowly than reports do; the scores are then more alike than assumed, which makes the boundaries wider than need be.
The boundaries depend on when analyses were made, never on what they showed; when is up to the number of reports alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

from alcove.platform.stats._crossing import FARTHEST, Uncalled
from alcove.platform.stats.errors import ArgumentError

P_HIGHEST = 0.2
"""P-values above it are reported as 1: nothing is decided there, and boundaries no longer fall with large alphas."""

P_LOWEST = 1e-12
"""P-values below it are reported as this one."""

LEAST_INCREMENT = 1e-4
"""Of the horizon between two analyses; nearer ones are one analysis, and integrals would need ever finer grids."""

_NOTHING = 1e-14  # spending below rounding: no boundary, and the next analysis has it
_P_PRECISION = 1e-4  # of the logarithm


def spend_error(fraction: float, alpha: float) -> float:
    """Return how much of `alpha` may be spent when `fraction` of the information is in; all of it from 1 on.

    Raises:
        ArgumentError: alpha not in (0, 1), or a fraction that is not positive.
    """
    if not 0.0 < alpha < 1.0:
        raise ArgumentError("alpha", "in (0, 1)", alpha)
    if not (fraction > 0.0 and math.isfinite(fraction)):
        raise ArgumentError("fraction", "positive and finite", fraction)
    return 2.0 * math.erfc(-NormalDist().inv_cdf(alpha / 4.0) / math.sqrt(2.0 * min(fraction, 1.0)))


def boundaries(information: tuple[float, ...], alpha: float) -> tuple[float, ...]:
    """Return how many standard errors from zero each analysis calls a difference, two-sided; infinite: it cannot.

    Args:
        information: at each analysis, in parts of the horizon, rising; above 1 it still counts, but spends no more.
        alpha: error of all analyses together, in (0, 1).

    Raises:
        ArgumentError: an argument is out of its bounds, or two analyses are nearer than `LEAST_INCREMENT`.
    """
    _validate_information(information)
    return spending_boundaries(information, tuple(spend_error(reached, alpha) for reached in information))


@lru_cache(maxsize=4096)
def spending_boundaries(information: tuple[float, ...], spending: tuple[float, ...]) -> tuple[float, ...]:
    """Return the boundaries that have spent `spending`, in (0, 1) never falling, by each analysis; as `boundaries`."""
    state, used, found = Uncalled.start(), 0.0, list[float]()
    for place, reached in enumerate(information):
        share = spending[place] - used
        if share < _NOTHING:
            bound = math.inf
        else:
            bound, used = state.boundary(reached, share / 2.0), used + share
        found.append(bound)
        if place + 1 < len(information):
            state = state.after(reached, bound, following=information[place + 1])
    return tuple(found)


def repeated_p(score: float, information: Sequence[float]) -> float:
    """Return the two-sided p-value of `score` at the last of the analyses, valid whichever analysis is the last.

    It is the smallest alpha whose boundary the score reaches, reported too high by at most `_P_PRECISION` of itself;
    never below `P_LOWEST`, and 1 above `P_HIGHEST`.

    Raises:
        ArgumentError: as `boundaries`, or a score that is no number.
    """
    if math.isnan(score):
        raise ArgumentError("score", "a number", score)
    analyses = tuple(information)

    def is_called(log_alpha: float) -> bool:
        bound = boundaries(analyses, math.exp(log_alpha))[-1]
        return math.isfinite(bound) and bound <= abs(score)

    low, high = math.log(P_LOWEST), math.log(P_HIGHEST)
    if not is_called(high):
        return 1.0
    if is_called(low):
        return P_LOWEST
    while high - low > _P_PRECISION:
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_called(middle) else (middle, high)
    return math.exp(high)


@lru_cache(maxsize=256)
def drift(analyses: int, *, alpha: float, power: float) -> float:
    """Return the expected score at the horizon of an effect that equally spaced analyses find with probability `power`.

    The effect is found when it is called with its own sign at any analysis. One analysis needs z_{1-alpha/2} + z_power.

    Raises:
        ArgumentError: analyses below 1, alpha not in (0, 1), or power not in [0.5, 1).
    """
    if analyses < 1:
        raise ArgumentError("analyses", "at least 1", analyses)
    if not 0.5 <= power < 1.0:
        raise ArgumentError("power", "in [0.5, 1)", power)
    information = tuple((analysis + 1) / analyses for analysis in range(analyses))
    bounds = boundaries(information, alpha)
    low, high = 0.0, bounds[-1] + FARTHEST
    while high - low > 1e-6:
        middle = (low + high) / 2.0
        low, high = (middle, high) if _power(middle, information, bounds) < power else (low, middle)
    return high


@dataclass(frozen=True)
class GroupSequential:
    """A test that holds at planned analyses, here at the last of `reports`.

    Attributes:
        reports: at each analysis so far, this one last; >= 1, rising.
        horizon: reports at which all of alpha is spent, >= 1; fixed before the first analysis.

    Raises:
        ArgumentError: an attribute is out of its bounds.
    """

    reports: tuple[int, ...]
    horizon: int

    def __post_init__(self) -> None:
        if self.horizon < 1:
            raise ArgumentError("horizon", "at least 1", self.horizon)
        _validate_information(self.information)

    @property
    def information(self) -> tuple[float, ...]:
        """Of each analysis so far, in parts of the horizon."""
        return tuple(reports / self.horizon for reports in self.reports)

    @property
    def fraction(self) -> float:
        """Part of the information that is in, at most 1."""
        return min(1.0, self.information[-1])

    @property
    def planned_reports(self) -> int:
        """Reports at which always-valid intervals beside the test's own are tightest."""
        return self.horizon

    def critical_value(self, *, reports: int, alpha: float) -> float:
        """Return how many standard errors the interval of this analysis reaches, at `alpha` over all of them.

        Raises:
            ArgumentError: alpha not in (0, 1), or another number of reports than this analysis has.
        """
        self._validate_reports(reports)
        return boundaries(self.information, alpha)[-1]

    def p_value(self, value: float, standard_error: float, *, reports: int, alpha: float) -> float:  # noqa: ARG002
        """Return the p-value of a difference at this analysis, valid over all of them and whatever alpha is.

        Raises:
            ArgumentError: another number of reports than this analysis has.
        """
        self._validate_reports(reports)
        return repeated_p(value / standard_error, self.information)

    def _validate_reports(self, reports: int) -> None:
        if reports != self.reports[-1]:
            raise ArgumentError("reports", f"{self.reports[-1]}, those of the analysis", reports)


def _power(drift_rate: float, information: tuple[float, ...], bounds: tuple[float, ...]) -> float:
    state, total = Uncalled.start(), 0.0
    for place, (reached, bound) in enumerate(zip(information, bounds, strict=True)):
        if math.isfinite(bound):
            total += state.beyond(reached, bound, drift_rate=drift_rate)
        if place + 1 < len(information):
            state = state.after(reached, bound, following=information[place + 1], drift_rate=drift_rate)
    return total


def _validate_information(information: Sequence[float]) -> None:
    if not information:
        raise ArgumentError("information", "of at least one analysis", tuple(information))
    for before, after in zip((0.0, *information), information, strict=False):
        if not (math.isfinite(after) and after - before >= LEAST_INCREMENT):
            raise ArgumentError(
                "information", f"rising by at least {LEAST_INCREMENT:g} an analysis", tuple(information)
            )
