"""Computes how many devices and days an experiment needs, and refuses plans that cannot be kept.  Pure.

The plan is made for the mechanism of the experiment's reports; every number comes from `platform.stats.PowerModel`. A
device reports in as many windows of 30 days as its ledger pays for, which keeps a reserve from experiments. Aggregators
release no window of fewer reports than their smallest batch, so that no plan needs fewer devices. With CUPED the needs
count the cells that it adds and no gain from it: how well earlier answers tell later ones is not known beforehand.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from alcove.platform.domain import limits
from alcove.platform.domain.cells import FEEDBACK
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.base import base_of, validate_base
from alcove.platform.domain.experiments.questions import strata_count
from alcove.platform.domain.experiments.task import bin_values_ms, outcome_count
from alcove.platform.domain.latency import validate_edge, validate_resolution
from alcove.platform.domain.mechanism import mechanism_of
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.stats import (
    ArgumentError,
    GuardMetric,
    Guardrail,
    MetricModel,
    PowerModel,
    Primary,
    PrimaryKind,
    bin_model,
    cuped_error_ratio,
    mean_model,
    ratio_model,
    share_model,
    slow_model,
)
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.limits import MAX_REPORTS
from alcove.privacy.limits import DAY_S
from alcove.privacy.schedule import debit_times_s
from alcove.privacy.subset_selection import best_subset_size
from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy import Outcome, TaskPolicy

__all__ = ["PlannedPrimary", "guardrails_of", "make_plan", "plan_primary", "primary_of", "smallest_batches"]

_WORST_RATE = 0.5
_PERIOD_DAYS = 30


def primary_of(plan: ExperimentPlan) -> Primary:
    """Return what decides.

    Raises:
        InvalidFieldError: the metric is unknown, or its quantile or its outcomes are none that it can have.
    """
    if plan.primary not in tuple(PrimaryKind):
        raise InvalidFieldError("primary.kind", " | ".join(PrimaryKind), plan.primary)
    try:
        return Primary(
            PrimaryKind(plan.primary),
            plan.quantile,
            _outcomes("numerator", plan.numerator),
            _outcomes("denominator", plan.denominator),
            plan.less_is_better,
            plan.edge_ms,
            None if plan.own_primary is None else plan.own_primary.bin_metric,
        )
    except ArgumentError as error:
        raise InvalidFieldError(f"primary.{error.name}", error.bound, error.value) from None


def guardrails_of(plan: ExperimentPlan) -> tuple[Guardrail, ...]:
    """Return the guardrails as statistics read them.

    Raises:
        InvalidFieldError: one of them means nothing.
    """
    if len(plan.guardrails) > limits.GUARDRAILS_MAX:
        raise InvalidFieldError("guardrails", f"at most {limits.GUARDRAILS_MAX}", len(plan.guardrails))
    return tuple(map(_guardrail, plan.guardrails))


def make_plan(record: ExperimentRecord, task: TaskPolicy) -> ExperimentPlan:
    """Return the plan with what it needs, or raise for one that cannot be kept.

    Raises:
        InvalidFieldError: a field is out of its bounds, latency decides where there is one bin, interim analyses are
            planned without a horizon or of a metric that they cannot test, or earlier answers are to correct something
            else than the accepted share.
    """
    plan, primary = record.plan, primary_of(record.plan)
    if plan.pre_edges and primary.kind is not PrimaryKind.ACCEPTED:
        raise InvalidFieldError("pre_edges", f"absent unless {PrimaryKind.ACCEPTED} decides", plan.pre_edges)
    is_latency = primary.is_latency
    _validate_interim_analyses(plan)
    guardrails = guardrails_of(plan)
    reads_latency = is_latency or any(guard.metric is GuardMetric.LATENCY for guard in guardrails)
    if reads_latency and not record.latency_edges_ms:
        raise InvalidFieldError("latency_edges_ms", "at least one edge where latency is watched", ())
    if primary.own is not None and record.latency_edges_ms and not reads_latency:
        unread = f"absent where {primary.own.name} decides and no guardrail reads latency"
        raise InvalidFieldError("latency_edges_ms", unread, record.latency_edges_ms)
    bound = limits.LATENCY_MARGIN_MAX_MS if primary.is_in_ms else 1.0
    if primary.own is not None:
        bound = primary.own.range[1] - primary.own.range[0]
    if not (math.isfinite(plan.mde) and 0.0 <= plan.mde < bound):
        raise InvalidFieldError("mde", f"in [0, {bound:g})", plan.mde)
    _validate_latency(record, primary)
    rarest = limits.BASE_RATE_MIN
    if plan.base_rate and not rarest <= plan.base_rate <= 1.0 - rarest:
        raise InvalidFieldError("base_rate", f"0 (not known), or {rarest:g} to {1.0 - rarest:g}", plan.base_rate)
    if primary.is_in_ms and plan.base_rate:
        raise InvalidFieldError("base_rate", f"absent for {primary.kind}", plan.base_rate)
    validate_base(plan, primary)
    if not 0 <= plan.expected_devices <= limits.EXPECTED_DEVICES_MAX:
        raise InvalidFieldError("expected_devices", f"0 to {limits.EXPECTED_DEVICES_MAX}", plan.expected_devices)
    least = 0 if plan.aggregation is None else plan.aggregation.min_batch_size
    if 0 < plan.expected_devices < least:
        batch = f"at least {least}, the smallest batch that the aggregators release"
        raise InvalidFieldError("expected_devices", batch, plan.expected_devices)
    _validate_denominator_share(record, primary)
    found = _size_experiment(record, task)
    if plan.interim_analyses and not found.planned_reports:
        raise InvalidFieldError("horizon_reports", "given, or an mde that can be found, where analyses are planned", 0)
    return found


def smallest_batches(plan: ExperimentPlan) -> int:
    """Return how many reports a window needs before aggregators release it, of equal values of a dimension all."""
    return 0 if plan.aggregation is None else plan.aggregation.min_batch_size * strata_count(plan)


@dataclass(frozen=True, eq=False)
class PlannedPrimary:
    """The primary metric as it is planned.

    Attributes:
        model: of the experiment's reports.
        per_unit: what one unit of the metric is in the model's.
        hidden: difference that the bins hide, in the metric's unit.
    """

    model: PowerModel
    per_unit: float
    hidden: float

    def effect_of(self, difference: float) -> float:
        """Return what the model has to find for a difference in the metric's unit; not above 0: no model can."""
        return (difference - self.hidden) * self.per_unit

    def difference_of(self, effect: float | None) -> float:
        """Return the difference in the metric's unit that a model's effect is; 0: there is none."""
        return 0.0 if effect is None else effect / self.per_unit + self.hidden


def plan_primary(record: ExperimentRecord, task: TaskPolicy, reports: ReportModel | None = None) -> PlannedPrimary:
    """Return the primary metric as it is planned.

    Args:
        record: of the experiment.
        task: of its reports.
        reports: how they are made private; None: as the task says.
    """
    plan, primary = record.plan, primary_of(record.plan)
    made = reports or ReportModel(
        mechanism_of(plan.aggregation), task.epsilon_fraction, _local_epsilon(plan), task.subset_size
    )
    model = PowerModel(
        _model(record, primary).at_cells(task.layout)
        if primary.own is None
        else bin_model(primary.own, base_of(plan, primary.own)),
        _shares_of(record),
        made.mechanism,
        made.epsilon,
        analyses=plan.interim_analyses,
        local_epsilon=made.local_epsilon,
        subset_size=made.subset_size,
        is_less_better=not primary.is_more_better if primary.own is not None else primary.is_less_better,
        sums=strata_count(plan),
    )
    return PlannedPrimary(model, *_share_per_ms(record, primary))


def _size_experiment(record: ExperimentRecord, task: TaskPolicy) -> ExperimentPlan:
    """Return the plan with what the server says of it."""
    plan = record.plan
    shares = _shares_of(record)
    bare = replace(
        plan,
        devices_needed=0,
        days_needed=0,
        detectable=0.0,
        planned_reports=plan.horizon_reports,
        cuped_error_ratio=_cuped_error_ratio(plan, task, shares),
    )
    if not (plan.mde or plan.expected_devices):
        return bare
    planned = plan_primary(record, task)
    expected = plan.expected_devices * task.share_basis_points // POLICY_BUCKETS  # those whose reports decide
    times_s = _times_of_a_period_s(record, task)
    most = len(times_s)
    expected = min(expected, MAX_REPORTS // most)  # of more an aggregate would not hold the reports
    if expected:
        bare = replace(
            bare,
            detectable=planned.difference_of(planned.model.detectable(expected, most)),
            planned_reports=plan.horizon_reports or min(expected * most, MAX_REPORTS),
        )
    if not plan.mde:
        return bare
    effect = planned.effect_of(plan.mde)
    if effect <= 0.0:
        return bare
    deciding = planned.model.devices_needed(effect) or 0
    devices = -(-deciding * POLICY_BUCKETS // task.share_basis_points)
    if devices and plan.aggregation is not None:
        devices = max(devices, smallest_batches(plan))
    windows = None
    if expected:
        windows = planned.model.windows_needed(effect, expected, most=most)
    return replace(
        bare,
        devices_needed=devices,
        days_needed=0 if windows is None else math.ceil((times_s[windows - 1] + record.window_s) / DAY_S),
        planned_reports=plan.horizon_reports or min(expected * (windows or most) or deciding, MAX_REPORTS),
    )


def _validate_latency(record: ExperimentRecord, primary: Primary) -> None:
    """Refuse edges that the bins do not have, and milliseconds that they cannot show."""
    plan, edges_ms = record.plan, record.latency_edges_ms
    if primary.edge_ms is not None:
        validate_edge("primary.edge_ms", primary.edge_ms, edges_ms)
    if primary.quantile is not None and plan.mde:
        validate_resolution("mde", plan.mde, "latency_edges_ms", edges_ms)
    for guardrail in plan.guardrails:
        if guardrail.edge_ms is not None:
            validate_edge("guardrails.edge_ms", guardrail.edge_ms, edges_ms)
        elif guardrail.quantile is not None:
            validate_resolution("guardrails.margin", guardrail.margin, "latency_edges_ms", edges_ms)


def _validate_interim_analyses(plan: ExperimentPlan) -> None:
    lowest, highest = limits.INTERIM_ANALYSES
    if plan.interim_analyses and not lowest <= plan.interim_analyses <= highest:
        raise InvalidFieldError("interim_analyses", f"0, or {lowest} to {highest}", plan.interim_analyses)
    if plan.interim_analyses and plan.primary == PrimaryKind.LATENCY_QUANTILE:
        raise InvalidFieldError(
            "interim_analyses", f"0 for {plan.primary}, which has no standard error", plan.interim_analyses
        )
    if not 0 <= plan.horizon_reports <= MAX_REPORTS:
        raise InvalidFieldError("horizon_reports", f"0 to {MAX_REPORTS}", plan.horizon_reports)


def _validate_denominator_share(record: ExperimentRecord, primary: Primary) -> None:
    plan, share = record.plan, record.plan.denominator_share
    if not (math.isfinite(share) and 0.0 <= share <= 1.0):
        raise InvalidFieldError("denominator_share", "in [0, 1]", share)
    is_part = len(primary.denominator) not in (0, outcome_count(record))
    if share and not is_part:
        bound = "0, unless a ratio decides whose denominator leaves out some outcome that is counted"
        raise InvalidFieldError("denominator_share", bound, share)
    if is_part and not share and (plan.mde or plan.expected_devices):
        raise InvalidFieldError("denominator_share", "given, where such a ratio is planned", share)


def _outcomes(name: str, names: tuple[str, ...]) -> tuple[Outcome, ...]:
    known = {outcome.name.lower(): outcome for outcome in Outcome}
    for each in names:
        if each not in known:
            raise InvalidFieldError(f"primary.{name}", " | ".join(known), each)
    return tuple(known[each] for each in names)


def _guardrail(record: GuardrailRecord) -> Guardrail:
    if record.metric not in tuple(GuardMetric):
        raise InvalidFieldError("guardrails.metric", " | ".join(GuardMetric), record.metric)
    try:
        return Guardrail(GuardMetric(record.metric), record.margin, record.quantile, record.edge_ms)
    except ArgumentError as error:
        raise InvalidFieldError(
            f"guardrails.{error.name}".removesuffix(".guardrail"), error.bound, error.value
        ) from None


def _model(record: ExperimentRecord, primary: Primary) -> MetricModel:
    outcomes, bins = outcome_count(record), len(record.latency_edges_ms) + 1
    bins *= len(record.plan.pre_edges) + 2 if record.plan.pre_edges else 1
    if primary.kind is PrimaryKind.LATENCY_MEAN:
        return mean_model(bin_values_ms(record.latency_edges_ms), outcomes=len(FEEDBACK))
    if primary.kind is PrimaryKind.RATIO:
        return ratio_model(
            record.plan.base_rate or _WORST_RATE,
            numerator=primary.numerator,
            denominator=primary.denominator,
            outcomes=outcomes,
            bins=bins,
            denominator_share=record.plan.denominator_share or 1.0,
        )
    if primary.edge_ms is not None:
        slow_bins = len(record.latency_edges_ms) - record.latency_edges_ms.index(primary.edge_ms)
        return slow_model(record.plan.base_rate or _WORST_RATE, outcomes=outcomes, bins=bins, slow_bins=slow_bins)
    if primary.quantile is not None:  # planned as the share of answers above it, which has its variance
        slow_bins = min(max(1, round((1.0 - primary.quantile) * bins)), bins - 1)
        return slow_model(1.0 - primary.quantile, outcomes=outcomes, bins=bins, slow_bins=slow_bins)
    return share_model(record.plan.base_rate or _WORST_RATE, outcomes=outcomes, bins=bins)


def _share_per_ms(record: ExperimentRecord, primary: Primary) -> tuple[float, float]:
    """Return what one unit of the metric is in the model's, and how much of a difference its bins hide.

    For a quantile latencies fill the bins evenly, and no difference of less than the bin of the quantile is seen.
    """
    if primary.quantile is None:
        return 1.0, 0.0
    lows = (0.0, *record.latency_edges_ms)
    widths = [high - low for low, high in pairwise(lows)]
    widths.append(widths[-1])
    place = min(int(primary.quantile * len(widths)), len(widths) - 1)
    return 1.0 / (len(widths) * widths[place]), widths[place]


def _cuped_error_ratio(plan: ExperimentPlan, task: TaskPolicy, shares: list[float]) -> float:
    if not plan.pre_edges:
        return 0.0
    return cuped_error_ratio(
        plan.pre_edges,
        rate=plan.base_rate or _WORST_RATE,
        shares=shares,
        mechanism=mechanism_of(plan.aggregation),
        epsilon=task.epsilon_fraction,
        local_epsilon=_local_epsilon(plan),
        devices=plan.expected_devices or 1,
        outcomes=task.layout.outcomes,
        latency_bins=task.layout.latency_bins,
        subset_sizes=_subset_sizes(task),
    )


def _subset_sizes(task: TaskPolicy) -> tuple[int, int]:
    """Return how many cells a report names without the bins of the earlier share, and with them."""
    if task.aggregation is not None:
        return 1, 1
    return best_subset_size(task.cell_count // task.layout.covariate_bins, task.epsilon_fraction), task.subset_size


def _local_epsilon(plan: ExperimentPlan) -> Fraction | None:
    return None if plan.aggregation is None else plan.aggregation.local_epsilon_fraction


def _shares_of(record: ExperimentRecord) -> list[float]:
    total = sum(arm.share_basis_points for arm in record.arms)
    return [arm.share_basis_points / total for arm in record.arms]


def _times_of_a_period_s(record: ExperimentRecord, task: TaskPolicy) -> tuple[int, ...]:
    """Return when a device reports within 30 days, at least once: in windows that fit, as its ledger pays for them."""
    period_s = _PERIOD_DAYS * DAY_S
    windows = max(1, period_s // record.window_s)
    times_s = debit_times_s(task.epsilon_fraction, record.window_s, windows, may_use_reserve=task.is_guardrail)
    return tuple(time_s for time_s in times_s if time_s < period_s) or (0,)
