"""Serial numbers run up with a stolen `policy` or `halt` key: new keys forget them, and no halt with them."""

import dataclasses

import pytest
from alcove.registry._tuf import CryptoSigner
from alcove.registry.policy import Halt, HaltedVersion
from alcove.registry.repository import Repository
from alcove.registry.rotation import Draft
from alcove.registry.testing import RepositoryFixture
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def item(world: RepositoryFixture, version: str = "1.0.0") -> HaltedVersion:
    """A published version as a halt names it."""
    return HaltedVersion(feature="language_id", version=world.policy(1, version).features["language_id"].default)


@pytest.fixture
def halted(published_repository: RepositoryFixture) -> RepositoryFixture:
    """Halt 1 takes 1.0.0 away and freezes the feature; a device has seen it."""
    halt = Halt(app="messenger", serial=1, halted=(item(published_repository),), frozen=("language_id",))
    published_repository.tree.publish_halt("messenger", halt.to_bytes())
    assert published_repository.client().halt("messenger").serial == 1
    return published_repository


@pytest.mark.parametrize("kind", ["policy", "halt"])
def test_serials_that_a_thief_ran_up_count_no_longer_under_new_keys(halted: RepositoryFixture, kind: str) -> None:
    """The largest serial there is, signed with a stolen key: no next one exists; a new key begins again below.

    What was halted stays halted: new keys forget serials, not halts.
    """
    top = 2**53 - 1
    document = (
        halted.policy(top) if kind == "policy" else Halt(app="messenger", serial=top, halted=(item(halted),), frozen=())
    )
    shut = halted.client("device")
    shut.policy("messenger")
    shut.halt("messenger")
    if kind == "halt":
        document = Halt(app="messenger", serial=top, halted=(item(halted),), frozen=("language_id",))
    origin = {path: path.read_bytes() for path in halted.tree.folder.rglob("*.json")}
    halted.misuse(kind, {f"{kind}/messenger.json": document.to_bytes()})
    shut.refresh()
    assert getattr(shut, kind)("messenger").serial == top
    for path in list(halted.tree.folder.rglob("*.json")):
        path.unlink()
    for path, data in origin.items():
        path.write_bytes(data)
    new = CryptoSigner(Ed25519PrivateKey.generate())
    fresh = {role: CryptoSigner(Ed25519PrivateKey.generate()) for role in ("snapshot", "timestamp")} | {kind: new}
    draft = Draft(halted.tree.state(), now_s=halted.clock.now_s())
    for role, signer in fresh.items():
        old = getattr(halted.keys.online, role)
        draft.rotate(role, add=[signer.public_key], remove=[old.public_key.keyid])
    change = draft.draft()
    for signer in (halted.keys.root, halted.keys.targets):
        change, _ = change.sign(signer)
    keys = dataclasses.replace(halted.keys.online, **fresh)
    halted.tree.accept_request(change, keys)
    halted.tree = Repository(halted.tree.folder, keys=keys, clock=halted.clock)
    client = halted.client("device")
    client.refresh()
    assert client.halt("messenger").serial == 1
    assert client.policy("messenger").serial == 1
    assert client.halt("messenger").digests == {item(halted).version.manifest_sha256}
