"""Reads the reports that decide by the values of the experiment's dimension: hints, and nothing that decides.  Pure.

Each value is compared by itself, with always-valid intervals; p-values are adjusted for all values and arms together
(Benjamini and Hochberg).  A value whose reports do not allow a reading by the decision's rules shows none, and why.
"""

from dataclasses import dataclass

from alcove.platform.domain.experiments.analysis import ALPHA, compare, planned_reports_of, read_estimates
from alcove.platform.domain.experiments.questions import dimension_of
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import (
    AlwaysValid,
    Heterogeneity,
    ReasonCode,
    SecondaryDifference,
    cochran_q,
    find_impossible,
    secondary_differences,
)

__all__ = ["DimensionView", "StratumDifference", "StratumView", "compare_strata"]

_OBSTACLES = frozenset(
    {
        ReasonCode.NO_REPORTS,
        ReasonCode.SAMPLE_RATIO_MISMATCH,
        ReasonCode.BELOW_MINIMUM_COHORT,
        ReasonCode.PRIVACY_NOISE,
    }
)


@dataclass(frozen=True)
class StratumDifference:
    """An arm and the control among the devices of one value; None: unknown, or unbounded.

    Attributes:
        arm: index of the arm.
        versus: index of the control.
        value: `arm` minus `versus` in the metric that decides, without the correction by the pre-period.
        low: lower end of the interval, which holds by itself.
        high: upper end.
        p: by itself.
        adjusted_p: for all values and arms together.
    """

    arm: int
    versus: int
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    adjusted_p: float | None


@dataclass(frozen=True)
class StratumView:
    """The devices of one value.

    Attributes:
        value: its name.
        reports: of its task.
        obstacle: why nothing is shown; "": something is.
        differences: each arm against the control.
    """

    value: str
    reports: int
    obstacle: str
    differences: tuple[StratumDifference, ...]


@dataclass(frozen=True)
class DimensionView:
    """All values of an experiment's dimension.

    Attributes:
        dimension: canonical text.
        strata: of each value, in order.
        heterogeneity: of each arm but the control, whether the values that are shown differ; empty with fewer than two.
    """

    dimension: str
    strata: tuple[StratumView, ...]
    heterogeneity: tuple[Heterogeneity, ...]


def compare_strata(record: ExperimentRecord, reports: Reports) -> DimensionView | None:
    """Return the results by value; None: the experiment has no dimension.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    dimension = dimension_of(record.plan)
    if dimension is None:
        return None
    planned = max(1, planned_reports_of(record) // len(dimension.names))
    test = AlwaysValid(planned)
    obstacles = [_find_obstacle(record, one, test) for one in reports.strata]
    shown = [place for place, obstacle in enumerate(obstacles) if not obstacle]
    estimates = [
        read_estimates(record, aggregate_of(reports.strata[place]), reports.strata[place].per_device) for place in shown
    ]
    found = [(shown[each.metric], each) for each in secondary_differences(estimates, test, alpha=ALPHA)]
    strata = tuple(
        StratumView(name, one.reports, obstacle, tuple(_difference(each) for at, each in found if at == place))
        for place, (name, one, obstacle) in enumerate(zip(dimension.names, reports.strata, obstacles, strict=True))
    )
    arms = range(1, len(record.arms))
    heterogeneity = [_compare_values(arm, [each for _, each in found if each.difference.arm == arm]) for arm in arms]
    return DimensionView(str(dimension), strata, tuple(one for one in heterogeneity if one is not None))


def _find_obstacle(record: ExperimentRecord, reports: Reports, test: AlwaysValid) -> str:
    """Return why the reports of a value show nothing; "" where they do."""
    least = 0 if reports.task.aggregation is None else reports.task.aggregation.min_batch_size
    if least and not reports.windows:
        return f"no window of at least {least} reports was released"
    aggregate = aggregate_of(reports)
    if alarm := find_impossible(aggregate, planned_reports=test.planned_reports):
        return alarm
    decision = compare(record, aggregate, reports.per_device, test).decision
    return decision.reason if decision.code in _OBSTACLES else ""


def _difference(each: SecondaryDifference) -> StratumDifference:
    pair = each.difference
    low, high = pair.interval or (None, None)
    return StratumDifference(pair.arm, pair.versus, pair.value, low, high, each.p, each.adjusted_p)


def _compare_values(arm: int, found: list[SecondaryDifference]) -> Heterogeneity | None:
    known = [
        (each.difference.value, each.difference.standard_error)
        for each in found
        if each.difference.value is not None and each.difference.standard_error
    ]
    if len(known) < 2:
        return None
    return cochran_q(arm, [value for value, _ in known], [error for _, error in known])
