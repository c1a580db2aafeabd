"""Defines the states of an experiment and the transitions between them.  Pure.

    ┌───────┐  start   ┌─────────┐  stop   ┌─────────┐
    │ draft │ ───────▶ │ running │ ──────▶ │ stopped │
    └───────┘          └─────────┘         └─────────┘

A draft can be updated and deleted; results can be read of what runs or has stopped.

X1  Arms, epsilon, bins and plan never change after the start; another comparison is another experiment.  Shares change
    only where the plan has a bandit, by its rule and within its bounds (`bandit.py`).
X2  Reports are counted while it runs; the decision that is kept at the stop is made from exactly those.  Where analyses
    are planned, it is that of the last one (`interim.py`), and guardrails are still made from all of them.
"""

from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from alcove.platform.domain.errors import IllegalTransitionError
from alcove.platform.domain.experiments.buckets import first_allocation
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentRecord, ExperimentState, StoredDecision

__all__ = ["Action", "mark_started", "mark_stopped", "validate_action"]


class Action(StrEnum):
    """An action on an experiment."""

    UPDATE = "update"
    DELETE = "delete"
    START = "start"
    STOP = "stop"
    READ_RESULTS = "read results"


_ALLOWED: Final = MappingProxyType(
    {
        ExperimentState.DRAFT: (Action.UPDATE, Action.DELETE, Action.START),
        ExperimentState.RUNNING: (Action.STOP, Action.READ_RESULTS),
        ExperimentState.STOPPED: (Action.READ_RESULTS,),
    }
)


def validate_action(record: ExperimentRecord, action: Action) -> None:
    """Let something be done with an experiment, or not.

    Raises:
        IllegalTransitionError: its state does not allow it; the error names what it allows.
    """
    allowed = _ALLOWED[record.state]
    if action not in allowed:
        raise IllegalTransitionError("experiment", record.experiment_id, record.state, action, allowed)


def mark_started(record: ExperimentRecord, *, now_s: int) -> ExperimentRecord:
    """Return the experiment as it starts now, with its task.

    Raises:
        IllegalTransitionError: it is not a draft.
    """
    validate_action(record, Action.START)
    running = replace(record, state=ExperimentState.RUNNING, started_at_s=now_s)
    return replace(running, task_id=task_of(running).task_id, allocation=first_allocation(running, now_s=now_s))


def mark_stopped(record: ExperimentRecord, decision: StoredDecision, *, now_s: int) -> ExperimentRecord:
    """Return the experiment as it stops now, with what held.

    Raises:
        IllegalTransitionError: it is not running.
    """
    validate_action(record, Action.STOP)
    return replace(record, state=ExperimentState.STOPPED, stopped_at_s=now_s, decision=decision)
