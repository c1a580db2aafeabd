"""Derives the task of a read-out and the times of its windows from its record, the same each time.  Pure.

    first day ─ 30 quiet days or more ─▶ windows of months of 30 days ─▶ until all reports are in ─▶ last day

In the quiet days devices of both groups report nothing: what they had spent before on experiments is 30 days old when
the first window begins, so that their ledgers pay for both groups alike; and versions of the first day differ little
yet.  Reports that are made when a window is over leave in the next one, which then lies before the last day.
"""

from dataclasses import dataclass

from alcove.platform.domain import limits
from alcove.platform.domain.cells import FEEDBACK, OUTCOMES_READ, group_outcomes
from alcove.platform.domain.mechanism import choose_subset
from alcove.platform.domain.readout_records import ReadoutMetric, ReadoutPlan, ReadoutRecord
from alcove.platform.stats import GuardMetric
from alcove.privacy.limits import DAY_S
from alcove.registry.policy import Outcome, TaskPolicy, make_task
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY

__all__ = ["Schedule", "least_days", "outcome_groups", "plan_task", "schedule_of", "task_of"]


@dataclass(frozen=True)
class Schedule:
    """The windows that are measured.

    Attributes:
        first_window_start_s: when window 0 begins, seconds since 1970.
        windows_a_month: of 30 days.
        months: how many.
        window_s: seconds of a window.
    """

    first_window_start_s: int
    windows_a_month: int
    months: int
    window_s: int

    def windows_of(self, month: int) -> range:
        """Return the windows of a month, from 0."""
        return range(month * self.windows_a_month, (month + 1) * self.windows_a_month)

    @property
    def end_s(self) -> int:
        """When the last window ends."""
        return self.first_window_start_s + self.months * self.windows_a_month * self.window_s


def schedule_of(plan: ReadoutPlan, until_s: int) -> Schedule:
    """Return the windows of a read-out: as late as their reports are in on the last day."""
    window_s = max(1, plan.window_s)
    end_s = until_s - _lag_s(plan)
    if plan.aggregation is not None:  # DAP counts windows from 1970
        end_s -= end_s % window_s
    a_month = max(1, limits.READOUT_MONTH_S // window_s)
    return Schedule(end_s - plan.months * a_month * window_s, a_month, plan.months, window_s)


def task_of(record: ReadoutRecord) -> TaskPolicy:
    """Return what devices of both groups report: arm 0 is the holdout, arm 1 the mirror group.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    return plan_task(
        record.plan,
        record.readout_id,
        first_window_start_s=schedule_of(record.plan, record.until_s).first_window_start_s,
    )


def plan_task(plan: ReadoutPlan, readout_id: str, *, first_window_start_s: int = 0) -> TaskPolicy:
    """Return the task that a plan means.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    is_own = plan.own is not None
    return choose_subset(
        make_task(
            experiment_id=readout_id,
            epsilon=plan.epsilon,
            arm_count=2,
            outcome_groups=None if is_own else outcome_groups(plan),
            latency_edges_ms=() if is_own else plan.latency_edges_ms,
            window_s=plan.window_s,
            first_window_start_s=first_window_start_s,
            aggregation=plan.aggregation,
            metric=None if plan.own is None else plan.own.terms,
        )
    )


def outcome_groups(plan: ReadoutPlan) -> tuple[tuple[Outcome, ...], ...]:
    """Return which outcomes reports tell apart; none of them in an own metric."""
    if plan.metric is ReadoutMetric.ACCEPTED:
        return group_outcomes(OUTCOMES_READ[GuardMetric.REFUSED], FEEDBACK)
    return group_outcomes(OUTCOMES_READ[GuardMetric.LATENCY], OUTCOMES_WITH_LATENCY)


def least_days(plan: ReadoutPlan) -> int:
    """Return how many days lie at least between the first and the last of a read-out of so many months."""
    spare_s = 0 if plan.aggregation is None else plan.window_s
    return -(-((plan.months + 1) * limits.READOUT_MONTH_S + _lag_s(plan) + spare_s) // DAY_S)


def _lag_s(plan: ReadoutPlan) -> int:
    """Return how long after a window its last reports are in."""
    if plan.aggregation is not None:
        return plan.window_s + limits.READOUT_COLLECT_S
    return 0 if plan.metric is ReadoutMetric.ACCEPTED else plan.window_s
