"""Rollouts over the wire: each step reaches the signed policy, and what must not happen is refused by name."""

from collections.abc import Callable

import pytest
from alcove.platform.client import (
    AlreadyExistsError,
    Arm,
    FailedPreconditionError,
    InvalidRequestError,
    NotFoundError,
    PlatformClient,
    Rollout,
)
from alcove.platform.domain.records import Page
from alcove.platform.store import Store
from alcove.platform.store.audit import AuditEntry, list_audit
from alcove.platform.testing import ServerWorld
from alcove.registry.policy import FeaturePolicy, Reason, resolve

WHY = "the new version fixes a crash"
Rules = Callable[[], FeaturePolicy | None]


@pytest.fixture
def rules(world: ServerWorld, app: str, feature: str) -> Rules:
    """What the signed policy of this test's app says of its feature."""

    def read() -> FeaturePolicy | None:
        policy = world.tree.policy(app)
        return None if policy is None else policy.features.get(feature)

    return read


async def audit_of(world: ServerWorld, subject: str) -> list[AuditEntry]:
    """The audit entries about one thing."""
    store = await Store.open(world.data_dir / "alcove.db")
    async with store.read() as session:
        entries = await list_audit(session, Page(0, 1000))
    await store.close()
    return [entry for entry in entries if entry.subject == subject]


def two_versions(world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str) -> None:
    """1.0.0 is the default of the app, 2.0.0 is published."""
    world.publish(team, feature, "1.0.0")
    world.publish(team, feature, "2.0.0")
    first = operator.create_rollout(app, feature, "1.0.0")
    assert operator.advance_rollout(first.rollout_id, 10_000, override_reason="first version").state == "completed"


async def test_a_rollout_goes_up_in_steps_and_becomes_the_default(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, rules: Rules
) -> None:
    """Draft, 1 %, 25 %, 100 %: the signed policy follows each step before the call returns; all of it is audited."""
    two_versions(world, team, operator, app, feature)
    rollout = operator.create_rollout(app, feature, "2.0.0")
    assert (rollout.state, rollout.share_basis_points, rollout.policy_serial) == ("draft", 0, 0)
    before = rules()
    assert before is not None
    assert (before.default.version, before.rollout) == ("1.0.0", None)
    for share in (100, 2500):
        rollout = operator.advance_rollout(rollout.rollout_id, share, override_reason=WHY)
        now = rules()
        assert now is not None
        assert now.rollout is not None
        assert (now.default.version, now.rollout.version.version, now.rollout.share_basis_points) == (
            "1.0.0", "2.0.0", share
        )  # fmt: skip
        policy = world.tree.policy(app)
        assert policy is not None
        assert policy.serial == rollout.policy_serial
    rollout = operator.advance_rollout(rollout.rollout_id, 10_000, override_reason=WHY)
    now = rules()
    assert now is not None
    assert (rollout.state, now.default.version, now.rollout) == ("completed", "2.0.0", None)
    entries = await audit_of(world, rollout.rollout_id)
    assert [entry.action for entry in entries] == ["create rollout", *["advance rollout"] * 3]
    assert [entry.details.get("override_reason") for entry in entries[1:]] == [WHY] * 3
    assert {entry.principal.partition("/")[0] for entry in entries} == {"operator"}
    assert operator.rollout(rollout.rollout_id) == rollout
    assert rollout in operator.rollouts(app, feature)
    assert operator.rollouts(app, "another") == []


def test_pausing_keeps_the_share_and_resuming_continues(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, rules: Rules
) -> None:
    """A pause changes nothing on any device, and no advance gets through until the resume."""
    two_versions(world, team, operator, app, feature)
    rollout_id = operator.create_rollout(app, feature, "2.0.0").rollout_id
    running = operator.advance_rollout(rollout_id, 500, override_reason=WHY)
    before = rules()
    paused = operator.pause_rollout(rollout_id)
    assert (paused.state, paused.share_basis_points, paused.policy_serial) == ("paused", 500, running.policy_serial)
    assert rules() == before
    with pytest.raises(FailedPreconditionError, match="paused") as refusal:
        operator.advance_rollout(rollout_id, 600, override_reason=WHY)
    assert refusal.value.kind == "IllegalTransitionError"
    assert operator.resume_rollout(rollout_id).state == "running"
    assert operator.advance_rollout(rollout_id, 600, override_reason=WHY).share_basis_points == 600


async def test_a_roll_back_returns_everyone_and_is_final(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, rules: Rules
) -> None:
    """The policy names the default alone again; the reason is kept; nothing leads out of the end."""
    two_versions(world, team, operator, app, feature)
    rollout_id = operator.create_rollout(app, feature, "2.0.0").rollout_id
    operator.advance_rollout(rollout_id, 5000, override_reason=WHY)
    assert operator.roll_back_rollout(rollout_id, "it is slow").state == "rolled_back"
    now = rules()
    assert now is not None
    assert (now.default.version, now.rollout) == ("1.0.0", None)
    assert (await audit_of(world, rollout_id))[-1].details["reason"] == "it is slow"
    steps: tuple[Callable[[], Rollout], ...] = (
        lambda: operator.advance_rollout(rollout_id, 6000, override_reason=WHY),
        lambda: operator.pause_rollout(rollout_id),
        lambda: operator.resume_rollout(rollout_id),
        lambda: operator.roll_back_rollout(rollout_id, WHY),
        lambda: operator.halt_rollout(rollout_id, WHY),
    )
    for step in steps:
        with pytest.raises(FailedPreconditionError, match="rolled_back"):
            step()


def test_a_halt_forbids_the_version_in_the_app_only(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, rules: Rules
) -> None:
    """The halt document names the digest; neither rollout nor experiment can bring it back; other apps go on."""
    two_versions(world, team, operator, app, feature)
    rollout_id = operator.create_rollout(app, feature, "2.0.0").rollout_id
    draft = operator.create_rollout(app, feature, "2.0.0")
    operator.advance_rollout(rollout_id, 100, override_reason=WHY)
    assert operator.halt_rollout(rollout_id, "it crashes").state == "halted"
    halt, now = world.tree.halt(app), rules()
    assert halt is not None
    assert now is not None
    assert halt.digests == {world.tree.manifest(feature, "2.0.0").sha256}
    assert now.rollout is None
    steps: tuple[Callable[[], Rollout], ...] = (
        lambda: operator.create_rollout(app, feature, "2.0.0"),
        lambda: operator.advance_rollout(draft.rollout_id, 100, override_reason=WHY),
    )
    for step in steps:
        with pytest.raises(FailedPreconditionError, match=r"2\.0\.0 is halted") as refusal:
            step()
        assert refusal.value.kind == "VersionHaltedError"
    assert operator.create_rollout(f"{app}-other", feature, "2.0.0").state == "draft"


async def test_what_everyone_runs_can_be_halted(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, rules: Rules
) -> None:
    """The completed version is forbidden by the signed halt and the default before is back; then there is none."""
    world.publish(team, feature, "1.0.0")
    world.publish(team, feature, "2.0.0")
    first, second = (operator.create_rollout(app, feature, version).rollout_id for version in ("1.0.0", "2.0.0"))
    for rollout_id in (first, second):
        assert operator.advance_rollout(rollout_id, 10_000, override_reason=WHY).state == "completed"
    halted = operator.halt_rollout(second, "it crashes")
    assert (halted.state, halted.share_basis_points) == ("halted", 0)
    halt, now, policy = world.tree.halt(app), rules(), world.tree.policy(app)
    assert halt is not None
    assert now is not None
    assert policy is not None
    assert halt.digests == {world.tree.manifest(feature, "2.0.0").sha256}
    assert (now.default.version, now.rollout, halted.policy_serial) == ("1.0.0", None, policy.serial)
    assert (await audit_of(world, second))[-1].details["default"] == "1.0.0"

    operator.halt_rollout(first, "that one too")
    halt = world.tree.halt(app)
    assert halt is not None
    assert halt.digests == {world.tree.manifest(feature, version).sha256 for version in ("1.0.0", "2.0.0")}
    assert rules() is None
    with pytest.raises(FailedPreconditionError, match="is halted"):
        operator.halt_rollout(first, WHY)


def test_an_arm_of_an_experiment_can_be_halted_through_a_draft(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, rules: Rules
) -> None:
    """The feature being held is no obstacle; devices leave the experiment, which can still be stopped."""
    two_versions(world, team, operator, app, feature)
    arms = [Arm(name=n, version=v, share_basis_points=5000) for n, v in (("a", "1.0.0"), ("b", "2.0.0"))]
    experiment_id = operator.create_experiment(app, feature, arms).experiment_id
    operator.start_experiment(experiment_id)
    draft = operator.create_rollout(app, feature, "2.0.0")
    assert operator.halt_rollout(draft.rollout_id, "it crashes").state == "halted"
    halt, policy = world.tree.halt(app), world.tree.policy(app)
    assert halt is not None
    assert policy is not None
    assert {resolve(policy, feature, bytes([seed] * 32), halted=halt.digests).reason for seed in range(50)} == {
        Reason.DEFAULT
    }
    assert operator.stop_experiment(experiment_id).state == "stopped"
    now = rules()
    assert now is not None
    assert (now.default.version, now.experiments) == ("1.0.0", ())


def test_advancing_without_a_winner_needs_a_reason(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Without one it is refused, and nothing has moved."""
    two_versions(world, team, operator, app, feature)
    rollout_id = operator.create_rollout(app, feature, "2.0.0").rollout_id
    with pytest.raises(FailedPreconditionError, match="override_reason") as refusal:
        operator.advance_rollout(rollout_id, 100)
    assert refusal.value.kind == "OverrideRequiredError"
    assert operator.rollout(rollout_id).state == "draft"


def test_shares_only_rise(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Equal, lower and zero are refused; the share stays."""
    two_versions(world, team, operator, app, feature)
    rollout_id = operator.create_rollout(app, feature, "2.0.0").rollout_id
    operator.advance_rollout(rollout_id, 500, override_reason=WHY)
    for share, error in (
        (500, FailedPreconditionError),
        (499, FailedPreconditionError),
        (0, InvalidRequestError),
    ):
        with pytest.raises(error):
            operator.advance_rollout(rollout_id, share, override_reason=WHY)
    assert operator.rollout(rollout_id).share_basis_points == 500


def test_the_first_version_of_an_app_goes_to_everyone(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Without a default there is nothing that the others could run: a partial share is refused."""
    world.publish(team, feature)
    rollout_id = operator.create_rollout(app, feature, "1.0.0").rollout_id
    with pytest.raises(FailedPreconditionError, match="no default version") as refusal:
        operator.advance_rollout(rollout_id, 100, override_reason=WHY)
    assert refusal.value.kind == "NoDefaultVersionError"
    assert world.tree.policy(app) is None
    assert operator.advance_rollout(rollout_id, 10_000, override_reason=WHY).state == "completed"


def test_one_rollout_at_a_time_holds_a_feature(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """A second rollout may be drafted, not advanced, and the holder is named."""
    two_versions(world, team, operator, app, feature)
    first, second = (operator.create_rollout(app, feature, "2.0.0").rollout_id for _ in range(2))
    operator.advance_rollout(first, 100, override_reason=WHY)
    with pytest.raises(FailedPreconditionError, match=first) as refusal:
        operator.advance_rollout(second, 100, override_reason=WHY)
    assert refusal.value.kind == "FeatureBusyError"
    operator.roll_back_rollout(first, WHY)
    assert operator.advance_rollout(second, 100, override_reason=WHY).state == "running"


def test_a_repeated_step_is_done_once(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """The same request id gives the same answer and no second rollout, share or policy."""
    two_versions(world, team, operator, app, feature)
    made = [operator.create_rollout(app, feature, "2.0.0", request_id=f"create-{app}") for _ in range(3)]
    assert made[0] == made[1] == made[2]
    steps = [
        operator.advance_rollout(made[0].rollout_id, 100, override_reason=WHY, request_id=f"advance-{app}")
        for _ in range(3)
    ]
    assert steps[0] == steps[1] == steps[2]
    policy = world.tree.policy(app)
    assert policy is not None
    assert policy.serial == steps[0].policy_serial
    assert len(operator.rollouts(app)) == 2
    with pytest.raises(AlreadyExistsError, match=f"advance-{app}"):
        operator.advance_rollout(made[0].rollout_id, 200, override_reason=WHY, request_id=f"advance-{app}")
    with pytest.raises(AlreadyExistsError, match=f"advance-{app}"):
        operator.pause_rollout(made[0].rollout_id, request_id=f"advance-{app}")


def test_rollouts_are_found_by_state_and_words_in_either_order(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Every filter must fit; pages go on where the one before ended; % and _ stand for themselves."""
    two_versions(world, team, operator, app, feature)
    first, second, third = (operator.create_rollout(app, feature, "2.0.0").rollout_id for _ in range(3))
    operator.roll_back_rollout(second, "for a test")
    drafts = operator.rollouts_page(app, states=["draft"])
    assert [one.rollout_id for one in drafts.items] == [first, third]
    assert drafts.next_token == ""
    newest = operator.rollouts_page(app, text=f"2.0.0 {feature.upper()}", order="newest", size=2)
    assert [one.rollout_id for one in newest.items] == [third, second]
    rest = operator.rollouts_page(app, text=f"2.0.0 {feature.upper()}", order="newest", token=newest.next_token)
    assert ([one.rollout_id for one in rest.items], rest.next_token) == ([first], "")
    assert [one.rollout_id for one in operator.rollouts_page(text=third[3:]).items] == [third]
    assert [one.state for one in operator.rollouts(app, states=["completed", "rolled_back"])] == [
        "completed",
        "rolled_back",
    ]
    for nothing in ("%", "r__", "halted"):
        assert operator.rollouts_page(app, text=nothing).items == ()


def test_a_rollout_that_was_never_watched_has_no_analyses(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """An empty list; of a rollout that is not there an error."""
    two_versions(world, team, operator, app, feature)
    assert operator.stage_analyses(operator.create_rollout(app, feature, "2.0.0").rollout_id) == []
    with pytest.raises(NotFoundError, match="ro-nothing"):
        operator.stage_analyses("ro-nothing")
