"""Garbage collection never removes a blob that is named, or that a publication under way is about to name."""

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alcove.registry import layout
from alcove.registry.blobs import BlobStore, ObjectBlobStore, StoredBlob, open_blob_store
from alcove.registry.errors import MissingBlobError, RegistryError, StorageError
from alcove.registry.garbage_collection import find_garbage, list_referenced_blobs, remove_garbage
from alcove.registry.repository import Repository
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.files import DISK
from alcove.runtime.testing_seams import FaultyDisk

if TYPE_CHECKING:
    from alcove.platform.testing.s3 import S3Server

AFTER_ALL = int(time.time()) + 10 * 365 * 86_400  # seconds; later than any put: nothing is too young


def put(blobs: BlobStore, text: str) -> str:
    """Store a blob that nothing names; return its digest."""
    data = text.encode()
    sha256 = hashlib.sha256(data).hexdigest()
    blobs.put(sha256, data)
    return sha256


@pytest.fixture(params=["folder", "s3"])
def stored_repository(request: pytest.FixtureRequest, world: RepositoryFixture) -> RepositoryFixture:
    """A world whose blobs are in a folder or in S3, with one version."""
    if request.param == "s3":
        s3: S3Server = request.getfixturevalue("s3")
        blobs = open_blob_store(s3.bucket() + "/blobs")
        world.tree = Repository(world.tree.folder, keys=world.keys.online, clock=world.clock, blobs=blobs)
    world.push(world.package())
    return world


def collect(tree: Repository, before_s: int = AFTER_ALL) -> set[str]:
    """Collect; return what went."""
    return {blob.sha256 for blob in remove_garbage(tree, find_garbage(tree, before_s=before_s), before_s=before_s)}


def test_what_nothing_names_goes_and_what_the_tree_names_stays(stored_repository: RepositoryFixture) -> None:
    """Every version's programs and cards stay, whatever their age; the largest garbage is named first."""
    stored_repository.push(stored_repository.package("2.0.0"))
    small, large = put(stored_repository.tree.blobs, "small"), put(stored_repository.tree.blobs, "large" * 1000)
    garbage = find_garbage(stored_repository.tree, before_s=AFTER_ALL)
    assert [blob.sha256 for blob in garbage] == [large, small]
    assert find_garbage(stored_repository.tree, before_s=AFTER_ALL, also_named={large})[0].sha256 == small
    assert collect(stored_repository.tree) == {small, large}
    assert {blob.sha256 for blob in stored_repository.tree.blobs.list_blobs()} == list_referenced_blobs(
        stored_repository.tree
    )
    assert stored_repository.tree.check().is_sound
    assert collect(stored_repository.tree) == set()


def test_what_is_young_stays_and_asking_for_it_again_makes_it_young(stored_repository: RepositoryFixture) -> None:
    """The grace counts from the last put; a blob redated between check and removal stays."""
    name = put(stored_repository.tree.blobs, "uploaded for a push that is to come")
    assert collect(stored_repository.tree, int(time.time()) - 3600) == set()
    assert stored_repository.tree.blobs.renew(name)
    assert not stored_repository.tree.blobs.renew("0" * 64)
    found = stored_repository.tree.blobs.find(name)
    assert found is not None
    assert abs(found.stored_at_s - time.time()) < 60


def test_a_blob_redated_between_check_and_removal_stays(published_repository: RepositoryFixture) -> None:
    """A second push of the same bytes is in time until the very removal."""
    name = put(published_repository.tree.blobs, "old")
    hour_ago = int(time.time()) - 3600
    os.utime(published_repository.tree.folder / layout.BLOBS / name, (hour_ago - 1, hour_ago - 1))
    (garbage,) = find_garbage(published_repository.tree, before_s=hour_ago)
    assert garbage.sha256 == name
    published_repository.tree.blobs.renew(name)
    assert remove_garbage(published_repository.tree, [garbage], before_s=hour_ago) == []
    assert published_repository.tree.blobs.has(name)


def test_a_version_published_between_look_and_removal_keeps_its_blobs(published_repository: RepositoryFixture) -> None:
    """The look falls on every step of a publication in turn; whatever it saw, the removal takes nothing named."""
    seen: list[int] = []

    class Looking(FaultyDisk):
        """Collects before its nth step, as far as that goes without the lock."""

        def _count(self, step: str, path: Path) -> None:
            if self.steps == look_at:
                garbage[:] = find_garbage(published_repository.tree, before_s=AFTER_ALL)
                seen.append(look_at)
            super()._count(step, path)

    for look_at in range(100):
        garbage: list[StoredBlob] = []
        package = published_repository.package(f"2.0.{look_at}")
        published_repository.upload(package)
        tree = Repository(
            published_repository.tree.folder,
            keys=published_repository.keys.online,
            clock=published_repository.clock,
            files=Looking(),
        )
        tree.accept_team_metadata(
            published_repository.sign(package), {package.manifest.path: package.manifest.to_bytes()}
        )
        if look_at not in seen:
            break
        removed = {blob.sha256 for blob in remove_garbage(published_repository.tree, garbage, before_s=AFTER_ALL)}
        assert not removed & set(package.blobs())
        assert published_repository.tree.check().is_sound
    assert len(seen) >= 16


def test_publications_that_race_with_collections_are_whole_or_refused(published_repository: RepositoryFixture) -> None:
    """Without any grace, and all the time: a version is published with all its blobs, or not at all and said so."""
    over, refused, accepted = threading.Event(), 0, 0
    rounds: list[int] = []

    def keep_collecting() -> None:
        while not over.is_set():
            collect(published_repository.tree)
            rounds.append(1)

    collector = threading.Thread(target=keep_collecting)
    collector.start()
    try:
        for patch in range(60):
            package = published_repository.package(f"3.0.{patch}")
            for _ in range(100):
                try:
                    published_repository.push(package)
                except (MissingBlobError, StorageError):  # gone before the push, or before it was synced
                    refused += 1
                else:
                    accepted += 1
                    break
    finally:
        over.set()
        collector.join()
    assert rounds
    assert accepted == 60
    assert published_repository.tree.check().is_sound
    assert {blob.sha256 for blob in published_repository.tree.blobs.list_blobs()} >= list_referenced_blobs(
        published_repository.tree
    )


def test_killed_at_any_removal_the_next_collection_completes(
    published_repository: RepositoryFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each blob goes or stays; nothing named is touched."""
    names = {put(published_repository.tree.blobs, f"garbage {number}") for number in range(5)}
    remove = ObjectBlobStore.remove
    for fail_at in range(6):
        left = iter(range(fail_at))

        def fail(self: ObjectBlobStore, sha256: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise StorageError(sha256, "killed")
            remove(self, sha256)

        with monkeypatch.context() as patch:
            patch.setattr(ObjectBlobStore, "remove", fail)
            if fail_at < 5:
                with pytest.raises(StorageError):
                    collect(published_repository.tree)
        assert published_repository.tree.check().is_sound
        assert collect(published_repository.tree) <= names
        assert not names & {blob.sha256 for blob in published_repository.tree.blobs.list_blobs()}
        for number in range(5):
            put(published_repository.tree.blobs, f"garbage {number}")


def test_a_damaged_tree_loses_no_blob(published_repository: RepositoryFixture) -> None:
    """Each file that says what is named, damaged or gone in turn: the collection is refused."""
    state = published_repository.tree.state()
    put(published_repository.tree.blobs, "garbage")
    before = {blob.sha256 for blob in published_repository.tree.blobs.list_blobs()}
    names = [layout.metadata_file("root", 1), layout.metadata_file("timestamp")]
    names += [layout.metadata_file("snapshot", state.snapshot.version)]
    names += [layout.metadata_file("targets", state.targets.version)]
    names += [layout.metadata_file(name, role.version) for name, role in state.roles.items()]
    manifest = published_repository.tree.manifest("language_id", "1.0.0")
    names.append(layout.target_file(manifest.path, manifest.sha256))
    for name in names:
        path = published_repository.tree.folder / name
        whole = path.read_bytes()
        for damage in (whole[:-1], None):
            if damage is None:
                path.unlink()
            else:
                DISK.write(path, damage)
            fresh = Repository(published_repository.tree.folder, clock=published_repository.clock)
            with pytest.raises(RegistryError):
                collect(fresh)
            DISK.write(path, whole)
            assert {blob.sha256 for blob in published_repository.tree.blobs.list_blobs()} == before, name
    assert len(collect(published_repository.tree)) == 1
