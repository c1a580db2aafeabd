"""The process is killed, at any moment."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.sdk.limits import CHUNK_BYTES, MAX_STALE_S
from alcove.sdk.storage import Files
from alcove.sdk.testing import fake_program

from tests.sdk.conftest import FEATURE, Device

DAY = 86_400
BIG = 3 * CHUNK_BYTES + 5


class _KilledError(BaseException):
    """Nothing of ours catches it, as nothing runs after SIGKILL."""


def kill_everywhere(
    device: Device, copy: Path, act: Callable[[Files], object], check: Callable[[int], None], stride: int = 1
) -> int:
    """Do `act` again and again from one state of the disk, killed before its nth step, for every n; return how many."""
    for last in range(0, 10_000, stride):
        shutil.rmtree(device.folder)
        shutil.copytree(copy, device.folder, symlinks=True)
        steps = 0

        def step(name: str, path: Path, last: int = last) -> None:
            nonlocal steps
            steps += 1
            if steps > last:
                raise _KilledError

        try:
            act(Files(step))
        except _KilledError:
            check(last)
        else:
            check(last)
            return last
    raise AssertionError("it never ended")


@pytest.fixture
def halted(device: Device, tmp_path: Path, unsynced: None) -> tuple[Device, Path]:
    """A device on 2.0.0 after 1.0.0, overdue; a server that has halted 2.0.0 and goes to 3.0.0; the disk as it is."""
    device.client().sync()
    device.world.set_policy("2.0.0")
    device.client().sync()
    device.clock.pass_s(MAX_STALE_S + DAY)
    device.client().close()
    device.world.clock.time_s = device.clock.time_s
    device.world.push("3.0.0", fake_program("three", size_bytes=BIG))
    device.world.halt("2.0.0")
    device.world.set_policy("3.0.0")
    device.world.tree.refresh()
    shutil.copytree(device.folder, tmp_path / "copy", symlinks=True)
    return device, tmp_path / "copy"


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.attack)])
def test_kill_at_every_step_of_a_sync_that_follows_a_halt(halted: tuple[Device, Path], stride: int) -> None:
    """Whenever it was: the halted version never answers afterwards, and the next sync mends what is left."""
    device, copy = halted
    seen = set()

    def check(last: int) -> None:
        client = device.client()
        answer = device.answer(client)
        seen.add(answer)
        assert "2.0.0" not in answer, last
        result = client.sync()
        assert result.error is None, (last, result.error)
        assert device.answer(client) == "three 3.0.0 default", last
        assert not client.is_stale
        client.close()

    count = kill_everywhere(device, copy, lambda files: device.client(files=files).sync(), check, stride)
    assert count > 30
    assert seen == {"shipped baseline stale", "one 1.0.0 fallback", "three 3.0.0 default"}


def test_kill_at_every_step_of_a_start_makes_nothing_younger(halted: tuple[Device, Path]) -> None:
    """Time that was counted stays counted: no number of kills makes an overdue device trust what it has."""
    device, copy = halted

    def check(last: int) -> None:
        assert device.answer(device.client()) == "shipped baseline stale", last

    def start(files: Files) -> None:
        device.clock.pass_s(7200, is_held=True)
        device.client(files=files).feature(FEATURE).predict("hello")

    assert kill_everywhere(device, copy, start, check) > 3
