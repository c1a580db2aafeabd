"""Drafts, signs and accepts changes of keys, for the tests of rotation."""

import dataclasses
from pathlib import Path

from alcove.registry._tuf import CryptoSigner
from alcove.registry.keys import ONLINE_ROLES, OnlineKeys
from alcove.registry.repository import Repository
from alcove.registry.rotation import Draft
from alcove.registry.signing_request import SigningRequest
from alcove.registry.testing import RepositoryFixture
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

ROLES = ("root", "targets", "snapshot", "timestamp", "policy", "halt", "team-text")


def new_signer() -> CryptoSigner:
    """A key that nobody knows yet."""
    return CryptoSigner(Ed25519PrivateKey.generate())


def signer_of(world: RepositoryFixture, role: str) -> CryptoSigner:
    """The key that signs for a role before anything is changed."""
    ring = world.keys
    known = {"root": ring.root, "targets": ring.targets, "team-text": ring.teams["text"]}
    return known[role] if role in known else getattr(ring.online, role)


def draft(world: RepositoryFixture) -> Draft:
    """The beginning of a change of the world's tree."""
    return Draft(world.tree.state(), now_s=world.clock.now_s())


def sign_by(change: SigningRequest, *signers: CryptoSigner) -> SigningRequest:
    """The change as it comes back from signers who pass it round as a file."""
    for signer in signers:
        change, _ = SigningRequest.parse(change.to_bytes()).sign(signer)
    return change


def replacement(world: RepositoryFixture, role: str, new: CryptoSigner) -> SigningRequest:
    """A role's key replaced by another, unsigned."""
    begun = draft(world)
    begun.rotate(role, add=[new.public_key], remove=[signer_of(world, role).public_key.keyid])
    return begun.draft()


def online_with(world: RepositoryFixture, role: str, new: CryptoSigner) -> OnlineKeys:
    """The server's keys after a role's was replaced."""
    keys = world.keys.online
    return dataclasses.replace(keys, **{role: new}) if role in ONLINE_ROLES else keys


def accept(
    world: RepositoryFixture, change: SigningRequest, keys: OnlineKeys | None = None, *, has_old: bool = True
) -> None:
    """Make a change part of the tree; the world's tree continues with the keys given."""
    keys = keys or world.keys.online
    old = [getattr(world.keys.online, role) for role in ONLINE_ROLES] if has_old else []
    world.tree.accept_request(change, keys, old_keys=old)
    world.tree = Repository(world.tree.folder, keys=keys, clock=world.clock)


def read_everything(world: RepositoryFixture, name: str) -> None:
    """What a device does at a check-in."""
    client = world.client(name)
    assert client.policy("messenger") == world.tree.policy("messenger")
    assert client.manifest("language_id", "1.0.0").version == "1.0.0"
    client.halt("messenger")


def tree_files(world: RepositoryFixture) -> dict[Path, bytes]:
    """Every file of the tree."""
    return {path: path.read_bytes() for path in world.tree.folder.rglob("*.json")}


def signers_of_replacement(world: RepositoryFixture, role: str, new: CryptoSigner) -> list[CryptoSigner]:
    """Who has to sign so that a role's key is replaced."""
    ring = world.keys
    return {
        "root": [ring.root, new],
        "targets": [ring.root, ring.targets, new],
        "snapshot": [ring.root],
        "timestamp": [ring.root],
        "policy": [ring.targets],
        "halt": [ring.targets],
        "team-text": [ring.targets, new],
    }[role]
