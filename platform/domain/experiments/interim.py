"""Makes the planned interim analyses of an experiment when they are due.  Pure.

An experiment may plan K analyses instead of any number of them (`plan.interim_analyses`).  An analysis is due when its
reports first reach the next k / K of `plan.planned_reports`, but no sooner than half a step after the analysis before,
so that two are never nearly one; the last one is that which finds all planned reports in.  A server that is late makes
one analysis of what is there then.

L1  An analysis is decided from the counts of its moment alone, and kept; later reports change nothing of it.
L2  When an analysis is due depends on the number of reports only, never on what they say.
L3  No analysis is made after a winner was found, or after the last one.
"""

import math

from alcove.platform.domain.experiment_records import InterimAnalysis, PairRecord, StoredDecision
from alcove.platform.domain.experiments.analysis import ALPHA, compare, find_alarm
from alcove.platform.domain.experiments.schedule import next_analysis_reports
from alcove.platform.domain.experiments.secondary import analyze_secondary_at_horizon
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import ArgumentError, Decision, DecisionKind, Difference, GroupSequential, ReasonCode

__all__ = ["analyze_interim", "is_due"]


def is_due(record: ExperimentRecord, reports: int) -> bool:
    """Return whether an analysis is due at this number of reports."""
    due = next_analysis_reports(record)
    return due is not None and reports >= due


def analyze_interim(record: ExperimentRecord, collected: Reports, *, now_s: int) -> InterimAnalysis:
    """Return the interim analysis of the reports that were collected; L1.

    Raises:
        StatsError: the counts are more than statistics accept, or no analysis is due.
    """
    reports = collected.reports
    if not is_due(record, reports):
        raise ArgumentError("reports", f"at least {next_analysis_reports(record)}", reports)
    test = GroupSequential(
        (*(before.reports for before in record.interim_analyses), reports), record.plan.planned_reports
    )
    aggregate = aggregate_of(collected)
    found = compare(record, aggregate, collected.per_device, test)
    decision = found.decision
    if alarm := find_alarm(record, aggregate):
        decision = Decision(DecisionKind.INCONCLUSIVE, None, ReasonCode.IMPOSSIBLE_REPORTS, alarm)
    boundary = test.critical_value(reports=reports, alpha=ALPHA)
    return InterimAnalysis(
        reports=reports,
        fraction=test.fraction,
        boundary=boundary if math.isfinite(boundary) else None,
        analyzed_at_s=now_s,
        decision=StoredDecision(str(decision.kind), decision.winner, str(decision.code), decision.reason),
        pairs=tuple(_pair(pair, p) for pair, p in zip(found.primary_pairs, found.p_values, strict=True)),
        secondary=analyze_secondary_at_horizon(record, collected) if test.fraction >= 1.0 else (),
    )


def _pair(pair: Difference, p_value: float | None) -> PairRecord:
    low, high = pair.interval or (None, None)
    return PairRecord(pair.arm, pair.versus, pair.value, low, high, p_value)
