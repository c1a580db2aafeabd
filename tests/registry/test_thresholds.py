"""A team with a threshold above 1 publishes with as many keys, if need be by passing files, and never with fewer."""

import dataclasses
import itertools

import pytest
from alcove.registry._tuf import CryptoSigner
from alcove.registry.errors import PublishError, RegistryError, SignatureError, StaleMetadataError
from alcove.registry.package import Package
from alcove.registry.rotation import Draft
from alcove.registry.signing_request import SigningRequest
from alcove.registry.team import draft_version, sign_version, split_signed
from alcove.registry.testing import RepositoryFixture
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

YEAR_S = 365 * 86_400
Members = tuple[CryptoSigner, CryptoSigner, CryptoSigner]


def new_signer() -> CryptoSigner:
    """A key that nobody knows yet."""
    return CryptoSigner(Ed25519PrivateKey.generate())


def raise_threshold(world: RepositoryFixture, threshold: int = 2) -> Members:
    """Give team "text" three members of whom two sign; return them."""
    first, second, third = world.keys.teams["text"], new_signer(), new_signer()
    begun = Draft(world.tree.state(), now_s=world.clock.now_s())
    begun.rotate("team-text", add=[second.public_key, third.public_key], threshold=threshold)
    change = begun.draft()
    for signer in (world.keys.targets, first, second):
        change, _ = SigningRequest.parse(change.to_bytes()).sign(signer)
    world.tree.accept_request(change, world.keys.online)
    return first, second, third


@pytest.fixture
def members(published_repository: RepositoryFixture) -> Members:
    """Three of whom two sign; one version is published."""
    return raise_threshold(published_repository)


def sign_by(world: RepositoryFixture, package: Package, signers: tuple[CryptoSigner, ...], members: Members) -> bytes:
    """The team's next metadata, signed by some."""
    return sign_version(
        world.tree.team_metadata("text"),
        package.manifest,
        signers[0],
        world.clock.now_s() + YEAR_S,
        other_members=[one.public_key for one in members],
        cosigners=signers[1:],
        threshold=2,
    )


def publish(world: RepositoryFixture, signed: bytes, package: Package) -> None:
    """What the server does with it."""
    world.upload(package)
    world.tree.accept_team_metadata(signed, {package.manifest.path: package.manifest.to_bytes()}, team="text")


def draft_request(world: RepositoryFixture, package: Package, signer: CryptoSigner, members: Members) -> SigningRequest:
    """The file that one member passes round."""
    change = draft_version(
        world.tree.team_metadata("text"),
        world.tree.targets_bytes(),
        package.manifest,
        [signer],
        world.clock.now_s() + YEAR_S,
        other_members=[one.public_key for one in members],
        threshold=2,
    )
    assert change is not None
    return SigningRequest.parse(change.to_bytes())


def test_any_two_of_three_publish_and_none_alone(published_repository: RepositoryFixture, members: Members) -> None:
    """Every pair does; each member alone, one twice, and one with a stranger do not."""
    for number, pair in enumerate(itertools.permutations(members, 2), start=2):
        package = published_repository.package(f"{number}.0.0")
        before = published_repository.tree.team_metadata("text")
        for few in ((pair[0],), (pair[0], pair[0]), (pair[0], new_signer())):
            with pytest.raises(SignatureError):
                publish(published_repository, sign_by(published_repository, package, few, members), package)
            assert published_repository.tree.team_metadata("text") == before
        publish(published_repository, sign_by(published_repository, package, pair, members), package)
        assert published_repository.client(f"device {number}").manifest("language_id", f"{number}.0.0").version
    assert published_repository.tree.check().is_sound


def test_a_version_is_passed_round_until_enough_have_signed(
    published_repository: RepositoryFixture, members: Members
) -> None:
    """The file says who is missing and what would be new; it goes through bytes, one after another or by copies."""
    first, second, third = members
    package = published_repository.package("2.0.0")
    change = draft_request(published_repository, package, first, members)
    assert change.find_added() == {package.manifest.path: package.manifest.sha256}
    (need,) = change.signature_status()
    assert (need.role, need.have, need.threshold) == ("team-text", 1, 2)
    assert set(need.waiting) == {second.public_key.keyid, third.public_key.keyid}
    with pytest.raises(SignatureError):
        publish(published_repository, split_signed(change)[0], package)
    with pytest.raises(PublishError, match="names the key"):
        change.sign(new_signer())
    copies = [SigningRequest.parse(change.sign(one)[0].to_bytes()) for one in (second, third)]
    for whole in (copies[0], change.merge([copies[1]]), copies[0].merge(copies)):
        assert all(need.is_met for need in whole.signature_status())
        metadata, manifest = split_signed(SigningRequest.parse(whole.to_bytes()))
        assert manifest == package.manifest.to_bytes()
        publish(published_repository, metadata, package)  # the second time it is there already
    assert published_repository.client().manifest("language_id", "2.0.0") == package.manifest
    assert published_repository.tree.check().is_sound


def test_of_two_files_the_second_is_drafted_again(published_repository: RepositoryFixture, members: Members) -> None:
    """Both had enough signatures; the tree took one, and says of the other that it is stale."""
    first, second, _ = members
    packages = [published_repository.package(version) for version in ("2.0.0", "3.0.0")]
    changes = [draft_request(published_repository, package, first, members).sign(second)[0] for package in packages]
    publish(published_repository, split_signed(changes[0])[0], packages[0])
    with pytest.raises(StaleMetadataError):
        publish(published_repository, split_signed(changes[1])[0], packages[1])
    again = draft_request(published_repository, packages[1], second, members).sign(first)[0]
    publish(published_repository, split_signed(again)[0], packages[1])
    assert published_repository.tree.check().is_sound


def test_nobody_signs_on_top_of_what_too_few_have_signed(
    published_repository: RepositoryFixture, members: Members
) -> None:
    """A server with one stolen key of the team cannot have the others sign what the thief slipped in."""
    first, second, third = members
    slipped = sign_version(
        published_repository.tree.team_metadata("text"),
        published_repository.package("6.6.6").manifest,
        first,
        published_repository.clock.now_s() + YEAR_S,
        other_members=[one.public_key for one in members],
        threshold=2,
    )
    for other_members, known in ((members, 3), ((first,), 3)):
        with pytest.raises(SignatureError, match=f"1 of the {known} keys that are named, 2 have to"):
            sign_version(
                slipped,
                published_repository.package("2.0.0").manifest,
                second,
                published_repository.clock.now_s() + YEAR_S,
                other_members=[one.public_key for one in other_members],
                cosigners=[third],
                threshold=2,
            )


def test_a_change_of_keys_is_no_version_and_a_version_no_change_of_keys(
    published_repository: RepositoryFixture, members: Members
) -> None:
    """Each has its own way into the tree."""
    first, second, _ = members
    version = draft_request(published_repository, published_repository.package("2.0.0"), first, members).sign(second)[0]
    with pytest.raises(PublishError, match="adds no version"):
        published_repository.tree.accept_request(version, published_repository.keys.online)
    keys = Draft(published_repository.tree.state(), now_s=published_repository.clock.now_s())
    keys.renew("team-text")
    with pytest.raises(PublishError, match="adds no version"):
        split_signed(keys.draft())


def test_bins_take_as_many_signatures(world: RepositoryFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spread with three versions in place of 65: two sign each bin, a bin for which one would do is refused."""
    monkeypatch.setattr("alcove.registry.limits.BIN_VERSIONS", 2)
    members = raise_threshold(world)
    for number in (1, 2, 3, 4):
        package = world.package(f"{number}.0.0")
        change = draft_request(world, package, members[0], members)
        assert all(need.threshold == 2 for need in change.signature_status())
        publish(world, split_signed(change.sign(members[number % 2 + 1])[0])[0], package)
    assert [name for name in world.tree.state().roles if name.startswith("bin-")]
    package = world.package("5.0.0")
    with pytest.raises(SignatureError):
        publish(world, split_signed(draft_request(world, package, members[0], members))[0], package)
    for number in (1, 2, 3, 4):
        assert world.client(f"device {number}").manifest("language_id", f"{number}.0.0").version
    begun = Draft(world.tree.state(), now_s=world.clock.now_s())
    begun.rotate("team-text", threshold=1)
    change = begun.draft()
    for signer in (world.keys.targets, members[1]):
        change, _ = change.sign(signer)
    world.tree.accept_request(change, world.keys.online)
    assert world.client("later").manifest("language_id", "3.0.0").version
    assert world.tree.check().is_sound


def test_bins_with_a_lower_threshold_are_refused(world: RepositoryFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Signed by two of the team even, because a thief of one key could then change them."""
    monkeypatch.setattr("alcove.registry.limits.BIN_VERSIONS", 2)
    members = raise_threshold(world)
    for number in (1, 2):
        package = world.package(f"{number}.0.0")
        publish(world, sign_by(world, package, members[:2], members), package)
    package = world.package("3.0.0")
    other_members = [one.public_key for one in members]
    expires_s = world.clock.now_s() + YEAR_S
    weak = sign_version(
        world.tree.team_metadata("text"),
        package.manifest,
        members[0],
        expires_s,
        other_members=other_members,
        cosigners=members[1:],
    )
    with pytest.raises(RegistryError, match="its keys and its threshold"):
        publish(world, weak, package)
    publish(world, sign_by(world, package, members[:2], members), package)


def test_old_changes_read_as_before(published_repository: RepositoryFixture) -> None:
    """A file without manifests has the bytes that it always had."""
    begun = Draft(published_repository.tree.state(), now_s=published_repository.clock.now_s())
    begun.renew("team-text")
    change = begun.draft()
    assert b"manifests" not in change.to_bytes()
    assert dataclasses.replace(SigningRequest.parse(change.to_bytes())).manifests == {}
