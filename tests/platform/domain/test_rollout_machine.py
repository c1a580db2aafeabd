"""The rollout's states: exactly the arrows that are drawn, and shares that only rise."""

import itertools
from dataclasses import replace

import pytest
from alcove.platform.domain.errors import IllegalTransitionError, InvalidFieldError, ShareNotRaisedError
from alcove.platform.domain.records import RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.machine import Action, transition
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


def rollout(state: RolloutState, share_basis_points: int = 100) -> RolloutRecord:
    """A rollout in a state."""
    share = share_basis_points if state in LIVE else 0
    return RolloutRecord(1, "ro-1", "app", "f", "1.0.0", "0" * 64, "salt", state, share, 1, 1, 1)


@pytest.mark.parametrize(("state", "action"), list(itertools.product(S, Action)))
def test_only_the_drawn_arrows_exist(state: RolloutState, action: Action) -> None:
    """Every pair of state and action either leads where the drawing says, or is refused by name."""
    share = 200 if action is Action.ADVANCE else None
    expected = DRAWN.get((state, action))
    if expected is None:
        with pytest.raises(IllegalTransitionError, match=f"ro-1 is {state}: cannot {action}"):
            transition(rollout(state), action, now_s=2, share_basis_points=share)
    else:
        after = transition(rollout(state), action, now_s=2, share_basis_points=share)
        assert (after.state, after.updated_at_s) == (expected, 2)


@pytest.mark.parametrize("share", [None, -1, 0, 10_001])
def test_a_share_out_of_bounds_is_refused(share: int | None) -> None:
    """The bound and the value are named."""
    with pytest.raises(InvalidFieldError, match="share_basis_points"):
        transition(rollout(S.RUNNING), Action.ADVANCE, now_s=2, share_basis_points=share)


@pytest.mark.parametrize("share", [1, 99, 100])
def test_a_share_that_does_not_rise_is_refused(share: int) -> None:
    """Going back is a roll-back, not an advance."""
    with pytest.raises(ShareNotRaisedError, match="100 basis points"):
        transition(rollout(S.RUNNING, 100), Action.ADVANCE, now_s=2, share_basis_points=share)


PLANS = (
    RolloutPlan(),
    RolloutPlan(stages=(Stage(100, 0, 50), Stage(5000, 0, 50), Stage(8000, 0, 50), Stage(10_000, 0, 50))),
    RolloutPlan(
        stages=(Stage(100, 0, 50), Stage(5000, 0, 50), Stage(8000, 0, 50)),
        guardrails=(GuardrailRecord("error", 0.0),),
    ),
)
KEPT = ("sequence", "rollout_id", "app", "feature", "version", "manifest_sha256", "salt", "created_at_s", "plan")


@given(
    st.sampled_from(PLANS),
    st.sampled_from(["", "os in (ios)"]),
    st.lists(st.tuples(st.sampled_from(list(Action)), st.sampled_from([0, 0, 0, -5, 7, 100, 10_000, 10_005]))),
)
def test_whatever_is_asked_the_invariants_hold(
    plan: RolloutPlan, audience: str, steps: list[tuple[Action, int]]
) -> None:
    """R1 to R7: live shares only rise, ends are final but for a halt, and groups share no device."""
    current = replace(rollout(S.DRAFT), plan=plan, audience=audience)
    for now_s, (action, share) in enumerate(steps, 2):
        wanted = share if action is Action.ADVANCE else None
        try:
            after = transition(current, action, now_s=now_s, share_basis_points=wanted)
        except (IllegalTransitionError, InvalidFieldError, ShareNotRaisedError):
            continue
        assert current.state not in (S.ROLLED_BACK, S.HALTED)
        assert current.state is not S.COMPLETED or action is Action.HALT
        if action in (Action.PAUSE, Action.RESUME):
            assert after.share_basis_points == current.share_basis_points
        if after.state in (*LIVE, S.COMPLETED):
            assert after.share_basis_points >= current.share_basis_points > -1
        else:
            assert after.share_basis_points == 0
        is_complete = after.share_basis_points == 10_000 and not audience
        assert (after.state is S.COMPLETED) == is_complete
        most = min(after.share_basis_points, 10_000 - after.share_basis_points)
        assert after.control_basis_points == (most if plan.guardrails else 0)
        if action is Action.ADVANCE:
            assert (after.stage_started_at_s, after.stage) == (now_s, min(current.stage + 1, len(plan.stages)))
        else:
            assert (after.stage_started_at_s, after.stage) == (current.stage_started_at_s, current.stage)
        assert all(getattr(after, name) == getattr(current, name) for name in KEPT)
        current = after


def test_stages_are_taken_one_after_the_other_and_then_everybody() -> None:
    """Share 0 means the next stage; another share than its own is refused; after the last stage there is 100 %."""
    current = replace(rollout(S.DRAFT), plan=PLANS[2])
    for stage, (share, control) in enumerate(((100, 100), (5000, 5000), (8000, 2000)), 1):
        with pytest.raises(InvalidFieldError, match=rf"0 \(left out\), or {share} \("):
            transition(current, Action.ADVANCE, now_s=2, share_basis_points=share + 1)
        current = transition(current, Action.ADVANCE, now_s=2)
        assert (current.stage, current.share_basis_points, current.control_basis_points) == (stage, share, control)
        assert current.state is S.RUNNING
    current = transition(current, Action.ADVANCE, now_s=3)
    assert (current.state, current.share_basis_points, current.control_basis_points) == (S.COMPLETED, 10_000, 0)


def test_a_rollout_with_an_audience_completes_once_the_audience_is_everybody() -> None:
    """At 10 000 of an audience it keeps running; its version becomes nobody else's default by accident."""
    current = replace(rollout(S.RUNNING), audience="os in (ios)")
    current = transition(current, Action.ADVANCE, now_s=2, share_basis_points=10_000)
    assert (current.state, current.share_basis_points) == (S.RUNNING, 10_000)
    with pytest.raises(ShareNotRaisedError):
        transition(current, Action.ADVANCE, now_s=3, share_basis_points=10_000)
    widened = transition(replace(current, audience=""), Action.ADVANCE, now_s=4, share_basis_points=10_000)
    assert widened.state is S.COMPLETED
