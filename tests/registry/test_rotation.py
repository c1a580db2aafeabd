"""Every key can be replaced, with thresholds, while devices follow."""

import dataclasses
import shutil
from pathlib import Path

import pytest
from alcove.registry._tuf import CryptoSigner, Metadata, Timestamp
from alcove.registry.ceremony import PublicKeys, make_first_request
from alcove.registry.errors import PublishError, RegistryError, SignatureError, StorageError
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.repository import Repository
from alcove.registry.signed_time import utc
from alcove.registry.testing import FolderFetcher, RepositoryFixture
from alcove.runtime.testing_seams import FaultyDisk

from tests.registry.key_changes import (
    ROLES,
    accept,
    draft,
    new_signer,
    online_with,
    read_everything,
    replacement,
    sign_by,
    signer_of,
    signers_of_replacement,
    tree_files,
)


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
        tree = Repository(published_repository.tree.folder, clock=published_repository.clock, files=FaultyDisk(fail_at))
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
                published_repository.tree.folder, clock=published_repository.clock, files=FaultyDisk(fail_at)
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
