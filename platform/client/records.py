"""Makes flat records of results: lists of dicts with one value in each column, as pandas and Polars take them.

Every record of a list has the same columns.  A column's name says its unit: `_share` is a part of 1, `_ms` ms,
`_at_s` seconds since 1970-01-01 UTC, `_own` the unit of a team's own metric, `_count` a number; what a value has not is
None.  A difference is in the columns of its own unit, and None in the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from alcove.platform.client.audit import AuditLine
    from alcove.platform.client.experiment_models import Decision, Estimate, Experiment, ExperimentReport, Primary
    from alcove.platform.client.rollout_models import (
        GuardrailVerdict,
        KeptAnalysis,
        OwnVerdict,
        Rollout,
        StageAnalysis,
    )

__all__ = [
    "Analysis",
    "GuardrailName",
    "Interval",
    "arm_records",
    "difference_records",
    "find_analyses",
    "guardrail_records",
    "guardrails_of",
    "unit_of",
]

UNITS: Final = ("share", "ms", "own")
Record = dict[str, Any]


@dataclass(frozen=True)
class Interval:
    """The verdict of one guardrail in one analysis; None: too few reports, or unbounded."""

    kind: str
    difference: float | None
    low: float | None
    high: float | None
    reason: str


@dataclass(frozen=True)
class Analysis:
    """One analysis of a rollout's stage, with an interval for each guardrail that had reports."""

    analyzed_at_s: int
    decision: str
    report_count: int
    intervals: tuple[Interval, ...]


def unit_of(metric: Primary) -> str:
    """Return "share", "ms" or "own": the unit of what an experiment compares."""
    if metric.metric:
        return "own"
    return "ms" if metric.kind in ("latency_mean", "latency_quantile") else "share"


def name_of(metric: Primary) -> str:
    """Return a metric in one word."""
    quantile = f"_{metric.quantile:g}" if metric.kind == "latency_quantile" and metric.quantile else ""
    return metric.metric or f"{metric.kind}{quantile}"


def arm_records(report: ExperimentReport) -> list[Record]:
    """Return one record for each arm: who ran it, and what its devices did."""
    experiment, found = report.experiment, report.results
    return [
        {
            "experiment_id": experiment.experiment_id,
            "app": experiment.app,
            "feature": experiment.feature,
            "arm": arm.name,
            "version": arm.version,
            "device_count": arm.devices,
            **_triple("reported_share", arm.share),
            **_triple("accepted_share", arm.accepted),
            **_triple("latency_ms", arm.latency_ms),
            **_triple("median_latency_ms", arm.median_latency_ms),
            **_triple("metric_own", arm.own_metric),
        }
        for arm in found.arms
    ]


def difference_records(report: ExperimentReport) -> list[Record]:
    """Return one record for each pair of arms, in the metric that decides and in the secondary ones.

    First come the interim analyses in their order (`analysis` from 1 on), then what reports say now (`analysis` 0).
    `decides`: whether the decision reads it.
    """
    experiment, found = report.experiment, report.results
    names = [arm.name for arm in experiment.arms]
    records = []
    when: dict[str, int | None]
    for number, look in enumerate(experiment.interim_analyses, 1):
        when = {"analysis": number, "analyzed_at_s": look.analyzed_at_s, "report_count": look.report_count}
        records += [
            _difference(experiment, experiment.primary, (names[pair.arm], names[pair.versus]), pair.difference, when)
            | {"p_value": pair.p_value, "decides": True}
            for pair in look.pairs
        ]
    when = {"analysis": 0, "analyzed_at_s": None, "report_count": found.report_count}
    records += [
        _difference(experiment, experiment.primary, (names[pair.arm], names[pair.versus]), pair.difference, when)
        | {"p_value": pair.p_value, "decides": True}
        for pair in found.pairs
    ]
    records += [
        _difference(
            experiment, experiment.secondary[each.metric], (names[each.arm], names[each.versus]), each.difference, when
        )
        | {"p_value": each.adjusted_p, "decides": False}
        for each in found.secondary.differences
    ]
    return records


def guardrail_records(rollout: Rollout, history: Sequence[AuditLine | KeptAnalysis | Rollout] = ()) -> list[Record]:
    """Return one record for each guardrail and analysis of a rollout, the oldest analysis first.

    Args:
        rollout: as the server answers it; its last analysis is the last one.
        history: earlier ones: of `stage_analyses`, lines of the audit log, or rollouts as `watch_rollout` yielded them.
    """
    records = []
    for analysis in find_analyses(rollout, history):
        for rail, interval in zip(guardrails_of(rollout), analysis.intervals, strict=False):
            record: Record = {
                "rollout_id": rollout.rollout_id,
                "app": rollout.app,
                "feature": rollout.feature,
                "version": rollout.version,
                "analyzed_at_s": analysis.analyzed_at_s,
                "report_count": analysis.report_count,
                "decision": analysis.decision,
                "guardrail": rail.name,
                "verdict": interval.kind,
            }
            for unit in UNITS:
                is_own = unit == rail.unit
                record |= {
                    f"difference_{unit}": interval.difference if is_own else None,
                    f"difference_low_{unit}": interval.low if is_own else None,
                    f"difference_high_{unit}": interval.high if is_own else None,
                    f"margin_{unit}": rail.margin if is_own else None,
                }
            records.append(record | {"reason": interval.reason})
    return records


@dataclass(frozen=True)
class GuardrailName:
    """A guardrail by name, with the unit and the bound of its difference."""

    name: str
    unit: str
    margin: float


def guardrails_of(rollout: Rollout) -> list[GuardrailName]:
    """Return the guardrails of a rollout, in the order of their verdicts."""
    found = []
    for each in rollout.plan.guardrails:
        is_in_ms = each.metric == "latency" and not each.edge_ms
        name = each.metric + (f" at {each.quantile or 0.95:g}" if is_in_ms else "")
        name += f" above {each.edge_ms:g} ms" if each.edge_ms else ""
        found.append(GuardrailName(name, "ms" if is_in_ms else "share", each.margin))
    return found + [GuardrailName(own.metric, "own", own.margin) for own in rollout.plan.own_guardrails]


def find_analyses(rollout: Rollout, history: Sequence[AuditLine | KeptAnalysis | Rollout] = ()) -> list[Analysis]:
    """Return the analyses that a rollout and its history have, each once, the oldest first."""
    found: dict[int, Analysis] = {}
    for each in (*history, rollout):
        analysis = _analysis_of(each, rollout.rollout_id)
        if analysis is not None:
            found[analysis.analyzed_at_s] = analysis
    return [found[at_s] for at_s in sorted(found)]


def decision_in_words(arms: Sequence[str], decision: Decision | None) -> str:
    """Return a decision in a sentence that names the arms."""
    if decision is None:
        return "no decision yet"
    reason = decision.reason
    for number, name in enumerate(arms):
        reason = reason.replace(f"arm {number} ", f"{name} ")
    if decision.kind == "winner" and decision.winner is not None:
        return f"{arms[decision.winner]} wins: {reason}"
    return f"undecided: {reason}"


def _analysis_of(each: AuditLine | KeptAnalysis | Rollout, rollout_id: str) -> Analysis | None:
    """Return the analysis in an entry of a history; None: there is none of this rollout."""
    details: Mapping[str, Any] | None = getattr(each, "details", None)
    if details is None:
        seen: StageAnalysis | None = getattr(each, "analysis", None)
        if seen is None or getattr(each, "rollout_id", rollout_id) != rollout_id:
            return None
        verdicts: list[GuardrailVerdict | OwnVerdict] = [*seen.verdicts, *seen.own_verdicts]
        intervals = [Interval(one.kind, one.difference, one.low, one.high, one.reason) for one in verdicts]
        return Analysis(seen.analyzed_at_s, seen.decision, seen.report_count, tuple(intervals))
    held = details.get("analysis")
    if getattr(each, "subject", "") != rollout_id or not isinstance(held, Mapping):
        return None
    intervals = [
        Interval(one["kind"], one["difference"], one["low"], one["high"], one["reason"]) for one in held["verdicts"]
    ]
    return Analysis(held["analyzed_at_s"], held["decision"], held["reports"], tuple(intervals))


def _difference(
    experiment: Experiment, metric: Primary, pair: tuple[str, str], difference: Estimate, when: Record
) -> Record:
    record: Record = {
        "experiment_id": experiment.experiment_id,
        "app": experiment.app,
        "feature": experiment.feature,
        **when,
        "metric": name_of(metric),
        "arm": pair[0],
        "versus": pair[1],
    }
    for unit in UNITS:
        is_own = unit == unit_of(metric)
        record |= {
            f"difference_{unit}": difference.value if is_own else None,
            f"difference_low_{unit}": difference.low if is_own else None,
            f"difference_high_{unit}": difference.high if is_own else None,
        }
    return record


def _triple(name: str, estimate: Estimate | None) -> Record:
    """Return a value and both ends of its interval: accepted_share, accepted_share_low, accepted_share_high."""
    ends = (None, None, None) if estimate is None else (estimate.value, estimate.low, estimate.high)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
