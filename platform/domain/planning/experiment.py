"""Forecasts an experiment: its power, the smallest difference by day, the devices it needs, and what would need fewer.

Pure. A device reports in as many windows of 30 days as its ledger pays for, and says the same each time: the worst
case, which the standard errors assume too.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiments.own_guardrails import validate_own
from alcove.platform.domain.experiments.plan import make_plan, plan_primary, primary_of, smallest_batches
from alcove.platform.domain.experiments.questions import shares_by_question, strata_count, validate_dimension
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.field_validation import fields_named, validate_epsilon
from alcove.platform.domain.mechanism import largest_epsilon
from alcove.platform.domain.planning.rollout import PowerPoint, count_text, schedule_reports
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.stats import Mechanism, PrimaryKind
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.privacy.limits import DAY_S, EPSILON_PER_DAY
from alcove.registry.limits import ARMS_MAX, POLICY_BUCKETS, WINDOW_MIN_S
from alcove.registry.policy import TaskPolicy

__all__ = [
    "DetectableByDay",
    "ExperimentChoice",
    "ExperimentForecast",
    "forecast_experiment",
    "validate_arms",
    "validate_question",
]

_CURVE_POINTS: Final = 11
_EPSILON_OF_AGGREGATORS: Final = "1"


@dataclass(frozen=True)
class DetectableByDay:
    """The smallest difference that is found by the end of a day, in the metric's unit; 0: none."""

    day: int
    difference: float


@dataclass(frozen=True)
class ExperimentChoice:
    """Another plan.

    Attributes:
        change: what is different, for people.
        trade: what it costs besides, for people.
        cells: of a report.
        devices_needed: in all arms together, that find the difference within 30 days; 0: no number.
        days_needed: in which the stated devices do; 0: never, or their number is not known.
        is_offered: whether a plan can say so today.
        halves_the_devices: whether it needs at most half of the devices.
        halves_the_days: whether the stated devices need at most half of the days, or find the difference only so.
    """

    change: str
    trade: str
    cells: int
    devices_needed: int
    days_needed: int
    is_offered: bool
    halves_the_devices: bool
    halves_the_days: bool


@dataclass(frozen=True)
class ExperimentForecast:
    """What a plan would find; 0 where nothing is known or no number is enough.

    Attributes:
        devices_needed: in all arms together, that find the plan's difference in one window.
        devices_needed_in_30_days: that find it in all windows of 30 days.
        days_needed: in which the stated devices do.
        detectable_by_day: of the stated devices, or of those that are needed.
        curve: chance that they find a difference within 30 days.
        devices_needed_by_value: of one value of the dimension, that find it among themselves in all windows of 30 days;
            0 without a dimension, too.
        cells: of a report.
        choices: other plans, those that need the fewest devices first.
        warnings: one sentence each.
    """

    devices_needed: int
    devices_needed_in_30_days: int
    days_needed: int
    detectable_by_day: tuple[DetectableByDay, ...]
    curve: tuple[PowerPoint, ...]
    cells: int
    choices: tuple[ExperimentChoice, ...]
    warnings: tuple[str, ...]
    devices_needed_by_value: int = 0


@dataclass(frozen=True)
class _Needs:
    """Of one plan: devices within one window and within all, days of the stated ones, cells, and days of reports."""

    one_window: int
    all_windows: int
    days: int
    cells: int
    report_days: tuple[int, ...]


def validate_arms(record: ExperimentRecord) -> None:
    """Refuse a draft whose arms are none.

    Raises:
        InvalidFieldError: there are too few or too many, or their shares are out of their bounds.
    """
    shares = [arm.share_basis_points for arm in record.arms]
    if not 2 <= len(shares) <= ARMS_MAX:
        raise InvalidFieldError("arm_shares_basis_points", f"2 to {ARMS_MAX}", len(shares))
    if min(shares) < 1 or sum(shares) > POLICY_BUCKETS:
        bound = f"each at least 1, together at most {POLICY_BUCKETS}"
        raise InvalidFieldError("arm_shares_basis_points", bound, shares)


def validate_question(record: ExperimentRecord) -> None:
    """Refuse a draft of which nothing could be said; its arms are sound.

    Raises:
        InvalidFieldError: a field is out of its bounds, or neither a difference nor devices are given.
    """
    lowest, highest = limits.MINIMUM_COHORT
    if not lowest <= record.minimum_cohort <= highest:
        raise InvalidFieldError("minimum_cohort", f"{lowest} to {highest}", record.minimum_cohort)
    if record.window_s < WINDOW_MIN_S:
        raise InvalidFieldError("window_s", f"at least {WINDOW_MIN_S}, an hour", record.window_s)
    validate_epsilon("epsilon", record.epsilon, largest_epsilon(record.plan.aggregation, is_guardrail=False))
    validate_own(record)
    validate_dimension(record.plan)
    with fields_named("experiment"):
        task = task_of(record)
    make_plan(record, task)
    if not (record.plan.mde or record.plan.expected_devices):
        raise InvalidFieldError("plan.mde", "given, or expected_devices, for a forecast", 0)


def forecast_experiment(record: ExperimentRecord) -> ExperimentForecast:
    """Return what a draft would find.

    Raises:
        InvalidFieldError: a field is out of its bounds.
    """
    plan = record.plan
    needs = _needs_of(record)
    devices = plan.expected_devices or needs.all_windows
    value = _needs_of(replace(record, plan=replace(plan, dimension=""))).all_windows if plan.dimension else 0
    shown = _detectable_by_day(record, devices, needs) if devices else ()
    return ExperimentForecast(
        devices_needed=needs.one_window,
        devices_needed_in_30_days=needs.all_windows,
        days_needed=needs.days,
        detectable_by_day=shown,
        curve=_curve(record, devices, needs) if devices else (),
        cells=needs.cells,
        choices=_choices(record, needs) if plan.mde else (),
        warnings=(*_warnings(record, needs, shown), *_value_warnings(record, value)),
        devices_needed_by_value=value,
    )


def _needs_of(record: ExperimentRecord, reports: ReportModel | None = None) -> _Needs:
    plan, task = record.plan, task_of(record)
    part = task.share_basis_points / POLICY_BUCKETS  # of the devices, whose reports decide
    deciding = round(plan.expected_devices * part)
    planned = plan_primary(record, task, reports)
    effect = planned.effect_of(plan.mde)
    epsilon = reports.epsilon if reports is not None else task.epsilon_fraction
    days = schedule_reports(epsilon, record.window_s, may_use_reserve=task.is_guardrail).days
    one = in_all = within = 0
    if plan.mde and effect > 0.0:
        smallest = min(arm.share_basis_points for arm in record.arms) / sum(
            arm.share_basis_points for arm in record.arms
        )
        batch = smallest_batches(plan)
        least = max(round(record.minimum_cohort / smallest), batch)
        one = _at_least(planned.model.devices_needed(effect), least, part)
        in_all = _at_least(planned.model.devices_needed(effect, len(days)), least, part)
        if deciding >= least and deciding * len(days) <= MAX_REPORTS:
            windows = planned.model.windows_needed(effect, deciding, most=len(days))
            within = 0 if windows is None else days[windows - 1]
    return _Needs(one, in_all, within, task.cell_count, days)


def _at_least(devices: int | None, least: int, part: float) -> int:
    """Return the devices of which `part` are at least so many, and enough for the rules; 0: no number is."""
    return 0 if devices is None else math.ceil(max(devices, least) / part)


def _detectable_by_day(record: ExperimentRecord, devices: int, needs: _Needs) -> tuple[DetectableByDay, ...]:
    task = task_of(record)
    planned, deciding = plan_primary(record, task), _deciding(devices, task)
    last = {day: windows for windows, day in enumerate(needs.report_days, 1)}  # of a day, which may have many
    return tuple(
        DetectableByDay(day, planned.difference_of(planned.model.detectable(deciding, windows)))
        for day, windows in last.items()
        if deciding * windows <= MAX_REPORTS
    )


def _deciding(devices: int, task: TaskPolicy) -> int:
    """Return how many of the devices report the task that decides, at least 1."""
    return max(1, devices * task.share_basis_points // POLICY_BUCKETS)


def _curve(record: ExperimentRecord, devices: int, needs: _Needs) -> tuple[PowerPoint, ...]:
    task = task_of(record)
    planned, devices = plan_primary(record, task), _deciding(devices, task)
    windows = len(needs.report_days)
    if devices * windows > MAX_REPORTS:
        return ()
    found = planned.model.detectable(devices, windows) or 0.0
    largest = 2.0 * max(planned.effect_of(record.plan.mde), found)
    ends = planned.model.range
    if ends is not None:
        largest = min(largest, ends[1] - ends[0])
    steps = [largest * step / (_CURVE_POINTS - 1) for step in range(1, _CURVE_POINTS)] if largest > 0.0 else []
    return tuple(PowerPoint(planned.difference_of(step), planned.model.power(step, devices, windows)) for step in steps)


def _choices(record: ExperimentRecord, needs: _Needs) -> tuple[ExperimentChoice, ...]:
    found = []
    for change, trade, other, reports in _others(record):
        after = _needs_of(other, reports)
        found.append(
            ExperimentChoice(
                change=change,
                trade=trade,
                cells=after.cells,
                devices_needed=after.all_windows,
                days_needed=after.days,
                is_offered=True,
                halves_the_devices=after.all_windows > 0
                and (not needs.all_windows or 2 * after.all_windows <= needs.all_windows),
                halves_the_days=after.days > 0 and (not needs.days or 2 * after.days <= needs.days),
            )
        )
    return tuple(sorted(found, key=lambda choice: choice.devices_needed or float("inf")))


def _others(record: ExperimentRecord) -> Iterator[tuple[str, str, ExperimentRecord, ReportModel | None]]:
    """Yield the other plans: what changes, what it costs, the record, and how its reports are made private."""
    plan, primary = record.plan, primary_of(record.plan)
    epsilon = task_of(record).epsilon_fraction
    if plan.aggregation is None:
        aggregated = ReportModel(
            Mechanism.PRIO3, task_of(replace(record, epsilon=_EPSILON_OF_AGGREGATORS)).epsilon_fraction
        )
        yield "two aggregators, ε = 1 a window", "somebody else runs one of them", record, aggregated
        if epsilon < EPSILON_PER_DAY:
            larger = f"{float(EPSILON_PER_DAY):g}"
            trade = f"each report tells more: ε = {larger} instead of {record.epsilon}; fewer of them in 30 days"
            yield f"reports of ε = {larger}", trade, replace(record, epsilon=larger), None
        a_day = int(EPSILON_PER_DAY / epsilon) * record.window_s // DAY_S
        if a_day > 1 and record.window_s // a_day >= 3600:
            shorter = record.window_s // a_day
            trade = "the same reports in fewer days; then silence until their 30 days are over"
            yield f"windows of {shorter // 3600} h", trade, replace(record, window_s=shorter), None
    if record.latency_edges_ms and not primary.is_latency:
        kept = tuple(each for each in plan.guardrails if each.metric != "latency")
        trade = "latency is not shown" + (", and its guardrail is gone" if len(kept) < len(plan.guardrails) else "")
        bare = replace(record, latency_edges_ms=(), plan=replace(plan, guardrails=kept))
        yield "no latency bins", trade, bare, None
    if plan.guardrails or plan.own_guardrails:
        alone = replace(record, plan=replace(plan, guardrails=(), own_guardrails=()))
        yield "no guardrails", "what the winner makes worse is not seen", alone, None
    if plan.own_questions:
        trade = "what is asked for secondary metrics is not seen"
        yield "no other questions", trade, replace(record, plan=replace(plan, own_questions=())), None
    if plan.dimension and plan.aggregation is not None:
        whole = replace(record, plan=replace(plan, dimension=""))
        yield "no dimension", "values are not told apart", whole, None
    if plan.pre_edges:
        without = replace(record, plan=replace(plan, pre_edges=()))
        yield "no earlier answers (CUPED)", "intervals are not corrected by them", without, None
    if len(record.arms) > 2:
        trade = "the other arms are not compared"
        yield "two arms", trade, replace(record, arms=record.arms[:2]), None
    if not plan.interim_analyses and primary.kind is not PrimaryKind.LATENCY_QUANTILE:
        for analyses, name in ((5, "five interim analyses"), (1, "one analysis at the end")):
            trade = "nothing is decided between them" if analyses > 1 else "nothing is decided before"
            yield name, trade, replace(record, plan=replace(plan, interim_analyses=analyses)), None


def _warnings(record: ExperimentRecord, needs: _Needs, shown: tuple[DetectableByDay, ...]) -> tuple[str, ...]:
    plan = record.plan
    if not (plan.mde and plan.expected_devices) or needs.days:
        return ()
    enough = f"{count_text(needs.all_windows)} devices" if needs.all_windows else "more devices than there are"
    said = f"the difference will never be found: within 30 days it needs {enough}, and"
    said += f" {count_text(plan.expected_devices)} take part"
    found = shown[-1].difference if shown else 0.0
    unit = primary_of(plan).unit
    return (said + (f"; they find {found:.3g}{unit}" if found else ""),)


def _value_warnings(record: ExperimentRecord, needed: int) -> tuple[str, ...]:
    """Return that values find less by themselves than all devices together, where they do.

    How devices spread over the values is not known; equal parts are assumed.
    """
    plan, count = record.plan, strata_count(record.plan)
    if count < 2 or not plan.expected_devices:
        return ()
    share = shares_by_question(plan)
    asked = plan.expected_devices * next(iter(share.values())) // POLICY_BUCKETS
    each, found = asked // count, []
    batch = 0 if plan.aggregation is None else plan.aggregation.min_batch_size
    part = f"{count_text(each)} of {count_text(asked)} devices in each of {count} values, were they equal"
    if each < batch:
        found.append(f"values may never be released: {part}, and the aggregators release no fewer than {batch} reports")
    if plan.mde and (not needed or each < needed):
        enough = f"{count_text(needed)} devices" if needed else "more devices than there are"
        found.append(f"no value will show the difference by itself within 30 days: {part}, and one needs {enough}")
    return tuple(found)
