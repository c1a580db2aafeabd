"""A change of keys that lacks signatures, breaks a rule or comes too late has no effect."""

import pytest
from alcove.registry import layout
from alcove.registry._tuf import Key, Metadata, Targets
from alcove.registry.errors import (
    DocumentError,
    DocumentTooLargeError,
    ExpiredMetadataError,
    MetadataError,
    MissingTargetError,
    PublishError,
    RegistryError,
    SignatureError,
    StaleMetadataError,
)
from alcove.registry.signed_time import utc
from alcove.registry.signing_request import SigningRequest
from alcove.registry.testing import RepositoryFixture

from tests.registry.key_changes import (
    ROLES,
    accept,
    draft,
    new_signer,
    online_with,
    replacement,
    sign_by,
    signers_of_replacement,
    tree_files,
)


@pytest.mark.parametrize("role", ROLES)
def test_every_signature_of_a_replacement_is_needed(published_repository: RepositoryFixture, role: str) -> None:
    """Without any one of them nothing changes; a stranger's counts for nothing."""
    new = new_signer()
    whole = replacement(published_repository, role, new)
    needed = [
        one
        for one in signers_of_replacement(published_repository, role, new)
        if (role, one) != ("targets", published_repository.keys.targets)
    ]
    keys = online_with(published_repository, role, new)
    before = tree_files(published_repository)
    for missing in needed:
        change = sign_by(whole, *(one for one in needed if one is not missing))
        assert not all(need.is_met for need in change.signature_status())
        assert any(missing.public_key.keyid in need.waiting for need in change.signature_status())
        with pytest.raises(SignatureError):
            published_repository.tree.accept_request(change, keys)
        with pytest.raises(PublishError, match="no role of this change"):
            change.sign(new_signer())
    assert tree_files(published_repository) == before
    assert all(need.is_met for need in sign_by(whole, *needed).signature_status())


def test_merging_drops_no_good_signature_for_a_bad_one(published_repository: RepositoryFixture) -> None:
    """A copy whose signature was damaged on the way; and copies of different changes are no copies."""
    change = replacement(published_repository, "root", new := new_signer())
    good, other = sign_by(change, published_repository.keys.root), sign_by(change, new)
    broken = SigningRequest.parse(good.to_bytes())
    (signature,) = broken.roles["root"].signatures.values()
    signature.signature = "00" + signature.signature[2:]
    for first, second in ((good, broken), (broken, good)):
        accepted = first.merge([second, other])
        assert all(need.is_met for need in accepted.signature_status())
    with pytest.raises(PublishError, match="different changes"):
        good.merge([replacement(published_repository, "root", new_signer())])
    with pytest.raises(PublishError, match="different changes"):
        good.merge([replacement(published_repository, "targets", new_signer())])


def test_change_of_a_tree_that_moved_on_is_refused(published_repository: RepositoryFixture) -> None:
    """Drafted before another was accepted; before a push, where the team's own list is in it; or a year ago."""
    new = new_signer()
    first = sign_by(replacement(published_repository, "policy", new), published_repository.keys.targets)
    second = sign_by(replacement(published_repository, "halt", new), published_repository.keys.targets)
    team = sign_by(replacement(published_repository, "team-text", new), published_repository.keys.targets, new)
    published_repository.push(published_repository.package("2.0.0"))
    with pytest.raises(StaleMetadataError) as caught:
        published_repository.tree.accept_request(team, published_repository.keys.online)
    assert (caught.value.role, caught.value.expected_version) == ("team-text", 4)
    accept(published_repository, first, online_with(published_repository, "policy", new))
    with pytest.raises(StaleMetadataError):
        published_repository.tree.accept_request(second, published_repository.keys.online)
    late = sign_by(replacement(published_repository, "root", new), published_repository.keys.root, new)
    published_repository.clock.time_s += layout.LIFETIMES_S["root"]
    with pytest.raises(ExpiredMetadataError):
        published_repository.tree.accept_request(late, published_repository.keys.online)


def a_key() -> list[Key]:
    """Somebody's public key."""
    return [new_signer().public_key]


@pytest.mark.parametrize(
    ("step", "error", "words"),
    [
        (lambda d, w: d.rotate("root", remove=[w.keys.root.public_key.keyid]), PublishError, "1 of 0 keys"),
        (lambda d, w: d.rotate("root", threshold=2), PublishError, "2 of 1 keys"),
        (lambda d, w: d.rotate("root", threshold=0), PublishError, "0 of 1 keys"),
        (lambda d, w: d.rotate("root", add=[w.keys.root.public_key]), PublishError, "already"),
        (lambda d, w: d.rotate("root", remove=["0" * 64]), PublishError, "has no key"),
        (lambda d, w: d.rotate("root", add=[k for _ in range(17) for k in a_key()]), PublishError, "at most 16"),
        (lambda d, w: d.rotate("timestamp", add=a_key(), threshold=2), PublishError, "one key"),
        (lambda d, w: d.rotate("team-text", add=a_key(), threshold=3), PublishError, "3 of 2 keys"),
        (lambda d, w: d.rotate("policy", add=a_key(), threshold=2), PublishError, "one key"),
        (lambda d, w: d.rotate("team-vision", add=a_key()), MissingTargetError, "team-vision"),
        (lambda d, w: d.renew("policy"), MissingTargetError, "policy"),
        (lambda d, w: d.add_team("text", ["segment"], a_key()), PublishError, "in the tree already"),
        (lambda d, w: d.add_team("vision", ["tagging"], a_key()), PublishError, "team-speech owns tagging"),
        (lambda d, w: d.add_team("vision", ["policy"], a_key()), ValueError, "folder of the tree"),
        (lambda d, w: d.add_team("vision", ["segment"], []), PublishError, "1 of 0 keys"),
        (lambda d, w: d.own("text", ["tagging"]), PublishError, "team-speech owns tagging"),
        (lambda d, w: d.own("vision", ["segment"]), MissingTargetError, "team-vision"),
        (lambda d, w: None, PublishError, "nothing would change"),
    ],
)
def test_impossible_changes_are_not_drafted(
    published_repository: RepositoryFixture, step: object, error: type[Exception], words: str
) -> None:
    """Each names the role, the bound and the value."""
    assert callable(step)
    begun = draft(published_repository)
    with pytest.raises(error, match=words):  # noqa: PT012 - either the step or the draft refuses
        step(begun, published_repository)
        begun.draft()


def top_target(targets: Targets) -> None:
    """A version in the top role."""
    from alcove.registry._tuf import TargetFile

    targets.targets["language_id/6.6.6.json"] = TargetFile.from_data("x", b"evil", ["sha256"])


def without_team(targets: Targets) -> None:
    """A team that is no more."""
    assert targets.delegations is not None
    assert targets.delegations.roles is not None
    del targets.delegations.roles["team-speech"]


def moved_feature(targets: Targets) -> None:
    """A feature of another team."""
    assert targets.delegations is not None
    assert targets.delegations.roles is not None
    roles = targets.delegations.roles
    roles["team-speech"].paths = ["bandwidth/*.json"]
    roles["team-text"].paths = ["language_id/*.json", "tagging/*.json"]


def wide_policy(targets: Targets) -> None:
    """A policy role that may speak of versions."""
    assert targets.delegations is not None
    assert targets.delegations.roles is not None
    targets.delegations.roles["policy"].paths = ["policy/*.json", "language_id/*.json"]


def open_end(targets: Targets) -> None:
    """A delegation that lets others be asked after it."""
    assert targets.delegations is not None
    assert targets.delegations.roles is not None
    targets.delegations.roles["team-text"].terminating = False


def other_order(targets: Targets) -> None:
    """Another precedence."""
    assert targets.delegations is not None
    assert targets.delegations.roles is not None
    targets.delegations.roles = dict(reversed(targets.delegations.roles.items()))


@pytest.mark.parametrize("edit", [top_target, without_team, moved_feature, wide_policy, open_end, other_order])
def test_targets_that_break_a_rule_are_refused_though_signed(
    published_repository: RepositoryFixture, edit: object
) -> None:
    """The tree is not asked to trust the person who drafts."""
    begun = draft(published_repository)
    begun.renew("targets")
    change = begun.draft()
    assert callable(edit)
    edit(change.roles["targets"].signed)
    before = tree_files(published_repository)
    with pytest.raises(PublishError):
        published_repository.tree.accept_request(
            sign_by(change, published_repository.keys.targets), published_repository.keys.online
        )
    assert tree_files(published_repository) == before


def test_change_that_forgets_who_must_sign_again_is_refused(published_repository: RepositoryFixture) -> None:
    """New keys of the targets without targets, a team's without its list: nobody could read them afterwards."""
    new = new_signer()
    root_alone = replacement(published_repository, "targets", new)
    with pytest.raises(PublishError, match="signed again"):
        published_repository.tree.accept_request(
            sign_by(
                SigningRequest({"root": root_alone.roles["root"]}, root_alone.current), published_repository.keys.root
            ),
            published_repository.keys.online,
        )
    targets_alone = replacement(published_repository, "team-text", new)
    with pytest.raises(SignatureError):
        published_repository.tree.accept_request(
            sign_by(
                SigningRequest({"targets": targets_alone.roles["targets"]}, targets_alone.current),
                published_repository.keys.targets,
            ),
            published_repository.keys.online,
        )


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", DocumentError),
        (b"null", DocumentError),
        (b"[" * 100_000, DocumentError),
        (b'{"format":2,"kind":"change","roles":{},"current":{}}', DocumentError),
        (b'{"format":1,"kind":"change","roles":{"snapshot":{}},"current":{}}', DocumentError),
        (b" " * (8 * 1024 * 1024 + 1), DocumentTooLargeError),
    ],
)
def test_files_that_are_no_change_are_typed(data: bytes, error: type[RegistryError]) -> None:
    """Whatever is handed over instead."""
    with pytest.raises(error):
        SigningRequest.parse(data)


def test_metadata_under_the_name_of_another_role_is_refused(published_repository: RepositoryFixture) -> None:
    """Root metadata as targets, and a team nobody delegates to."""
    change = replacement(published_repository, "root", new_signer())
    renamed = change.to_bytes().replace(b'"roles":{"root":{"sig', b'"roles":{"targets":{"sig')
    with pytest.raises(DocumentError, match="no metadata of this role"):
        SigningRequest.parse(renamed)
    stranger: Metadata[Targets] = Metadata(Targets(expires=utc(published_repository.clock.now_s() + 1000)))
    with pytest.raises(DocumentError, match="team-vision"):
        SigningRequest({"team-vision": stranger}, change.current).signature_status()
    with pytest.raises((MissingTargetError, MetadataError)):
        published_repository.tree.accept_request(
            SigningRequest({"team-vision": stranger}, change.current), published_repository.keys.online
        )
