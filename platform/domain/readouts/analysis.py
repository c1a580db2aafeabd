"""Analyzes a read-out of the holdout, once, when its last day is over, and says what came of it in words.  Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
from alcove.platform.domain.experiments.task import bin_values_ms
from alcove.platform.domain.own_metrics import own_name
from alcove.platform.domain.readout_records import ReadoutMetric, ReadoutPlan, ReadoutRecord, ReadoutResult
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import (
    Aggregate,
    Interval,
    Primary,
    PrimaryKind,
    ReasonCode,
    StatsError,
    Stratum,
    find_impossible,
    pool,
)
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.primary import metric_weights
from alcove.platform.stats.readout import GroupDifference, compare_groups

__all__ = ["ALPHA", "UNREADABLE", "analyze", "describe_metric", "metric_name"]

ALPHA = 0.05  # error of the interval; it is read once
UNREADABLE = "unreadable"  # code where statistics refuse the reports
_CONTROL = 0


def analyze(record: ReadoutRecord, months: Sequence[Reports], *, now_s: int) -> ReadoutResult:
    """Return the result of the reports of each month; what statistics refuse is a result without numbers."""
    reports = sum(each.reports for each in months)
    try:
        found = _compare(record, months)
    except (StatsError, ArithmeticError, ValueError) as error:
        found = GroupDifference(ReasonCode.NO_REPORTS, "")
        code, summary = UNREADABLE, f"The reports could not be read: {error}."
    else:
        code, summary = str(found.code), _summarize(record, found)
    low, high = found.interval or (None, None)
    lift_low, lift_high = found.lift_interval or (None, None)
    return ReadoutResult(
        code=code,
        summary=summary,
        held_out=found.held_out,
        difference=found.value,
        low=low,
        high=high,
        p_value=found.p_value,
        lift=found.lift,
        lift_low=lift_low,
        lift_high=lift_high,
        noise_percent=found.noise_percent,
        reports=reports,
        months=found.strata,
        analyzed_at_s=now_s,
    )


def describe_metric(plan: ReadoutPlan) -> str:
    """Return what is compared, in words that begin a sentence's object."""
    if plan.own is not None:
        return f"the mean of {own_name(plan.own.name)}"
    return {
        ReadoutMetric.ACCEPTED: "the accepted share of rated answers",
        ReadoutMetric.LATENCY_MEAN: "the mean latency",
        ReadoutMetric.LATENCY_SHARE: f"the share of answers slower than {plan.edge_ms:g} ms",
    }[plan.metric]


def metric_name(plan: ReadoutPlan) -> str:
    """Return how the API names what is compared."""
    return str(plan.metric) if plan.own is None else own_name(plan.own.name)


def _compare(record: ReadoutRecord, months: Sequence[Reports]) -> GroupDifference:
    strata = [Stratum(aggregate_of(each), 0.5, each.per_device) for each in months]
    read = [stratum for stratum in strata if stratum.aggregate.reports > 0]
    if not read:
        return GroupDifference(ReasonCode.NO_REPORTS, "there are no reports")
    pooled = pool([stratum.aggregate for stratum in read])
    if alarm := find_impossible(pooled, planned_reports=pooled.reports):
        return GroupDifference(ReasonCode.IMPOSSIBLE_REPORTS, alarm)
    return compare_groups(strata, *_weights(record.plan, pooled), alpha=ALPHA, control=_CONTROL)


def _weights(plan: ReadoutPlan, aggregate: Aggregate) -> tuple[FloatArray, FloatArray]:
    if plan.own is not None:
        return plan.own.bin_metric.weights(aggregate)
    edge_ms = plan.edge_ms if plan.metric is ReadoutMetric.LATENCY_SHARE else None
    primary = Primary(PrimaryKind(str(plan.metric)), edge_ms=edge_ms)
    values = np.array(bin_values_ms(plan.latency_edges_ms))
    return metric_weights(aggregate, primary, values, edges_ms=plan.latency_edges_ms)


def _summarize(record: ReadoutRecord, found: GroupDifference) -> str:
    plan = record.plan
    if found.value is None or found.interval is None or found.p_value is None:
        return f"Nothing can be said of {describe_metric(plan)}: {found.reason}."
    day = datetime.fromtimestamp(record.started_at_s, UTC).date()
    what = (
        f"{describe_metric(plan)[0].upper()}{describe_metric(plan)[1:]} of devices with everything that was shipped"
        f" since {day}, less that of devices that kept the versions of that day,"
    )
    interval = f"{_interval(found.interval, plan)} (95 %), p = {found.p_value:.2g}"
    if found.code is not ReasonCode.BETTER:
        return f"No difference was found. {what} is {_amount(found.value, plan)}: {interval}."
    is_better = (found.value > 0.0) == _is_more_better(plan)
    lift = ""
    if found.lift is not None and found.lift_interval is not None:
        low, high = found.lift_interval
        lift = f" Relative to the latter that is {found.lift:+.1%} ({low:+.1%} to {high:+.1%})."
    verdict = f"What was shipped is {'better' if is_better else 'worse'}."
    return f"{verdict} {what} is {_amount(found.value, plan)}: {interval}.{lift}"


def _is_more_better(plan: ReadoutPlan) -> bool:
    return plan.own.more_is_better if plan.own is not None else plan.metric is ReadoutMetric.ACCEPTED


def _interval(interval: Interval, plan: ReadoutPlan) -> str:
    return f"{_amount(interval.low, plan)} to {_amount(interval.high, plan)}"


def _amount(value: float, plan: ReadoutPlan) -> str:
    if plan.metric in (ReadoutMetric.ACCEPTED, ReadoutMetric.LATENCY_SHARE):
        return f"{100.0 * value:+.2f} points"
    return f"{value:+.4g} ms" if plan.metric is ReadoutMetric.LATENCY_MEAN else f"{value:+.4g}"
