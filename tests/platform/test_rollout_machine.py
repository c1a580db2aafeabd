"""The rollout's states: exactly the arrows that are drawn, and shares that only rise."""

import itertools
from dataclasses import replace

import pytest
from alcove.platform.core.errors import IllegalTransitionError, InvalidFieldError, ShareNotRaisedError
from alcove.platform.core.records import RolloutRecord, RolloutState
from alcove.platform.rollouts.machine import Action, transition
from hypothesis import given
from hypothesis import strategies as st

S = RolloutState
DRAWN = {
    (S.DRAFT, Action.ADVANCE): S.RUNNING,
    (S.DRAFT, Action.ROLL_BACK): S.ROLLED_BACK,
    (S.RUNNING, Action.ADVANCE): S.RUNNING,
    (S.RUNNING, Action.PAUSE): S.PAUSED,
    (S.RUNNING, Action.ROLL_BACK): S.ROLLED_BACK,
    (S.DRAFT, Action.HALT): S.HALTED,
    (S.RUNNING, Action.HALT): S.HALTED,
    (S.COMPLETED, Action.HALT): S.HALTED,
    (S.PAUSED, Action.RESUME): S.RUNNING,
    (S.PAUSED, Action.ROLL_BACK): S.ROLLED_BACK,
    (S.PAUSED, Action.HALT): S.HALTED,
}
LIVE = (S.RUNNING, S.PAUSED)


def rollout(state: RolloutState, share_permyriad: int = 100) -> RolloutRecord:
    """A rollout in a state."""
    share = share_permyriad if state in LIVE else 0
    return RolloutRecord(1, "ro-1", "app", "f", "1.0.0", "0" * 64, "salt", state, share, 1, 1, 1)


@pytest.mark.parametrize(("state", "action"), list(itertools.product(S, Action)))
def test_only_the_drawn_arrows_exist(state: RolloutState, action: Action) -> None:
    """Every pair of state and action either leads where the drawing says, or is refused by name."""
    share = 200 if action is Action.ADVANCE else None
    expected = DRAWN.get((state, action))
    if expected is None:
        with pytest.raises(IllegalTransitionError, match=f"ro-1 is {state}: cannot {action}"):
            transition(rollout(state), action, now_s=2, share_permyriad=share)
    else:
        after = transition(rollout(state), action, now_s=2, share_permyriad=share)
        assert (after.state, after.updated_at_s) == (expected, 2)


@pytest.mark.parametrize("share", [None, -1, 0, 10_001])
def test_a_share_out_of_bounds_is_refused(share: int | None) -> None:
    """The bound and the value are named."""
    with pytest.raises(InvalidFieldError, match="share_permyriad"):
        transition(rollout(S.RUNNING), Action.ADVANCE, now_s=2, share_permyriad=share)


@pytest.mark.parametrize("share", [1, 99, 100])
def test_a_share_that_does_not_rise_is_refused(share: int) -> None:
    """Going back is a roll-back, not an advance."""
    with pytest.raises(ShareNotRaisedError, match="100 permyriad"):
        transition(rollout(S.RUNNING, 100), Action.ADVANCE, now_s=2, share_permyriad=share)


@given(st.lists(st.tuples(st.sampled_from(list(Action)), st.integers(-5, 10_005)), max_size=30))
def test_whatever_is_asked_the_invariants_hold(steps: list[tuple[Action, int]]) -> None:
    """R1 to R4: live shares only rise, ends are final but for a halt, only completion has all devices."""
    current = rollout(S.DRAFT)
    for action, share in steps:
        try:
            after = transition(current, action, now_s=2, share_permyriad=share if action is Action.ADVANCE else None)
        except (IllegalTransitionError, InvalidFieldError, ShareNotRaisedError):
            continue
        assert current.state not in (S.ROLLED_BACK, S.HALTED)
        assert current.state is not S.COMPLETED or action is Action.HALT
        if action in (Action.PAUSE, Action.RESUME):
            assert after.share_permyriad == current.share_permyriad
        if after.state in (*LIVE, S.COMPLETED):
            assert after.share_permyriad >= current.share_permyriad > -1
        else:
            assert after.share_permyriad == 0
        assert (after.state is S.COMPLETED) == (after.share_permyriad == 10_000)
        assert replace(after, state=current.state, share_permyriad=current.share_permyriad, updated_at_s=1) == replace(
            current, updated_at_s=1
        )
        current = after
