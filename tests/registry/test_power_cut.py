"""Power cuts at each step of a publication leave a usable tree, on a file system that loses what was not synced."""

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.registry.blobs import open_blob_store
from alcove.registry.policy import Halt
from alcove.registry.repository import Repository, initialize_repository
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.files import DISK, Disk
from alcove.runtime.testing_seams import ForgetfulDisk, PowerCutError

pytestmark = pytest.mark.thorough

Publish = Callable[[Repository], object]


def on(world: RepositoryFixture, folder: Path, files: ForgetfulDisk | Disk) -> Repository:
    """The world's tree in another folder."""
    return Repository(folder, keys=world.keys.online, clock=world.clock, files=files)


def each_cut(world: RepositoryFixture, tmp_path: Path, publish: Publish, view: Callable[[Repository], object]) -> int:
    """Cut the power before every step and after the last, with every image that may be left; return the steps.

    Each image is a whole tree, old or new; devices that knew the old one go on; repeating completes.  After the last
    step the publication is acknowledged: every image has it.
    """
    origin, old = world.tree.folder, view(world.tree)
    for cut_at in itertools.count():
        folder = tmp_path / f"cut {cut_at}"
        shutil.copytree(origin, folder)
        disk = ForgetfulDisk(folder, cut_at)
        is_acknowledged = False
        try:
            publish(on(world, folder, disk))
            is_acknowledged = True
        except PowerCutError:
            pass
        for number, image in enumerate(disk.images()):
            left = tmp_path / f"left {cut_at} {number}"
            left.mkdir()
            disk.restore(image, left)
            tree = on(world, left, DISK)
            assert tree.check().problems == (), (cut_at, number)
            seen = view(tree)
            assert seen != old if is_acknowledged else True, (cut_at, number)
            publish(tree)
            assert tree.check().is_sound
            assert view(tree) != old
            assert seen in (old, view(tree))
            shutil.rmtree(left)
        shutil.rmtree(folder)
        if is_acknowledged:
            return cut_at
    raise AssertionError


def test_first_version_of_a_feature_survives_every_power_cut(
    published_repository: RepositoryFixture, tmp_path: Path
) -> None:
    """Its folder is new: the folder's own name must last, too."""
    package = published_repository.package("1.0.0", feature="tagging", team="speech")
    published_repository.upload(package)
    signed, documents = published_repository.sign(package), {package.manifest.path: package.manifest.to_bytes()}
    steps = each_cut(
        published_repository,
        tmp_path,
        lambda tree: tree.accept_team_metadata(signed, documents),
        lambda tree: tree.versions("tagging"),
    )
    assert steps >= 16


def test_halt_survives_every_power_cut(published_repository: RepositoryFixture, tmp_path: Path) -> None:
    """The first of its kind, in a new folder."""
    data = Halt(app="messenger", serial=1, frozen=("language_id",)).to_bytes()
    publish: Publish = lambda tree: tree.publish_halt("messenger", data)  # noqa: E731 - a name for its type
    assert each_cut(published_repository, tmp_path, publish, lambda tree: tree.halt("messenger")) >= 16


def test_policy_survives_every_power_cut(published_repository: RepositoryFixture, tmp_path: Path) -> None:
    """The second of its app."""
    data = published_repository.policy(2).to_bytes()
    publish: Publish = lambda tree: tree.publish_policy("messenger", data)  # noqa: E731
    assert each_cut(published_repository, tmp_path, publish, lambda tree: tree.policy("messenger")) >= 16


def test_new_tree_survives_every_power_cut(world: RepositoryFixture, tmp_path: Path) -> None:
    """Before its timestamp lasts it is none, and the ceremony is repeated; afterwards it is whole."""
    for cut_at in itertools.count():
        folder = tmp_path / f"ceremony {cut_at}"
        folder.mkdir()
        disk = ForgetfulDisk(folder, cut_at)
        try:
            initialize_repository(folder / "tree", world.keys, world.TEAMS, clock=world.clock, files=disk)
        except PowerCutError:
            is_done = False
        else:
            is_done = True
        for number, image in enumerate(disk.images()):
            left = tmp_path / f"left {cut_at} {number}"
            left.mkdir()
            disk.restore(image, left)
            if not (left / "tree/metadata/timestamp.json").exists():
                assert not is_done
                shutil.rmtree(left / "tree", ignore_errors=True)
                initialize_repository(left / "tree", world.keys, world.TEAMS, clock=world.clock)
            assert Repository(left / "tree", clock=world.clock).check().is_sound
            shutil.rmtree(left)
        if is_done:
            break
    assert cut_at >= 32


@pytest.mark.parametrize("careless", ["write", "rename", "make_folder"])
def test_a_publisher_that_forgets_to_sync_is_caught(
    published_repository: RepositoryFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, careless: str
) -> None:
    """The test's own test: without the sync of a folder's names, or of a new folder, some cut breaks a promise."""
    package = published_repository.package("1.0.0", feature="tagging", team="speech")
    published_repository.upload(package)
    signed, documents = published_repository.sign(package), {package.manifest.path: package.manifest.to_bytes()}
    sync, make, write = ForgetfulDisk.sync_folder, ForgetfulDisk.make_folder, ForgetfulDisk.write
    inside = [False]

    def lazy_make(self: ForgetfulDisk, folder: Path) -> None:
        inside[0] = True
        try:
            make(self, folder)
        finally:
            inside[0] = False

    def lazy_sync(self: ForgetfulDisk, folder: Path) -> None:
        if inside[0] is (careless == "make_folder"):
            return
        sync(self, folder)

    def lazy_write(self: ForgetfulDisk, path: Path, data: bytes) -> None:
        write(self, path, data)
        self._bytes[path] = data[: len(data) // 2]

    if careless == "write":
        monkeypatch.setattr(ForgetfulDisk, "write", lazy_write)
    else:
        monkeypatch.setattr(ForgetfulDisk, "make_folder", lazy_make)
        monkeypatch.setattr(ForgetfulDisk, "sync_folder", lazy_sync)
    with pytest.raises(AssertionError):
        each_cut(
            published_repository,
            tmp_path,
            lambda tree: tree.accept_team_metadata(signed, documents),
            lambda tree: tree.versions("tagging"),
        )


def test_folder_of_blobs_lasts_before_a_blob_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new folder's name is synced in its parent, the outermost first."""
    synced: list[Path] = []
    monkeypatch.setattr(Disk, "sync_folder", lambda _self, folder: synced.append(folder))
    open_blob_store(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
