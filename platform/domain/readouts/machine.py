"""Defines the states of a read-out of the holdout and the transitions between them.  Pure.

    start ─▶ ┌─────────┐ ── last day is over: analyzed once ──▶ ┌──────────┐
             │ running │                                        │ finished │
             └─────────┘ ── stopped, or nothing to compare ──▶  ├──────────┤
                                                                │ stopped  │  without a result
                                                                └──────────┘

V1  What is kept, what is measured and the last day never change after the start: another question is another read-out.
V2  There is one analysis, when the last day is over, by reports of the measured windows alone; none before it decides.
V3  Where the kept version of the measured feature may not run any more, nothing is measured: the read-out is stopped.
"""

from dataclasses import replace

from alcove.platform.domain.errors import IllegalTransitionError
from alcove.platform.domain.readout_records import ReadoutRecord, ReadoutResult, ReadoutState

__all__ = ["is_over", "mark_finished", "mark_stopped"]


def is_over(record: ReadoutRecord, now_s: int) -> bool:
    """Tell whether the last day of a running read-out is over."""
    return record.state is ReadoutState.RUNNING and now_s >= record.until_s


def mark_finished(record: ReadoutRecord, result: ReadoutResult, *, now_s: int) -> ReadoutRecord:
    """Return the read-out with its result.

    Raises:
        IllegalTransitionError: it does not run, or its last day is not over.
    """
    if not is_over(record, now_s):
        raise IllegalTransitionError("read-out", record.readout_id, record.state, "finish", _actions(record))
    return replace(record, state=ReadoutState.FINISHED, ended_at_s=now_s, result=result)


def mark_stopped(record: ReadoutRecord, reason: str, *, now_s: int) -> ReadoutRecord:
    """Return the read-out as it is stopped, without a result.

    Raises:
        IllegalTransitionError: it does not run.
    """
    if record.state is not ReadoutState.RUNNING:
        raise IllegalTransitionError("read-out", record.readout_id, record.state, "stop", _actions(record))
    return replace(record, state=ReadoutState.STOPPED, ended_at_s=now_s, end_reason=reason)


def _actions(record: ReadoutRecord) -> tuple[str, ...]:
    return ("stop",) if record.state is ReadoutState.RUNNING else ()
