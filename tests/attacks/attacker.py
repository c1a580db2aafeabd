"""Holds some keys and the network: what an attack needs, and the four things that one may want."""

import copy
import dataclasses
import shutil
from collections.abc import Iterable, Mapping

from alcove.registry import layout
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
from alcove.registry.errors import RegistryError
from alcove.registry.policy import Halt
from alcove.registry.repository import Repository
from alcove.registry.rotation import Draft
from alcove.registry.signed_time import utc
from alcove.registry.testing import RepositoryFixture
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DAY_S = 86_400


TIMESTAMP = "metadata/timestamp.json"


def current_files(world: RepositoryFixture) -> dict[str, bytes]:
    """Every metadata file and document, by its path in the tree."""
    return {
        path.relative_to(world.tree.folder).as_posix(): path.read_bytes()
        for part in (layout.METADATA, layout.TARGETS)
        for path in (world.tree.folder / part).rglob("*.json")
    }


def read_everything(world: RepositoryFixture, name: str) -> tuple[int, int, str]:
    """What a device does at a check-in; return policy serial, halt serial and the version that it may run."""
    client = world.client(name)
    policy, halt = client.policy("messenger"), client.halt("messenger")
    version = policy.features["language_id"].default.version
    return policy.serial, halt.serial, client.manifest("language_id", version).version


def replace_keys(world: RepositoryFixture, roles: Iterable[str]) -> None:
    """Change the server's keys of some roles, in one change that root and targets sign."""
    fresh = {role: CryptoSigner(Ed25519PrivateKey.generate()) for role in roles}
    draft = Draft(world.tree.state(), now_s=world.clock.now_s())
    for role, signer in fresh.items():
        draft.rotate(role, add=[signer.public_key], remove=[getattr(world.keys.online, role).public_key.keyid])
    change = draft.draft()
    for signer in (world.keys.root, world.keys.targets):
        if any(signer.public_key.keyid in need.waiting for need in change.signature_status()):
            change, _ = change.sign(signer)
    keys = dataclasses.replace(world.keys.online, **fresh)
    world.tree.accept_request(change, keys)
    world.keys = dataclasses.replace(world.keys, online=keys)
    world.tree = Repository(world.tree.folder, keys=keys, clock=world.clock)


class Attacker:
    """Holds some keys and the network: devices read what the attacker signs, in the place of the tree."""

    def __init__(self, world: RepositoryFixture, stolen: Mapping[str, Signer]) -> None:
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


def key_of(world: RepositoryFixture, role: str) -> Signer:
    """The key that may sign for a role."""
    ring = world.keys
    known: dict[str, Signer] = {"root": ring.root, "targets": ring.targets, "team-text": ring.teams["text"]}
    return known[role] if role in known else getattr(ring.online, role)


def possible(world: RepositoryFixture, roles: Iterable[str]) -> set[str]:
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
