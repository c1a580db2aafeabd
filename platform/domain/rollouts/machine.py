"""Defines the states of a rollout and the transitions between them.  Pure.

                    advance                       advance to 10 000
    ┌───────┐ ───────────────▶ ┌─────────┐ ─────────────────────────▶ ┌───────────┐
    │ draft │                  │ running │ ⟲ advance                  │ completed │
    └───────┘                  └─────────┘                            └───────────┘
        │            pause, time │     ▲ resume
        │            out, harm   ▼     │
        │                      ┌─────────┐
        │                      │ paused  │
        │                      └─────────┘
        │ rollback    running, paused │ rollback,              any of these │ halt,
        └──────────────▶ ┌────────────▼┐ time out, harm               ┌─────▼──┐ harm
                         │ rolled back │                              │ halted │
                         └─────────────┘                              └────────┘

What happens by itself (harm, time out, and advance where the plan says so) is decided in `decide.py` and takes the
same arrows as a person would.

R1  A share only rises while a rollout lives; the devices that have the version keep it (buckets from 0 up).
R2  Pausing changes nothing on any device.
R3  Rolled back and halted are final; a completed one can be halted, nothing else.  Going back from it without a halt
    is a new rollout.
R4  Completing makes the version the app's default; nothing else here does.  A rollout with an audience runs at 10 000
    and does not complete: its version would become the default of devices outside of the audience.
R5  A draft can be halted, so that whatever runs a version (a default, an arm), the version itself can be forbidden.
    It can be deleted, which nothing else can: no device ever knew of it.
R6  A rollout with guardrails has a control group as large as its share, from the top bucket down; above half of the
    devices what is left.  Without guardrails, and at 10 000, there is none.
R7  Each stage is compared with a control group of its own: its reports name a task that began with it.  The tests read
    the stages together; what they are fixed by is kept when the rollout and the stage begin (`looks.py`).
"""

from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from alcove.platform.domain.errors import IllegalTransitionError, InvalidFieldError, ShareNotRaisedError
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import MISMATCH, Evidence, StageDecisionKind
from alcove.platform.domain.rollouts.looks import EARLY_PART, begin_stage, control_share, harm_planned_reports
from alcove.registry.limits import POLICY_BUCKETS

__all__ = ["LIVE", "Action", "allowed_actions", "next_share", "transition"]


class Action(StrEnum):
    """An action on a rollout."""

    ADVANCE = "advance"
    PAUSE = "pause"
    RESUME = "resume"
    ROLL_BACK = "rollback"
    HALT = "halt"
    DELETE = "delete"


_S = RolloutState
LIVE: Final = (_S.RUNNING, _S.PAUSED)  # on devices
_ARROWS: Final = MappingProxyType(
    {
        (_S.DRAFT, Action.ADVANCE): _S.RUNNING,
        (_S.RUNNING, Action.ADVANCE): _S.RUNNING,
        (_S.RUNNING, Action.PAUSE): _S.PAUSED,
        (_S.PAUSED, Action.RESUME): _S.RUNNING,
        (_S.DRAFT, Action.ROLL_BACK): _S.ROLLED_BACK,
        (_S.RUNNING, Action.ROLL_BACK): _S.ROLLED_BACK,
        (_S.PAUSED, Action.ROLL_BACK): _S.ROLLED_BACK,
        (_S.DRAFT, Action.HALT): _S.HALTED,
        (_S.RUNNING, Action.HALT): _S.HALTED,
        (_S.PAUSED, Action.HALT): _S.HALTED,
        (_S.COMPLETED, Action.HALT): _S.HALTED,
    }
)


def allowed_actions(state: RolloutState) -> tuple[Action, ...]:
    """Return what may be asked of a rollout in a state; deleting a draft leads to no state."""
    following = tuple(action for at, action in _ARROWS if at is state)
    return (*following, Action.DELETE) if state is _S.DRAFT else following


def next_share(rollout: RolloutRecord, wanted_basis_points: int) -> int:
    """Return the share that an advance reaches.

    Args:
        rollout: as it is.
        wanted_basis_points: as asked for; 0: that of the next stage.

    Raises:
        InvalidFieldError: the share is not in 1 to 10 000, or not that of the next stage of a rollout that has stages.
        ShareNotRaisedError: R1.
    """
    stages = rollout.plan.stages
    following = stages[rollout.stage].share_basis_points if rollout.stage < len(stages) else POLICY_BUCKETS
    share = wanted_basis_points or (following if stages else 0)
    if not 1 <= share <= POLICY_BUCKETS:
        bound = f"1 to {POLICY_BUCKETS}" + ("" if stages else "; the rollout has no stages")
        raise InvalidFieldError("share_basis_points", bound, wanted_basis_points)
    if stages and share != following:
        bound = f"0 (left out), or {following} ({following / 100:g} %), the next stage's"
        raise InvalidFieldError("share_basis_points", bound, wanted_basis_points)
    at_all_without_audience = rollout.share_basis_points == POLICY_BUCKETS and not rollout.audience
    if share < rollout.share_basis_points or (share == rollout.share_basis_points and not at_all_without_audience):
        raise ShareNotRaisedError(rollout.rollout_id, rollout.share_basis_points, share)
    return share


def transition(
    rollout: RolloutRecord, action: Action, *, now_s: int, share_basis_points: int | None = None
) -> RolloutRecord:
    """Return the rollout after `action`.

    Args:
        rollout: as it is.
        action: what is asked.
        now_s: seconds since 1970-01-01 UTC.
        share_basis_points: the share to reach, for ADVANCE only, as `next_share` takes it.

    Raises:
        IllegalTransitionError: the drawing has no such arrow.
        InvalidFieldError: the share is out of its bounds.
        ShareNotRaisedError: R1.
    """
    state = _ARROWS.get((rollout.state, action))
    if state is None:
        allowed = allowed_actions(rollout.state)
        raise IllegalTransitionError("rollout", rollout.rollout_id, rollout.state, action, allowed)
    if action is Action.ADVANCE:
        return _advance(rollout, next_share(rollout, share_basis_points or 0), now_s)
    if action in (Action.ROLL_BACK, Action.HALT):
        rollout = replace(rollout, share_basis_points=0, control_basis_points=0)
    if action is not Action.RESUME:
        rollout = replace(rollout, proposal=None)
    return replace(rollout, state=state, updated_at_s=now_s)


def _advance(rollout: RolloutRecord, share: int, now_s: int) -> RolloutRecord:
    is_complete = share == POLICY_BUCKETS and not rollout.audience
    control = control_share(share) if rollout.plan.watched else 0
    stage = min(rollout.stage + 1, len(rollout.plan.stages))
    return replace(
        rollout,
        state=_S.COMPLETED if is_complete else _S.RUNNING,
        share_basis_points=share,
        control_basis_points=control,
        stage=stage,
        stage_started_at_s=now_s,
        analysis=None,
        evidence=_begin(rollout, stage, now_s) if control else rollout.evidence,
        proposal=None,
        updated_at_s=now_s,
    )


def _begin(rollout: RolloutRecord, stage: int, now_s: int) -> Evidence:
    """Return the evidence as a stage with a control group begins, without one whose reports could not be believed."""
    before, found = rollout.evidence, rollout.analysis
    is_believed = found is None or (found.decision is not StageDecisionKind.ALARM and found.code != MISMATCH)
    is_first = not before.planned_reports
    first, later = harm_planned_reports(rollout.plan)
    return Evidence(
        planned_reports=first if is_first else before.planned_reports,
        later_reports=later if is_first else before.later_reports,
        early_part=EARLY_PART * (not rollout.plan.is_open_ended) if is_first else before.early_part,
        stages=(
            *(before.stages if is_believed else before.stages[:-1]),
            begin_stage(rollout.plan, stage, started_at_s=now_s, is_first=is_first),
        ),
    )
