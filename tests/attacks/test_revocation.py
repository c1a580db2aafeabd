"""A token that may revoke: what it revoked it cannot bring back, and nobody's token revokes for another team."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
from alcove.platform.client import ClientError, PermissionDeniedError, PlatformClient
from alcove.platform.client.experiment_models import Arm
from alcove.platform.testing import Served, ServerWorld

TEAMS = {"text": ("text_00",), "speech": ("speech_00",)}
FEATURE = "text_00"
ROLES = ("team:text", "operator")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> ServerWorld:
    """A registry of two teams."""
    return ServerWorld(tmp_path_factory.mktemp("revocation") / "world", teams=TEAMS)


@pytest.fixture(scope="module")
def served(world: ServerWorld) -> Iterator[Served]:
    """Its server."""
    running = world.start("--only", "grpc")
    yield running
    running.stop()


def ways_back(world: ServerWorld) -> dict[str, Callable[[PlatformClient, str], object]]:
    """Everything that a token may ask for by which a version could come to devices again."""
    arms = [
        Arm(name=name, version=version, share_basis_points=5000) for name, version in (("a", "1.0.0"), ("b", "2.0.0"))
    ]
    return {
        "validate": lambda caller, version: caller.validate_version(FEATURE, version),
        "release": lambda caller, version: caller.release_version(FEATURE, version, reason="again"),
        "deprecate": lambda caller, version: caller.deprecate_version(FEATURE, version, reason="again"),
        "alias": lambda caller, version: caller.set_alias(FEATURE, "production", version, reason="again"),
        "rollout": lambda caller, version: caller.create_rollout("other", FEATURE, version),
        "experiment": lambda caller, _: caller.create_experiment("other", FEATURE, arms),
        "revoke": lambda caller, version: caller.revoke_version(FEATURE, version, reason="other"),
    }


def test_what_was_revoked_stays_revoked_for_every_caller(world: ServerWorld, served: Served) -> None:
    """Each call that could bring it back, by the token that revoked, and by an operator's; published again, too."""
    with world.client(served, "team:text") as team, world.client(served, "operator") as operator:
        for version in ("1.0.0", "2.0.0"):
            world.publish(team, FEATURE, version)
        moving = operator.create_rollout("app", FEATURE, "2.0.0").rollout_id
        operator.advance_rollout(moving, 10_000, override_reason="test")
        revoked, apps = team.revoke_version(FEATURE, "2.0.0", reason="it lies")
        assert (revoked.state, apps) == ("revoked", ["app"])
        halt = world.tree.halt("app")
        assert halt is not None
        for name, ask in ways_back(world).items():
            for caller in (team, operator):
                with contextlib.suppress(ClientError):
                    ask(caller, "2.0.0")
                assert team.version(FEATURE, "2.0.0")[0].state == "revoked", name
        after = world.tree.halt("app")
        assert after is not None
        assert after.includes(halt)
        policy = world.tree.policy("app")
        assert policy is None or FEATURE not in policy.features
        other = world.tree.policy("other")
        assert other is None or FEATURE not in other.features


@pytest.mark.parametrize("role", ["team:speech", "reader", "operator:speech"])
def test_no_token_of_another_team_revokes(world: ServerWorld, served: Served, role: str) -> None:
    """The version lives on."""
    with world.client(served, role) as stranger, pytest.raises(PermissionDeniedError):
        stranger.revoke_version(FEATURE, "1.0.0", reason="mine")


def test_history_keeps_who_revoked_and_why(world: ServerWorld, served: Served) -> None:
    """The move is there for good, with the token's id and the reason."""
    with world.client(served, "operator") as operator:
        moves = operator.version_details(FEATURE, version="2.0.0").moves
    assert [(move.to_state, move.reason) for move in moves if move.to_state == "revoked"] == [("revoked", "it lies")]
