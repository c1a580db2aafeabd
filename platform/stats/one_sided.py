"""Computes how many standard errors the bounds of a guardrail's difference lie from it, each on one side.

A guardrail asks two questions, and each has a test of its own (`guardrail.py`):

    harm  `HarmBound`         holds however often it is asked: a version that harms is found at any moment; at the ends
                              of the first windows of a rollout it is nearly as sharp as a test that is made once
    safe  `PlannedBound`      holds at the ends of a few windows up to a horizon that is fixed when the stage begins; it
                              needs about half of the devices, and says nothing between them or after the last

**Harm.** Two bounds that share alpha; either may call, and together they err at most as often as both do (Bonferroni).
`AlwaysValidBound` is one confidence sequence for the whole of a rollout, one-sided, by the normal mixture of
`confidence_sequence.py`. Its clock is the number of reports, pooled over stages (`strata.py`); alpha and the numbers
of reports where it is sharp, in the first stage and in all of them, are fixed when the rollout begins. A
`PlannedBound` of the first windows of the first watched stage has the rest of alpha: harm should be found while few
devices have it.

**Safe.** Looks k = 1 .. K at the ends of the windows. Of alpha they have spent, when a part t of the windows is over,

    alpha(t) = 2 (1 - Phi( z_{1-alpha/2} / sqrt(t) ))        Lan and DeMets 1983, O'Brien and Fleming's type, one-sided

all of it at the horizon. Spending follows the windows, which are known beforehand, and the boundaries follow the
reports that each look really had (Lan and DeMets, "Group sequential procedures: calendar versus information time",
Statistics in Medicine 1989): the score at a look is that of a Brownian motion at the time of its reports, and the bound
is where the part of the paths that no look has called spends what is due. Reports of earlier stages are in the first
look already; no part of alpha was spent on them in this stage. Where looks are nearer than `LEAST_STEP` they are taken
to be so far apart: scores more alike than that cross less often.

`critical_score` answers for plans: the score that must be expected at the last look for a bound to be passed at one of
the looks with a given power.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from alcove.platform.stats._crossing import FARTHEST, Uncalled
from alcove.platform.stats.confidence_sequence import (
    mixture_critical_value,
    normal_quantile,
    one_sided_critical_value,
)
from alcove.platform.stats.errors import ArgumentError

LEAST_STEP = 1e-3
"""Part by which the reports of one look exceed those of the one before, at least, as far as boundaries know."""

FIRST_WEIGHT = 0.5
"""Of the earlier tuning of an always-valid bound that has two."""

MAX_LOOKS = 100
"""Looks of one stage."""

MAX_HORIZON_WINDOWS = 10_000
"""Windows of one stage; those of an hour over a year are fewer."""

_NOTHING = 1e-12  # spending below rounding: no boundary, and the next look has it
_PRECISION = 1e-6  # of a score


class OneSidedBound(Protocol):
    """How far a bound on one side reaches in the present analysis."""

    @property
    def alpha(self) -> float:
        """Chance over all analyses that the bound lies on the wrong side of the truth; in (0, 0.5)."""
        ...

    @property
    def is_always_valid(self) -> bool:
        """Whether it may be asked at any time."""
        ...

    def critical_value(self, *, part: float = 1.0) -> float:
        """Return how many standard errors the bound lies from the estimate, at `part` of alpha, in (0, 1].

        Infinite where nothing can be said.
        """
        ...

    def critical_score(self, power: float) -> float:
        """Return the expected score at the last look with which the bound passes at any of them with this `power`."""
        ...


@dataclass(frozen=True)
class Look:
    """One look at the reports.

    Attributes:
        windows: of the stage that were over.
        reports: that were in, pooled over stages as `strata.effective_reports` counts them.
    """

    windows: int
    reports: float


@dataclass(frozen=True)
class AlwaysValidBound:
    """A bound that holds at every number of reports.

    Attributes:
        alpha: of the bound over all analyses, in (0, 0.5).
        reports: so far, as `strata.effective_reports` counts them, >= 0.
        planned_reports: where it is sharpest, in [1, 10**12]; fixed before the first report.
        later_reports: where it shall be sharp too; 0: nowhere. A rollout has tens of times the reports of its first
            stage in its last; a mixture of both tunings needs at most 1.2 times the best one's devices at either.

    Raises:
        ArgumentError: alpha is out of its bounds.
    """

    alpha: float
    reports: float
    planned_reports: int
    later_reports: int = 0

    def __post_init__(self) -> None:
        _validate_alpha(self.alpha)

    @property
    def is_always_valid(self) -> bool:
        """True."""
        return True

    def critical_value(self, *, part: float = 1.0) -> float:
        """Return how many standard errors the bound lies from the estimate, at `part` of alpha.

        Raises:
            ArgumentError: an attribute or the part is out of its bounds.
        """
        return self._critical_value(self.reports, part * self.alpha)

    def critical_score(self, power: float, *, looks: int = 1) -> float:
        """Return the expected score now with which one of `looks` evenly spaced looks up to now calls, with `power`.

        Raises:
            ArgumentError: looks below 1, or power not in [0.5, 1).
        """
        _validate_plan(looks, power)
        information = tuple((look + 1) / looks for look in range(looks))
        bounds = tuple(self._critical_value(self.reports * part, self.alpha) for part in information)
        return expected_score(information, bounds, power)

    def _critical_value(self, reports: float, alpha: float) -> float:
        if self.later_reports <= self.planned_reports:
            return one_sided_critical_value(reports=reports, alpha=alpha, planned_reports=self.planned_reports)
        planned = ((FIRST_WEIGHT, self.planned_reports), (1.0 - FIRST_WEIGHT, self.later_reports))
        return mixture_critical_value(reports=reports, alpha=alpha, planned=planned)


@dataclass(frozen=True)
class PlannedBound:
    """A bound that holds at the ends of windows, here at the last of `looks`.

    Attributes:
        alpha: of the bound over all looks of the stage, in (0, 0.5).
        looks: so far, this one last; windows rising, reports never falling and positive.
        horizon_windows: at the end of which all of alpha is spent, >= 1; fixed when the stage begins.

    Raises:
        ArgumentError: an attribute is out of its bounds.
    """

    alpha: float
    looks: tuple[Look, ...]
    horizon_windows: int

    def __post_init__(self) -> None:
        _validate_alpha(self.alpha)
        if not 1 <= self.horizon_windows <= MAX_HORIZON_WINDOWS:
            raise ArgumentError("horizon_windows", f"in [1, {MAX_HORIZON_WINDOWS}]", self.horizon_windows)
        if not 1 <= len(self.looks) <= MAX_LOOKS:
            raise ArgumentError("looks", f"1 to {MAX_LOOKS}", len(self.looks))
        for before, look in zip((Look(0, 0.0), *self.looks), self.looks, strict=False):
            if look.windows <= before.windows or not (math.isfinite(look.reports) and look.reports > 0.0):
                raise ArgumentError("looks", "at rising windows, of some reports", look)
            if look.reports < before.reports:
                raise ArgumentError("looks", "of never fewer reports than before", look)

    @classmethod
    def plan(cls, alpha: float, horizon_windows: int, *, earlier: float = 0.0) -> "PlannedBound":
        """Return the bound at the horizon of a stage whose windows are alike, for plans.

        Args:
            alpha: as above.
            horizon_windows: as above.
            earlier: reports of earlier stages, in those of one window of this stage; >= 0.

        Raises:
            ArgumentError: an argument is out of its bounds.
        """
        windows = range(1, min(horizon_windows, MAX_LOOKS) + 1)
        return cls(alpha, tuple(Look(window, earlier + window) for window in windows), horizon_windows)

    @property
    def is_always_valid(self) -> bool:
        """False."""
        return False

    @property
    def information(self) -> tuple[float, ...]:
        """Reports of each look in parts of the last one's, rising."""
        reports = [self.looks[0].reports]
        for look in self.looks[1:]:
            reports.append(max(look.reports, reports[-1] * (1.0 + LEAST_STEP)))
        return tuple(each / reports[-1] for each in reports)

    def critical_value(self, *, part: float = 1.0) -> float:
        """Return how many standard errors the bound of the last look lies from the estimate, at `part` of alpha."""
        return self.critical_values(part=part)[-1]

    def critical_values(self, *, part: float = 1.0) -> tuple[float, ...]:
        """Return that of each look so far; infinite where one may call nothing yet."""
        spending = tuple(spend(look.windows / self.horizon_windows, self.alpha * part) for look in self.looks)
        return _boundaries(self.information, spending)

    def critical_score(self, power: float) -> float:
        """Return the expected score at the last look with which one of them calls, with `power`.

        Raises:
            ArgumentError: power not in [0.5, 1).
        """
        _validate_plan(len(self.looks), power)
        return expected_score(self.information, self.critical_values(), power)


@dataclass(frozen=True)
class HarmBound:
    """A bound that holds at any time, and at the early looks of a rollout is the nearer one of two.

    Attributes:
        at_will: holds at any time.
        early: at a look now; None: there is none now. Its alpha comes to that of `at_will`.
    """

    at_will: AlwaysValidBound
    early: PlannedBound | None = None

    @property
    def alpha(self) -> float:
        """Of both together; where there is no early look now, of what holds at any time."""
        return self.at_will.alpha + (0.0 if self.early is None else self.early.alpha)

    @property
    def is_always_valid(self) -> bool:
        """True: between early looks the other bound stands."""
        return True

    def critical_value(self, *, part: float = 1.0) -> float:
        """Return how many standard errors the nearer bound lies from the estimate, at `part` of each one's alpha."""
        at_will = self.at_will.critical_value(part=part)
        return at_will if self.early is None else min(at_will, self.early.critical_value(part=part))

    def critical_score(self, power: float) -> float:
        """Return the expected score now with which the nearer bound is passed now, with this `power`.

        Raises:
            ArgumentError: power not in [0.5, 1).
        """
        _validate_plan(1, power)
        return expected_score((1.0,), (self.critical_value(),), power)

    def share(self, guardrails: int) -> "HarmBound":
        """Return the bound of one of several guardrails, which share its alpha."""
        early = None if self.early is None else replace(self.early, alpha=self.early.alpha / guardrails)
        return HarmBound(replace(self.at_will, alpha=self.at_will.alpha / guardrails), early)


@dataclass(frozen=True)
class GuardTests:
    """The two bounds of a guardrail in one analysis.

    Attributes:
        harm: the lower bound of the difference.
        safe: the upper one; None where there is no look at it now.
    """

    harm: HarmBound
    safe: OneSidedBound | None

    @classmethod
    def at_will(cls, alpha: float, *, reports: float, planned_reports: int) -> "GuardTests":
        """Return two bounds that hold at every number of reports, each at `alpha`."""
        bound = AlwaysValidBound(alpha, reports, planned_reports)
        return cls(HarmBound(bound), bound)

    def share(self, guardrails: int) -> "GuardTests":
        """Return the tests of one of several guardrails: they share the error of harm, and not that of safety.

        Raises:
            ArgumentError: no guardrails.
        """
        if guardrails < 1:
            raise ArgumentError("guardrails", "at least 1", guardrails)
        return replace(self, harm=self.harm.share(guardrails))


def spend(fraction: float, alpha: float) -> float:
    """Return how much of a one-sided `alpha` is spent when `fraction` of the windows is over; all of it from 1 on.

    Raises:
        ArgumentError: alpha not in (0, 1), or a fraction that is not positive.
    """
    if not 0.0 < alpha < 1.0:
        raise ArgumentError("alpha", "in (0, 1)", alpha)
    if not (fraction > 0.0 and math.isfinite(fraction)):
        raise ArgumentError("fraction", "positive and finite", fraction)
    return math.erfc(normal_quantile(1.0 - alpha / 2.0) / math.sqrt(2.0 * min(fraction, 1.0)))


def crossing_probability(score: float, information: Sequence[float], bounds: Sequence[float]) -> float:
    """Return the chance that one of the looks exceeds its bound, where `score` is expected at the last of them.

    Args:
        score: expected, in standard errors; 0: a difference exactly at the margin.
        information: of each look, rising; only its ratios matter.
        bounds: of each look, in standard errors; infinite: it calls nothing.
    """
    parts = tuple(each / information[-1] for each in information)
    state, total = Uncalled.start(), 0.0
    for place, (reached, bound) in enumerate(zip(parts, bounds, strict=True)):
        if math.isfinite(bound):
            total += state.beyond(reached, bound, drift_rate=score)
        if place + 1 < len(parts):
            state = state.after(reached, bound, following=parts[place + 1], drift_rate=score, is_one_sided=True)
    return min(total, 1.0)


@lru_cache(maxsize=1024)
def expected_score(information: tuple[float, ...], bounds: tuple[float, ...], power: float) -> float:
    """Return the score that must be expected at the last look for `crossing_probability` to be `power`, in (0, 1)."""
    low, high = 0.0, min(bounds[-1], FARTHEST) + FARTHEST
    while high - low > _PRECISION:
        middle = (low + high) / 2.0
        low, high = (middle, high) if crossing_probability(middle, information, bounds) < power else (low, middle)
    return high


@lru_cache(maxsize=4096)
def _boundaries(information: tuple[float, ...], spending: tuple[float, ...]) -> tuple[float, ...]:
    state, used, found = Uncalled.start(), 0.0, list[float]()
    for place, reached in enumerate(information):
        share = spending[place] - used
        if share < _NOTHING:
            bound = math.inf
        else:
            bound, used = state.boundary(reached, share), used + share
        found.append(bound)
        if place + 1 < len(information):
            state = state.after(reached, bound, following=information[place + 1], is_one_sided=True)
    return tuple(found)


def _validate_alpha(alpha: float) -> None:
    if not 0.0 < alpha < 0.5:
        raise ArgumentError("alpha", "in (0, 0.5) for a bound on one side", alpha)


def _validate_plan(looks: int, power: float) -> None:
    if not 1 <= looks <= MAX_LOOKS:
        raise ArgumentError("looks", f"in [1, {MAX_LOOKS}]", looks)
    if not 0.5 <= power < 1.0:
        raise ArgumentError("power", "in [0.5, 1)", power)
