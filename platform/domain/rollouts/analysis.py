"""Analyzes the reports of a rollout: sizes of its groups, verdicts of its guardrails, impossible counts.  Pure.

Sizes, sample ratio and impossible counts are of the present stage alone; the guardrails read all stages that began,
each against its own control (`stats/strata.py`).

    harm   one always-valid test for the whole rollout: the chance that a version at its margins is ever called harmful,
           at whatever stage, is `ALPHA`, which the guardrails share; stages do not, so that no later edit of the plan
           changes what the same reports say
    safe   at looks (`looks.py`), each guardrail at `ALPHA`, for all must say so; between looks the last one stands

Whether each report came from an enrolled device is a fact of the source (`Aggregate.is_attested`): randomized response
over plain HTTP never says so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from alcove.platform.domain.records import RolloutRecord
from alcove.platform.domain.rollout_records import BegunStage, LookRecord, VerdictRecord
from alcove.platform.domain.rollouts.looks import due_windows, next_windows, window_end_s
from alcove.platform.domain.rollouts.task import CONTROL
from alcove.platform.domain.rollouts.verdicts import evaluate_watched
from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    AlwaysValidBound,
    Comparison,
    GuardKind,
    GuardTests,
    GuardVerdict,
    Look,
    Metric,
    PlannedBound,
    Rules,
    Stratum,
    decide,
    effective_reports,
    estimate,
    find_impossible,
)

__all__ = ["ALPHA", "AnalysisResult", "StageCounts", "analyze"]

ALPHA: Final = 0.05


@dataclass(frozen=True, eq=False)
class StageCounts:
    """The reports of one stage.

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


def analyze(rollout: RolloutRecord, counts: Sequence[StageCounts], *, now_s: int) -> AnalysisResult:
    """Return what the reports say now.

    Args:
        rollout: with a control group.
        counts: of each stage of its evidence, the present one last.
        now_s: seconds since 1970.

    Raises:
        StatsError: statistics refuse the counts.
    """
    present, plan, stage = counts[-1], rollout.plan, rollout.evidence.stages[-1]
    compared = _compare(rollout, stage, present)
    strata = [
        Stratum(each.aggregate, _treatment_share(begun), each.reports_per_device)
        for begun, each in zip(rollout.evidence.stages, counts, strict=True)
    ]
    looks = rollout.evidence.looks
    tests = _tests(rollout, effective_reports(strata), None)
    if present.aggregate.reports:
        windows = due_windows(plan, stage, looks, now_s=now_s, collected=present.collected)
        tests = _tests(rollout, effective_reports(strata), windows)
    verdicts = evaluate_watched(plan, strata, tests)
    if isinstance(tests.safe, PlannedBound):
        looks = (*looks, _record_look(rollout, tests.safe, verdicts, now_s))
    elif looks:
        verdicts = tuple(map(_repeat_look, verdicts, looks[-1].verdicts))
    following = next_windows(stage, looks)
    return AnalysisResult(
        reports=present.aggregate.reports,
        devices=tuple(arm.devices for arm in compared.arms),
        mismatch=_mismatch(compared),
        verdicts=verdicts,
        alarm=find_impossible(present.aggregate, planned_reports=stage.planned_reports),
        is_attested=all(each.aggregate.is_attested for each in counts),
        stages=len(counts),
        pooled_reports=sum(each.aggregate.reports for each in counts),
        looks=looks,
        next_look_at_s=0 if following is None else window_end_s(plan, stage, following),
        horizon_at_s=window_end_s(plan, stage, stage.horizon_windows) if stage.horizon_windows else 0,
    )


def _compare(rollout: RolloutRecord, stage: BegunStage, present: StageCounts) -> Comparison:
    """Return sizes and sample ratio of the present stage."""
    bins = tuple(range(present.aggregate.bins))  # not read
    share = _treatment_share(stage)
    rules = Rules(
        alpha=ALPHA,
        minimum_cohort=rollout.plan.stages[rollout.stage - 1].minimum_cohort,
        control=CONTROL,
        expected_shares=(1.0 - share, share),
    )
    metric = Metric(bin_values_ms=bins, reports_per_device=present.reports_per_device)
    return decide(estimate(present.aggregate, metric), AlwaysValid(stage.planned_reports), rules)


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
    harm = AlwaysValidBound(ALPHA, reports, evidence.planned_reports, evidence.later_reports)
    if not stage.horizon_windows:
        return GuardTests(harm, harm)
    if windows is None:
        return GuardTests(harm, None)
    reports = max([reports, *(look.reports for look in looks)])  # with aggregators they are an estimate
    return GuardTests(harm, PlannedBound(ALPHA, (*looks, Look(windows, reports)), stage.horizon_windows))


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
    """Return the verdict between looks: what harm says now, and what the last look said of safety; K3."""
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
