"""Rollouts and arms carry values of parameters into the signed policy, within the bounds of the version's team."""

from collections.abc import Iterable

import pytest
from alcove.platform.client import Arm, InvalidRequestError, PlatformClient
from alcove.platform.testing import ServerWorld
from alcove.registry.parameters import Parameter, Setting
from alcove.registry.policy import FeaturePolicy

PARAMETERS = (
    Parameter(name="enabled", type="bool", default=True),
    Parameter(name="rows", type="int", default=3, minimum=1, maximum=10),
    Parameter(name="threshold", type="float", default="0.5", minimum="0.1", maximum="0.9"),
)
WHY = "it refuses too much"


@pytest.fixture
def version(world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str) -> str:
    """A version with parameters, on all devices, with its defaults."""
    world.publish(team, feature, "1.0.0", parameters=PARAMETERS)
    operator.create_rollout(app, feature, "1.0.0", share_basis_points=10_000, override_reason="first")
    return "1.0.0"


def rules(world: ServerWorld, app: str, feature: str) -> FeaturePolicy:
    """What the signed policy says."""
    policy = world.tree.policy(app)
    assert policy is not None
    return policy.features[feature]


def in_policy(values: Iterable[Setting]) -> dict[str, object]:
    """Values of a part of the policy, by name."""
    return {setting.name: setting.value for setting in values}


def test_a_rollout_moves_values_of_the_version_that_devices_run(
    world: ServerWorld, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """In steps, with the default as it was until the last one; rolled back, the former values stay."""
    values = {"threshold": 0.25, "enabled": False, "rows": 7}
    rollout = operator.create_rollout(
        app, feature, version, values=values, share_basis_points=2500, override_reason=WHY
    )
    assert rollout.values == {"enabled": False, "rows": 7, "threshold": "0.25"}
    found = rules(world, app, feature)
    assert found.rollout is not None
    assert (in_policy(found.values), in_policy(found.rollout.values)) == ({}, dict(rollout.values))
    operator.advance_rollout(rollout.rollout_id, 10_000, override_reason=WHY)
    found = rules(world, app, feature)
    assert (found.rollout, in_policy(found.values)) == (None, dict(rollout.values))
    second = operator.create_rollout(
        app, feature, version, values={"threshold": "0.3"}, share_basis_points=100, override_reason=WHY
    )
    operator.roll_back_rollout(second.rollout_id, "no better")
    assert in_policy(rules(world, app, feature).values) == dict(rollout.values)
    assert operator.rollout(second.rollout_id).values == {"threshold": "0.3"}
    assert operator.rollouts(app, feature)[1].values == rollout.values


def test_a_rollout_to_another_version_leaves_the_values_of_the_one_before(
    *, world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """A value belongs to a version: the new one has its defaults unless the rollout says otherwise."""
    off = operator.create_rollout(
        app, feature, version, values={"enabled": False}, share_basis_points=10_000, override_reason=WHY
    )
    world.publish(team, feature, "2.0.0")
    operator.create_rollout(app, feature, "2.0.0", share_basis_points=10_000, override_reason=WHY)
    found = rules(world, app, feature)
    assert (found.default.version, found.values) == ("2.0.0", ())
    # The former default takes the place of a halted one, with the values that it had.
    bad = operator.rollouts(app, feature)[-1]
    operator.halt_rollout(bad.rollout_id, "broken")
    found = rules(world, app, feature)
    assert (found.default.version, in_policy(found.values)) == (version, dict(off.values))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"threshold": 0.95}, "values.threshold: expected a decimal number from 0.1 to 0.9, got '0.95'"),
        ({"threshold": "much"}, "values.threshold: expected a decimal number from 0.1 to 0.9, got 'much'"),
        ({"rows": 11}, "values.rows: expected a whole number from 1 to 10, got 11"),
        ({"rows": 10**30}, "values.rows: expected a whole number from 1 to 10, got '1000"),
        ({"enabled": "off"}, "values.enabled: expected true or false, got 'off'"),
        ({"unknown": 1}, "values.name: expected a parameter of {}: enabled, rows, threshold, got 'unknown'"),
    ],
)
def test_a_value_out_of_the_teams_bounds_is_refused_before_anything_is_signed(
    *, operator: PlatformClient, app: str, feature: str, version: str, values: dict[str, float | str], message: str
) -> None:
    """In a rollout and in an arm; nothing is created."""
    with pytest.raises(InvalidRequestError) as caught:
        operator.create_rollout(app, feature, version, values=values)
    assert message.format(f"{feature} {version}") in str(caught.value)
    arms = [
        Arm(name="control", version=version, share_basis_points=5000),
        Arm(name="other", version=version, share_basis_points=5000, values=values),
    ]
    with pytest.raises(InvalidRequestError) as caught:
        operator.create_experiment(app, feature, arms)
    assert "arms.other." + message.format(f"{feature} {version}") in str(caught.value)
    assert len(operator.rollouts(app, feature)) == 1
    assert operator.experiments(app, feature) == []


def test_an_experiment_compares_values_of_one_version(
    world: ServerWorld, operator: PlatformClient, app: str, feature: str, version: str
) -> None:
    """Its arms are in the policy with their values; a draft's can be changed."""
    arms = [
        Arm(name="control", version=version, share_basis_points=5000),
        Arm(name="tight", version=version, share_basis_points=5000, values={"threshold": 0.7}),
    ]
    draft = operator.create_experiment(app, feature, arms)
    wider = arms[1].model_copy(update={"values": {"threshold": "0.8", "rows": 1}})
    draft = operator.update_experiment(draft.experiment_id, fields=("arms",), arms=[arms[0], wider])
    assert [dict(arm.values) for arm in draft.arms] == [{}, {"rows": 1, "threshold": "0.8"}]
    # What is not named keeps its values.
    draft = operator.update_experiment(draft.experiment_id, fields=("minimum_cohort",), minimum_cohort=100)
    operator.start_experiment(draft.experiment_id)
    (found,) = rules(world, app, feature).experiments
    assert [arm.version.version for arm in found.arms] == [version, version]
    assert [in_policy(arm.values) for arm in found.arms] == [{}, {"rows": 1, "threshold": "0.8"}]
    operator.stop_experiment(draft.experiment_id)


@pytest.mark.parametrize("values", [{}, {"threshold": "0.50"}])
def test_two_arms_that_devices_could_not_tell_apart_are_refused(
    operator: PlatformClient, app: str, feature: str, version: str, values: dict[str, str]
) -> None:
    """Also where one spells the default out."""
    arms = [
        Arm(name="control", version=version, share_basis_points=5000),
        Arm(name="same", version=version, share_basis_points=5000, values=values),
    ]
    with pytest.raises(InvalidRequestError, match=r"arms.version: expected a different version in each arm, or differ"):
        operator.create_experiment(app, feature, arms)


def test_the_first_control_brings_its_values_to_the_default(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Where an app has no default yet, arm 0 becomes it as it is."""
    world.publish(team, feature, "1.0.0", parameters=PARAMETERS)
    arms = [
        Arm(name="control", version="1.0.0", share_basis_points=5000, values={"rows": 1}),
        Arm(name="more", version="1.0.0", share_basis_points=5000, values={"rows": 2}),
    ]
    operator.start_experiment(operator.create_experiment(app, feature, arms).experiment_id)
    assert in_policy(rules(world, app, feature).values) == {"rows": 1}
