"""Kill -9 at every disk call of a change of keys: a real process that really ends, for each role in turn."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.registry.repository import Repository
from alcove.registry.testing import RepositoryFixture
from alcove.runtime.testing_seams import FaultyDisk

from tests.registry.key_changes import (
    ROLES,
    new_signer,
    online_with,
    read_everything,
    replacement,
    sign_by,
    signer_of,
    signers_of_replacement,
)

pytestmark = pytest.mark.thorough


class KillingDisk(FaultyDisk):
    """The real disk; at a chosen step the process ends by SIGKILL, in a write with half of the bytes on the disk."""

    def write(self, path: Path, data: bytes) -> None:
        """Write a file, or half of it and end."""
        if self.fail_at == self.steps:
            path.write_bytes(data[: len(data) // 2])
        super().write(path, data)

    def _count(self, step: str, path: Path) -> None:
        if self.fail_at == self.steps:
            os.kill(os.getpid(), signal.SIGKILL)
        super()._count(step, path)


def run_until_killed(work: Callable[[], None]) -> int:
    """Do something in a process of its own; return the signal that ended it, 0 where it came to its end.

    Raises:
        AssertionError: the work raised.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


@pytest.mark.parametrize("role", ROLES)
def test_kill_at_every_disk_call_of_a_rotation(published_repository: RepositoryFixture, role: str) -> None:
    """Devices old and new read everything at once; repeating completes it, whatever was half-written."""
    new = new_signer()
    change = sign_by(
        replacement(published_repository, role, new), *signers_of_replacement(published_repository, role, new)
    )
    keys, old = online_with(published_repository, role, new), [signer_of(published_repository, role)]
    origin, folder = published_repository.folder / "origin", published_repository.tree.folder
    shutil.copytree(folder, origin)
    read_everything(published_repository, "known")
    kills = 0
    while True:
        shutil.rmtree(folder)
        shutil.copytree(origin, folder)
        device = f"device {kills}"
        shutil.copytree(published_repository.folder / "known", published_repository.folder / device, symlinks=True)
        tree = Repository(folder, clock=published_repository.clock, files=KillingDisk(kills))
        if not run_until_killed(lambda tree=tree: tree.accept_request(change, keys, old_keys=old)):  # type: ignore[misc]
            break
        for name in (device, f"new {device}"):
            client = published_repository.client(name)
            client.policy("messenger")
            client.manifest("language_id", "1.0.0")
        completed = Repository(folder, clock=published_repository.clock)
        completed.accept_request(change, keys, old_keys=old)
        assert completed.check().is_sound
        assert not [path for path in folder.rglob("*") if path.suffix == ".tmp"]
        read_everything(published_repository, device)
        kills += 1
    assert kills >= 4
    assert Repository(folder, clock=published_repository.clock).check().is_sound
