"""Computes at how many reports the next planned look is due.  Pure; the rule and its reasons are in `interim.py`."""

from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.stats import DecisionKind

__all__ = ["next_look_reports"]


def next_look_reports(record: ExperimentRecord) -> int | None:
    """Return at how many reports the next look is due; None: none is planned, or there will be no other."""
    looks, horizon = record.plan.looks, record.plan.planned_reports
    if not looks:
        return None
    last = 0
    if record.looks:
        last = record.looks[-1].reports
        if last >= horizon or record.looks[-1].decision.kind == DecisionKind.WINNER:
            return None
    step = last * looks // horizon + 1
    return max(-(-step * horizon // looks), last + -(-horizon // (2 * looks)))
