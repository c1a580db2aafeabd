"""A version that takes or gives something else than the one in use does not reach devices, unless somebody says why."""

from typing import TYPE_CHECKING

import pytest
from alcove.platform.client import Arm, FailedPreconditionError, FeatureRules, Plan, PlatformClient
from alcove.platform.services.auth.local import list_local_audit
from alcove.platform.testing import ServerWorld
from alcove.registry.testing import FakeVerifier

if TYPE_CHECKING:
    from collections.abc import Callable

BREAKS = "breaks apps that were built for 1.0.0, which app .* runs: it takes 2 inputs, apps pass 1"
WHY = "every device that gets it has version 3 of the app"
ARMS = (
    Arm(name="old", version="1.0.0", share_basis_points=5000),
    Arm(name="new", version="2.0.0", share_basis_points=5000),
)


@pytest.fixture
def broken(world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str, app: str) -> str:
    """A feature with 1.0.0, which the app runs, and 2.0.0, which takes one input more and is not validated."""
    world.publish(team, feature, "1.0.0")
    package = world.package(feature, "2.0.0", program=FakeVerifier.two_inputs(b"other"))
    for data in package.blobs().values():
        team.upload_blob(data)
    team.publish_version(world.sign(package), package.manifest.to_bytes())
    operator.create_rollout(app, feature, "1.0.0", share_basis_points=10_000, override_reason="first")
    return feature


def test_validation_and_state_stop_it_first(
    team: PlatformClient, operator: PlatformClient, broken: str, app: str
) -> None:
    """Its validation fails with what is different, so that it is never released, and so it reaches nobody."""
    version, validation = team.validate_version(broken, "2.0.0")
    assert version.state == "registered"
    assert any("it takes 2 inputs, apps pass 1" in check.figure for check in validation.checks if not check.is_passed)
    with pytest.raises(FailedPreconditionError, match="is registered, and only released versions"):
        operator.create_rollout(app, broken, "2.0.0", share_basis_points=10_000, override_reason="oops")


def test_rules_that_accept_any_state_do_not_let_it_through(operator: PlatformClient, broken: str, app: str) -> None:
    """A rollout, at its creation, and an experiment are refused; the reason to advance is no reason to break apps."""
    operator.set_rules(broken, FeatureRules(accepts_any_state=True))
    calls: tuple[Callable[[], object], ...] = (
        lambda: operator.create_rollout(app, broken, "2.0.0"),
        lambda: operator.create_rollout(app, broken, "2.0.0", share_basis_points=10_000, override_reason="oops"),
        lambda: operator.create_experiment(app, broken, ARMS),
    )
    for call in calls:
        with pytest.raises(FailedPreconditionError, match=BREAKS) as refusal:
            call()
        assert refusal.value.kind == "BreakingSignatureError"
        assert "--signature-override-reason" in refusal.value.message
    assert [one.version for one in operator.rollouts(app=app)] == ["1.0.0"]


def test_default_that_changes_after_the_draft_is_compared_again(
    operator: PlatformClient, broken: str, app: str
) -> None:
    """An app without a default takes either; once it runs the one, a draft or an experiment of the other is stopped."""
    operator.set_rules(broken, FeatureRules(accepts_any_state=True))
    fresh = f"{app}-fresh"
    draft = operator.create_rollout(fresh, broken, "2.0.0")
    experiment = operator.create_experiment(fresh, broken, ARMS)
    with pytest.raises(FailedPreconditionError, match=BREAKS):  # its control would be the default
        operator.start_experiment(experiment.experiment_id)
    operator.create_rollout(fresh, broken, "1.0.0", share_basis_points=10_000, override_reason="first")
    with pytest.raises(FailedPreconditionError, match=BREAKS):
        operator.advance_rollout(draft.rollout_id, 10_000, override_reason="oops")
    with pytest.raises(FailedPreconditionError, match=BREAKS):
        operator.start_experiment(experiment.experiment_id)


def test_reason_of_its_own_lets_it_through_and_is_audited(
    world: ServerWorld, operator: PlatformClient, broken: str, app: str
) -> None:
    """For devices whose apps are built for it; the audit log has who, and why."""
    operator.set_rules(broken, FeatureRules(accepts_any_state=True))
    plan = Plan(signature_override_reason=WHY)
    audience = "app_version >= 3.0.0"
    rollout = operator.create_rollout(app, broken, "2.0.0", plan=plan, audience=audience)
    assert rollout.plan.signature_override_reason == WHY
    assert operator.advance_rollout(rollout.rollout_id, 10_000, override_reason="go").state == "running"
    audited = [entry for entry in list_local_audit(world.data_dir) if entry.subject == rollout.rollout_id]
    assert audited[0].details["signature_override_reason"] == WHY
    assert audited[0].principal.startswith("operator/")


def test_refused_advance_at_the_creation_leaves_no_draft(operator: PlatformClient, broken: str, app: str) -> None:
    """Created and advanced is one step: where the share is refused there is nothing to delete."""
    for _ in range(2):
        with pytest.raises(FailedPreconditionError, match="give override_reason"):
            operator.create_rollout(f"{app}-other", broken, "1.0.0", share_basis_points=10_000)
    assert list(operator.rollouts(app=f"{app}-other")) == []


def test_ended_rollout_says_who_ended_it_and_why(operator: PlatformClient, broken: str, app: str) -> None:
    """Of one that was halted or rolled back; another has no such word."""
    done, draft = operator.rollouts(app=app)[0], operator.create_rollout(app, broken, "1.0.0")
    assert operator.rollout(draft.rollout_id).ending is None
    operator.roll_back_rollout(draft.rollout_id, "not today")
    operator.halt_rollout(done.rollout_id, "it crashes")
    for rollout_id, reason in ((draft.rollout_id, "not today"), (done.rollout_id, "it crashes")):
        ending = operator.rollout(rollout_id).ending
        assert ending is not None
        assert ending.reason == reason
        assert ending.principal.startswith("operator/")
        assert ending.ended_at_s > 0
