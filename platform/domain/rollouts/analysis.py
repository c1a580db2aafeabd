"""Analyzes the reports of a stage: sizes of its groups, verdicts of its guardrails, impossible counts.  Pure.

Whether each report came from an enrolled device is a fact of the source (`Aggregate.is_attested`): randomized response
over plain HTTP never says so.

The error of a halt without cause is `ALPHA` for a stage, however often it is looked at: the guardrails share it.  That
a version at a margin is called safe has `ALPHA` for each guardrail, for all must say so.
"""

from dataclasses import dataclass
from typing import Final

from alcove.platform.domain.records import RolloutRecord
from alcove.platform.domain.rollouts.task import ARMS, CONTROL, TREATMENT
from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    Comparison,
    GuardMetric,
    Guardrail,
    GuardTests,
    GuardVerdict,
    Metric,
    Rules,
    Stratum,
    decide,
    estimate,
    evaluate_guardrails,
    find_impossible,
)

__all__ = ["ALPHA", "AnalysisResult", "analyze"]

ALPHA: Final = 0.05


@dataclass(frozen=True)
class AnalysisResult:
    """The analysis of a stage's reports.

    Attributes:
        reports: read in this stage.
        devices: estimated, of control and treatment.
        mismatch: one sentence where the groups' sizes do not fit their shares; "" where they do.
        verdicts: in the order of the plan's guardrails.
        alarm: one sentence where the counts are none that devices can have sent; "" where they can.
        is_attested: each report came from an enrolled device.
    """

    reports: int
    devices: tuple[float, ...]
    mismatch: str
    verdicts: tuple[GuardVerdict, ...]
    alarm: str = ""
    is_attested: bool = False


def analyze(rollout: RolloutRecord, aggregate: Aggregate, reports_per_device: int) -> AnalysisResult:
    """Return what the counts of the present stage say.

    Args:
        rollout: with a control group.
        aggregate: of its task.
        reports_per_device: how many of its reports one device can have sent (`Reports.per_device`).

    Raises:
        StatsError: statistics refuse the counts.
    """
    plan = rollout.plan
    stage = plan.stages[rollout.stage - 1]
    planned_reports = ARMS * stage.minimum_cohort
    groups = (rollout.control_basis_points, rollout.share_basis_points)
    bins = tuple(range(aggregate.bins))  # not read
    metric = Metric(bin_values_ms=bins, reports_per_device=reports_per_device)
    rules = Rules(
        alpha=ALPHA,
        minimum_cohort=stage.minimum_cohort,
        control=CONTROL,
        expected_shares=tuple(share / sum(groups) for share in groups),
    )
    compared = decide(estimate(aggregate, metric), AlwaysValid(planned_reports), rules)
    verdicts = evaluate_guardrails(
        [Stratum(aggregate, groups[TREATMENT] / sum(groups), reports_per_device)],
        [Guardrail(GuardMetric(each.metric), each.margin, each.quantile, each.edge_ms) for each in plan.guardrails],
        control=CONTROL,
        treatment=TREATMENT,
        tests=GuardTests.at_will(ALPHA, reports=aggregate.reports, planned_reports=planned_reports),
        edges_ms=plan.latency_edges_ms,
    )
    return AnalysisResult(
        reports=aggregate.reports,
        devices=tuple(arm.devices for arm in compared.arms),
        mismatch=_mismatch(compared),
        verdicts=verdicts,
        alarm=find_impossible(aggregate, planned_reports=planned_reports),
        is_attested=aggregate.is_attested,
    )


def _mismatch(compared: Comparison) -> str:
    ratio = compared.sample_ratio
    if not ratio.mismatched:
        return ""
    arm = ratio.mismatched[0]
    interval = ratio.intervals[arm]
    seen = "" if interval is None else f"[{interval.low:.4f}, {interval.high:.4f}]"
    name = "control" if arm == CONTROL else "treatment"
    return f"the {name} should send {ratio.expected[arm]:.4f} of the reports, but its interval is {seen}"
