"""What follows from a look at a stage?  Pure; the first rule that applies.

1. HARM     a guardrail is harmful, whatever else holds: devices that crash may also be missing   → the plan's `on_harm`
2. TIMEOUT  the stage is older than `timeout_s`, and no rule below says READY                     → `on_timeout`
3. HOLD     sample ratio: the groups do not have the sizes that their shares give them
4. WAIT     the stage is younger than its minimum
5. HOLD     a group has fewer estimated devices than the stage's minimum, or there are no reports
6. HOLD     a guardrail is inconclusive
7. READY    all guardrails are safe                                    → a person advances, or the server with a waiver

Time out reads rules 3 to 7 first: a stage that is ready has not timed out.
"""

from dataclasses import dataclass
from typing import Final

from alcove.platform.core.records import RolloutRecord
from alcove.platform.core.rollout_records import Judgement, PlanAction
from alcove.platform.rollouts.evidence import Finding
from alcove.platform.rollouts.machine import Action
from alcove.platform.stats import GuardKind

__all__ = ["Judged", "action_of", "judge"]

_ACTIONS: Final = {
    PlanAction.PAUSE: Action.PAUSE,
    PlanAction.ROLL_BACK: Action.ROLL_BACK,
    PlanAction.HALT: Action.HALT,
}


@dataclass(frozen=True)
class Judged:
    """What follows, the rule that says so, and one sentence for people."""

    judgement: Judgement
    code: str
    reason: str


def judge(rollout: RolloutRecord, finding: Finding, *, now_s: int) -> Judged:
    """Return what follows from the reports of the present stage.

    Args:
        rollout: running, with a control group.
        finding: what its reports say.
        now_s: seconds since 1970.
    """
    guarded = tuple(zip(rollout.plan.guardrails, finding.verdicts, strict=False))  # no verdicts without reports
    for guardrail, verdict in guarded:
        if verdict.kind is GuardKind.HARMFUL:
            return Judged(Judgement.HARM, f"harmful_{guardrail.metric}", verdict.reason)
    judged = _harmless(rollout, finding, now_s)
    age_s, timeout_s = now_s - rollout.stage_started_at_s, rollout.plan.timeout_s
    if judged.judgement is not Judgement.READY and timeout_s and age_s > timeout_s:
        reason = f"stage {rollout.stage} was not found safe in {timeout_s} s: {judged.reason}"
        return Judged(Judgement.TIMEOUT, judged.code, reason)
    return judged


def action_of(rollout: RolloutRecord, judgement: Judgement) -> Action | None:
    """Return what the server does by itself; None: nothing."""
    if judgement is Judgement.HARM:
        return _ACTIONS[rollout.plan.on_harm]
    if judgement is Judgement.TIMEOUT:
        return _ACTIONS.get(rollout.plan.on_timeout)
    return Action.ADVANCE if judgement is Judgement.READY and rollout.plan.waiver else None


def _harmless(rollout: RolloutRecord, finding: Finding, now_s: int) -> Judged:
    stage = rollout.plan.stages[rollout.stage - 1]
    age_s = now_s - rollout.stage_started_at_s
    if finding.reports == 0:
        return Judged(Judgement.HOLD, "no_reports", "there are no reports of this stage yet")
    if finding.mismatch:
        return Judged(Judgement.HOLD, "sample_ratio_mismatch", finding.mismatch)
    if age_s < stage.minimum_s:
        return Judged(Judgement.WAIT, "minimum_time", f"the stage is {age_s} s old, of at least {stage.minimum_s} s")
    fewest = min(finding.devices)
    if fewest < stage.minimum_cohort:
        reason = f"a group has about {max(fewest, 0.0):.0f} devices of at least {stage.minimum_cohort}"
        return Judged(Judgement.HOLD, "below_minimum_cohort", reason)
    for guardrail, verdict in zip(rollout.plan.guardrails, finding.verdicts, strict=True):
        if verdict.kind is not GuardKind.SAFE:
            return Judged(Judgement.HOLD, f"inconclusive_{guardrail.metric}", verdict.reason)
    return Judged(Judgement.READY, "safe", "every guardrail is safe")
