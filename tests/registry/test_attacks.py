"""The attacks that the TUF papers name, each on a real tree, and the theft of each single key: what can the thief do?

Slow retrieval needs a socket: `tests/sdk/test_slow_retrieval.py`.
"""

import copy
import dataclasses
import itertools
import shutil
from collections.abc import Iterable, Mapping
from functools import partial

import pytest
from alcove.registry import layout, limits
from alcove.registry._tuf import (
    CryptoSigner,
    Metadata,
    MetaFile,
    Root,
    Signer,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from alcove.registry.clock import utc
from alcove.registry.errors import (
    DocumentTooLarge,
    ExpiredMetadata,
    IntegrityError,
    RegistryError,
    RollbackError,
    WrongSubjectError,
)
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.policy import Halt, HaltedVersion
from alcove.registry.rotation import Draft
from alcove.registry.testing import TreeWorld
from alcove.registry.tree import Tree
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DAY_S = 86_400
TIMESTAMP = "metadata/timestamp.json"


def current_files(world: TreeWorld) -> dict[str, bytes]:
    """Every metadata file and document, by its path in the tree."""
    return {
        path.relative_to(world.tree.folder).as_posix(): path.read_bytes()
        for part in (layout.METADATA, layout.TARGETS)
        for path in (world.tree.folder / part).rglob("*.json")
    }


def read_everything(world: TreeWorld, name: str) -> tuple[int, int, str]:
    """What a device does at a check-in; return policy serial, halt serial and the version that it may run."""
    client = world.client(name)
    policy, halt = client.policy("messenger"), client.halt("messenger")
    version = policy.features["language_id"].default.version
    return policy.serial, halt.serial, client.manifest("language_id", version).version


def test_arbitrary_software_attack_is_refused(published: TreeWorld) -> None:
    """Any file answered with a program, a manifest or metadata that nobody signed."""
    evil = published.package("6.6.6").manifest
    for path in current_files(published):
        if path.startswith("metadata/1.root"):
            continue  # never asked for: every device has it
        for data in (b"program", evil.to_bytes(), published.tree.root_bytes()):
            published.fetcher.replaced = {path: data}
            try:
                seen = read_everything(published, f"{path} {len(data)}".replace("/", "_"))
            except RegistryError:
                continue
            assert seen == (1, 0, "1.0.0")  # a file of a state before: nobody asked for it
    published.fetcher.replaced = {}


def test_rollback_attack_is_refused(published: TreeWorld) -> None:
    """Every older state of the tree, whole and properly signed, after a newer one was seen."""
    states = [current_files(published)]
    for version in ("2.0.0", "3.0.0"):
        published.push(published.package(version))
        serial = int(version[0])
        published.tree.publish_policy("messenger", published.policy(serial, version).to_bytes())
        states.append(current_files(published))
    assert read_everything(published, "device")[0] == 3
    for old in states[:-1]:
        published.fetcher.replaced = dict(old)
        with pytest.raises(RollbackError):
            read_everything(published, "device")
    published.fetcher.replaced = {}
    assert read_everything(published, "device")[0] == 3


def replace_keys(world: TreeWorld, roles: Iterable[str]) -> None:
    """Change the server's keys of some roles, in one change that root and targets sign."""
    fresh = {role: CryptoSigner(Ed25519PrivateKey.generate()) for role in roles}
    draft = Draft(world.tree.state(), now_s=world.clock.now_s())
    for role, signer in fresh.items():
        draft.rotate(role, add=[signer.public_key], remove=[getattr(world.keys.online, role).public_key.keyid])
    change = draft.draft()
    for signer in (world.keys.root, world.keys.targets):
        if any(signer.public_key.keyid in need.waiting for need in change.needs()):
            change, _ = change.sign(signer)
    keys = dataclasses.replace(world.keys.online, **fresh)
    world.tree.accept_change(change, keys)
    world.keys = dataclasses.replace(world.keys, online=keys)
    world.tree = Tree(world.tree.folder, keys=keys, clock=world.clock)


@pytest.mark.parametrize("forwarded", ["timestamp", "snapshot", "policy", "halt"])
def test_fast_forward_attack_is_recovered_from_by_new_keys(published: TreeWorld, forwarded: str) -> None:
    """A thief of the server runs a number up to where none follows; new keys leave it behind, and devices follow."""
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    attacker = Attacker(published, {role: getattr(published.keys.online, role) for role in ONLINE_ROLES})
    state = published.tree.state()
    roles: dict[str, Targets] = {}
    if forwarded in ("policy", "halt"):
        roles[forwarded] = Targets(
            version=2**40, expires=attacker.expires, targets=dict(state.roles[forwarded].targets)
        )
    numbers = {role: 2**40 if role == forwarded else None for role in SERVER}
    attacker.publish(roles, snapshot=numbers["snapshot"], timestamp=numbers["timestamp"])
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    published.fetcher.replaced = {}
    with pytest.raises(RollbackError):
        published.client("device").refresh()
    replace_keys(published, {"timestamp", "snapshot", forwarded})
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    published.tree.publish_policy("messenger", published.policy(2).to_bytes())
    assert read_everything(published, "device")[0] == 2


def test_indefinite_freeze_attack_ends_with_the_timestamp(published: TreeWorld) -> None:
    """A mirror that goes on serving what was true hides a halt for a day and not longer; then it is named."""
    old = current_files(published)
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    ref = published.policy(1).features["language_id"].default
    halt = Halt(app="messenger", serial=1, halted=(HaltedVersion(feature="language_id", version=ref),))
    published.tree.publish_halt("messenger", halt.to_bytes())
    published.fetcher.replaced = dict(old)
    published.clock.time_s += layout.LIFETIMES_S["timestamp"] - 1
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    for later_s in (1, DAY_S, 100 * DAY_S):
        published.clock.time_s += later_s
        for name in ("device", f"new device {later_s}"):
            with pytest.raises(ExpiredMetadata) as caught:
                read_everything(published, name)
            assert caught.value.role == "timestamp"
    published.clock.time_s -= 200 * DAY_S
    with pytest.raises(ExpiredMetadata):
        read_everything(published, "device")  # nor does a clock that is set back revive it


def test_endless_data_attack_is_cut_off(published: TreeWorld) -> None:
    """Every file that a device asks for, answered without end: no more than its bound is read."""
    read_everything(published, "control")
    asked = {path for path in published.fetcher.requests if not path.endswith("2.root.json")}
    bounds = {
        "timestamp": limits.TIMESTAMP_METADATA_MAX_BYTES,
        "snapshot": limits.SNAPSHOT_METADATA_MAX_BYTES,
    }
    assert len(asked) >= 7
    for path in {*asked, "metadata/2.root.json"}:
        role = path.removesuffix(".json").rpartition("/")[2].rpartition(".")[2]
        signed_bytes = limits.ROOT_METADATA_MAX_BYTES if role == "root" else limits.TARGETS_METADATA_MAX_BYTES
        bound = bounds.get(role, signed_bytes)
        published.fetcher.replaced = {path: b" " * (bound + 100_000)}
        with pytest.raises((DocumentTooLarge, RegistryError)) as caught:
            read_everything(published, path.replace("/", "_"))
        if isinstance(caught.value, DocumentTooLarge):
            assert caught.value.size_bytes <= bound + 4096
    published.fetcher.replaced = {}


def test_extraneous_dependencies_attack_has_nothing_to_add_to(published: TreeWorld) -> None:
    """A version names its own files by digest and no other package: a device asks for these paths and no more.

    A manifest that names one file more is another manifest, which nobody signed.
    """
    manifest = published.package().manifest
    read_everything(published, "device")
    documents = [path for path in published.fetcher.requests if path.startswith("targets/")]
    assert sorted(path.split("/")[1] for path in documents) == ["language_id", "policy"]
    assert layout.target_file(manifest.path, manifest.sha256) in documents
    another = manifest.variants[0].model_copy(update={"name": "evil"})
    wider = manifest.model_copy(update={"variants": (*manifest.variants, another)})
    published.fetcher.replaced = {layout.target_file(manifest.path, manifest.sha256): wider.to_bytes()}
    with pytest.raises((IntegrityError, DocumentTooLarge)):
        read_everything(published, "new device")


def test_mix_and_match_attack_is_refused(published: TreeWorld) -> None:
    """Every choice of old and new files of one role after another, each validly signed: one whole state or none."""
    old_state = published.tree.state()
    old = current_files(published)
    published.push(published.package("2.0.0"))
    published.tree.publish_policy("messenger", published.policy(2, "2.0.0").to_bytes())
    published.tree.publish_halt("messenger", Halt(app="messenger", serial=1).to_bytes())
    state = published.tree.state()
    swaps = {}
    for role in ("policy", "halt", "team-text"):
        new_path = layout.metadata_file(role, state.roles[role].version)
        swaps[new_path] = old[layout.metadata_file(role, old_state.roles[role].version)]
    swaps[layout.metadata_file("snapshot", state.snapshot.version)] = old[
        layout.metadata_file("snapshot", old_state.snapshot.version)
    ]
    for count in range(1, len(swaps) + 1):
        for chosen in itertools.combinations(sorted(swaps), count):
            published.fetcher.replaced = {path: swaps[path] for path in chosen}
            with pytest.raises((IntegrityError, RollbackError)):
                read_everything(published, f"device {chosen}".replace("/", "_")[:200])
    published.fetcher.replaced = {}
    assert read_everything(published, "device") == (2, 1, "2.0.0")


def test_wrong_software_attack_is_refused(published: TreeWorld) -> None:
    """What was signed for one place, served or even signed in another: another version, feature, app or kind."""
    published.push(published.package("2.0.0"))
    first, second = published.package("1.0.0").manifest, published.package("2.0.0").manifest
    published.fetcher.replaced = {layout.target_file(first.path, first.sha256): second.to_bytes()}
    with pytest.raises((IntegrityError, DocumentTooLarge)):
        published.client("served").manifest("language_id", "1.0.0")
    published.fetcher.replaced = {}
    for role, path, data in (
        ("team-text", "language_id/1.0.0.json", second.to_bytes()),
        ("policy", "policy/keyboard.json", published.policy(1).to_bytes()),
        ("halt", "halt/keyboard.json", Halt(app="messenger", serial=1).to_bytes()),
    ):
        published.misuse(role, {path: data})
        client = published.client(f"signed {role}")
        read = partial(client.manifest, "language_id", "1.0.0")
        with pytest.raises(WrongSubjectError):
            read() if role == "team-text" else getattr(client, role)("keyboard")


def test_malicious_mirror_costs_nothing_but_time(published: TreeWorld) -> None:
    """A mirror that lies about every file in every way, then an honest one: the device is where it would be anyway."""
    before = read_everything(published, "device")
    published.push(published.package("2.0.0"))
    published.tree.publish_policy("messenger", published.policy(2, "2.0.0").to_bytes())
    for path in current_files(published):
        whole = (published.tree.folder / path).read_bytes()
        for lie in (None, b"", whole[: len(whole) // 2], whole[::-1], b"{}", whole + whole):
            published.fetcher.replaced = {path: lie}
            try:
                seen = read_everything(published, "device")
            except RegistryError:
                continue
            assert seen in (before, (2, 0, "2.0.0"))
    published.fetcher.replaced = {}
    assert read_everything(published, "device") == (2, 0, "2.0.0")


class Attacker:
    """Holds some keys and the network: devices read what the attacker signs, in the place of the tree."""

    def __init__(self, world: TreeWorld, stolen: Mapping[str, Signer]) -> None:
        self.world = world
        self.stolen = dict(stolen)
        self.own = CryptoSigner(Ed25519PrivateKey.generate())
        self.expires = utc(world.clock.now_s() + 300 * DAY_S)
        self.base = world.tree.state()
        self.files = current_files(world)

    def key(self, role: str) -> Signer:
        """The stolen key of a role; with the root's, a key of the attacker's own counts; else it is a vain try."""
        return self.stolen.get(role, self.own)

    def publish(
        self,
        roles: Mapping[str, Targets],
        documents: Mapping[str, bytes] | None = None,
        *,
        snapshot: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Serve next metadata of some roles, and whatever above them the stolen keys can sign.

        Args:
            roles: what they shall say.
            documents: bytes by target path.
            snapshot: number of the snapshot; the next one unless given.
            timestamp: number of the timestamp; a later one unless given.
        """
        files = dict(self.files)
        for path, data in (documents or {}).items():
            files[layout.target_file(path, TargetFile.from_data(path, data, ["sha256"]).hashes["sha256"])] = data
        signed = dict(roles)
        if "root" in self.stolen:
            self._serve_root(files)
        if roles and {"root", "targets"} & self.stolen.keys():
            targets = copy.deepcopy(self.base.targets)
            targets.version += 1
            for role in roles:
                targets.add_key(self.key(role).public_key, role)
            signed["targets"] = targets
        meta = dict(self.base.snapshot.meta)
        for role, part in signed.items():
            metadata: Metadata[Targets] = Metadata(part)
            metadata.sign(self.key(role))
            files[layout.metadata_file(role, part.version)] = metadata.to_bytes()
            meta[f"{role}.json"] = MetaFile.from_data(part.version, metadata.to_bytes(), ["sha256"])
        link = self.base.timestamp.snapshot_meta
        if signed or snapshot is not None or {"root", "snapshot"} & self.stolen.keys():
            number = snapshot or self.base.snapshot.version + 1
            listed: Metadata[Snapshot] = Metadata(Snapshot(version=number, expires=self.expires, meta=meta))
            listed.sign(self.key("snapshot"))
            files[layout.metadata_file("snapshot", number)] = listed.to_bytes()
            link = MetaFile.from_data(number, listed.to_bytes(), ["sha256"])
        stamped: Metadata[Timestamp] = Metadata(
            Timestamp(version=timestamp or self.base.timestamp.version + 50, expires=self.expires, snapshot_meta=link)
        )
        stamped.sign(self.key("timestamp"))
        files[TIMESTAMP] = stamped.to_bytes()
        self.world.fetcher.replaced = dict(files)

    def _serve_root(self, files: dict[str, bytes]) -> None:
        root: Metadata[Root] = Metadata.from_bytes(self.base.root_bytes)
        for role in ("targets", "snapshot", "timestamp"):
            root.signed.add_key(self.own.public_key, role)
        root.signed.version += 1
        root.sign(self.stolen["root"])
        files[layout.metadata_file("root", root.signed.version)] = root.to_bytes()


def forge(attacker: Attacker, device: str) -> bool:
    """Whether the device accepts a version that the team never signed."""
    world = attacker.world
    evil = world.package("6.6.6").manifest
    current = attacker.base.roles["team-text"]
    targets = current.targets | {evil.path: TargetFile.from_data(evil.path, evil.to_bytes(), ["sha256"])}
    part = Targets(version=current.version + 1, expires=attacker.expires, targets=targets)
    attacker.publish({"team-text": part}, {evil.path: evil.to_bytes()})
    return world.client(device).manifest("language_id", "6.6.6") == evil


def choose(attacker: Attacker, device: str) -> bool:
    """Whether the device follows a policy that the server never decided."""
    world = attacker.world
    document = world.policy(9).to_bytes()
    path = layout.policy_path("messenger")
    targets = {path: TargetFile.from_data(path, document, ["sha256"])}
    part = Targets(version=attacker.base.roles["policy"].version + 1, expires=attacker.expires, targets=targets)
    attacker.publish({"policy": part}, {path: document})
    return world.client(device).policy("messenger").serial == 9


def halt(attacker: Attacker, device: str) -> bool:
    """Whether the device obeys a halt that nobody decided."""
    world = attacker.world
    document = Halt(app="messenger", serial=9, frozen=("language_id",)).to_bytes()
    path = layout.halt_path("messenger")
    targets = {path: TargetFile.from_data(path, document, ["sha256"])}
    part = Targets(version=attacker.base.roles["halt"].version + 1, expires=attacker.expires, targets=targets)
    attacker.publish({"halt": part}, {path: document})
    return world.client(device).halt("messenger").serial == 9


def freeze(attacker: Attacker, device: str) -> bool:
    """Whether the device takes what was true two days ago for the newest."""
    world = attacker.world
    world.clock.time_s += 2 * DAY_S
    try:
        world.tree.publish_policy("messenger", world.policy(2).to_bytes())
        attacker.publish({})
        return world.client(device).policy("messenger").serial == 1
    finally:
        world.clock.time_s -= 2 * DAY_S


ATTACKS = (forge, choose, halt, freeze)
SERVER = ("snapshot", "timestamp")
# What a thief can do with a key and the network, and with the server's snapshot and timestamp keys besides.
ALONE = {
    "root": {"forge", "choose", "halt", "freeze"},
    "targets": set(),
    "snapshot": set(),
    "timestamp": {"freeze"},
    "policy": set(),
    "halt": set(),
    "team-text": set(),
}
WITH_SERVER = {
    "targets": {"forge", "choose", "halt", "freeze"},
    "policy": {"choose", "freeze"},
    "halt": {"halt", "freeze"},
    "team-text": {"forge", "freeze"},
}


def key_of(world: TreeWorld, role: str) -> Signer:
    """The key that may sign for a role."""
    ring = world.keys
    known: dict[str, Signer] = {"root": ring.root, "targets": ring.targets, "team-text": ring.teams["text"]}
    return known[role] if role in known else getattr(ring.online, role)


def possible(world: TreeWorld, roles: Iterable[str]) -> set[str]:
    """Names of the attacks that succeed with the keys of some roles, on a device that knows the tree and a new one."""
    origin = world.folder / "origin"
    shutil.copytree(world.tree.folder, origin)
    read_everything(world, "known")
    found = set()
    for attack in ATTACKS:
        outcomes = []
        for device in ("old", "new"):
            shutil.rmtree(world.tree.folder)
            shutil.copytree(origin, world.tree.folder)
            world.fetcher.replaced = {}
            name = f"{attack.__name__} {device}"
            if device == "old":
                shutil.copytree(world.folder / "known", world.folder / name, symlinks=True)
            attacker = Attacker(world, {role: key_of(world, role) for role in roles})
            try:
                outcomes.append(attack(attacker, name))
            except RegistryError:
                outcomes.append(False)
        assert outcomes[0] == outcomes[1], attack.__name__
        if outcomes[0]:
            found.add(attack.__name__)
    return found


@pytest.mark.parametrize("role", ALONE)
def test_key_compromise_alone_gives_what_the_table_says(published: TreeWorld, role: str) -> None:
    """Each single key in turn, with the network: forge, choose, halt, freeze."""
    assert possible(published, [role]) == ALONE[role]


@pytest.mark.parametrize("role", WITH_SERVER)
def test_key_compromise_with_the_server_gives_what_the_table_says(published: TreeWorld, role: str) -> None:
    """Besides the keys that date a tree: only the team's or an offline key makes a version."""
    assert possible(published, [role, *SERVER]) == WITH_SERVER[role]


def test_stolen_timestamp_key_freezes_for_as_long_as_the_snapshot_lives(published: TreeWorld) -> None:
    """Seven days; a new key of the root's naming ends it at once."""
    attacker = Attacker(published, {"timestamp": published.keys.online.timestamp})
    attacker.publish({})
    published.clock.time_s += layout.LIFETIMES_S["snapshot"] - 1
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    published.clock.time_s += 1
    with pytest.raises(ExpiredMetadata) as caught:
        read_everything(published, "device")
    assert caught.value.role == "snapshot"
    published.fetcher.replaced = {}
    replace_keys(published, {"timestamp"})
    published.tree.refresh()
    assert read_everything(published, "device") == (1, 0, "1.0.0")
