"""Kill -9 at every storage call of a backup and of a restore: enumerated, with real processes."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from alcove.platform.services.backups import ServerData, create_backup, open_place
from alcove.platform.testing import ServerWorld
from alcove.runtime.clock import SYSTEM_CLOCK

from tests.selection import quick_every

SCRIPT = Path(__file__).with_name("killed_backup.py")
KILLED = -9
CALLS_AT_LEAST = 60
STEP = 13  # so that a test ends in minutes on a loaded machine


def run(action: str, tmp_path: Path, *, first: int, step: int) -> list[dict[str, int]]:
    """Let the script end at storage calls, from the first on; return what it reported."""
    world = ServerWorld(tmp_path / "world", teams={"text": ("text_00",)})
    served = world.start("--only", "grpc")
    with world.client(served, "team:text") as team:
        world.publish(team, "text_00")
    assert served.stop() == 0
    place = tmp_path / "place"
    data = ServerData(world.data_dir, world.online_keys)
    asyncio.run(create_backup(data, open_place(str(place)), clock=SYSTEM_CLOCK))
    job = {
        "action": action,
        "data": str(world.data_dir),
        "place": str(place),
        "work": str(tmp_path / "work"),
        "first": first,
        "step": step,
    }
    done = subprocess.run(
        [sys.executable, str(SCRIPT), json.dumps(job)], capture_output=True, text=True, check=False, timeout=290
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{lines[-1:]}\n{done.stderr[-4000:]}"
    return lines


@pytest.mark.parametrize("action", quick_every(["restore", "backup"], 2))
def test_kill_at_some_storage_calls_leaves_nothing_half(action: str, tmp_path: Path) -> None:
    """What is listed is whole, what can be started is whole, and the same command completes the work."""
    lines = run(action, tmp_path, first=5, step=3 * STEP)
    assert [line["status"] for line in lines] == [KILLED] * (len(lines) - 1) + [0]
    assert lines[-1]["call"] >= CALLS_AT_LEAST


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(STEP))
@pytest.mark.parametrize("action", ["backup", "restore"])
def test_kill_at_every_storage_call_leaves_nothing_half(action: str, first: int, tmp_path: Path) -> None:
    """The same, at each of them."""
    lines = run(action, tmp_path, first=first, step=STEP)
    assert [line["status"] for line in lines] == [KILLED] * (len(lines) - 1) + [0]
