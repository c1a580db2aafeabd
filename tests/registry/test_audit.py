"""`registry check` finds and names every damaged or missing file and every expired role of a tree."""

import pytest
from alcove.registry import layout
from alcove.registry.errors import (
    ExpiredMetadataError,
    IntegrityError,
    MetadataError,
    MissingTargetError,
    RegistryError,
    StorageError,
)
from alcove.registry.policy import Halt
from alcove.registry.testing import RepositoryFixture


@pytest.fixture
def full(published_repository: RepositoryFixture) -> RepositoryFixture:
    """Two versions, a policy and a halt."""
    published_repository.push(published_repository.package("2.0.0"))
    published_repository.tree.publish_halt(
        "messenger", Halt(app="messenger", serial=1, frozen=("language_id",)).to_bytes()
    )
    return published_repository


def test_sound_tree_is_proved_file_by_file(full: RepositoryFixture) -> None:
    """Every role, target and blob is counted."""
    report = full.tree.check()
    assert report.is_sound
    assert (report.role_count, report.target_count, report.blob_count) == (8, 4, 4)


def test_every_damaged_file_is_found(full: RepositoryFixture) -> None:
    """Each file that a client can reach, flipped, truncated and deleted, one at a time."""
    state = full.tree.state()
    reachable = {"1.root.json", "timestamp.json", f"{state.snapshot.version}.snapshot.json", "1.targets.json"}
    reachable |= {f"{role.version}.{name}.json" for name, role in state.roles.items()}
    files = [path for path in (full.tree.folder / layout.METADATA).iterdir() if path.name in reachable]
    files += list((full.tree.folder / layout.TARGETS).rglob("*.json"))
    files += list((full.tree.folder / layout.BLOBS).iterdir())
    assert len(files) == 8 + 4 + 4
    for path in files:
        whole = path.read_bytes()
        middle = len(whole) // 2
        for damage in (whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], whole[:-1], None):
            if damage is None:
                path.unlink()
            else:
                path.write_bytes(damage)
            problems = full.tree.check().problems
            assert problems, path
            assert all(isinstance(problem.error, RegistryError) for problem in problems)
            path.write_bytes(whole)
    assert full.tree.check().is_sound


def test_all_faults_are_named_at_once(full: RepositoryFixture) -> None:
    """A rotten blob, a missing one and a rotten manifest: three problems, each with its error."""
    first, second = (full.package(version) for version in ("1.0.0", "2.0.0"))
    blobs = full.tree.folder / layout.BLOBS
    rotten, missing = (item.manifest.variants[0].sha256 for item in (first, second))
    (blobs / rotten).write_bytes(b"rotten")
    (blobs / missing).unlink()
    halt = full.tree.halt("messenger")
    assert halt is not None
    (halt_file,) = (full.tree.folder / layout.TARGETS / "halt").iterdir()
    halt_file.write_bytes(b"x")
    problems = {problem.thing: type(problem.error) for problem in full.tree.check().problems}
    assert problems == {
        f"blobs/{rotten}": IntegrityError,
        f"blobs/{missing}": MissingTargetError,
        "halt/messenger.json": IntegrityError,
    }


def test_expired_roles_are_named(full: RepositoryFixture) -> None:
    """The tree is proved all the same."""
    full.clock.time_s += 31 * 86_400
    report = full.tree.check()
    assert {problem.thing for problem in report.problems} == {"timestamp", "snapshot", "policy", "halt"}
    assert all(isinstance(problem.error, ExpiredMetadataError) for problem in report.problems)
    assert report.target_count == 4


def test_absent_tree_is_one_problem(full: RepositoryFixture) -> None:
    """Nothing is proved of what cannot be read."""
    (full.tree.folder / layout.METADATA).rename(full.folder / "gone")
    report = full.tree.check()
    assert [type(problem.error) for problem in report.problems] == [StorageError]
    assert isinstance(report.problems[0].error, RegistryError | MetadataError)
