"""Derives the tasks that the reports of a rollout's stage belong to from its record, the same each time.

Each question of the plan is a task, which a part of the devices reports.  Its cells tell apart what the guardrails of
that question read, and nothing else; every outcome is counted somewhere.  A metric of the team's own is a question by
itself.
"""

from dataclasses import replace

from alcove.platform.domain.cells import OUTCOMES_READ, group_outcomes
from alcove.platform.domain.experiments.task import first_window_start_s
from alcove.platform.domain.mechanism import choose_subset
from alcove.platform.domain.own_metrics import own_name
from alcove.platform.domain.records import RolloutRecord
from alcove.platform.domain.rollout_records import Question, RolloutPlan
from alcove.platform.stats import GuardMetric
from alcove.registry.policy import TaskPolicy, make_task

__all__ = ["ARMS", "CONTROL", "TREATMENT", "questions_of", "stage_tasks", "task_of", "tasks_of"]

CONTROL, TREATMENT = 0, 1
ARMS = 2


def stage_tasks(rollout: RolloutRecord) -> tuple[TaskPolicy, ...]:
    """Return the tasks of the present stage, in the order of the plan's questions; none where nothing is compared."""
    if not rollout.control_basis_points:
        return ()
    return tasks_of(rollout.rollout_id, rollout.plan, rollout.stage_started_at_s)


def questions_of(plan: RolloutPlan) -> tuple[Question, ...]:
    """Return the questions of a plan; one with all that is watched where it names none."""
    return plan.questions or (Question(tuple(dict.fromkeys(plan.watched))),)


def tasks_of(rollout_id: str, plan: RolloutPlan, started_at_s: int) -> tuple[TaskPolicy, ...]:
    """Return the tasks of a stage that began at `started_at_s`, seconds since 1970, one for each question.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    return tuple(_task(rollout_id, plan, started_at_s, question) for question in questions_of(plan))


def task_of(rollout_id: str, plan: RolloutPlan, started_at_s: int) -> TaskPolicy:
    """Return the task of a plan whose devices are all asked everything.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    return tasks_of(rollout_id, replace(plan, questions=()), started_at_s)[0]


def _task(rollout_id: str, plan: RolloutPlan, started_at_s: int, question: Question) -> TaskPolicy:
    """Return the task of one question; window 0 begins as that of an experiment does."""
    own = {own_name(each.metric.name): each.metric.terms for each in plan.own_guardrails}
    metric = next((own[name] for name in question.metrics if name in own), None)
    metrics = [GuardMetric(name) for name in question.metrics if name not in own]
    task = make_task(
        experiment_id=rollout_id,
        epsilon=plan.epsilon,
        arm_count=ARMS,
        outcome_groups=None
        if metric is not None
        else group_outcomes(each for name in metrics for each in OUTCOMES_READ[name]),
        latency_edges_ms=plan.latency_edges_ms if GuardMetric.LATENCY in metrics and metric is None else (),
        share_basis_points=question.share_basis_points,
        window_s=plan.window_s,
        first_window_start_s=first_window_start_s(started_at_s, plan.window_s, plan.aggregation),
        is_guardrail=True,
        aggregation=plan.aggregation,
        metric=metric,
    )
    return choose_subset(task)
