"""One team's key: it publishes that team's versions, and speaks for nobody else."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.registry import layout
from alcove.registry._tuf import DelegatedRole, Delegations, Key, Metadata, SuccinctRoles, TargetFile, Targets
from alcove.registry.ceremony import initialize_repository
from alcove.registry.errors import (
    ExpiredMetadataError,
    MetadataError,
    MissingTargetError,
    PublishError,
    RegistryError,
    RollbackError,
)
from alcove.registry.keys import create_keys
from alcove.registry.manifest import manifest_path
from alcove.registry.metadata_writer import MetadataWriter
from alcove.registry.package import create_package
from alcove.registry.policy import FeaturePolicy, Halt, HaltedVersion, Policy, VersionRef
from alcove.registry.policy.document import halt_to_bytes
from alcove.registry.reinstatements import Reinstatement
from alcove.registry.signed_time import utc
from alcove.registry.team import reinstate, sign_version
from alcove.registry.testing import RepositoryFixture, next_team_metadata
from alcove.registry.trust import SignedRole
from alcove.runtime.files import DISK
from alcove.sdk import RuntimeTooOldError
from alcove.sdk.limits import MAX_STALE_S
from alcove.sdk.testing import FakeEngine, ManualClock, fake_program

from tests.sdk.conftest import APP, FEATURE, NOW, TEAM, YEAR, Device, World


def test_team_cannot_speak_for_another_team_or_the_policy(published_repository: RepositoryFixture) -> None:
    """Even if the server let it pass: nobody asks a role about a path that was not delegated to it."""
    stolen = published_repository.package("9.9.9", team="speech")
    policy = Policy(app="keyboard", serial=1, features={})
    published_repository.misuse(
        "team-speech",
        {stolen.manifest.path: stolen.manifest.to_bytes(), "policy/keyboard.json": policy.to_bytes()},
    )
    client = published_repository.client()
    with pytest.raises(MissingTargetError):
        client.manifest("language_id", "9.9.9")
    with pytest.raises(MissingTargetError):
        client.policy("keyboard")


def delegations(world: RepositoryFixture) -> list[Delegations]:
    """Everything that a team could hand on: to every role that there is and to bins of others, under its own key."""
    key = world.keys.teams["speech"].public_key
    keys: dict[str, Key] = {key.keyid: key}
    signers = [key.keyid]
    found = [
        Delegations(keys, {name: DelegatedRole(name, list(signers), 1, is_terminating, ["*/*"])})
        for name in ("policy", "halt", "team-text", "bin-text-0", "bin-speech-0", "anything")
        for is_terminating in (True, False)
    ]
    bins = [("bin-text", 2, 1), ("policy", 2, 1), ("bin-speech", 9, 1), ("bin-speech", 32, 1)]
    return found + [Delegations(keys, None, SuccinctRoles(list(signers), n, bits, name)) for name, bits, n in bins]


def test_team_hands_nothing_on_but_to_bins_of_its_own(published_repository: RepositoryFixture) -> None:
    """The tree refuses it, and so does a device that is shown it by a stolen server; the honest tree continues."""
    for number, delegation in enumerate(delegations(published_repository)):
        metadata = next_team_metadata(
            published_repository.tree.state(), "speech", expires_s=published_repository.clock.now_s() + 86_400
        )
        metadata.signed.delegations = delegation
        metadata.sign(published_repository.keys.teams["speech"])
        with pytest.raises(RegistryError) as refused:
            published_repository.tree.accept_team_metadata(metadata.to_bytes(), {})
        assert isinstance(refused.value, (PublishError, MetadataError))
        honest = {path: path.read_bytes() for path in published_repository.tree.folder.rglob("*.json")}
        published_repository.publish_anyway("team-speech", metadata)
        client = published_repository.client(f"device {number}")
        with pytest.raises(MetadataError):
            client.min_version("bandwidth")
        for path in list(published_repository.tree.folder.rglob("*.json")):
            path.unlink()
        for path, data in honest.items():
            path.write_bytes(data)
    assert published_repository.client("honest").manifest("language_id", "1.0.0").version == "1.0.0"


STRANGE = (manifest_path("language_id", "9.9.9"), "policy/messenger.json", "halt/messenger.json", "x", "a/b/c.json")


@pytest.mark.parametrize("path", STRANGE)
def test_team_adds_nothing_to_another_teams_paths(published_repository: RepositoryFixture, path: str) -> None:
    """Any path that is not the team's own is refused by the tree."""
    metadata = next_team_metadata(
        published_repository.tree.state(), "speech", expires_s=published_repository.clock.now_s() + 86_400
    )
    metadata.signed.targets[path] = TargetFile.from_data(path, b"{}", ["sha256"])
    metadata.sign(published_repository.keys.teams["speech"])
    with pytest.raises(PublishError, match="may not publish"):
        published_repository.tree.accept_team_metadata(metadata.to_bytes(), {path: b"{}"})


OTHER_TEAM, OTHER = "weather", "forecast"


class Neighbours:
    """A device whose app has a feature of each of two teams, of which one is hostile."""

    def __init__(self, folder: Path, make_device: Callable[..., Device]) -> None:
        teams = {TEAM: [FEATURE], OTHER_TEAM: [OTHER]}
        self.clock = ManualClock(NOW)
        keys = create_keys(folder / "keys", teams=teams)
        initialize_repository(folder / "tree", keys, teams, clock=self.clock)
        self.world = World(folder / "tree", keys, self.clock)
        self.device = make_device(self.world)
        self.device.options["clock"] = self.clock
        self.refs = {FEATURE: self.world.push("1.0.0", fake_program("one")), OTHER: self.hostile("1.0.0")}
        self.publish()

    def hostile(self, version: str, *, lifetime_s: int = YEAR, min_runtime: str = "0.1.0") -> VersionRef:
        """Publish a version of the hostile team's feature, as its key can."""
        package = create_package(
            feature=OTHER,
            team=OTHER_TEAM,
            version=version,
            programs={"fake": fake_program("sun", version=version)},
            card="# Forecast",
            verifier=FakeEngine().verifier,
            min_runtime=min_runtime,
        )
        tree = self.world.tree
        for sha256, data in package.blobs().items():
            tree.blobs.put(sha256, data)
        key, expires_s = self.world.keyring.teams[OTHER_TEAM], self.clock.now_s() + lifetime_s
        signed = sign_version(tree.team_metadata(OTHER_TEAM), package.manifest, key, expires_s)
        tree.accept_team_metadata(signed, {package.manifest.path: package.manifest.to_bytes()})
        return VersionRef(version=version, manifest_sha256=package.manifest.sha256)

    def lift(self, serial: int, lifetime_s: int) -> None:
        """Have the hostile team lift the halt of its version."""
        metadata = next_team_metadata(self.world.tree.state(), OTHER_TEAM, expires_s=self.clock.now_s() + lifetime_s)
        reinstate(
            f"team-{OTHER_TEAM}",
            metadata.signed,
            Reinstatement(app=APP, feature=OTHER, manifest_sha256=self.refs[OTHER].manifest_sha256, serial=serial),
        )
        metadata.sign(self.world.keyring.teams[OTHER_TEAM])
        self.world.tree.accept_team_metadata(metadata.to_bytes(), {})

    def halt(self, serial: int, *features: str) -> None:
        """Publish a halt of what features have."""
        halted = tuple(HaltedVersion(feature=name, version=self.refs[name]) for name in features)
        self.world.tree.publish_halt(APP, halt_to_bytes(Halt(app=APP, serial=serial, halted=halted)))

    def halt_anyway(self, serial: int, *features: str) -> None:
        """Publish a halt as a thief of the server's keys can, whatever it gives back."""
        halted = tuple(HaltedVersion(feature=name, version=self.refs[name]) for name in features)
        data = halt_to_bytes(Halt(app=APP, serial=serial, halted=halted))
        state, now_s = self.world.tree.state(), self.clock.now_s()
        path = layout.halt_path(APP)
        signed = Targets(
            version=state.roles["halt"].version + 1,
            expires=utc(now_s + layout.LIFETIMES_S["halt"]),
            targets={path: TargetFile.from_data(path, data, ["sha256"])},
        )
        metadata = Metadata(signed)
        metadata.sign(self.world.keyring.online.halt)
        MetadataWriter(self.world.folder, self.world.keyring.online, DISK, now_s).publish(
            targets={path: data},
            roles={"halt": SignedRole(metadata, metadata.to_bytes())},
            snapshot=state.snapshot,
            timestamp=state.timestamp,
        )

    def publish(self) -> None:
        """Publish a policy of what the two teams have, and with it a tree of today."""
        rules = {name: FeaturePolicy(min_version="0.0.1", default=ref) for name, ref in self.refs.items()}
        self.world._publish(rules)

    def current(self, feature: str) -> str | None:
        """Return which version of a feature is to answer on the device."""
        state = json.loads((self.device.folder / "state.json").read_text(encoding="utf-8"))
        slot = state["features"][feature]["current"]
        return None if slot is None else str(slot["manifest_sha256"])

    def installed_version(self, feature: str) -> int:
        """Return how many versions of a feature lie on the device."""
        return len(list((self.device.folder / "versions" / feature).iterdir()))


@pytest.fixture
def neighbours(tmp_path: Path, make_device: Callable[..., Device], unsynced: None) -> Neighbours:
    """Two teams and a device."""
    return Neighbours(tmp_path, make_device)


def test_team_that_lets_its_role_expire_takes_no_other_features_away(neighbours: Neighbours) -> None:
    """It signs for an hour: devices still accept the server's files and what other teams publish."""
    device = neighbours.device
    client = device.client()
    assert client.sync().error is None
    neighbours.hostile("1.0.1", lifetime_s=3600)
    assert client.sync().error is None
    for day in range(2, int(2 * MAX_STALE_S) // 86_400):
        neighbours.clock.pass_s(86_000)
        if day == 20:
            neighbours.refs[FEATURE] = neighbours.world.push("2.0.0", fake_program("two"))
        neighbours.publish()
        result = client.sync()
        assert isinstance(result.error, ExpiredMetadataError)
        assert {refusal.feature for refusal in result.refused} == {OTHER}
        assert not client.is_stale
    assert device.answer(client) == "two 2.0.0 default"


def test_team_that_lifts_its_halt_and_expires_stops_no_other_halt(neighbours: Neighbours) -> None:
    """What it reinstated stays halted until it signs again; halts of others, and what they publish, are followed."""
    device = neighbours.device
    client = device.client()
    assert client.sync().error is None
    halted, good = neighbours.refs[OTHER], neighbours.refs[FEATURE]
    neighbours.halt(1, OTHER)
    client.sync()
    neighbours.lift(1, lifetime_s=3600)
    neighbours.halt(2)
    neighbours.clock.pass_s(3601)
    for day in range(int(MAX_STALE_S) // 86_000 + 1):
        neighbours.clock.pass_s(86_000)
        if day == 5:
            neighbours.refs[FEATURE] = neighbours.world.push("2.0.0", fake_program("two"))
        neighbours.publish()
        client.sync()
        assert not client.is_stale
        assert device.answer(client) == ("one 1.0.0 default" if day < 5 else "two 2.0.0 default")
        assert neighbours.current(OTHER) is None
    neighbours.halt(3, FEATURE)
    client.sync()
    assert device.answer(client) == "one 1.0.0 fallback"
    neighbours.hostile("1.0.1")
    neighbours.refs[FEATURE] = good
    neighbours.publish()
    assert client.sync().error is None
    assert neighbours.current(OTHER) == halted.manifest_sha256


@pytest.mark.parametrize("drops", [1, 2])
def test_halts_that_came_while_a_team_had_expired_are_given_back_by_nobody(neighbours: Neighbours, drops: int) -> None:
    """With the server's keys besides: what a device saw halted stays so, also if that halt was not all that it kept."""
    device = neighbours.device
    client = device.client()
    client.sync()
    neighbours.halt(1, OTHER)
    client.sync()
    neighbours.lift(1, lifetime_s=3600)
    neighbours.clock.pass_s(3601)
    neighbours.publish()
    for drop in range(drops):
        neighbours.halt_anyway(2 + 2 * drop)
        client.sync()
        neighbours.halt_anyway(3 + 2 * drop, *([OTHER] if drop + 1 < drops else []))
        client.sync()
    neighbours.halt_anyway(8, FEATURE)
    client.sync()
    assert device.answer(client) == "shipped baseline baseline"
    neighbours.halt_anyway(9)
    for _ in range(2):
        assert isinstance(client.sync().error, RollbackError)
        assert device.answer(client) == "shipped baseline baseline"
        client = device.client()
    neighbours.halt_anyway(10, FEATURE)
    assert not isinstance(client.sync().error, RollbackError)
    neighbours.lift(10, lifetime_s=YEAR)
    client.sync()
    assert neighbours.current(OTHER) is not None
    assert neighbours.current(FEATURE) is None


@pytest.mark.parametrize("change", [None, lambda data: b"{}", lambda data: data[:-1] + b" ", lambda data: data * 2])
def test_floors_that_a_mirror_holds_back_are_still_not_hearing(
    neighbours: Neighbours, change: Callable[[bytes], bytes] | None
) -> None:
    """What it withholds or changes is no expired role: the device says that it is stale, and falls to the baseline."""
    device = neighbours.device
    client = device.client()
    assert client.sync().error is None
    neighbours.hostile("1.0.1")
    found = (neighbours.world.folder / "metadata").glob(f"*.team-{OTHER_TEAM}.json")
    role = max(found, key=lambda path: int(path.name.partition(".")[0]))
    honest = role.read_bytes()
    for _ in range(int(MAX_STALE_S) // 86_000 + 1):
        neighbours.clock.pass_s(86_000)
        role.write_bytes(honest)
        neighbours.publish()
        if change is None:
            role.unlink()
        else:
            role.write_bytes(change(honest))
        assert client.sync().error is not None
    assert client.is_stale
    assert device.answer(client) == "shipped baseline stale"


@pytest.mark.parametrize("way", ["refused", "frozen"])
def test_feature_that_cannot_be_settled_fills_no_disk_with_versions_of_others(neighbours: Neighbours, way: str) -> None:
    """However long one is refused, or frozen by a halt: of the others a device keeps what it keeps on any day."""
    device = neighbours.device
    client = device.client()
    assert client.sync().error is None
    if way == "refused":
        neighbours.refs[OTHER] = neighbours.hostile("2.0.0", min_runtime="9.0.0")
    else:
        halt = Halt(app=APP, serial=1, frozen=(OTHER,))
        neighbours.world.tree.publish_halt(APP, halt_to_bytes(halt))
    for number in range(2, 9):
        neighbours.refs[FEATURE] = neighbours.world.push(f"{number}.0.0", fake_program(f"{number}"))
        neighbours.publish()
        error = client.sync().error
        assert isinstance(error, RuntimeTooOldError) if way == "refused" else error is None
        assert device.answer(client) == f"{number} {number}.0.0 default"
        assert neighbours.installed_version(FEATURE) <= 3
        assert neighbours.installed_version(OTHER) == 1
