"""Which states has a rollout, and which arrows lead between them?  Pure.

                    advance                       advance to 10 000
    ┌───────┐ ───────────────▶ ┌─────────┐ ─────────────────────────▶ ┌───────────┐
    │ draft │                  │ running │ ⟲ advance                  │ completed │
    └───────┘                  └─────────┘                            └───────────┘
        │                 pause │     ▲ resume
        │                       ▼     │
        │                      ┌─────────┐
        │                      │ paused  │
        │                      └─────────┘
        │ rollback    running, paused │ rollback                any of these │ halt
        └──────────────▶ ┌────────────▼┐                                ┌────▼───┐
                         │ rolled back │                                │ halted │
                         └─────────────┘                                └────────┘

R1  A share only rises while a rollout lives; the devices that have the version keep it (buckets from 0 up).
R2  Pausing changes nothing on any device.
R3  Rolled back and halted are final; a completed one can be halted, nothing else.  Going back from it without a halt
    is a new rollout.
R4  Completing makes the version the app's default; nothing else here does.
R5  A draft can be halted, so that whatever runs a version (a default, an arm), the version itself can be forbidden.
"""

from dataclasses import replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from alcove.platform.core.errors import IllegalTransitionError, InvalidFieldError, ShareNotRaisedError
from alcove.platform.core.records import RolloutRecord, RolloutState
from alcove.registry.limits import POLICY_BUCKETS

__all__ = ["Action", "transition"]


class Action(StrEnum):
    """What an operator may ask of a rollout."""

    ADVANCE = "advance"
    PAUSE = "pause"
    RESUME = "resume"
    ROLL_BACK = "rollback"
    HALT = "halt"


_S = RolloutState
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


def transition(
    rollout: RolloutRecord, action: Action, *, now_s: int, share_permyriad: int | None = None
) -> RolloutRecord:
    """Return the rollout after `action`.

    Args:
        rollout: as it is.
        action: what is asked.
        now_s: seconds since 1970-01-01 UTC.
        share_permyriad: the share to reach, for ADVANCE only.

    Raises:
        IllegalTransitionError: the drawing has no such arrow.
        InvalidFieldError: the share is missing or not in 1 to 10 000.
        ShareNotRaisedError: R1.
    """
    state = _ARROWS.get((rollout.state, action))
    if state is None:
        raise IllegalTransitionError("rollout", rollout.rollout_id, rollout.state, action)
    share = rollout.share_permyriad
    if action is Action.ADVANCE:
        share = _raised(rollout, share_permyriad)
        state = _S.COMPLETED if share == POLICY_BUCKETS else state
    elif action in (Action.ROLL_BACK, Action.HALT):
        share = 0
    return replace(rollout, state=state, share_permyriad=share, updated_at_s=now_s)


def _raised(rollout: RolloutRecord, share_permyriad: int | None) -> int:
    if share_permyriad is None or not 1 <= share_permyriad <= POLICY_BUCKETS:
        raise InvalidFieldError("share_permyriad", f"1 to {POLICY_BUCKETS}", share_permyriad)
    if share_permyriad <= rollout.share_permyriad:
        raise ShareNotRaisedError(rollout.rollout_id, rollout.share_permyriad, share_permyriad)
    return share_permyriad
