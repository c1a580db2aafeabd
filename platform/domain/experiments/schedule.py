"""Computes at how many reports interim analyses are due.  Pure; the rule and its reason are in `interim.py`."""

from collections.abc import Sequence

from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.stats import DecisionKind

__all__ = ["later_analyses", "next_analysis_reports"]


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
    return _due(last, planned, horizon)


def later_analyses(made: Sequence[int], analyses: int, planned_reports: int) -> tuple[int, ...]:
    """Return at how many reports each analysis after those that were made is due, if none is late and none decides.

    Args:
        made: reports of the analyses so far, rising.
        analyses: how many are planned in all, >= 1.
        planned_reports: reports at which the last one is due, >= 1.
    """
    found: list[int] = []
    last = made[-1] if made else 0
    while last < planned_reports:
        last = _due(last, analyses, planned_reports)
        found.append(last)
    return tuple(found)


def _due(last: int, analyses: int, horizon: int) -> int:
    """Return at how many reports the analysis after one at `last` is due: the next step, but half a step at least."""
    step = last * analyses // horizon + 1
    return max(-(-step * horizon // analyses), last + -(-horizon // (2 * analyses)))
