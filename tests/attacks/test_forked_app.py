"""An app forks while its threads sync, report and predict: with multiprocessing, or as servers with workers do."""

import asyncio
import faulthandler
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest
from alcove.sdk.ledger_file import LedgerFile
from alcove.sdk.load_attempts import AttemptLog
from alcove.sdk.storage import FileLock, Files

from tests.sdk.conftest import FEATURE, Device

# Processes are forked beside threads on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")

LONG_S = 60


@contextmanager
def free_lock(path: Path) -> Iterator[None]:
    """Hold a lock that is taken only if nobody has it."""
    with FileLock(path).hold_if_free() as is_held:
        assert is_held
        yield


LOCKS: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "lock": lambda folder: FileLock(folder / "lock").hold(),
    "lock if free": lambda folder: free_lock(folder / "lock"),
    "ledger": lambda folder: LedgerFile(folder / "ledger.jsonl", Files()).exclusive(),
}


def in_child(act: Callable[[], bool]) -> bool:
    """Tell whether `act` returns True, soon, in a forked child."""
    process = os.fork()
    if process == 0:
        faulthandler.disable()
        signal.alarm(LONG_S)  # a process that hangs is ended
        with suppress(BaseException):
            os._exit(0 if act() else 1)
        os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


@contextmanager
def living_child() -> Iterator[None]:
    """Fork a child that does nothing, for as long as the block lasts."""
    process = os.fork()
    if process == 0:
        signal.alarm(LONG_S)
        signal.pause()
        os._exit(0)
    try:
        yield
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def is_done(act: Callable[[], object]) -> bool:
    """Tell whether `act` ends on another thread while a child could keep it from that for a minute."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(LONG_S / 4)
    return not thread.is_alive()


@pytest.mark.parametrize("held", LOCKS.values(), ids=LOCKS)
def test_child_that_was_forked_under_a_lock_keeps_nobody_out(
    tmp_path: Path, held: Callable[[Path], AbstractContextManager[None]]
) -> None:
    """It has a copy of the descriptor for as long as it lives; the lock is given back all the same."""

    def take() -> None:
        with held(tmp_path):
            pass

    with held(tmp_path):
        child = living_child()
        child.__enter__()
    try:
        assert is_done(take)
    finally:
        child.__exit__(None, None, None)


def test_child_that_was_forked_during_a_sync_keeps_no_later_one_out(device: Device) -> None:
    """Whichever request was on its way then; every lock of the folder is free afterwards."""
    forked: list[AbstractContextManager[None]] = []

    def fork(method: str, path: str) -> None:
        if not forked and path.startswith("/blobs"):
            forked.append(living_child())
            forked[0].__enter__()

    client = device.client()
    device.transport.fault = fork
    try:
        assert client.sync().error is None
        assert forked
        device.world.set_policy("2.0.0")
        assert is_done(client.sync)
        assert device.answer(client) == "two 2.0.0 default"
        assert device.answer(device.client()) == "two 2.0.0 default"
    finally:
        for child in forked:
            child.__exit__(None, None, None)


def test_crash_of_an_app_is_counted_while_its_child_lives(tmp_path: Path) -> None:
    """The try is the parent's alone: the child's copy of its map holds no lock."""
    folder = tmp_path / "tries"
    reader, writer = os.pipe()
    app = os.fork()
    if app == 0:
        attempt = AttemptLog(folder, Files()).begin("d" * 64)
        child = os.fork()
        if child == 0:
            signal.alarm(LONG_S)
            os.write(writer, str(os.getpid()).encode())
            signal.pause()
        os.waitpid(child, os.WNOHANG)
        assert attempt is not None
        os._exit(0)  # in native code, as the try says
    os.waitpid(app, 0)
    child = int(os.read(reader, 20))
    try:
        assert not AttemptLog(folder, Files()).list_quarantined()
        assert len(list(folder.glob("*.crash"))) == 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.close(reader)
        os.close(writer)


def test_child_syncs_while_a_sync_of_the_parent_is_under_way(device: Device) -> None:
    """The parent's lock is held in the child by nobody who could give it back; the folder's own lock still holds."""
    seen: list[bool] = []
    client = device.client()

    def fork(method: str, path: str) -> None:
        if not seen:
            device.transport.fault = None
            # The child waits for the parent's sync, as for one of any other process; so it is only asked to begin.
            seen.append(in_child(lambda: client._synchronizer._sync_lock.acquire(blocking=False) and client.reports))

    device.transport.fault = fork
    assert client.sync().error is None
    assert seen == [True]
    assert in_child(lambda: client.sync().error is None)


def test_child_predicts_as_its_parent_does(device: Device) -> None:
    """By each way, all of which the parent has used: its threads are not here."""
    client = device.client()
    assert client.sync().error is None
    plain, timed = client.feature(FEATURE), client.feature(FEATURE, deadline_ms=30_000)

    def answers() -> bool:
        asked = [plain.predict("hello"), timed.predict("hello"), asyncio.run(plain.predict_async("hello"))]
        return [answer.error for answer in asked] == [None] * 3

    assert answers()
    assert in_child(answers)
    assert in_child(lambda: answers() and in_child(answers))
    assert answers()
