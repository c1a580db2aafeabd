"""Defines what a device may spend over all tasks: caps of several periods, of which two keep a reserve for guardrails.

| period | all reports | reports of experiments |
|---|---|---|
| 24 hours | `per_day` | – |
| 30 hours | – | `per_day`: six hours of each day are left to guardrails |
| 30 days | `per_30_days` | `per_30_days` less the reserve |

A guardrail is what watches a rollout; its reports may spend all of it.  Whoever calls an experiment a rollout gains the
reserve and no more: both columns hold for each report.  A report that is the only one of its 24 (or 30) hours may cost
up to `per_lone_report`, which is `per_day` unless the app allows more.
"""

from dataclasses import dataclass
from fractions import Fraction

from alcove.privacy.errors import ParameterError
from alcove.privacy.limits import (
    DAY_S,
    EPSILON_PER_30_DAYS,
    EPSILON_PER_DAY,
    EXPERIMENTS_PERIOD_S,
    RESERVED_SHARE,
)

__all__ = ["BudgetLimits", "Cap"]


@dataclass(frozen=True, slots=True)
class Cap:
    """A bound on what is spent in any period of one length.

    Attributes:
        period: name of the period.
        length_s: of the period.
        most: epsilon of all reports in it.
        most_of_one: epsilon of a report that is the only one in it; at least `most`.
        is_of_experiments: counts and bounds only the reports that may not use the reserve.
    """

    period: str
    length_s: int
    most: Fraction
    most_of_one: Fraction
    is_of_experiments: bool = False

    def allows(self, spent: Fraction, cost: Fraction) -> bool:
        """Tell whether a report may follow those that the period has, which cost `spent`."""
        return spent + cost <= (self.most if spent else self.most_of_one)


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """What a device may spend over all tasks, as exact epsilon: the defaults, or less.

    Attributes:
        per_day: in any 24 hours.
        per_30_days: in any 30 days; a quarter of it is the reserve for guardrails.
        per_lone_report: by a report that is the only one of its 24 hours; None: `per_day`, so that the promise of a day
            holds for every report.  With more, an app gives up the promise of a day for that of 30 days.

    Raises:
        ParameterError: a cap is negative or above its default, which is what people are promised; or `per_lone_report`
            is not between `per_day` and the default cap of 30 days.
    """

    per_day: Fraction = EPSILON_PER_DAY
    per_30_days: Fraction = EPSILON_PER_30_DAYS
    per_lone_report: Fraction | None = None

    def __post_init__(self) -> None:
        caps = (
            ("per_day", self.per_day, Fraction(0), EPSILON_PER_DAY),
            ("per_30_days", self.per_30_days, Fraction(0), EPSILON_PER_30_DAYS),
            ("per_lone_report", self.largest_report, self.per_day, EPSILON_PER_30_DAYS),
        )
        for name, cap, lowest, highest in caps:
            if not lowest <= cap <= highest:
                raise ParameterError(name=name, bound=f"in [{lowest}, {highest}]", value=cap)

    @property
    def largest_report(self) -> Fraction:
        """Epsilon above which no report is made."""
        return self.per_day if self.per_lone_report is None else self.per_lone_report

    def caps(self, *, may_use_reserve: bool) -> tuple[Cap, ...]:
        """Return the bounds that a report must keep.

        Args:
            may_use_reserve: it is a guardrail's.
        """
        of_all = (
            Cap("day", DAY_S, self.per_day, self.largest_report),
            Cap("30 days", 30 * DAY_S, self.per_30_days, self.per_30_days),
        )
        if may_use_reserve:
            return of_all
        unreserved = self.per_30_days * (1 - RESERVED_SHARE)
        return (
            *of_all,
            Cap("30 hours of experiments", EXPERIMENTS_PERIOD_S, self.per_day, self.largest_report, True),
            Cap("30 days of experiments", 30 * DAY_S, unreserved, unreserved, True),
        )
