"""Versions' lives: every arrow and every gap of the drawing, over the wire too, and what a revocation does to apps."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from alcove.api.registry.v1 import registry_pb2 as pb
from alcove.platform.client import (
    AlreadyExistsError,
    ClientError,
    FailedPreconditionError,
    FeatureRules,
    InvalidRequestError,
    PermissionDeniedError,
    PlatformClient,
)
from alcove.platform.client.experiment_models import Arm
from alcove.platform.domain.catalog.lifecycle import Action, transition
from alcove.platform.domain.errors import IllegalTransitionError
from alcove.platform.domain.records import VersionRecord, VersionState
from alcove.platform.services.auth.local import list_local_audit
from alcove.platform.testing import ServerWorld

S, A = VersionState, Action
# The drawing, written down a second time.
ARROWS = {
    (S.REGISTERED, A.ACCEPT): S.VALIDATED,
    (S.REGISTERED, A.REJECT): S.REGISTERED,
    (S.REGISTERED, A.REVOKE): S.REVOKED,
    (S.VALIDATED, A.ACCEPT): S.VALIDATED,
    (S.VALIDATED, A.REJECT): S.REGISTERED,
    (S.VALIDATED, A.RELEASE): S.RELEASED,
    (S.VALIDATED, A.REVOKE): S.REVOKED,
    (S.RELEASED, A.DEPRECATE): S.DEPRECATED,
    (S.RELEASED, A.REVOKE): S.REVOKED,
    (S.DEPRECATED, A.RELEASE): S.RELEASED,
    (S.DEPRECATED, A.REVOKE): S.REVOKED,
}
RECORD = VersionRecord(1, "f", "1.0.0", "t", "0" * 64, b"{}", (), 1, S.REGISTERED)
ALL = {"share_basis_points": 10_000, "override_reason": "test"}


@pytest.mark.parametrize(("state", "action"), list(itertools.product(VersionState, Action)))
def test_there_are_the_arrows_of_the_drawing_and_no_others(state: VersionState, action: Action) -> None:
    """An arrow leads where it is drawn; a gap names the state, what was asked, and what the state allows."""
    before = replace(RECORD, state=state)
    if (state, action) in ARROWS:
        assert transition(before, action) == replace(before, state=ARROWS[state, action])
        return
    with pytest.raises(IllegalTransitionError, match=f"f 1.0.0 is {state}: cannot") as refusal:
        transition(before, action)
    words = {A.ACCEPT: "validate", A.REJECT: "validate"}
    allowed = {words.get(other, str(other)) for other in Action if (state, other) in ARROWS}
    assert set(refusal.value.allowed or ()) == allowed
    assert (", ".join(refusal.value.allowed or ()) or "nothing any more") in str(refusal.value)


def lives(team: PlatformClient, feature: str, version: str = "1.0.0") -> str:
    """The state of a version as it is listed."""
    return team.version(feature, version)[0].state


def test_a_version_lives_from_registered_to_revoked(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str
) -> None:
    """Each step is answered, listed, kept with who and why, and in the audit log; the end is final."""
    assert world.publish(team, feature, is_released=False).state == "registered"
    version, validation = team.validate_version(feature, "1.0.0")
    assert (version.state, validation.is_passed) == ("validated", True)
    assert team.release_version(feature, "1.0.0", reason="it is good").state == "released"
    assert team.deprecate_version(feature, "1.0.0", reason="2.0.0 is better").state == "deprecated"
    assert team.release_version(feature, "1.0.0", reason="it is not").state == "released"
    revoked, apps = operator.revoke_version(feature, "1.0.0", reason="it lies")
    assert (revoked.state, apps) == ("revoked", [])
    details = operator.version_details(feature, version="1.0.0")
    assert details.version.state == "revoked"
    assert [(move.from_state, move.to_state, move.reason) for move in details.moves] == [
        ("registered", "validated", "every check passed"),
        ("validated", "released", "it is good"),
        ("released", "deprecated", "2.0.0 is better"),
        ("deprecated", "released", "it is not"),
        ("released", "revoked", "it lies"),
    ]
    assert [move.moved_by.partition("/")[0] for move in details.moves] == ["team:text"] * 4 + ["operator"]
    assert all(move.moved_at_s > 0 for move in details.moves)
    audited = [entry for entry in list_local_audit(world.data_dir) if entry.subject == f"{feature} 1.0.0"]
    assert [(entry.action, entry.details.get("reason")) for entry in audited[1:]] == [
        ("passed version", "every check passed"),
        ("release version", "it is good"),
        ("deprecate version", "2.0.0 is better"),
        ("release version", "it is not"),
        ("revoke version", "it lies"),
    ]
    for again in (
        lambda: team.validate_version(feature, "1.0.0"),
        lambda: team.release_version(feature, "1.0.0", reason="please"),
        lambda: team.deprecate_version(feature, "1.0.0", reason="please"),
        lambda: team.revoke_version(feature, "1.0.0", reason="twice"),
    ):
        with pytest.raises(FailedPreconditionError, match=r"is revoked: cannot .* it can: nothing any more"):
            again()


def test_another_teams_version_is_nobodys_business(
    world: ServerWorld, client: Callable[[str], PlatformClient], team: PlatformClient, feature: str
) -> None:
    """Neither state nor tags nor aliases nor approval: each is refused for its team, and nothing moves."""
    world.publish(team, feature, is_released=False)
    speech = client("team:speech")
    for call in (
        lambda: speech.validate_version(feature, "1.0.0"),
        lambda: speech.release_version(feature, "1.0.0", reason="x"),
        lambda: speech.deprecate_version(feature, "1.0.0", reason="x"),
        lambda: speech.revoke_version(feature, "1.0.0", reason="x"),
        lambda: speech.set_tag(feature, "1.0.0", "k", "v"),
        lambda: speech.remove_tag(feature, "1.0.0", "k"),
        lambda: speech.set_alias(feature, "production", "1.0.0", reason="x"),
        lambda: speech.remove_alias(feature, "production", reason="x"),
    ):
        with pytest.raises(PermissionDeniedError, match="text"):
            call()
    details = team.version_details(feature, version="1.0.0")
    assert (details.version.state, details.version.tags, details.version.aliases) == ("registered", (), ())


def roll_out(operator: PlatformClient, app: str, feature: str, version: str) -> str:
    """Make a version the app's default; return the rollout's id."""
    rollout = operator.create_rollout(app, feature, version)
    return operator.advance_rollout(rollout.rollout_id, 10_000, override_reason="test").rollout_id


def test_a_revoked_version_is_halted_in_every_app_that_ever_had_it(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str, app: str
) -> None:
    """As a default, in a live rollout, as an arm, long ago; not where it never was; and nothing names it afterwards."""
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        world.publish(team, feature, version)
    default, live, arm, once, never = (f"{app}-{name}" for name in ("default", "live", "arm", "once", "never"))
    for name in (default, live, arm, once, never):
        roll_out(operator, name, feature, "1.0.0")
    completed = roll_out(operator, default, feature, "2.0.0")
    moving = operator.create_rollout(live, feature, "2.0.0").rollout_id
    operator.advance_rollout(moving, 500, override_reason="test")
    arms = [
        Arm(name="a", version="1.0.0", share_basis_points=5000),
        Arm(name="b", version="2.0.0", share_basis_points=5000),
    ]
    experiment = operator.create_experiment(arm, feature, arms).experiment_id
    operator.start_experiment(experiment)
    roll_out(operator, once, feature, "2.0.0")
    roll_out(operator, once, feature, "3.0.0")

    revoked, apps = team.revoke_version(feature, "2.0.0", reason="it lies")
    assert (revoked.state, apps) == ("revoked", sorted([default, live, arm, once]))
    for name in apps:
        halt = world.tree.halt(name)
        assert halt is not None
        assert [(item.feature, item.version.version) for item in halt.halted] == [(feature, "2.0.0")]
        policy = world.tree.policy(name)
        assert policy is not None
        assert "2.0.0" not in [ref.version for ref in policy.features[feature].versions()]
        assert policy.features[feature].default.version == ("3.0.0" if name == once else "1.0.0")
    assert world.tree.halt(never) is None
    assert operator.rollout(moving).state == "halted"
    assert operator.rollout(completed).state == "completed"  # what was is not rewritten
    assert operator.experiment(experiment).state == "stopped"


def test_a_revoked_version_gets_into_nothing_new(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str, app: str
) -> None:
    """Rollouts and experiments, new or drafted before, in an app that never had it; and no alias is pointed to it."""
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, feature, version)
    arms = [
        Arm(name="a", version="1.0.0", share_basis_points=5000),
        Arm(name="b", version="2.0.0", share_basis_points=5000),
    ]
    rollout = operator.create_rollout(app, feature, "2.0.0").rollout_id
    experiment = operator.create_experiment(app, feature, arms).experiment_id
    team.revoke_version(feature, "2.0.0", reason="it lies")
    fresh = f"{app}-fresh"
    for call in (
        lambda: operator.create_rollout(fresh, feature, "2.0.0"),
        lambda: operator.create_experiment(fresh, feature, arms),
        lambda: operator.advance_rollout(rollout, 10_000, override_reason="test"),
        lambda: operator.start_experiment(experiment),
        lambda: team.set_alias(feature, "production", "2.0.0", reason="test"),
    ):
        with pytest.raises(FailedPreconditionError) as refusal:
            call()
        assert refusal.value.kind == "VersionRevokedError"
        assert f"{feature} 2.0.0 is revoked" in refusal.value.message
    assert world.tree.policy(fresh) is None


def test_a_default_that_was_revoked_never_comes_back(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str, app: str
) -> None:
    """When the next default is halted, the one before the revoked one takes its place."""
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        world.publish(team, feature, version)
        last = roll_out(operator, app, feature, version)
    team.revoke_version(feature, "2.0.0", reason="it lies")
    operator.halt_rollout(last, reason="it crashes")
    policy = world.tree.policy(app)
    assert policy is not None
    assert policy.features[feature].default.version == "1.0.0"


def test_only_released_versions_reach_devices_unless_the_rules_say_otherwise(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str, app: str
) -> None:
    """Rollouts, experiments and aliases take nothing else, and the message names the commands that are missing."""
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, feature, version, is_released=False)
    arms = [
        Arm(name="a", version="1.0.0", share_basis_points=5000),
        Arm(name="b", version="2.0.0", share_basis_points=5000),
    ]
    calls = (
        lambda: operator.create_rollout(app, feature, "1.0.0"),
        lambda: operator.create_experiment(app, feature, arms),
        lambda: team.set_alias(feature, "production", "1.0.0", reason="first"),
    )

    def refuse_all(words: str) -> None:
        for call in calls:
            with pytest.raises(FailedPreconditionError, match=words) as refusal:
                call()
            assert refusal.value.kind == "NotReleasedError"

    assert not operator.rules(feature).accepts_any_state
    refuse_all(f"1.0.0 is registered, .*: alcove model validate {feature}@1.0.0, then alcove model release")
    team.validate_version(feature, "1.0.0")
    refuse_all(
        f"1.0.0 is validated, and only released versions may reach devices: alcove model release {feature}@1.0.0"
    )
    team.release_version(feature, "1.0.0", reason="good")
    roll_out(operator, app, feature, "1.0.0")
    draft = operator.create_rollout(app, feature, "1.0.0").rollout_id
    team.deprecate_version(feature, "1.0.0", reason="old")
    refuse_all("is deprecated")
    with pytest.raises(FailedPreconditionError, match="is deprecated"):
        operator.advance_rollout(draft, 10_000, override_reason="test")
    assert operator.rollouts(app=app)[-1].rollout_id == draft

    operator.set_rules(feature, FeatureRules(accepts_any_state=True))
    for call in calls:
        call()


def test_rules_that_leave_out_the_state_ask_for_released_versions(operator: PlatformClient, feature: str) -> None:
    """Who sets a bound over gRPC and says nothing of states gets the safe rule."""
    request = pb.SetFeatureRulesRequest(
        request_id=f"bound-{feature}", feature=feature, rules=pb.FeatureRules(max_size_bytes=1000)
    )
    operator._call(operator._registry.SetFeatureRules, request)
    assert not operator.rules(feature).accepts_any_state


LONG = "x" * 501


def test_no_error_is_the_servers_own(team: PlatformClient, shared_feature: str) -> None:
    """Whatever text stands in the names, the answer is a typed refusal."""
    for text in ("\0", "é" * 40, "x" * 60_000, "' OR 1=1 --", "%", "_"):
        for call in (
            lambda text=text: team.version_details(shared_feature, alias=text),
            lambda text=text: team.set_tag(shared_feature, "1.0.0", text, "v"),
            lambda text=text: team.approve_alias(text),
            lambda text=text: team.aliases(text),
            lambda text=text: team.versions(alias=text),
        ):
            with pytest.raises(ClientError) as refusal:
                call()
            assert refusal.value.status in ("INVALID_ARGUMENT", "NOT_FOUND"), (text[:20], refusal.value)


def test_every_mutation_is_done_once_and_audited_once(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, feature: str
) -> None:
    """Sent three times with one id: one answer, one entry in the audit log; with another content: refused."""
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, feature, version, is_released=False)
    operator.set_rules(feature, FeatureRules(accepts_any_state=True))
    rules = FeatureRules(must_approve_aliases=True, accepts_any_state=True)
    proposal = {"id": ""}

    def propose(request_id: str, reason: str) -> object:
        done = team.set_alias(feature, "b", "1.0.0", reason=reason, request_id=request_id)
        proposal["id"] = getattr(done, "proposal_id", "")
        return done

    calls: list[tuple[str, Callable[[str, str], object]]] = [
        ("set tag", lambda i, r: team.set_tag(feature, "1.0.0", "k", r, request_id=i)),
        ("remove tag", lambda i, r: team.remove_tag(feature, "1.0.0" if r == "r" else "2.0.0", "k", request_id=i)),
        ("move alias", lambda i, r: team.set_alias(feature, "a", "1.0.0", reason=r, request_id=i)),
        ("move alias", lambda i, r: team.remove_alias(feature, "a", reason=r, request_id=i)),
        ("set rules", lambda i, r: operator.set_rules(feature if r == "r" else "text_00", rules, request_id=i)),
        ("propose alias", propose),
        ("approve alias", lambda i, r: operator.approve_alias(proposal["id"] if r == "r" else "ap-1", request_id=i)),
        ("passed version", lambda i, r: team.validate_version(feature, "1.0.0" if r == "r" else "2.0.0", request_id=i)),
        ("release version", lambda i, r: team.release_version(feature, "1.0.0", reason=r, request_id=i)),
        ("deprecate version", lambda i, r: team.deprecate_version(feature, "1.0.0", reason=r, request_id=i)),
        ("revoke version", lambda i, r: team.revoke_version(feature, "1.0.0", reason=r, request_id=i)),
    ]
    for number, (action, call) in enumerate(calls):
        request_id = f"once-{feature}-{number}"
        before = list_local_audit(world.data_dir)
        answers = [call(request_id, "r") for _ in range(3)]
        assert answers[0] == answers[1] == answers[2], action
        added = list_local_audit(world.data_dir)[len(before) :]
        assert [entry.action for entry in added] == [action]
        assert feature in added[0].subject
        assert added[0].principal.startswith(("team:text/", "operator/"))
        with pytest.raises(AlreadyExistsError) as refusal:
            call(request_id, "another")
        assert refusal.value.kind == "RequestIdReusedError"
        assert len(list_local_audit(world.data_dir)) == len(before) + 1


def test_rules_that_are_not_there_are_named(operator: PlatformClient, shared_feature: str) -> None:
    """Forgetting the rules does not mean lifting them all."""
    request = pb.SetFeatureRulesRequest(request_id="rules-none", feature=shared_feature)
    with pytest.raises(InvalidRequestError, match=r"^InvalidFieldError: rules: "):
        operator._call(operator._registry.SetFeatureRules, request)


def test_moves_of_aliases_come_in_pages(world: ServerWorld, team: PlatformClient, feature: str) -> None:
    """Every move once, oldest first, whatever the size of the page."""
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, feature, version)
    for number in range(7):
        team.set_alias(feature, "a", ("1.0.0", "2.0.0")[number % 2], reason=f"move {number}")
    for size in (1, 3, 7, 8):
        reasons: list[str] = []
        token = ""
        while True:
            request = pb.ListAliasMovesRequest(feature=feature, page_size=size, page_token=token)
            page = team._call(team._registry.ListAliasMoves, request)
            reasons += [move.reason for move in page.moves]
            token = page.next_page_token
            if not token:
                break
            assert len(page.moves) == size
        assert reasons == [f"move {number}" for number in range(7)]
