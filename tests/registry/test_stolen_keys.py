"""What can a thief of the server do?  Choose, stop and hide for a day; never add a version.

With each server key, with some and with all of them the thief tries every way we know to make a device accept a version
that no team signed.  A control shows that the same attacks succeed with the keys that may: a harness that cannot attack
would prove nothing.
"""

import hashlib
from collections.abc import Mapping

import pytest
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
from alcove.registry.clock import utc
from alcove.registry.errors import RegistryError
from alcove.registry.manifest import Manifest
from alcove.registry.testing import TreeWorld
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ONLINE = ("policy", "halt", "snapshot", "timestamp")
SETS = [*((name,) for name in ONLINE), ("snapshot", "timestamp"), ("policy", "timestamp"), ONLINE]


class Thief:
    """Serves a device whatever can be signed with the stolen keys."""

    def __init__(self, world: TreeWorld, stolen: Mapping[str, Signer]) -> None:
        self.world = world
        self.stolen = stolen
        self.evil = world.package("6.6.6").manifest
        self.expires = utc(world.clock.now_s() + 86_400)
        world.fetcher.replaced = {
            layout.target_file(self.evil.path, self.evil.sha256): self.evil.to_bytes(),
        }

    def target(self) -> TargetFile:
        """The forged version as a target."""
        return TargetFile.from_data(self.evil.path, self.evil.to_bytes(), ["sha256"])

    def serve(self, role: str, metadata: Metadata[Targets]) -> None:
        """Make metadata of a role current, with stolen or, where not stolen, invented snapshot and timestamp keys."""
        state = self.world.tree.state()
        data = metadata.to_bytes()
        files = self.world.fetcher.replaced
        files[layout.metadata_file(role, metadata.signed.version)] = data
        meta = dict(state.snapshot.meta) | {
            f"{role}.json": MetaFile.from_data(metadata.signed.version, data, ["sha256"])
        }
        snapshot = Metadata(Snapshot(version=state.snapshot.version + 1, expires=self.expires, meta=meta))
        snapshot.sign(self.key("snapshot"))
        link = MetaFile.from_data(snapshot.signed.version, snapshot.to_bytes(), ["sha256"])
        timestamp = Metadata(Timestamp(version=state.timestamp.version + 1, expires=self.expires, snapshot_meta=link))
        timestamp.sign(self.key("timestamp"))
        files[layout.metadata_file("snapshot", snapshot.signed.version)] = snapshot.to_bytes()
        files[layout.metadata_file("timestamp")] = timestamp.to_bytes()

    def key(self, name: str) -> Signer:
        """A stolen key, or one of the thief's own."""
        return self.stolen.get(name) or CryptoSigner(Ed25519PrivateKey.generate())

    def keys(self) -> list[Signer]:
        """Each stolen key and one of the thief's own."""
        return [*self.stolen.values(), CryptoSigner(Ed25519PrivateKey.generate())]


def own_role(thief: Thief, signer: Signer) -> None:
    """The forged version among the targets of "policy"."""
    current = thief.world.tree.state().roles["policy"]
    targets = current.targets | {thief.evil.path: thief.target()}
    metadata = Metadata(Targets(version=current.version + 1, expires=thief.expires, targets=targets))
    metadata.sign(signer)
    thief.serve("policy", metadata)


def team_metadata(thief: Thief, signer: Signer) -> None:
    """The team's own metadata with one version more, under a stolen signature."""
    current = thief.world.tree.state().roles["team-text"]
    targets = current.targets | {thief.evil.path: thief.target()}
    metadata = Metadata(Targets(version=current.version + 1, expires=thief.expires, targets=targets))
    metadata.sign(signer)
    thief.serve("team-text", metadata)


def relabelled_signature(thief: Thief, signer: Signer) -> None:
    """A stolen signature under the id of the team's key."""
    current = thief.world.tree.state().roles["team-text"]
    targets = current.targets | {thief.evil.path: thief.target()}
    metadata = Metadata(Targets(version=current.version + 1, expires=thief.expires, targets=targets))
    signature = metadata.sign(signer)
    signature.keyid = thief.world.keys.teams["text"].public_key.keyid
    metadata.signatures = {signature.keyid: signature}
    thief.serve("team-text", metadata)


def top_targets(thief: Thief, signer: Signer) -> None:
    """Top-level targets that hold the forged version themselves."""
    targets = thief.world.tree.state().targets
    metadata: Metadata[Targets] = Metadata(targets)
    targets.version += 1
    targets.targets[thief.evil.path] = thief.target()
    metadata.sign(signer)
    thief.serve("targets", metadata)


def new_delegation(thief: Thief, signer: Signer) -> None:
    """Top-level targets that give the team's role to a stolen key."""
    targets = thief.world.tree.state().targets
    targets.add_key(signer.public_key, "team-text")
    targets.version += 1
    metadata: Metadata[Targets] = Metadata(targets)
    metadata.sign(signer)
    thief.world.fetcher.replaced[layout.metadata_file("targets", targets.version)] = metadata.to_bytes()
    team_metadata(thief, signer)


def new_root(thief: Thief, signer: Signer) -> None:
    """A root that gives every top-level role to a stolen key."""
    root: Metadata[Root] = Metadata.from_bytes(thief.world.tree.root_bytes())
    for role in ("root", "targets", "snapshot", "timestamp"):
        root.signed.add_key(signer.public_key, role)
    root.signed.version += 1
    root.sign(signer)
    thief.world.fetcher.replaced[layout.metadata_file("root", 2)] = root.to_bytes()
    top_targets(thief, signer)


def swapped_bytes(thief: Thief, signer: Signer) -> None:
    """The forged manifest in the place of the published one."""
    published = thief.world.package().manifest
    thief.world.fetcher.replaced[layout.target_file(published.path, published.sha256)] = thief.evil.to_bytes()


ATTACKS = [own_role, team_metadata, relabelled_signature, top_targets, new_delegation, new_root, swapped_bytes]


def attempt(world: TreeWorld, name: str) -> Manifest | None:
    """Return the forged manifest if a device accepts it under any name, None if it is refused by a typed error."""
    client = world.client(name)
    for version in ("6.6.6", "1.0.0"):
        try:
            manifest = client.manifest("language_id", version)
        except RegistryError:
            continue
        if manifest.version == "6.6.6":
            return manifest
    return None


@pytest.mark.parametrize("stolen", SETS, ids="+".join)
def test_server_keys_cannot_add_a_version(published: TreeWorld, stolen: tuple[str, ...]) -> None:
    """Each key, some, all; every attack, every stolen key as the signer, old devices and new ones."""
    keys = {name: getattr(published.keys.online, name) for name in stolen}
    published.client("old device").manifest("language_id", "1.0.0")
    for attack in ATTACKS:
        for number, signer in enumerate(Thief(published, keys).keys()):
            thief = Thief(published, keys)
            attack(thief, signer)
            assert attempt(published, f"new {attack.__name__} {number}") is None
            assert attempt(published, "old device") is None
    published.fetcher.replaced = {}
    digest = hashlib.sha256(published.package().manifest.to_bytes()).hexdigest()
    assert published.client("new device").manifest("language_id", "1.0.0").sha256 == digest


@pytest.mark.parametrize(
    ("attack", "name"),
    [(team_metadata, "team"), (top_targets, "targets"), (new_root, "root")],
)
def test_attacks_succeed_with_the_keys_that_may(published: TreeWorld, attack: object, name: str) -> None:
    """The control: the same bytes, signed by team, targets or root, are accepted."""
    ring = published.keys
    keys = {"snapshot": ring.online.snapshot, "timestamp": ring.online.timestamp}
    signer = {"team": ring.teams["text"], "targets": ring.targets, "root": ring.root}[name]
    thief = Thief(published, keys if name != "root" else {"snapshot": signer, "timestamp": signer})
    assert callable(attack)
    attack(thief, signer)
    assert attempt(published, "new device") == thief.evil
