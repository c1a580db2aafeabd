"""Decides what follows from an analysis of a stage, by the first rule that applies.  Pure.

0. ALARM    the counts are none that devices can have sent, now or at an earlier analysis of this stage: nothing that
            they say is acted on, and the stage advances by a person's stated reason alone
1. HARM     a guardrail is harmful, whatever else holds: devices that crash may also be missing   → the plan's `on_harm`
2. TIMEOUT  the stage is older than `timeout_s`, and no rule below says READY                     → `on_timeout`
3. HOLD     sample ratio: the groups do not have the sizes that their shares give them
4. WAIT     the stage is younger than its minimum
5. HOLD     a group has fewer estimated devices than the stage's minimum, or there are no reports
6. HOLD     a guardrail is inconclusive: until the next look at the end of a window (`looks.py`), or, past the horizon
            of the stage, for good: a person decides
7. READY    all guardrails were safe at the last look                  → a person advances, or the server where the plan
   allows

Time out reads rules 3 to 7 first: a stage that is ready has not timed out.

What the server then does by itself is bounded by who can have sent the reports.  Without attested enrollment anybody
can send as many as they like, so such reports hold or pause and do no more: a plan's roll back or halt waits for a
person.  Attested ones may do what the plan says.
"""

from dataclasses import dataclass
from typing import Final

from alcove.platform.domain.records import RolloutRecord
from alcove.platform.domain.rollout_records import MISMATCH, PlanAction, StageDecisionKind
from alcove.platform.domain.rollouts.analysis import AnalysisResult
from alcove.platform.domain.rollouts.machine import Action
from alcove.platform.stats import GuardKind, GuardVerdict

__all__ = ["StageDecision", "action_of", "decide", "keep_alarm", "planned_action"]

_PAST_HORIZON: Final = (
    "that was the last look of the stage, and nothing is found safe by itself any more: advance with a reason, roll "
    "back, or begin a rollout with more devices or a wider margin"
)
_ACTIONS: Final = {
    PlanAction.PAUSE: Action.PAUSE,
    PlanAction.ROLL_BACK: Action.ROLL_BACK,
    PlanAction.HALT: Action.HALT,
}


@dataclass(frozen=True)
class StageDecision:
    """The decision, the rule behind it, and one sentence for people."""

    kind: StageDecisionKind
    code: str
    reason: str


def decide(rollout: RolloutRecord, result: AnalysisResult, *, now_s: int) -> StageDecision:
    """Return what follows from the reports of the present stage.

    Args:
        rollout: running, with a control group.
        result: what its reports say.
        now_s: seconds since 1970.
    """
    if result.alarm:
        return StageDecision(StageDecisionKind.ALARM, "impossible_reports", result.alarm)
    guarded = tuple(zip(rollout.plan.watched, result.verdicts, strict=False))  # no verdicts without reports
    for name, verdict in guarded:
        if verdict.kind is GuardKind.HARMFUL:
            return StageDecision(StageDecisionKind.HARM, f"harmful_{name}", verdict.reason)
    decision = _harmless(rollout, result, now_s)
    age_s, timeout_s = now_s - rollout.stage_started_at_s, rollout.plan.timeout_s
    if decision.kind is not StageDecisionKind.READY and timeout_s and age_s > timeout_s:
        reason = f"stage {rollout.stage} was not found safe in {timeout_s} s: {decision.reason}"
        return StageDecision(StageDecisionKind.TIMEOUT, decision.code, reason)
    return decision


def keep_alarm(rollout: RolloutRecord, decision: StageDecision) -> StageDecision:
    """Return the alarm of an earlier analysis of the same stage in the place of what a later one says; else that.

    Forged reports stay among those that are counted, and honest ones would hide them bit by bit.
    """
    before = rollout.analysis
    if before is None or before.decision is not StageDecisionKind.ALARM or decision.kind is StageDecisionKind.ALARM:
        return decision
    return StageDecision(StageDecisionKind.ALARM, before.code, before.reason)


def action_of(rollout: RolloutRecord, decision: StageDecisionKind, *, is_attested: bool) -> Action | None:
    """Return what the server does by itself; None: nothing.

    Args:
        rollout: running.
        decision: what follows from its reports.
        is_attested: each of them came from an enrolled device; else a pause takes the place of a roll back or a halt.
    """
    if decision is StageDecisionKind.READY:
        return Action.ADVANCE if rollout.plan.auto_advance_reason else None
    planned = planned_action(rollout, decision)
    return planned if planned is None or is_attested else Action.PAUSE


def planned_action(rollout: RolloutRecord, decision: StageDecisionKind) -> Action | None:
    """Return what the plan asks for where a stage is harmful or late, attested or not; None: nothing."""
    if decision is StageDecisionKind.HARM:
        return _ACTIONS[rollout.plan.on_harm]
    return _ACTIONS.get(rollout.plan.on_timeout) if decision is StageDecisionKind.TIMEOUT else None


def _harmless(rollout: RolloutRecord, result: AnalysisResult, now_s: int) -> StageDecision:
    stage = rollout.plan.stages[rollout.stage - 1]
    age_s = now_s - rollout.stage_started_at_s
    if result.reports == 0:
        return StageDecision(StageDecisionKind.HOLD, "no_reports", "there are no reports of this stage yet")
    if result.mismatch:
        return StageDecision(StageDecisionKind.HOLD, MISMATCH, result.mismatch)
    if age_s < stage.minimum_s:
        return StageDecision(
            StageDecisionKind.WAIT, "minimum_time", f"the stage is {age_s} s old, of at least {stage.minimum_s} s"
        )
    fewest = min(result.devices)
    if fewest < stage.minimum_cohort:
        reason = f"a group has about {max(fewest, 0.0):.0f} devices of at least {stage.minimum_cohort}"
        return StageDecision(StageDecisionKind.HOLD, "below_minimum_cohort", reason)
    guarded = zip(rollout.plan.watched, result.verdicts, strict=True)
    unsure = next(((name, each) for name, each in guarded if each.kind is not GuardKind.SAFE), None)
    return (
        StageDecision(StageDecisionKind.READY, "safe", "every guardrail is safe")
        if unsure is None
        else _hold(*unsure, is_past_horizon=result.is_past_horizon)
    )


def _hold(name: str, verdict: GuardVerdict, *, is_past_horizon: bool) -> StageDecision:
    if is_past_horizon:
        return StageDecision(StageDecisionKind.HOLD, "past_horizon", f"{verdict.reason}; {_PAST_HORIZON}")
    return StageDecision(StageDecisionKind.HOLD, f"inconclusive_{name}", verdict.reason)
