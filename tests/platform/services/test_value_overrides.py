"""An operator overrides values of a feature on every device at once, whatever rollout, arm or holdout it is in."""

import asyncio
import time
from collections.abc import Iterable

import pytest
from alcove.platform.client import (
    Arm,
    FailedPreconditionError,
    GuardrailPlan,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    Plan,
    PlatformClient,
    StagePlan,
)
from alcove.platform.store import Store
from alcove.platform.store.audit import AuditEntry, AuditFilter, search_audit
from alcove.platform.testing import ServerWorld
from alcove.registry.parameters import Parameter, Setting
from alcove.registry.policy import FeaturePolicy, Policy, Reason, resolve
from alcove.sdk.testing import SeededEntropy

ENABLED = Parameter(name="enabled", type="bool", default=True)
ROWS = Parameter(name="rows", type="int", default=3, minimum=1, maximum=10)
OFF = {"enabled": False}
WHY = "it shows nonsense"
WATCHED = Plan(
    stages=(StagePlan(share_basis_points=1000, minimum_s=3600, minimum_cohort=100), StagePlan(share_basis_points=5000)),
    guardrails=(GuardrailPlan(metric="refused", margin=0.02),),
)


@pytest.fixture
def version(world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str) -> str:
    """A version with a kill switch, on all devices."""
    world.publish(team, feature, "1.0.0", parameters=(ENABLED, ROWS))
    operator.create_rollout(app, feature, "1.0.0", share_basis_points=10_000, override_reason="first")
    return "1.0.0"


def policy_of(world: ServerWorld, app: str) -> Policy:
    """The signed policy."""
    policy = world.tree.policy(app)
    assert policy is not None
    return policy


def rules(world: ServerWorld, app: str, feature: str) -> FeaturePolicy:
    """What the signed policy says of a feature."""
    return policy_of(world, app).features[feature]


def in_policy(values: Iterable[Setting]) -> dict[str, object]:
    """Values of a part of the policy, by name."""
    return {setting.name: setting.value for setting in values}


def entry_of(world: ServerWorld, app: str, feature: str) -> AuditEntry:
    """The newest audit entry about a feature of an app."""

    async def read() -> tuple[AuditEntry, ...]:
        store = await Store.open(world.data_dir / "alcove.db")
        async with store.read() as session:
            page = await search_audit(session, AuditFilter(subject=f"{app}/{feature}"), before=0, size=1)
        await store.close()
        return page.entries

    (entry,) = asyncio.run(read())
    return entry


def test_a_kill_value_reaches_every_part_of_a_running_rollout_at_once(
    world: ServerWorld, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """Control and treatment; the rollout pauses and asks nothing; ended, it waits with its own values."""
    rollout = operator.create_rollout(app, feature, version, values={"rows": 7}, plan=WATCHED)
    operator.advance_rollout(rollout.rollout_id)
    before = rules(world, app, feature)
    assert before.rollout is not None
    assert before.rollout.tasks
    result = operator.override_values(app, feature, OFF, reason=WHY)
    assert (result.paused_rollout_ids, result.silent_experiment_ids) == ((rollout.rollout_id,), ())
    assert (result.override.values, result.override.reason) == (OFF, WHY)
    found = rules(world, app, feature)
    assert found.rollout is not None
    assert in_policy(found.values) == {"enabled": False}
    assert in_policy(found.rollout.values) == {"enabled": False, "rows": 7}
    # Every device keeps its version and its place, and reports nothing.
    same = {"tasks": before.rollout.tasks, "values": before.rollout.values}
    assert found.rollout.model_copy(update=same) == before.rollout
    assert found.rollout.tasks == ()
    assert operator.rollout(rollout.rollout_id).state == "paused"
    entry = entry_of(world, app, feature)
    assert (entry.action, entry.details["values"], entry.details["reason"]) == ("override values", OFF, WHY)
    assert entry.details["paused"] == [rollout.rollout_id]

    cleared = operator.clear_override(app, feature, reason="fixed")
    assert cleared.paused_rollout_ids == (rollout.rollout_id,)
    assert rules(world, app, feature) == before
    assert operator.rollout(rollout.rollout_id).state == "paused"
    assert operator.overrides(app) == []
    entry = entry_of(world, app, feature)
    assert (entry.action, entry.details["before"], entry.details["reason"]) == ("clear override", OFF, "fixed")
    operator.resume_rollout(rollout.rollout_id)


def test_a_kill_value_reaches_every_arm_of_a_running_experiment(
    world: ServerWorld, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """The arms keep their devices and ask nothing; ended, the same tasks go on."""
    arms = [
        Arm(name="control", version=version, share_basis_points=5000),
        Arm(name="more", version=version, share_basis_points=5000, values={"rows": 7, "enabled": True}),
    ]
    experiment = operator.start_experiment(operator.create_experiment(app, feature, arms).experiment_id)
    before = policy_of(world, app)
    result = operator.override_values(app, feature, OFF, reason=WHY)
    assert (result.paused_rollout_ids, result.silent_experiment_ids) == ((), (experiment.experiment_id,))
    after = policy_of(world, app)
    (found,) = after.features[feature].experiments
    assert [in_policy(arm.values) for arm in found.arms] == [OFF, {"enabled": False, "rows": 7}]
    for seed in range(20):
        secret = SeededEntropy(seed).random_bytes(32)
        was, now = (resolve(policy, feature, secret) for policy in (before, after))
        assert (now.reason, now.arm, now.version) == (Reason.EXPERIMENT, was.arm, was.version)
        assert (now.task, in_policy(now.values)["enabled"]) == (None, False)
    operator.clear_override(app, feature, reason="fixed")
    assert rules(world, app, feature) == before.features[feature]
    assert operator.experiment(experiment.experiment_id).state == "running"
    operator.stop_experiment(experiment.experiment_id)


def test_held_out_devices_get_the_kill_value_as_well(
    world: ServerWorld, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """A read-out keeps no version of the feature meanwhile, and measures it no more; then it does again."""
    operator.set_holdout(app, 1000)
    operator.start_readout(app, [feature], until_s=int(time.time()) + 100 * 86_400)
    before = policy_of(world, app)
    assert before.holdout is not None
    assert before.holdout.readout is not None
    operator.override_values(app, feature, OFF, reason=WHY)
    after = policy_of(world, app)
    assert after.holdout is not None
    assert after.holdout.readout is None
    for seed in range(20):
        secret = SeededEntropy(seed).random_bytes(32)
        assert in_policy(resolve(after, feature, secret, now_s=int(time.time())).values) == OFF
    operator.clear_override(app, feature, reason="fixed")
    assert policy_of(world, app).holdout == before.holdout


def test_nothing_is_compared_while_values_are_overridden(
    world: ServerWorld, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """No watched stage begins or goes on, no experiment starts; what a person repairs, and a rollback, goes through."""
    rollout = operator.create_rollout(app, feature, version, values={"rows": 7}, plan=WATCHED)
    operator.advance_rollout(rollout.rollout_id)
    operator.override_values(app, feature, OFF, reason=WHY)
    with pytest.raises(FailedPreconditionError, match=f"overridden in app '{app}' by .* \\({WHY}\\)") as caught:
        operator.resume_rollout(rollout.rollout_id)
    assert caught.value.kind == "ValuesOverriddenError"
    operator.roll_back_rollout(rollout.rollout_id, "the reason of it all")
    second = operator.create_rollout(app, feature, version, values={"rows": 8}, plan=WATCHED)
    with pytest.raises(FailedPreconditionError, match="alcove override clear"):
        operator.advance_rollout(second.rollout_id)
    arms = [
        Arm(name="control", version=version, share_basis_points=5000),
        Arm(name="more", version=version, share_basis_points=5000, values={"rows": 7}),
    ]
    draft = operator.create_experiment(app, feature, arms)
    with pytest.raises(FailedPreconditionError, match="alcove override clear"):
        operator.start_experiment(draft.experiment_id)
    # A repair reaches every device, and stays off until the override ends.
    operator.create_rollout(
        app, feature, version, values={"rows": 1}, share_basis_points=10_000, override_reason="repaired"
    )
    assert in_policy(rules(world, app, feature).values) == {"enabled": False, "rows": 1}
    operator.clear_override(app, feature, reason="repaired")
    assert in_policy(rules(world, app, feature).values) == {"rows": 1}


def test_an_override_may_stand_over_a_value_of_a_rollout_by_the_default_and_be_replaced(
    world: ServerWorld, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """A rollout switched it off: the override switches it on; the newest override is the one that stands."""
    operator.create_rollout(app, feature, version, values=OFF, share_basis_points=10_000, override_reason=WHY)
    operator.override_values(app, feature, {"enabled": "true"}, reason="needed today")
    assert in_policy(rules(world, app, feature).values) == {}
    operator.override_values(app, feature, {"rows": 1, "enabled": True}, reason="and short")
    assert in_policy(rules(world, app, feature).values) == {"rows": 1}
    (standing,) = operator.overrides(app)
    assert (standing.values, standing.reason) == ({"enabled": True, "rows": 1}, "and short")
    operator.clear_override(app, feature, reason="over")
    assert in_policy(rules(world, app, feature).values) == OFF


def test_versions_that_do_not_know_the_parameter_are_named(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """The answer and the list say which devices stay on, and the policy carries nothing that they would refuse."""
    world.publish(team, feature, "2.0.0", parameters=(ROWS,))
    operator.create_rollout(app, feature, "2.0.0", share_basis_points=2500, override_reason="new")
    result = operator.override_values(app, feature, {"enabled": False, "rows": 1}, reason=WHY)
    assert result.override.unreached_versions == ("2.0.0",)
    assert [one.unreached_versions for one in operator.overrides() if one.app == app] == [("2.0.0",)]
    found = rules(world, app, feature)
    assert found.rollout is not None
    assert (in_policy(found.values), in_policy(found.rollout.values)) == ({"enabled": False, "rows": 1}, {"rows": 1})


def test_a_former_default_comes_back_without_what_was_overridden(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """A halt returns to a policy that was signed under an override, whose values were never the default's."""
    world.publish(team, feature, "2.0.0", parameters=(ENABLED, ROWS))
    operator.create_rollout(app, feature, version, values={"rows": 7}, share_basis_points=10_000, override_reason="7")
    operator.override_values(app, feature, OFF, reason=WHY)
    bad = operator.create_rollout(app, feature, "2.0.0", share_basis_points=10_000, override_reason="new")
    operator.clear_override(app, feature, reason="fixed")
    operator.halt_rollout(bad.rollout_id, "broken")
    found = rules(world, app, feature)
    assert (found.default.version, in_policy(found.values)) == (version, {"rows": 7})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "values: expected at least one value, got 0"),
        ({"rows": 11}, "values.rows: expected a whole number from 1 to 10, got 11"),
        (
            {"off": True},
            "values.name: expected a parameter of feature {feature} in app {app}: enabled, rows, got",
        ),
    ],
)
def test_a_value_that_no_version_takes_is_refused(
    *, operator: PlatformClient, app: str, feature: str, version: str, values: dict[str, int], message: str
) -> None:
    """A misspelled kill switch would leave the feature on."""
    with pytest.raises(InvalidRequestError) as caught:
        operator.override_values(app, feature, values, reason=WHY)
    assert message.format(feature=feature, app=app) in str(caught.value)
    assert operator.overrides(app) == []


def test_an_override_needs_a_reason_a_feature_and_an_operator(
    *, team: PlatformClient, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """And ends only where one stands; trying it changes nothing."""
    with pytest.raises(InvalidRequestError, match="reason: expected 1 to 500 printable characters"):
        operator.override_values(app, feature, OFF, reason=" ")
    with pytest.raises(NotFoundError, match=f"no feature in the policy of its app named '{app}/other'"):
        operator.override_values(app, "other", OFF, reason=WHY)
    with pytest.raises(NotFoundError, match=f"no override of feature named '{app}/{feature}'"):
        operator.clear_override(app, feature, reason=WHY)
    with pytest.raises(PermissionDeniedError):
        team.override_values(app, feature, OFF, reason=WHY)
    assert operator.override_values(app, feature, OFF, reason=WHY, validate_only=True).override.values == OFF
    assert operator.overrides(app) == []
