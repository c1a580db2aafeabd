"""Analyzes the reports of a rollout: sizes of its groups, verdicts of its guardrails, impossible counts.  Pure.

Sizes, sample ratio and impossible counts are of the present stage alone; the guardrails read all stages that began,
each against its own control (`stats/strata.py`).

    harm   for the whole rollout: the chance that a version at its margins is ever called harmful, at whatever stage, is
           `ALPHA`, which the guardrails share; stages do not, so that no later edit of the plan changes what the same
           reports say. A part of it is for the early looks of the first stage, the rest for any time (`HarmBound`)
    safe   at looks (`looks.py`), each guardrail at `ALPHA`, for all must say so

Between looks the last one stands, for both.

Whether each report came from an enrolled device is a fact of the source (`Aggregate.is_attested`): randomized response
over plain HTTP never says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from alcove.platform.domain.records import RolloutRecord
from alcove.platform.domain.rollout_records import BegunStage, LookRecord, RolloutPlan, VerdictRecord
from alcove.platform.domain.rollouts.looks import due_windows, next_windows, window_end_s
from alcove.platform.domain.rollouts.task import CONTROL, questions_of
from alcove.platform.domain.rollouts.verdicts import evaluate_watched
from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    AlwaysValidBound,
    Comparison,
    GuardKind,
    GuardTests,
    GuardVerdict,
    HarmBound,
    Look,
    Metric,
    PlannedBound,
    Rules,
    Stratum,
    decide,
    effective_reports,
    estimate,
    find_impossible,
    pool,
    regroup,
)
from alcove.registry.limits import POLICY_BUCKETS

__all__ = ["ALPHA", "AnalysisResult", "StageCounts", "analyze"]

ALPHA: Final = 0.05


@dataclass(frozen=True, eq=False)
class StageCounts:
    """The reports of one question in one stage.

    Attributes:
        aggregate: of its windows so far.
        reports_per_device: how many of them one device can have sent.
        collected: windows that were collected from aggregators; None: reports are counted as they come.
    """

    aggregate: Aggregate
    reports_per_device: int
    collected: int | None = None


@dataclass(frozen=True)
class AnalysisResult:
    """The analysis of a rollout's reports.

    Attributes:
        reports: read in the present stage.
        devices: estimated, of control and treatment.
        mismatch: one sentence where the groups' sizes do not fit their shares; "" where they do.
        verdicts: in the order of `RolloutPlan.watched`.
        alarm: one sentence where the counts are none that devices can have sent; "" where they can.
        is_attested: each report came from an enrolled device.
        stages: whose reports the guardrails read.
        pooled_reports: of all of them.
        looks: of the present stage, one that was due now among them.
        next_look_at_s: when the next one is due, seconds since 1970; 0: there is none.
        horizon_at_s: when the last one is due; 0: the stage has no horizon.
    """

    reports: int
    devices: tuple[float, ...]
    mismatch: str
    verdicts: tuple[GuardVerdict, ...]
    alarm: str = ""
    is_attested: bool = False
    stages: int = 1
    pooled_reports: int = 0
    looks: tuple[LookRecord, ...] = ()
    next_look_at_s: int = 0
    horizon_at_s: int = 0

    @property
    def is_past_horizon(self) -> bool:
        """Whether the last look was made."""
        return bool(self.looks) and not self.next_look_at_s


def analyze(rollout: RolloutRecord, counts: Sequence[Sequence[StageCounts]], *, now_s: int) -> AnalysisResult:
    """Return what the reports say now: each guardrail is read from the question whose cells answer it.

    The tests read how far the reports of all questions together are: each has its fixed part of them.

    Args:
        rollout: with a control group.
        counts: of each stage of its evidence, the present one last, those of each question of the plan, in their order.
        now_s: seconds since 1970.

    Raises:
        StatsError: statistics refuse the counts.
    """
    present, plan, stage = counts[-1], rollout.plan, rollout.evidence.stages[-1]
    everybody = _add_arms([each.aggregate for each in present])
    compared = _compare(rollout, stage, everybody, max(each.reports_per_device for each in present))
    strata = [
        [
            Stratum(of_stage[place].aggregate, _treatment_share(begun), of_stage[place].reports_per_device)
            for begun, of_stage in zip(rollout.evidence.stages, counts, strict=True)
        ]
        for place in range(len(present))
    ]
    looks = rollout.evidence.looks
    effective = sum(effective_reports(of_question) for of_question in strata)
    tests = _tests(rollout, effective, None)
    if everybody.reports:
        collected = min((each.collected for each in present if each.collected is not None), default=None)
        windows = due_windows(plan, stage, looks, now_s=now_s, collected=collected)
        tests = _tests(rollout, effective, windows)
    verdicts = evaluate_watched(plan, strata, tests)
    if isinstance(tests.safe, PlannedBound):
        looks = (*looks, _record_look(rollout, tests.safe, verdicts, now_s))
    elif looks:
        verdicts = tuple(map(_repeat_look, verdicts, looks[-1].verdicts))
    following = next_windows(stage, looks)
    return AnalysisResult(
        reports=everybody.reports,
        devices=tuple(arm.devices for arm in compared.arms),
        mismatch=_mismatch(compared),
        verdicts=verdicts,
        alarm=_alarm(plan, stage, present),
        is_attested=all(each.aggregate.is_attested for of_stage in counts for each in of_stage),
        stages=len(counts),
        pooled_reports=sum(each.aggregate.reports for of_stage in counts for each in of_stage),
        looks=looks,
        next_look_at_s=0 if following is None else window_end_s(plan, stage, following),
        horizon_at_s=window_end_s(plan, stage, stage.horizon_windows) if stage.horizon_windows else 0,
    )


def _compare(rollout: RolloutRecord, stage: BegunStage, everybody: Aggregate, reports_per_device: int) -> Comparison:
    """Return sizes and sample ratio of the present stage."""
    bins = tuple(range(everybody.bins))  # not read
    share = _treatment_share(stage)
    rules = Rules(
        alpha=ALPHA,
        minimum_cohort=rollout.plan.stages[rollout.stage - 1].minimum_cohort,
        control=CONTROL,
        expected_shares=(1.0 - share, share),
    )
    metric = Metric(bin_values_ms=bins, reports_per_device=reports_per_device)
    return decide(estimate(everybody, metric), AlwaysValid(stage.planned_reports), rules)


def _add_arms(aggregates: Sequence[Aggregate]) -> Aggregate:
    """Return the counts of all questions by arm; those of one question as they are."""
    if len(aggregates) == 1:
        return aggregates[0]
    by_arm = [
        regroup(each, 2 * np.repeat(np.arange(each.arms), each.outcomes * each.bins), (each.arms, 2, 1))
        for each in aggregates
    ]
    return pool(by_arm)


def _alarm(plan: RolloutPlan, stage: BegunStage, present: Sequence[StageCounts]) -> str:
    """Return the first sentence that names impossible counts of a question; the questions share the false alarms."""
    for question, counts in zip(questions_of(plan), present, strict=True):
        planned = max(1, stage.planned_reports * question.share_basis_points // POLICY_BUCKETS)
        found = find_impossible(counts.aggregate, planned_reports=planned, parts=len(present))
        if found:
            return found
    return ""


def _treatment_share(stage: BegunStage) -> float:
    return stage.share_basis_points / (stage.share_basis_points + stage.control_basis_points)


def _tests(rollout: RolloutRecord, reports: float, windows: int | None) -> GuardTests:
    """Return the bounds of this analysis.

    Args:
        rollout: with a control group.
        reports: effective ones, pooled.
        windows: of which a look is due; None: none is.
    """
    evidence = rollout.evidence
    stage, looks = evidence.stages[-1], tuple(Look(each.windows, each.reports) for each in evidence.looks)
    early_alpha = evidence.early_part * ALPHA
    at_will = AlwaysValidBound(ALPHA - early_alpha, reports, evidence.planned_reports, evidence.later_reports)
    if not stage.horizon_windows:
        return GuardTests(HarmBound(at_will), at_will)
    if windows is None:
        return GuardTests(HarmBound(at_will), None)
    reports = max([reports, *(look.reports for look in looks)])  # with aggregators they are an estimate
    made, early = (*looks, Look(windows, reports)), None
    if not looks or looks[-1].windows < stage.early_windows:  # a late look is the last early one
        early = PlannedBound(early_alpha, made, stage.early_windows) if stage.early_windows else None
    return GuardTests(HarmBound(at_will, early), PlannedBound(ALPHA, made, stage.horizon_windows))


def _record_look(
    rollout: RolloutRecord, bound: PlannedBound, verdicts: Sequence[GuardVerdict], now_s: int
) -> LookRecord:
    boundary = bound.critical_value()
    return LookRecord(
        windows=bound.looks[-1].windows,
        reports=bound.looks[-1].reports,
        boundary=boundary if math.isfinite(boundary) else None,
        analyzed_at_s=now_s,
        verdicts=tuple(
            VerdictRecord(name, str(each.kind), each.difference, each.low, each.high, each.reason)
            for name, each in zip(rollout.plan.watched, verdicts, strict=True)
        ),
    )


def _repeat_look(now: GuardVerdict, last: VerdictRecord) -> GuardVerdict:
    """Return the verdict between looks: what harm says now, and what the last look said; K3."""
    if now.kind is not GuardKind.HARMFUL and last.kind == GuardKind.HARMFUL:
        return replace(now, kind=GuardKind.HARMFUL, low=last.low, high=last.high, reason=last.reason)
    if now.kind is GuardKind.HARMFUL or last.high is None:
        return now
    kind = GuardKind.SAFE if last.kind == GuardKind.SAFE else now.kind
    return replace(now, kind=kind, high=last.high, reason=last.reason)


def _mismatch(compared: Comparison) -> str:
    ratio = compared.sample_ratio
    if not ratio.mismatched:
        return ""
    arm = ratio.mismatched[0]
    interval = ratio.intervals[arm]
    seen = "" if interval is None else f"[{interval.low:.4f}, {interval.high:.4f}]"
    name = "control" if arm == CONTROL else "treatment"
    return f"the {name} should send {ratio.expected[arm]:.4f} of the reports, but its interval is {seen}"
