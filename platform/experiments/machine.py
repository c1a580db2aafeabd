"""Which states has an experiment, and which arrows lead between them?  Pure.

    ┌───────┐  start   ┌─────────┐  stop   ┌─────────┐
    │ draft │ ───────▶ │ running │ ──────▶ │ stopped │
    └───────┘          └─────────┘         └─────────┘

X1  Arms, shares, epsilon and bins never change after creation; another comparison is another experiment.
X2  Reports are counted while it runs; the decision that is kept at the stop is made from exactly those.
"""

from dataclasses import replace

from alcove.platform.core.errors import IllegalTransitionError
from alcove.platform.core.records import ExperimentRecord, ExperimentState, StoredDecision
from alcove.platform.experiments.task import task_of

__all__ = ["started", "stopped"]


def started(record: ExperimentRecord, *, now_s: int) -> ExperimentRecord:
    """Return the experiment as it starts now, with its task.

    Raises:
        IllegalTransitionError: it is not a draft.
    """
    if record.state is not ExperimentState.DRAFT:
        raise IllegalTransitionError("experiment", record.experiment_id, record.state, "start")
    running = replace(record, state=ExperimentState.RUNNING, started_at_s=now_s)
    return replace(running, task_id=task_of(running).task_id)


def stopped(record: ExperimentRecord, decision: StoredDecision, *, now_s: int) -> ExperimentRecord:
    """Return the experiment as it stops now, with what held.

    Raises:
        IllegalTransitionError: it is not running.
    """
    if record.state is not ExperimentState.RUNNING:
        raise IllegalTransitionError("experiment", record.experiment_id, record.state, "stop")
    return replace(record, state=ExperimentState.STOPPED, stopped_at_s=now_s, decision=decision)
