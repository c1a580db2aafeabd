"""An old back-up of the server: devices that saw more refuse it by name, and the server publishes nothing on top."""

import shutil
from functools import partial
from pathlib import Path

import pytest
from alcove.registry.errors import RollbackError, StorageError
from alcove.registry.policy import Halt
from alcove.registry.repository import Repository
from alcove.registry.testing import RepositoryFixture


@pytest.fixture
def backups(published_repository: RepositoryFixture, tmp_path: Path) -> list[Path]:
    """The tree after each of five publications, the oldest first; the world continues from the last."""
    noting(published_repository, tmp_path / "published.json")

    def step(number: int) -> object:
        match number:
            case 0:
                return published_repository.tree.refresh()
            case 1:
                return published_repository.push(published_repository.package("2.0.0"))
            case 2:
                return published_repository.tree.publish_policy(
                    "messenger", published_repository.policy(2, "2.0.0").to_bytes()
                )
            case 3:
                return published_repository.tree.publish_halt("messenger", Halt(app="messenger", serial=1).to_bytes())
            case _:
                return published_repository.push(published_repository.package("3.0.0"))

    copies = []
    for number in range(5):
        published_repository.clock.time_s += 20 * 3600
        step(number)
        copies.append(tmp_path / f"backup {number}")
        shutil.copytree(published_repository.tree.folder, copies[-1])
    return copies


def noting(world: RepositoryFixture, note: Path) -> None:
    """Let the world's server note how far it has published."""
    world.tree = Repository(world.tree.folder, keys=world.keys.online, clock=world.clock, rollback_note=note)


def restore(world: RepositoryFixture, backup: Path) -> None:
    """Put a back-up in the place of the tree."""
    shutil.rmtree(world.tree.folder)
    shutil.copytree(backup, world.tree.folder)


def test_restored_backup_cannot_roll_a_device_back_silently(
    published_repository: RepositoryFixture, backups: list[Path]
) -> None:
    """Every older back-up: the device that saw more says so and keeps its policy, its halt and the newest version."""
    client = published_repository.client()
    policy, halt = client.policy("messenger"), client.halt("messenger")
    client.manifest("language_id", "3.0.0")
    for backup in backups[:-1]:
        restore(published_repository, backup)
        again = published_repository.client()
        with pytest.raises(RollbackError):
            again.refresh()
        assert again.read_stored_policy("messenger") == policy
        assert again.read_stored_halt("messenger") == halt
    restore(published_repository, backups[-1])
    assert published_repository.client().manifest("language_id", "3.0.0").version == "3.0.0"


def test_server_publishes_nothing_on_top_of_a_restored_backup(
    published_repository: RepositoryFixture, backups: list[Path]
) -> None:
    """Every older back-up and every publication: a typed error with both numbers, and the tree stays as it is."""
    package = published_repository.package("4.0.0")
    for backup in backups[:-1]:
        restore(published_repository, backup)
        before = {path: path.read_bytes() for path in published_repository.tree.folder.rglob("*.json")}
        published_repository.upload(package)
        signed = published_repository.sign(package)
        manifests = {package.manifest.path: package.manifest.to_bytes()}
        for call in (
            published_repository.tree.refresh,
            lambda: published_repository.tree.publish_policy("messenger", published_repository.policy(9).to_bytes()),
            lambda: published_repository.tree.publish_halt("messenger", Halt(app="messenger", serial=9).to_bytes()),
            partial(published_repository.tree.accept_team_metadata, signed, manifests),
        ):
            with pytest.raises(RollbackError, match=r"says \d+, but \d+ was published from here.*mirror") as caught:
                call()
            assert caught.value.role in ("snapshot", "timestamp")
        assert {path: path.read_bytes() for path in published_repository.tree.folder.rglob("*.json")} == before


def test_newer_files_from_a_mirror_end_the_state(published_repository: RepositoryFixture, backups: list[Path]) -> None:
    """They are public and prove themselves: copied into the tree, the server continues and devices follow."""
    published_repository.client().manifest("language_id", "3.0.0")
    restore(published_repository, backups[0])
    with pytest.raises(RollbackError):
        published_repository.tree.refresh()
    mirror = backups[-1]
    for part in ("metadata", "targets"):
        shutil.copytree(mirror / part, published_repository.tree.folder / part, dirs_exist_ok=True)
    for blob in (mirror / "blobs").iterdir():
        shutil.copy(blob, published_repository.tree.folder / "blobs" / blob.name)
    published_repository.tree.refresh()
    assert published_repository.tree.check().is_sound
    published_repository.push(published_repository.package("4.0.0"))
    assert published_repository.client().manifest("language_id", "4.0.0").version == "4.0.0"


def test_loss_is_accepted_only_by_deleting_the_note(
    published_repository: RepositoryFixture, backups: list[Path], tmp_path: Path
) -> None:
    """A damaged note is no note: it stops the server too; without one it continues; devices that saw more refuse."""
    published_repository.client().manifest("language_id", "3.0.0")
    restore(published_repository, backups[1])
    for damage in (b"", b"[]", b"{", b'{"snapshot":"x"}'):
        (tmp_path / "published.json").write_bytes(damage)
        with pytest.raises(StorageError, match="delete it only"):
            published_repository.tree.refresh()
    (tmp_path / "published.json").unlink()
    published_repository.clock.time_s += 20 * 3600
    published_repository.tree.refresh()
    assert published_repository.client("new device").manifest("language_id", "2.0.0").version == "2.0.0"
    with pytest.raises(RollbackError):
        published_repository.client().refresh()
