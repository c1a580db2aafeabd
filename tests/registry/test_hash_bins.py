"""Thousands of versions of a team, spread over bins: none is lost, devices find all, and invalid bins are refused."""

import dataclasses
import shutil
from collections.abc import Callable

import pytest
from alcove.registry import layout
from alcove.registry._tuf import CryptoSigner, Delegations, Metadata, SuccinctRoles, TargetFile, Targets
from alcove.registry.errors import (
    DocumentError,
    PublishError,
    RegistryError,
    SignatureError,
    StaleMetadataError,
    StorageError,
    VersionExistsError,
)
from alcove.registry.hash_bins import TeamMetadata
from alcove.registry.repository import Repository
from alcove.registry.rotation import Draft
from alcove.registry.signed_time import utc
from alcove.registry.signing_request import SigningRequest
from alcove.registry.team import sign_min_version, sign_version
from alcove.registry.testing import FolderFetcher, RepositoryFixture
from alcove.runtime.testing_seams import FaultyDisk
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tuf.ngclient.updater import Updater

YEAR_S = 365 * 86_400


def fill(world: RepositoryFixture, count: int) -> None:
    """Let team "text" have versions 1.0.0, 1.1.0, … in its own list, without a push for each."""
    packages = [world.package(f"1.{number}.0") for number in range(count)]
    for package in packages:
        world.upload(package)
    world.misuse("team-text", {package.manifest.path: package.manifest.to_bytes() for package in packages})


def bins(world: RepositoryFixture) -> list[str]:
    """The bins of team "text"."""
    return [name for name in world.tree.state().roles if name.startswith("bin-")]


def metadata_names(world: RepositoryFixture) -> set[str]:
    """Every metadata file."""
    return {path.name for path in (world.tree.folder / layout.METADATA).iterdir()}


@pytest.fixture
def full(world: RepositoryFixture) -> RepositoryFixture:
    """64 versions in one list."""
    fill(world, 64)
    return world


@pytest.fixture
def spread(full: RepositoryFixture) -> RepositoryFixture:
    """65 versions in four bins."""
    full.push(full.package("2.0.0"))
    return full


def test_65th_version_spreads_the_list_and_loses_nothing(full: RepositoryFixture) -> None:
    """A device that knew the list, a new one, and python-tuf's own client find all, and read one bin for a version."""
    full.client("old device").manifest("language_id", "1.5.0")
    assert bins(full) == []
    accepted = full.push(full.package("2.0.0"))
    assert [manifest.version for manifest in accepted.added] == ["2.0.0"]
    assert bins(full) == [f"bin-text-{digit}" for digit in "0123"]
    versions = [ref.version for ref in full.tree.versions("language_id")]
    assert versions == [*(f"1.{number}.0" for number in range(64)), "2.0.0"]
    assert full.tree.check().is_sound
    assert full.tree.check().target_count == 65
    for name in ("old device", "new device"):
        client = full.client(name)
        for version in versions:
            assert client.manifest("language_id", version).version == version
    (full.folder / "plain").mkdir()
    plain = Updater(
        str(full.folder / "plain"),
        "https://tree.invalid/metadata/",
        target_base_url="https://tree.invalid/targets/",
        fetcher=full.fetcher,
        bootstrap=full.tree.root_bytes(),
    )
    plain._trusted_set.reference_time = utc(full.clock.now_s())
    plain.refresh()
    full.fetcher.requests.clear()
    info = plain.get_targetinfo("language_id/1.5.0.json")
    assert info is not None
    assert plain.download_target(info, str(full.folder / "manifest.json"))
    assert sorted(path.split(".", 1)[1] for path in full.fetcher.requests[:2]) == sorted(
        [f"{_holder(full, 'language_id/1.5.0.json')}.json", "team-text.json"]
    )
    assert plain.get_targetinfo("language_id/9.9.9.json") is None


def _holder(world: RepositoryFixture, path: str) -> str:
    succinct = world.tree.state().roles["team-text"].metadata.signed.delegations
    assert succinct is not None
    assert succinct.succinct_roles is not None
    return succinct.succinct_roles.get_role_for_target(path)


def test_push_into_a_bin_signs_that_bin_alone(spread: RepositoryFixture) -> None:
    """One bin, snapshot and timestamp; the same push again changes nothing."""
    before = metadata_names(spread)
    package = spread.package("3.0.0")
    signed = spread.sign(package)
    assert list(SigningRequest.parse(signed).roles) == [_holder(spread, package.manifest.path)]
    spread.push(package)
    new = {name.split(".")[1] for name in metadata_names(spread) - before}
    assert new == {_holder(spread, package.manifest.path), "snapshot"}
    before = metadata_names(spread)
    assert spread.tree.holds_team_metadata("text", signed)
    assert spread.tree.accept_team_metadata(signed, {}).added == ()
    assert spread.sign(package) == spread.tree.team_metadata("text")
    assert metadata_names(spread) == before
    other = dataclasses.replace(package, manifest=package.manifest.model_copy(update={"min_runtime": "0.2.0"}))
    with pytest.raises(VersionExistsError):
        spread.sign(other)


def test_257th_version_spreads_again_and_devices_follow(world: RepositoryFixture) -> None:
    """From 4 bins to 16; the snapshot forgets no role, or devices would take it for a rollback."""
    fill(world, 64)
    world.push(world.package("2.0.0"))
    # The next 191 versions signed into the bins at once, as pushes one after another would leave them.
    packages = [world.package(f"3.{number}.0") for number in range(191)]
    parts = TeamMetadata.parse(world.tree.team_metadata("text"), "team-text")
    signed: dict[str, Metadata[Targets]] = {}
    for name, part in parts.bins.items():
        part.signed.version += 1
        signed[name] = part
    for package in packages:
        world.upload(package)
        target = TargetFile.from_data(package.manifest.path, package.manifest.to_bytes(), ["sha256"])
        signed[_holder(world, package.manifest.path)].signed.targets[package.manifest.path] = target
    for part in signed.values():
        part.sign(world.keys.teams["text"])
    manifests = {package.manifest.path: package.manifest.to_bytes() for package in packages}
    world.tree.accept_team_metadata(SigningRequest(signed).to_bytes(), manifests)
    assert len(world.tree.versions("language_id")) == 256
    world.client("old device").manifest("language_id", "1.5.0")
    world.push(world.package("4.0.0"))
    assert bins(world) == [f"bin-text-{digit}" for digit in "0123456789abcdef"]
    assert len(world.tree.versions("language_id")) == 257
    for name in ("old device", "new device"):
        for version in ("1.5.0", "2.0.0", "3.100.0", "4.0.0"):
            assert world.client(name).manifest("language_id", version).version == version
    assert world.tree.check().is_sound


def test_spreading_killed_at_any_step_is_completed_by_repeating(full: RepositoryFixture) -> None:
    """A device between finds 64 versions or 65, each of them whole."""
    package = full.package("2.0.0")
    full.upload(package)
    signed = full.sign(package)
    manifests = {package.manifest.path: package.manifest.to_bytes()}
    origin = full.folder / "origin"
    shutil.copytree(full.tree.folder, origin)
    full.client("known").manifest("language_id", "1.5.0")
    fail_at = 0
    while True:
        shutil.rmtree(full.tree.folder)
        shutil.copytree(origin, full.tree.folder)
        shutil.copytree(full.folder / "known", full.folder / f"device {fail_at}", symlinks=True)
        failing = Repository(full.tree.folder, keys=full.keys.online, clock=full.clock, files=FaultyDisk(fail_at))
        try:
            failing.accept_team_metadata(signed, manifests)
        except StorageError:
            tree = Repository(full.tree.folder, keys=full.keys.online, clock=full.clock)
            assert len(tree.versions("language_id")) in (64, 65)
            assert full.client(f"device {fail_at}").manifest("language_id", "1.5.0").version == "1.5.0"
            tree.accept_team_metadata(signed, manifests)
            assert len(tree.versions("language_id")) == 65
            assert full.client(f"device {fail_at}").manifest("language_id", "2.0.0") == package.manifest
            fail_at += 1
            continue
        break
    assert fail_at == 4 * (1 + 1 + 4 + 2)  # manifest, team, bins, snapshot and timestamp


def team_parts(world: RepositoryFixture) -> tuple[Metadata[Targets], dict[str, Metadata[Targets]]]:
    """The team's metadata and bins that the push of 2.0.0 would publish."""
    parts = TeamMetadata.parse(world.sign(world.package("2.0.0")), "team-text")
    assert parts.owner is not None
    return parts.owner, dict(parts.bins)


def foreign_prefix(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """Bins that another team might have."""
    assert owner.signed.delegations is not None
    assert owner.signed.delegations.succinct_roles is not None
    owner.signed.delegations.succinct_roles.name_prefix = "bin-speech"
    for name in list(parts):
        parts[name.replace("text", "speech")] = parts.pop(name)


def team_prefix(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """Bins called like teams."""
    assert owner.signed.delegations is not None
    assert owner.signed.delegations.succinct_roles is not None
    owner.signed.delegations.succinct_roles.name_prefix = "team-text"
    for name in list(parts):
        parts[name.replace("bin", "team")] = parts.pop(name)


def too_many(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """512 bins."""
    assert owner.signed.delegations is not None
    succinct = SuccinctRoles(list(owner.signed.delegations.keys), 1, 9, "bin-text")
    owner.signed.delegations.succinct_roles = succinct
    parts.update({name: Metadata(Targets(version=1, expires=owner.signed.expires)) for name in succinct.get_roles()})


def missing_bin(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """One bin is not sent."""
    del parts["bin-text-2"]


def wrong_bin(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """A version where no device looks for it."""
    path, target = next(iter(parts["bin-text-0"].signed.targets.items()))
    del parts["bin-text-0"].signed.targets[path]
    parts["bin-text-1"].signed.targets[path] = target


def drop_version(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """A version that is in no bin."""
    parts["bin-text-0"].signed.targets.popitem()


def beside(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """A version in the team's own list and in its bin."""
    path, target = next(iter(parts["bin-text-0"].signed.targets.items()))
    owner.signed.targets[path] = target


def delegating_bin(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """A bin that hands its power on."""
    parts["bin-text-0"].signed.delegations = owner.signed.delegations


def strange_key(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """Bins that somebody else may sign as well."""
    key = CryptoSigner(Ed25519PrivateKey.generate()).public_key
    assert owner.signed.delegations is not None
    assert owner.signed.delegations.succinct_roles is not None
    owner.signed.delegations.keys[key.keyid] = key
    owner.signed.delegations.succinct_roles.keyids.append(key.keyid)


def named_roles(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """Named roles in the place of bins."""
    assert owner.signed.delegations is not None
    owner.signed.delegations = Delegations(keys=owner.signed.delegations.keys, roles={})


def jump_number(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """A bin that begins at 2."""
    parts["bin-text-0"].signed.version = 2


def other_team(owner: Metadata[Targets], parts: dict[str, Metadata[Targets]]) -> None:
    """Metadata of two teams in one update."""
    parts["team-speech"] = owner


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        (foreign_prefix, DocumentError),
        (team_prefix, RegistryError),
        (too_many, RegistryError),
        (missing_bin, PublishError),
        (wrong_bin, PublishError),
        (drop_version, PublishError),
        (beside, PublishError),
        (delegating_bin, PublishError),
        (strange_key, PublishError),
        (named_roles, PublishError),
        (jump_number, StaleMetadataError),
        (other_team, DocumentError),
    ],
)
def test_bins_that_break_a_rule_are_refused_though_the_team_signed(
    full: RepositoryFixture, edit: Callable[[object, object], None], error: type[RegistryError]
) -> None:
    """The tree stays as it was to the byte; then the honest spreading is accepted."""
    package = full.package("2.0.0")
    full.upload(package)
    owner, parts = team_parts(full)
    edit(owner, parts)
    signer = full.keys.teams["text"]
    for metadata in (owner, *parts.values()):
        metadata.sign(signer)
    before = {path: path.read_bytes() for path in full.tree.folder.rglob("*.json")}
    update = SigningRequest({"team-text": owner, **parts}).to_bytes()
    with pytest.raises(error):
        full.tree.accept_team_metadata(update, {package.manifest.path: package.manifest.to_bytes()}, team="text")
    assert {path: path.read_bytes() for path in full.tree.folder.rglob("*.json")} == before
    full.push(package)


def test_bin_is_signed_by_its_own_team_alone(spread: RepositoryFixture) -> None:
    """Every other key of the tree; and a team that gives out a bin of another as its own."""
    package = spread.package("3.0.0")
    spread.upload(package)
    manifests = {package.manifest.path: package.manifest.to_bytes()}
    ring = spread.keys
    for signer in (ring.root, ring.targets, ring.teams["speech"], ring.online.policy, ring.online.snapshot):
        change = SigningRequest.parse(spread.sign(package))
        for metadata in change.roles.values():
            metadata.signatures.clear()
            metadata.sign(signer)
        for team in ("text", None, "speech"):
            with pytest.raises(SignatureError):
                spread.tree.accept_team_metadata(change.to_bytes(), manifests, team=team)
    spread.push(package)


def test_team_does_not_sign_on_top_of_a_bin_that_it_did_not_sign(spread: RepositoryFixture) -> None:
    """What a server slipped into a bin, with a key of its own or under the team's signature."""
    package = spread.package("3.0.0")
    holder = _holder(spread, package.manifest.path)
    for signer in (spread.keys.online.policy, None):
        change = SigningRequest.parse(spread.tree.team_metadata("text"))
        evil = change.roles[holder]
        assert isinstance(evil.signed, Targets)
        evil.signed.targets["language_id/6.6.6.json"] = TargetFile.from_data("x", b"evil", ["sha256"])
        if signer is not None:
            evil.signatures.clear()
            evil.sign(signer)
        with pytest.raises(SignatureError):
            sign_version(change.to_bytes(), package.manifest, spread.keys.teams["text"], spread.clock.now_s() + YEAR_S)


def test_two_members_at_once_meet_only_in_the_same_bin(spread: RepositoryFixture) -> None:
    """In different bins both are published; in the same bin the second signs again on top of the first."""
    holders: dict[str, list[str]] = {}
    for number in range(20):
        holders.setdefault(_holder(spread, f"language_id/5.{number}.0.json"), []).append(f"5.{number}.0")
    same = next(versions[:2] for versions in holders.values() if len(versions) > 1)
    apart = [versions[-1] for versions in holders.values()][:2]
    for versions, is_refused in ((apart, False), (same, True)):
        packages = [spread.package(version) for version in versions]
        signed = []
        for package in packages:
            spread.upload(package)
            signed.append(spread.sign(package))
        spread.tree.accept_team_metadata(signed[0], {packages[0].manifest.path: packages[0].manifest.to_bytes()})
        second = {packages[1].manifest.path: packages[1].manifest.to_bytes()}
        if is_refused:
            with pytest.raises((StaleMetadataError, PublishError)):
                spread.tree.accept_team_metadata(signed[1], second)
            spread.push(packages[1])
        else:
            spread.tree.accept_team_metadata(signed[1], second)
    for version in (*apart, *same):
        assert spread.client().manifest("language_id", version).version == version


def test_members_with_keys_of_their_own_sign_on_top_of_each_other(published_repository: RepositoryFixture) -> None:
    """Two keys, either of which signs; both sign on the same metadata, and the second has to sign again."""
    other = CryptoSigner(Ed25519PrivateKey.generate())
    first = published_repository.keys.teams["text"]
    draft = Draft(published_repository.tree.state(), now_s=published_repository.clock.now_s())
    draft.rotate("team-text", add=[other.public_key])
    change = draft.draft()
    for signer in (published_repository.keys.targets, first):
        change, _ = change.sign(signer)
    published_repository.tree.accept_request(change, published_repository.keys.online)
    expires_s = published_repository.clock.now_s() + YEAR_S
    packages = [published_repository.package("2.0.0"), published_repository.package("3.0.0")]
    for package in packages:
        published_repository.upload(package)
    current = published_repository.tree.team_metadata("text")
    members = [(first, other), (other, first)]
    signed = [
        sign_version(current, package.manifest, mine, expires_s, other_members=[theirs.public_key])
        for package, (mine, theirs) in zip(packages, members, strict=True)
    ]
    documents = [{package.manifest.path: package.manifest.to_bytes()} for package in packages]
    published_repository.tree.accept_team_metadata(signed[0], documents[0])
    with pytest.raises((StaleMetadataError, PublishError)):
        published_repository.tree.accept_team_metadata(signed[1], documents[1])
    with pytest.raises(SignatureError):
        sign_version(published_repository.tree.team_metadata("text"), packages[1].manifest, other, expires_s)
    again = sign_version(
        published_repository.tree.team_metadata("text"),
        packages[1].manifest,
        other,
        expires_s,
        other_members=[first.public_key],
    )
    published_repository.tree.accept_team_metadata(again, documents[1])
    assert [ref.version for ref in published_repository.tree.versions("language_id")] == ["1.0.0", "2.0.0", "3.0.0"]
    assert published_repository.client().manifest("language_id", "3.0.0") == packages[1].manifest


def test_key_of_a_team_with_bins_is_replaced(spread: RepositoryFixture) -> None:
    """The team and every bin are signed again in one change; devices find all versions before and after."""
    spread.client("old device").manifest("language_id", "1.5.0")
    new = CryptoSigner(Ed25519PrivateKey.generate())
    old = spread.keys.teams["text"]
    draft = Draft(spread.tree.state(), now_s=spread.clock.now_s())
    draft.rotate("team-text", add=[new.public_key], remove=[old.public_key.keyid])
    change = draft.draft()
    assert set(change.roles) == {"targets", "team-text", *bins(spread)}
    for signer in (spread.keys.targets, new):
        change, _ = SigningRequest.parse(change.to_bytes()).sign(signer)
    spread.tree.accept_request(change, spread.keys.online)
    package = spread.package("3.0.0")
    with pytest.raises(SignatureError):
        spread.push(package)
    spread.keys = dataclasses.replace(spread.keys, teams=dict(spread.keys.teams) | {"text": new})
    spread.push(package)
    for name in ("old device", "new device"):
        for version in ("1.5.0", "2.0.0", "3.0.0"):
            assert spread.client(name).manifest("language_id", version).version == version
    assert spread.tree.check().is_sound


def test_floor_of_a_team_with_bins_is_read_without_its_bins(spread: RepositoryFixture) -> None:
    """Raising it signs the team's role alone; a device that asks for it loads no bin."""
    signed = sign_min_version(
        spread.tree.team_metadata("text"),
        team="text",
        feature="language_id",
        min_version="1.9.0",
        signer=spread.keys.teams["text"],
        expires_s=spread.clock.now_s() + YEAR_S,
    )
    spread.tree.accept_team_metadata(signed, {})
    assert isinstance(spread.fetcher, FolderFetcher)
    client = spread.client()
    spread.fetcher.requests.clear()
    assert client.min_version("language_id") == "1.9.0"
    assert not [path for path in spread.fetcher.requests if ".bin-" in path]
    with pytest.raises(RegistryError, match="below the team's minimum version"):
        client.manifest("language_id", "1.5.0")
    spread.push(spread.package("3.0.0"))
    assert spread.client().min_version("language_id") == "1.9.0"


def test_bins_warn_before_they_expire_and_are_renewed_with_the_team(spread: RepositoryFixture) -> None:
    """30 days ahead; by a change that renews the team, and by a push, which renews whatever is half spent."""
    spread.clock.time_s += 340 * 86_400
    expiring = spread.tree.refresh().expiring
    assert {"team-text", *bins(spread)} <= expiring.keys()
    draft = Draft(spread.tree.state(), now_s=spread.clock.now_s())
    draft.renew("team-text")
    change, _ = draft.draft().sign(spread.keys.teams["text"])
    spread.tree.accept_request(change, spread.keys.online)
    assert not {"team-text", *bins(spread)} & spread.tree.refresh().expiring.keys()
    spread.clock.time_s += 200 * 86_400
    spread.push(spread.package("3.0.0"))
    spread.clock.time_s += 150 * 86_400
    assert not {"team-text", *bins(spread)} & spread.tree.refresh().expiring.keys()


def test_damage_in_a_bin_is_found_by_the_check(spread: RepositoryFixture) -> None:
    """Though the publishing process has proved the bin before and does not read it again."""
    state = spread.tree.state()
    for name in bins(spread):
        path = spread.tree.folder / layout.metadata_file(name, state.roles[name].version)
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"sha256", b"sha512", 1))
        assert not spread.tree.check().is_sound
        with pytest.raises(RegistryError):
            Repository(spread.tree.folder).state()
        path.write_bytes(whole)
    assert spread.tree.check().is_sound
