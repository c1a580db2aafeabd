"""Validates what a read-out of the holdout asks for, and fills in what it leaves to the server.  Pure."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import fields_named, validate_epsilon
from alcove.platform.domain.latency import validate_edge
from alcove.platform.domain.mechanism import default_epsilon, largest_epsilon
from alcove.platform.domain.readout_records import ReadoutMetric, ReadoutPlan
from alcove.platform.domain.readouts.task import plan_task, schedule_of
from alcove.privacy.limits import DAY_S
from alcove.privacy.schedule import debit_times_s
from alcove.registry.limits import FEATURES_MAX, POLICY_BUCKETS

__all__ = ["fill_plan", "validate_features", "validate_share", "validate_until"]


def validate_features(features: Sequence[str]) -> None:
    """Refuse features that name nothing, or one twice.

    Raises:
        InvalidFieldError: they do.
    """
    if not 1 <= len(features) <= FEATURES_MAX:
        raise InvalidFieldError("features", f"1 to {FEATURES_MAX}, the measured one first", len(features))
    if len(set(features)) != len(features):
        raise InvalidFieldError("features", "each feature once", list(features))


def validate_share(app: str, share_basis_points: int) -> None:
    """Refuse an app without a holdout, or with one that leaves no mirror group.

    Raises:
        InvalidFieldError: it has none, or holds out more than half.
    """
    most = POLICY_BUCKETS // 2
    if not 1 <= share_basis_points <= most:
        bound = (
            f"an app with a holdout of 1 to {most} of {POLICY_BUCKETS} (SetHoldout), for its mirror group is as large"
        )
        raise InvalidFieldError("app", bound, f"{app}, which holds out {share_basis_points}")


def fill_plan(plan: ReadoutPlan) -> ReadoutPlan:
    """Return the plan with the server's defaults; its months are filled in by `validate_until`.

    Raises:
        InvalidFieldError: a field is out of its bounds, or asks for more reports than a device pays for.
    """
    plan = replace(
        plan,
        epsilon=plan.epsilon or default_epsilon(plan.aggregation),
        window_s=plan.window_s or limits.READOUT_WINDOW_S,
    )
    month_s = limits.READOUT_MONTH_S
    if plan.window_s < DAY_S or month_s % plan.window_s:
        raise InvalidFieldError("window_s", f"a whole part of 30 days ({month_s}), at least a day", plan.window_s)
    lowest, highest = limits.READOUT_MONTHS
    if plan.months and not lowest <= plan.months <= highest:
        raise InvalidFieldError("months", f"0, or {lowest} to {highest}", plan.months)
    _validate_metric(plan)
    validate_epsilon("epsilon", plan.epsilon, largest_epsilon(plan.aggregation, is_guardrail=False))
    windows = month_s // plan.window_s
    paid = len(debit_times_s(Fraction(plan.epsilon), plan.window_s, 2 * windows, may_use_reserve=False))
    if paid < 2 * windows:
        bound = f"low enough for {windows} reports of a device in 30 days within what experiments may spend in them"
        raise InvalidFieldError("epsilon", bound, plan.epsilon)
    with fields_named("readout"):
        plan_task(plan, "readout")
    return plan


def validate_until(plan: ReadoutPlan, *, now_s: int, until_s: int) -> tuple[ReadoutPlan, int]:
    """Return the plan with its months, and the end of the last day.

    Args:
        plan: from `fill_plan`; 0 months: all that fit, but for the first 30 days.
        now_s: when it starts, seconds since 1970.
        until_s: end of the last day, as asked for.

    Raises:
        InvalidFieldError: no month fits, or it is too far away.
    """
    latest_s = now_s + limits.READOUT_MAX_S
    if until_s > latest_s:
        raise InvalidFieldError(
            "until_s", f"at most {limits.READOUT_MAX_S // DAY_S} days from now, {latest_s}", until_s
        )
    lowest, highest = limits.READOUT_MONTHS
    wanted = [plan.months] if plan.months else range(highest, lowest - 1, -1)
    for months in wanted:
        found = replace(plan, months=months)
        if schedule_of(found, until_s).first_window_start_s >= now_s + limits.READOUT_MONTH_S:
            return found, until_s
    months = plan.months or lowest
    span_s = until_s - schedule_of(replace(plan, months=months), until_s).first_window_start_s
    days = -(-(span_s + limits.READOUT_MONTH_S) // DAY_S)
    bound = f"at least {days} days from now: 30 before the first window, and {months} months of 30 that are measured"
    raise InvalidFieldError("until_s", bound, until_s)


def _validate_metric(plan: ReadoutPlan) -> None:
    is_latency = plan.metric in (ReadoutMetric.LATENCY_MEAN, ReadoutMetric.LATENCY_SHARE)
    if is_latency and not plan.latency_edges_ms:
        raise InvalidFieldError("latency_edges_ms", "at least one edge where latency is measured", ())
    if not is_latency and plan.latency_edges_ms:
        raise InvalidFieldError("latency_edges_ms", f"none for {plan.metric}", plan.latency_edges_ms)
    if plan.metric is ReadoutMetric.LATENCY_SHARE:
        validate_edge("edge_ms", plan.edge_ms, plan.latency_edges_ms)
    elif plan.edge_ms:
        raise InvalidFieldError("edge_ms", f"0 for {plan.metric}", plan.edge_ms)
