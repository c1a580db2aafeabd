"""Fewer keys of root or targets than have to sign: no change is made, by the tree's word or by a device's."""

import pytest
from alcove.registry import layout
from alcove.registry._tuf import CryptoSigner, Metadata, Root
from alcove.registry.errors import PublishError, RegistryError, SignatureError
from alcove.registry.rotation import Draft
from alcove.registry.testing import RepositoryFixture
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def fresh() -> CryptoSigner:
    """A key of nobody yet."""
    return CryptoSigner(Ed25519PrivateKey.generate())


@pytest.fixture
def signers(published_repository: RepositoryFixture) -> dict[str, list[CryptoSigner]]:
    """Root and targets with three keys each, of which two have to sign."""
    results = {
        "root": [published_repository.keys.root, fresh(), fresh()],
        "targets": [published_repository.keys.targets, fresh(), fresh()],
    }
    draft = Draft(published_repository.tree.state(), now_s=published_repository.clock.now_s())
    for role, keys in results.items():
        draft.rotate(role, add=[key.public_key for key in keys[1:]], threshold=2)
    change = draft.draft()
    for key in (*results["root"], *results["targets"]):
        if any(key.public_key.keyid in need.waiting for need in change.signature_status()):
            change, _ = change.sign(key)
    published_repository.tree.accept_request(change, published_repository.keys.online)
    return results


@pytest.mark.parametrize("role", ["root", "targets"])
def test_no_single_key_of_two_changes_who_signs(
    published_repository: RepositoryFixture, signers: dict[str, list[CryptoSigner]], role: str
) -> None:
    """Each key alone, and each twice; then any two are enough."""
    thief = fresh()
    for key in signers[role]:
        draft = Draft(published_repository.tree.state(), now_s=published_repository.clock.now_s())
        draft.rotate(role, add=[thief.public_key])
        change, _ = draft.draft().sign(key)
        with pytest.raises(SignatureError):
            published_repository.tree.accept_request(change, published_repository.keys.online)
        again, _ = change.sign(key)
        with pytest.raises(SignatureError):
            published_repository.tree.accept_request(again, published_repository.keys.online)


def test_no_device_follows_a_root_that_one_of_two_signed(
    published_repository: RepositoryFixture, signers: dict[str, list[CryptoSigner]]
) -> None:
    """A mirror serves it: by one old key, by one and itself, or with one key under two names."""
    for number, key in enumerate(signers["root"]):
        for extra in ((), (fresh(),), (key,)):
            root: Metadata[Root] = Metadata.from_bytes(published_repository.tree.root_bytes())
            root.signed.version += 1
            for one in extra:
                root.signed.add_key(one.public_key, "root")
            for one in (key, *extra):
                root.sign(one, append=True)
            place = layout.metadata_file("root", root.signed.version)
            published_repository.fetcher.replaced = {place: root.to_bytes()}
            with pytest.raises(RegistryError):
                published_repository.client(f"device {number} {len(extra)}").refresh()
    published_repository.fetcher.replaced = {}
    assert published_repository.client("device").policy("messenger").serial == 1


@pytest.mark.parametrize("online", ["policy", "timestamp"])
@pytest.mark.parametrize("other", ["team", "root", "halt"])
def test_no_key_of_the_server_is_brought_in_for_another_role(
    published_repository: RepositoryFixture, online: str, other: str
) -> None:
    """One theft would be two: a key that signs for the server signs for one role of it, and for nobody else."""
    draft = Draft(published_repository.tree.state(), now_s=published_repository.clock.now_s())
    ring = published_repository.keys
    shared = {"team": ring.teams["text"], "root": ring.root, "halt": ring.online.halt}[other]
    draft.rotate(online, add=[shared.public_key])
    change = draft.draft()
    for key in (published_repository.keys.root, published_repository.keys.targets):
        if any(key.public_key.keyid in need.waiting for need in change.signature_status()):
            change, _ = change.sign(key)
    with pytest.raises(PublishError, match="the same key"):
        published_repository.tree.accept_request(change, published_repository.keys.online)
