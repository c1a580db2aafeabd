"""Computes at how many reports the next interim analysis is due.  Pure; the rule and its reason are in `interim.py`."""

from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.stats import DecisionKind

__all__ = ["next_analysis_reports"]


def next_analysis_reports(record: ExperimentRecord) -> int | None:
    """Return at how many reports the next analysis is due; None: none is planned, or there will be no other."""
    planned, horizon = record.plan.interim_analyses, record.plan.planned_reports
    if not planned:
        return None
    last = 0
    if record.interim_analyses:
        last = record.interim_analyses[-1].reports
        if last >= horizon or record.interim_analyses[-1].decision.kind == DecisionKind.WINNER:
            return None
    step = last * planned // horizon + 1
    return max(-(-step * horizon // planned), last + -(-horizon // (2 * planned)))
