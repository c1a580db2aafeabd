"""Derives the task that the reports of a rollout's stage belong to from its record, the same each time.

Its cells tell apart what the guardrails read, and nothing else; every outcome is counted somewhere.
"""

from alcove.platform.domain.cells import OUTCOMES_READ, group_outcomes
from alcove.platform.domain.experiments.task import first_window_start_s
from alcove.platform.domain.mechanism import choose_subset
from alcove.platform.domain.records import RolloutRecord
from alcove.platform.domain.rollout_records import RolloutPlan
from alcove.platform.stats import GuardMetric
from alcove.registry.policy import TaskPolicy, make_task

__all__ = ["ARMS", "CONTROL", "TREATMENT", "stage_task", "task_of"]

CONTROL, TREATMENT = 0, 1
ARMS = 2


def stage_task(rollout: RolloutRecord) -> TaskPolicy | None:
    """Return the task of the present stage; None where nothing is compared."""
    if not rollout.control_basis_points:
        return None
    return task_of(rollout.rollout_id, rollout.plan, rollout.stage_started_at_s)


def task_of(rollout_id: str, plan: RolloutPlan, started_at_s: int) -> TaskPolicy:
    """Return the task of a stage that began at `started_at_s`, seconds since 1970.

    Window 0 begins as that of an experiment does.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    metric = plan.own_guardrails[0].metric.terms if plan.own_guardrails else None
    task = make_task(
        experiment_id=rollout_id,
        epsilon=plan.epsilon,
        arm_count=ARMS,
        outcome_groups=None
        if metric is not None
        else group_outcomes(
            each for guardrail in plan.guardrails for each in OUTCOMES_READ[GuardMetric(guardrail.metric)]
        ),
        latency_edges_ms=plan.latency_edges_ms,
        window_s=plan.window_s,
        first_window_start_s=first_window_start_s(started_at_s, plan.window_s, plan.aggregation),
        is_guardrail=True,
        aggregation=plan.aggregation,
        metric=metric,
    )
    return choose_subset(task)
