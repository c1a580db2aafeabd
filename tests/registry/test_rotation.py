"""Every key can be replaced, with thresholds, while devices follow; a change that lacks signatures has no effect."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from alcove.registry import layout
from alcove.registry._tuf import CryptoSigner, Key, Metadata, Targets, Timestamp
from alcove.registry.ceremony import PublicKeys, make_first_request
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
    StorageError,
)
from alcove.registry.keys import ONLINE_ROLES, OnlineKeys
from alcove.registry.repository import Repository
from alcove.registry.rotation import Draft
from alcove.registry.signed_time import utc
from alcove.registry.signing_request import SigningRequest
from alcove.registry.testing import FailingDisk, FolderFetcher, RepositoryFixture
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
    """Make a change part of the tree; the world's tree goes on with the keys given."""
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


@pytest.mark.parametrize("has_old", [True, False], ids=["old key at hand", "old key lost"])
@pytest.mark.parametrize("role", ROLES)
def test_key_of_each_role_is_replaced_and_devices_follow(
    published_repository: RepositoryFixture, role: str, has_old: bool
) -> None:
    """A device that knew the old key and one that is new; then everything is published with the new key."""
    read_everything(published_repository, "old device")
    new = new_signer()
    signers = signers_of_replacement(published_repository, role, new)
    if not has_old and role == "targets":
        signers.remove(published_repository.keys.targets)
    keys = online_with(published_repository, role, new)
    accept(published_repository, sign_by(replacement(published_repository, role, new), *signers), keys, has_old=has_old)
    for name in ("old device", "new device"):
        read_everything(published_repository, name)
    assert published_repository.tree.check().is_sound
    published_repository.keys = dataclasses.replace(
        published_repository.keys,
        online=keys,
        teams=dict(published_repository.keys.teams) | ({"text": new} if role == "team-text" else {}),
    )
    published_repository.push(published_repository.package("2.0.0"))
    published_repository.tree.publish_policy("messenger", published_repository.policy(2, "2.0.0").to_bytes())
    published_repository.clock.time_s += 20 * 3600
    assert "timestamp" in published_repository.tree.refresh().renewed
    for name in ("old device", "new device"):
        assert published_repository.client(name).manifest("language_id", "2.0.0").version == "2.0.0"
    assert published_repository.tree.check().is_sound


@pytest.mark.parametrize("role", ["snapshot", "timestamp", "policy", "halt"])
def test_server_that_still_holds_a_rotated_key_publishes_nothing(
    published_repository: RepositoryFixture, role: str
) -> None:
    """What it would sign, devices would refuse; so it is refused here, and the tree stays as it is."""
    new = new_signer()
    change = sign_by(
        replacement(published_repository, role, new), *signers_of_replacement(published_repository, role, new)
    )
    stale = published_repository.tree
    published_repository.tree.accept_request(
        change, online_with(published_repository, role, new), old_keys=[signer_of(published_repository, role)]
    )
    before = tree_files(published_repository)
    package = published_repository.package("2.0.0")
    published_repository.upload(package)
    for call in (
        stale.refresh,
        lambda: stale.publish_policy("messenger", published_repository.policy(2).to_bytes()),
        lambda: stale.accept_team_metadata(
            published_repository.sign(package), {package.manifest.path: package.manifest.to_bytes()}
        ),
    ):
        with pytest.raises(PublishError, match=f"key of {role}"):
            call()
    assert tree_files(published_repository) == before


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


def with_thresholds(world: RepositoryFixture, role: str, count: int, threshold: int) -> list[CryptoSigner]:
    """Give root or targets `count` keys of which `threshold` sign; return them."""
    first = signer_of(world, role)
    more = [new_signer() for _ in range(count - 1)]
    begun = draft(world)
    begun.rotate(role, add=[one.public_key for one in more], threshold=threshold)
    accept(world, sign_by(begun.draft(), world.keys.root, *([first] if role == "targets" else []), *more))
    return [first, *more]


@pytest.mark.parametrize("role", ["root", "targets"])
def test_two_of_three_sign_on_copies_and_one_alone_is_refused(
    published_repository: RepositoryFixture, role: str
) -> None:
    """Each on a machine of its own; the copies are merged; any two suffice, none alone does."""
    three = with_thresholds(published_repository, role, 3, 2)
    read_everything(published_repository, "device")
    begun = draft(published_repository)
    begun.renew(role)
    change = begun.draft()
    before = tree_files(published_repository)
    for one in three:
        with pytest.raises(SignatureError, match=f"{role} was signed by 1/2"):
            published_repository.tree.accept_request(sign_by(change, one), published_repository.keys.online)
    assert tree_files(published_repository) == before
    copies = [sign_by(change, one) for one in three[1:]]
    merged = copies[0].merge(copies[1:])
    assert [need.have for need in merged.signature_status() if need.role == role] == [2] * (2 if role == "root" else 1)
    accept(published_repository, merged)
    read_everything(published_repository, "device")
    assert published_repository.tree.check().is_sound


def test_root_needs_the_thresholds_of_before_and_after(published_repository: RepositoryFixture) -> None:
    """From 2 of 3 to 2 of 2 others: two of the old alone, or the new alone, are not enough."""
    old = with_thresholds(published_repository, "root", 3, 2)
    new = [new_signer(), new_signer()]
    begun = draft(published_repository)
    begun.rotate("root", add=[one.public_key for one in new], remove=[one.public_key.keyid for one in old], threshold=2)
    change = begun.draft()
    for signers in (old, new, [*old, new[0]], [old[0], *new]):
        with pytest.raises(SignatureError):
            published_repository.tree.accept_request(sign_by(change, *signers), published_repository.keys.online)
    accept(published_repository, sign_by(change, *old[1:], *new))
    read_everything(published_repository, "device")
    again = draft(published_repository)
    again.renew("root")
    with pytest.raises(PublishError, match="no role of this change"):
        sign_by(again.draft(), old[0])
    accept(published_repository, sign_by(again.draft(), *new))


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


@pytest.mark.parametrize("role", ["root", "targets", "timestamp", "team-text"])
def test_change_killed_at_any_step_is_completed_by_repeating(
    published_repository: RepositoryFixture, role: str
) -> None:
    """Where the old key is at hand no device is refused anything, whenever it comes."""
    new = new_signer()
    change = sign_by(
        replacement(published_repository, role, new), *signers_of_replacement(published_repository, role, new)
    )
    keys = online_with(published_repository, role, new)
    old = [signer_of(published_repository, role)]
    origin = published_repository.folder / "origin"
    shutil.copytree(published_repository.tree.folder, origin)
    read_everything(published_repository, "known")
    fail_at = 0
    while True:
        shutil.rmtree(published_repository.tree.folder)
        shutil.copytree(origin, published_repository.tree.folder)
        shutil.copytree(
            published_repository.folder / "known", published_repository.folder / f"device {fail_at}", symlinks=True
        )
        tree = Repository(
            published_repository.tree.folder, clock=published_repository.clock, files=FailingDisk(fail_at)
        )
        try:
            tree.accept_request(change, keys, old_keys=old)
        except StorageError:
            for name in (f"device {fail_at}", f"new device {fail_at}"):
                client = published_repository.client(name)
                client.policy("messenger")
                client.manifest("language_id", "1.0.0")
        else:
            break
        completed = Repository(published_repository.tree.folder, clock=published_repository.clock)
        completed.accept_request(change, keys, old_keys=old)
        assert completed.check().is_sound
        read_everything(published_repository, f"device {fail_at}")
        fail_at += 1
    assert fail_at >= 4


@pytest.mark.parametrize("role", ["targets", "snapshot", "timestamp"])
def test_change_without_the_old_key_killed_at_any_step_is_completed(
    published_repository: RepositoryFixture, role: str
) -> None:
    """A device that comes in the middle refuses, keeps what it has, and is right afterwards."""
    new = new_signer()
    signers = [
        one
        for one in signers_of_replacement(published_repository, role, new)
        if one is not published_repository.keys.targets
    ]
    change = sign_by(replacement(published_repository, role, new), *signers)
    keys = online_with(published_repository, role, new)
    origin = published_repository.folder / "origin"
    shutil.copytree(published_repository.tree.folder, origin)
    refused = 0
    read_everything(published_repository, "known")
    for fail_at in range(40):
        shutil.rmtree(published_repository.tree.folder)
        shutil.copytree(origin, published_repository.tree.folder)
        shutil.copytree(
            published_repository.folder / "known", published_repository.folder / f"device {fail_at}", symlinks=True
        )
        try:
            Repository(
                published_repository.tree.folder, clock=published_repository.clock, files=FailingDisk(fail_at)
            ).accept_request(change, keys)
        except StorageError:
            try:
                published_repository.client(f"device {fail_at}").refresh()
            except SignatureError:
                refused += 1
            Repository(published_repository.tree.folder, clock=published_repository.clock).accept_request(change, keys)
            read_everything(published_repository, f"device {fail_at}")
            continue
        break
    assert refused > 0
    assert Repository(published_repository.tree.folder, clock=published_repository.clock).check().is_sound


def test_accepting_again_changes_nothing(published_repository: RepositoryFixture) -> None:
    """Each kind of change, twice."""
    for role in ROLES:
        new = new_signer()
        change = sign_by(
            replacement(published_repository, role, new), *signers_of_replacement(published_repository, role, new)
        )
        keys = online_with(published_repository, role, new)
        accept(published_repository, change, keys)
        published_repository.keys = dataclasses.replace(
            published_repository.keys,
            online=keys,
            root=new if role == "root" else published_repository.keys.root,
            targets=new if role == "targets" else published_repository.keys.targets,
            teams=dict(published_repository.keys.teams) | ({"text": new} if role == "team-text" else {}),
        )
        before = tree_files(published_repository)
        assert published_repository.tree.accept_request(change, keys) == ()
        assert tree_files(published_repository) == before


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
    """The tree is not asked to trust whoever drafts."""
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


def test_change_that_forgets_who_must_sign_anew_is_refused(published_repository: RepositoryFixture) -> None:
    """New keys of the targets without targets, a team's without its list: nobody could read them afterwards."""
    new = new_signer()
    root_alone = replacement(published_repository, "targets", new)
    with pytest.raises(PublishError, match="signed anew"):
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


def test_new_team_publishes_and_devices_find_its_versions(published_repository: RepositoryFixture) -> None:
    """Added after the ceremony, with two features and later a third; others are untouched."""
    read_everything(published_repository, "device")
    team = new_signer()
    begun = draft(published_repository)
    begun.add_team("vision", ["segment", "caption"], [team.public_key])
    change = begun.draft()
    with pytest.raises(SignatureError, match="team-vision"):
        published_repository.tree.accept_request(
            sign_by(change, published_repository.keys.targets), published_repository.keys.online
        )
    accept(published_repository, sign_by(change, published_repository.keys.targets, team))
    published_repository.keys = dataclasses.replace(
        published_repository.keys, teams=dict(published_repository.keys.teams) | {"vision": team}
    )
    published_repository.push(published_repository.package(feature="segment", team="vision"))
    assert published_repository.client("device").manifest("segment", "1.0.0").team == "vision"
    with pytest.raises(PublishError, match="may not publish"):
        published_repository.push(published_repository.package(feature="depth", team="vision"))
    begun = draft(published_repository)
    begun.own("vision", ["depth"])
    accept(published_repository, sign_by(begun.draft(), published_repository.keys.targets))
    published_repository.push(published_repository.package(feature="depth", team="vision"))
    read_everything(published_repository, "device")
    assert published_repository.client("device").manifest("depth", "1.0.0").team == "vision"
    assert published_repository.tree.check().is_sound


def test_ceremony_by_file_exchange_needs_every_threshold(world: RepositoryFixture, tmp_path: Path) -> None:
    """Root 2 of 3, targets 2 of 2, two teams: each signs a copy; one short of any threshold makes no tree."""
    root, targets = [new_signer() for _ in range(3)], [new_signer() for _ in range(2)]
    teams = {"text": [new_signer()], "speech": [new_signer()]}
    online = world.keys.online
    public = PublicKeys(
        root=[one.public_key for one in root],
        targets=[one.public_key for one in targets],
        online={role: getattr(online, role).public_key for role in ONLINE_ROLES},
        teams={team: [one.public_key for one in members] for team, members in teams.items()},
        root_threshold=2,
        targets_threshold=2,
    )
    features = {"text": ["language_id"], "speech": ["bandwidth"]}
    change = make_first_request(public, features, now_s=world.clock.now_s())
    needed = [*root[:2], *targets, teams["text"][0], teams["speech"][0]]
    folder = tmp_path / "by exchange"
    folder.mkdir()
    tree = Repository(folder, keys=online, clock=world.clock)
    for missing in needed:
        copies = [sign_by(change, one) for one in needed if one is not missing]
        with pytest.raises(SignatureError):
            tree.accept_request(copies[0].merge(copies[1:]), online)
        assert not list(folder.rglob("*.json"))
    copies = [sign_by(change, one) for one in needed]
    tree.accept_request(copies[0].merge(copies[1:]), online)
    assert tree.check().is_sound
    with pytest.raises(PublishError, match="would have to sign"):
        make_first_request(dataclasses.replace(public, root_threshold=4), features, now_s=0)
    with pytest.raises(PublishError, match="no key for: vision"):
        make_first_request(public, features | {"vision": ["segment"]}, now_s=0)


def test_fast_forwarded_versions_are_left_behind_by_new_keys(published_repository: RepositoryFixture) -> None:
    """A thief of timestamp and snapshot runs their numbers up; new keys begin again below, and devices follow."""
    fetcher = published_repository.fetcher
    assert isinstance(fetcher, FolderFetcher)
    state = published_repository.tree.state()
    timestamp = Metadata(
        Timestamp(
            version=2**40,
            expires=utc(published_repository.clock.now_s() + 86_400),
            snapshot_meta=state.timestamp.snapshot_meta,
        )
    )
    timestamp.sign(published_repository.keys.online.timestamp)
    fetcher.replaced["metadata/timestamp.json"] = timestamp.to_bytes()
    published_repository.client("device").refresh()
    fetcher.replaced.clear()
    with pytest.raises(RegistryError):
        published_repository.client("device").refresh()
    new = new_signer()
    change = sign_by(replacement(published_repository, "timestamp", new), published_repository.keys.root)
    accept(published_repository, change, online_with(published_repository, "timestamp", new), has_old=False)
    read_everything(published_repository, "device")
