"""What one party keeps, the others cannot read: tried by real users of the system."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from itertools import permutations
from pathlib import Path

import pytest
from alcove.platform.aggregator.config import Seat
from alcove.platform.aggregator.provisioning import create_pair
from alcove.platform.aggregator.serve import run_aggregator
from alcove.platform.aggregator.settings import AggregatorSettings
from alcove.platform.listening.http import listen_http

UIDS = {"leader": 64_101, "helper": 64_102, "collector": 64_103}
READ_ALL = 'for file; do cat -- "$file" >/dev/null 2>&1 && echo "$file"; done; exit 0'


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are closed to all but one."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def list_readable(uid: int, files: list[Path]) -> list[Path]:
    """Return those files that a user can read."""
    command = ["sh", "-c", READ_ALL, "sh", *map(str, files)]
    found = subprocess.run(command, user=uid, group=uid, extra_groups=[], capture_output=True, text=True, check=True)
    return [Path(line) for line in found.stdout.splitlines()]


def can_list(uid: int, folder: Path) -> bool:
    """Return whether a user can see the names of a folder's files."""
    listed = subprocess.run(["ls", folder], user=uid, group=uid, extra_groups=[], capture_output=True, check=False)
    return listed.returncode == 0


async def test_no_party_reads_what_another_keeps(public_folder: Path) -> None:
    """Files as both leave them in the middle of work, each with a user of its own: its owner reads all, others none."""
    if os.getuid() != 0:
        pytest.skip("needs root, to be other users")
    made = create_pair(public_folder, "http://127.0.0.1:1", "http://127.0.0.1:2")
    folders = {party: path.parent for party, path in made.items()}
    async with AsyncExitStack() as stack:
        for seat in Seat:
            listener = stack.enter_context(listen_http("127.0.0.1", 0))
            settings = AggregatorSettings(data_dir=folders[seat])
            await stack.enter_async_context(run_aggregator(settings, seat, listener))
        files: dict[str, list[Path]] = {}
        for party, uid in UIDS.items():
            files[party] = sorted(path for path in folders[party].rglob("*") if path.is_file())
            for path in (folders[party], *folders[party].rglob("*")):
                os.chown(path, uid, uid)
        kinds = {party: {path.suffix for path in files[party]} for party in UIDS}
        assert kinds["leader"] == kinds["helper"] >= {".db", ".db-wal", ".json"}
        for party, uid in UIDS.items():
            assert list_readable(uid, files[party]) == files[party]
            assert can_list(uid, folders[party])
        for party, other in permutations(UIDS, 2):
            assert list_readable(UIDS[other], files[party]) == [], (party, other)
            assert not can_list(UIDS[other], folders[party])
