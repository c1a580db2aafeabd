"""Our tree is plain TUF: python-tuf's own client, with no code of ours, reads it over HTTP."""

import time
from pathlib import Path

import pytest
from alcove.registry.manifest import manifest_path
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.testing_seams import ManualClock
from tuf.api.exceptions import RepositoryError
from tuf.ngclient.updater import Updater

from tests.registry.simulator import Repository, serve


class Folder(Repository):
    """Serves a folder as it is."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def answer(self, path: str) -> bytes | None:
        """Return the file at a path."""
        file = self.folder / path
        return file.read_bytes() if file.is_file() else None


def test_plain_updater_finds_and_downloads_a_manifest(tmp_path: Path) -> None:
    """Found along the team's role, downloaded, and the bytes that the team signed; nothing else is found."""
    world = RepositoryFixture(tmp_path, clock=ManualClock(int(time.time())))
    for version in ("1.0.0", "1.1.0"):
        world.push(world.package(version))
    with serve(Folder(tmp_path / "tree")) as url:
        (tmp_path / "targets").mkdir()
        updater = Updater(
            str(tmp_path / "plain"),
            f"{url}/metadata",
            str(tmp_path / "targets"),
            f"{url}/targets",
            bootstrap=(tmp_path / "tree" / "metadata" / "1.root.json").read_bytes(),
        )
        updater.refresh()
        for version in ("1.0.0", "1.1.0"):
            target = updater.get_targetinfo(manifest_path("language_id", version))
            assert target is not None
            assert updater.find_cached_target(target) is None
            file = Path(updater.download_target(target))
            assert file.read_bytes() == world.package(version).manifest.to_bytes()
            assert updater.find_cached_target(target) == str(file)
        assert updater.get_targetinfo(manifest_path("language_id", "9.9.9")) is None


def test_plain_updater_refuses_a_tree_of_other_keys(tmp_path: Path) -> None:
    """The control: with another root nothing of the tree is taken."""
    clock = ManualClock(int(time.time()))
    RepositoryFixture(tmp_path / "ours", clock=clock)
    RepositoryFixture(tmp_path / "other", clock=clock)
    with serve(Folder(tmp_path / "ours" / "tree")) as url:
        root = (tmp_path / "other" / "tree" / "metadata" / "1.root.json").read_bytes()
        with pytest.raises(RepositoryError):
            Updater(str(tmp_path / "plain"), f"{url}/metadata", bootstrap=root).refresh()
