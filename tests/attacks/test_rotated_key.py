"""A key that was rotated away: nothing that it signs from then on is taken, by devices or by the tree."""

import contextlib

import pytest
from alcove.registry._tuf import CryptoSigner
from alcove.registry.errors import PublishError, RegistryError
from alcove.registry.repository import Repository
from alcove.registry.rotation import Draft
from alcove.registry.testing import RepositoryFixture
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.attacks.attacker import ATTACKS, Attacker, key_of, read_everything, replace_keys

SERVER = ("snapshot", "timestamp")


@pytest.mark.parametrize("role", ["policy", "halt", "snapshot", "timestamp"])
def test_old_key_of_the_server_gives_nothing_beside_the_new_ones(
    published_repository: RepositoryFixture, role: str
) -> None:
    """The thief has the old key, and of what dates a tree the present ones but where that is the key itself."""
    old = key_of(published_repository, role)
    old_tree = published_repository.tree
    read_everything(published_repository, "known")
    replace_keys(published_repository, {role})
    with pytest.raises(PublishError, match="not the one that the tree trusts"):
        old_tree.publish_policy("messenger", published_repository.policy(2).to_bytes())
    truth = read_everything(published_repository, "known")
    for attack in ATTACKS:
        stolen = {name: key_of(published_repository, name) for name in SERVER if name != role} | {role: old}
        if attack.__name__ == "freeze" and role != "timestamp":
            continue  # that is what the timestamp's key does by itself
        with contextlib.suppress(RegistryError):
            assert not attack(Attacker(published_repository, stolen), attack.__name__), attack.__name__
        published_repository.fetcher.replaced = {}
    assert read_everything(published_repository, "known")[2] == truth[2]


def test_old_key_of_a_team_publishes_nothing(published_repository: RepositoryFixture) -> None:
    """To the tree, and to devices though the whole server is stolen besides."""
    old = published_repository.keys.teams["text"]
    new = CryptoSigner(Ed25519PrivateKey.generate())
    draft = Draft(published_repository.tree.state(), now_s=published_repository.clock.now_s())
    draft.rotate("team-text", add=[new.public_key], remove=[old.public_key.keyid])
    change = draft.draft()
    for key in (published_repository.keys.targets, new):
        change, _ = change.sign(key)
    published_repository.tree.accept_request(change, published_repository.keys.online)
    with pytest.raises(RegistryError):
        published_repository.push(published_repository.package("2.0.0"))
    stolen = {name: key_of(published_repository, name) for name in ("policy", "halt", *SERVER)} | {"team-text": old}
    with pytest.raises(RegistryError):
        ATTACKS[0](Attacker(published_repository, stolen), "device")
    published_repository.fetcher.replaced = {}
    published_repository.tree = Repository(
        published_repository.tree.folder, keys=published_repository.keys.online, clock=published_repository.clock
    )
    assert read_everything(published_repository, "another device") == (1, 0, "1.0.0")
