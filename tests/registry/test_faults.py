"""Publications killed at any step leave clients a whole tree, and repeating them completes the work."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.registry.errors import PackageError, StorageError
from alcove.registry.package import Package, read_package, verify_package, write_package
from alcove.registry.policy import Halt
from alcove.registry.repository import Repository, initialize_repository
from alcove.registry.testing import FakeVerifier, RepositoryFixture
from alcove.runtime.testing_seams import FaultyDisk


def on(world: RepositoryFixture, files: FaultyDisk) -> Repository:
    """The world's tree on a disk that may fail."""
    return Repository(world.tree.folder, keys=world.keys.online, clock=world.clock, files=files)


def push(world: RepositoryFixture, files: FaultyDisk, package: Package, signed: bytes) -> None:
    """Publish one more version."""
    on(world, files).accept_team_metadata(signed, {package.manifest.path: package.manifest.to_bytes()})


def each_failure(
    world: RepositoryFixture, publish: Callable[[FaultyDisk], object], view: Callable[[], object], steps_at_least: int
) -> None:
    """Fail every step of a publication in turn, with a client before, between and after."""
    origin = world.folder / "origin"
    shutil.copytree(world.tree.folder, origin)
    old = view()
    fail_at = 0
    while True:
        shutil.rmtree(world.tree.folder)
        shutil.copytree(origin, world.tree.folder)
        device = world.client(f"device {fail_at}")
        device.refresh()
        disk = FaultyDisk(fail_at)
        try:
            publish(disk)
        except StorageError:
            pass
        else:
            break
        between = view()
        device.refresh()
        world.client(f"new device {fail_at}").refresh()
        assert world.tree.check().is_sound
        publish(FaultyDisk())
        new = view()
        assert new != old
        assert between in (old, new)
        device.refresh()
        world.client(f"later device {fail_at}").refresh()
        assert world.tree.check().is_sound
        fail_at += 1
    assert fail_at >= steps_at_least


def test_version_killed_at_any_step_is_published_by_repeating(published_repository: RepositoryFixture) -> None:
    """Manifest, team metadata, snapshot, timestamp: four steps each."""
    package = published_repository.package("2.0.0")
    published_repository.upload(package)
    signed = published_repository.sign(package)
    each_failure(
        published_repository,
        lambda disk: push(published_repository, disk, package, signed),
        lambda: published_repository.tree.versions("language_id"),
        16,
    )


def test_policy_killed_at_any_step_is_published_by_repeating(published_repository: RepositoryFixture) -> None:
    """A client sees serial 1 or serial 2, never anything between."""
    data = published_repository.policy(2).to_bytes()
    each_failure(
        published_repository,
        lambda disk: on(published_repository, disk).publish_policy("messenger", data),
        lambda: published_repository.tree.policy("messenger"),
        16,
    )


def test_halt_killed_at_any_step_is_published_by_repeating(published_repository: RepositoryFixture) -> None:
    """No halt, or the whole halt."""
    data = Halt(app="messenger", serial=1, frozen=("language_id",)).to_bytes()
    each_failure(
        published_repository,
        lambda disk: on(published_repository, disk).publish_halt("messenger", data),
        lambda: published_repository.tree.halt("messenger"),
        16,
    )


def test_refresh_killed_at_any_step_is_completed_by_repeating(published_repository: RepositoryFixture) -> None:
    """Policy, halt, snapshot and timestamp signed again."""
    published_repository.clock.time_s += 3600
    published_repository.tree.refresh()
    later_s = published_repository.clock.time_s + 16 * 86_400

    def refresh(disk: FaultyDisk) -> None:
        now_s, published_repository.clock.time_s = published_repository.clock.time_s, later_s
        try:
            on(published_repository, disk).refresh()
        finally:
            published_repository.clock.time_s = now_s

    each_failure(published_repository, refresh, lambda: published_repository.tree.state().roles["policy"].version, 16)


def test_failed_publication_leaves_the_tree_open_to_another(published_repository: RepositoryFixture) -> None:
    """Half of version 2.0.0 is on the disk; 3.0.0 goes in instead, and then 2.0.0 after all."""
    first, second = published_repository.package("2.0.0"), published_repository.package("3.0.0")
    for package in (first, second):
        published_repository.upload(package)
    signed = published_repository.sign(first)
    for fail_at in range(16):
        with pytest.raises(StorageError):
            push(published_repository, FaultyDisk(fail_at), first, signed)
        if published_repository.tree.team_metadata("text") == signed:
            break
        assert [ref.version for ref in published_repository.tree.versions("language_id")] == ["1.0.0"]
    else:
        fail_at = 16
    # The last step fails after the timestamp was replaced: published, though the writer got an error.
    assert fail_at == 15
    published_repository.push(second)
    published_repository.push(first)
    assert [ref.version for ref in published_repository.tree.versions("language_id")] == ["1.0.0", "2.0.0", "3.0.0"]
    assert published_repository.client().manifest("language_id", "3.0.0") == second.manifest


def test_ceremony_killed_at_any_step_can_be_repeated(world: RepositoryFixture, tmp_path: Path) -> None:
    """Until the timestamp is there the folder holds no tree."""
    folder = tmp_path / "fresh"
    fail_at = 0
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            initialize_repository(folder, world.keys, world.TEAMS, clock=world.clock, files=FaultyDisk(fail_at))
        except StorageError:
            if not (folder / "metadata" / "timestamp.json").exists():
                initialize_repository(folder, world.keys, world.TEAMS, clock=world.clock)
            assert Repository(folder, clock=world.clock).check().is_sound
            fail_at += 1
            continue
        break
    assert fail_at == 4 * 8 + 2  # root, targets, four delegated roles, snapshot, timestamp; names of two new folders


def test_package_folder_killed_at_any_step_has_no_manifest_or_everything(
    world: RepositoryFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest is written last; writing again completes the folder."""
    package = world.package()
    for fail_at in range(12):
        folder = tmp_path / f"package {fail_at}"
        with monkeypatch.context() as patch:
            patch.setattr("alcove.registry.package.DISK", FaultyDisk(fail_at))
            with pytest.raises(StorageError, match="on purpose"):
                write_package(package, folder)
        try:
            verify_package(read_package(folder), verifier=FakeVerifier())
        except (StorageError, PackageError):
            assert not (folder / "manifest.json").exists()
        write_package(package, folder)
        verify_package(read_package(folder), verifier=FakeVerifier())


def test_device_whose_disk_fails_keeps_what_it_had(published_repository: RepositoryFixture) -> None:
    """Every step of storing a policy and a manifest fails in turn; the next check-in completes."""
    published_repository.client().policy("messenger")
    published_repository.push(published_repository.package("2.0.0"))
    published_repository.tree.publish_policy("messenger", published_repository.policy(2, "2.0.0").to_bytes())
    shutil.copytree(published_repository.folder / "device", published_repository.folder / "device before")
    for fail_at in range(4):  # folder, write, rename, sync
        shutil.rmtree(published_repository.folder / "device")
        shutil.copytree(
            published_repository.folder / "device before", published_repository.folder / "device", symlinks=True
        )
        device = published_repository.client()
        device._files = FaultyDisk(fail_at)
        with pytest.raises(StorageError, match="on purpose"):
            device.policy("messenger")
        device._files = FaultyDisk(fail_at)
        with pytest.raises(StorageError, match="on purpose"):
            device.manifest("language_id", "2.0.0")
        stored = published_repository.client().read_stored_policy("messenger")
        assert stored is not None
        assert stored.serial == (2 if fail_at == 3 else 1)
        again = published_repository.client()
        assert again.policy("messenger").serial == 2
        assert again.manifest("language_id", "2.0.0").version == "2.0.0"
