"""A crash, a full disk or a second process at any step leaves a device that answers and completes its work later."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from alcove.privacy.errors import LedgerStorageError
from alcove.registry.errors import StorageError
from alcove.sdk import DeviceStorageError
from alcove.sdk.storage import Files
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device, TreeServer, World

# Processes are forked beside the threads of the tree's blob store, which the children never use.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

OLD, NEW = "one 1.0.0 default", "two 2.0.0 default"


@pytest.fixture
def updating_device(device: Device) -> Device:
    """A device on 1.0.0 whose policy now says 2.0.0."""
    device.client().sync()
    device.world.set_policy("2.0.0")
    return device


def steps_of(action: Callable[[Files], object]) -> list[tuple[str, Path]]:
    """Return the disk steps that an action takes."""
    steps: list[tuple[str, Path]] = []
    action(Files(lambda step, path: steps.append((step, path))))
    return steps


def restore(device: Device, copy: Path) -> None:
    """Bring the device's folder back to what it was."""
    shutil.rmtree(device.folder)
    shutil.copytree(copy, device.folder)


def keep(device: Device) -> Path:
    """Return a copy of the device's folder."""
    return Path(shutil.copytree(device.folder, device.folder.with_name("kept")))


def run_and_die(action: Callable[[Files], object], at: int) -> int:
    """Run an action in a real process that kills itself with SIGKILL before its nth disk step; return its status."""
    process = os.fork()
    if process == 0:
        count = 0

        def die(_: str, __: Path) -> None:
            nonlocal count
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

        try:
            action(Files(die))
        finally:
            os._exit(0)
    return os.waitpid(process, 0)[1]


def test_kill_at_every_disk_step_of_a_sync_leaves_old_or_new(updating_device: Device) -> None:
    """SIGKILL before each step in turn: the next process answers, and its sync completes the update."""
    copy = keep(updating_device)
    count = len(steps_of(lambda files: updating_device.client(files=files).sync()))
    assert count > 25
    answers = set()
    for at in range(count):
        restore(updating_device, copy)
        status = run_and_die(lambda files: updating_device.client(files=files).sync(), at)
        assert os.WTERMSIG(status) == signal.SIGKILL
        client = updating_device.client()
        answer = updating_device.answer(client)
        assert answer in (OLD, NEW), at
        answers.add(answer)
        assert client.sync().error is None, at
        assert updating_device.answer(client) == NEW
        assert not list((updating_device.folder / "staging").iterdir()), at
        assert not list(updating_device.folder.glob("*.partial")), at
        assert len(list((updating_device.folder / "versions" / FEATURE).iterdir())) == 2
    assert answers == {OLD, NEW}


def test_kill_at_every_disk_step_of_the_first_start_leaves_a_fresh_device(device: Device) -> None:
    """The first sync ever, secret included: whatever is half made is made again, and the secret never changes."""
    count = len(steps_of(lambda files: device.client(files=files).sync()))
    for at in range(count):
        shutil.rmtree(device.folder)
        run_and_die(lambda files: device.client(files=files).sync(), at)
        identity = device.folder / "identity"
        before = identity.read_bytes() if identity.exists() else None
        assert before is None or len(before) == 32
        client = device.client()
        assert device.answer(client) in ("shipped baseline baseline", OLD), at
        assert client.sync().error is None, at
        assert before in (None, identity.read_bytes())
        assert identity.stat().st_mode & 0o777 == 0o600


def test_disk_full_at_every_step_of_a_sync_leaves_the_old_version(updating_device: Device) -> None:
    """No space at each step in turn: a typed result naming the step, the old version, then with space the new one."""
    copy = keep(updating_device)
    count = len(steps_of(lambda files: updating_device.client(files=files).sync()))
    failed = 0
    for at in range(count):
        restore(updating_device, copy)
        steps = 0

        def fill(_: str, __: Path, at: int = at) -> None:
            nonlocal steps
            steps += 1
            if steps == at + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        client = updating_device.client(files=Files(fill))
        result = client.sync()
        if result.error is not None:
            failed += 1
            assert isinstance(result.error, DeviceStorageError | StorageError), at
            assert "No space left" in str(result.error)
        assert updating_device.answer(client) in (OLD, NEW)
        assert client.sync().error is None, at
        assert updating_device.answer(client) == NEW
    assert failed > 20


def test_disk_that_stays_full_never_takes_the_answer_away(updating_device: Device) -> None:
    """From each step on nothing can be written: predictions go on, in this process and the next."""
    copy = keep(updating_device)
    count = len(steps_of(lambda files: updating_device.client(files=files).sync()))
    for at in range(0, count, 3):
        restore(updating_device, copy)
        steps = 0

        def fill(_: str, __: Path, at: int = at) -> None:
            nonlocal steps
            steps += 1
            if steps > at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        client = updating_device.client(files=Files(fill))
        for _ in range(2):
            client.sync()
            assert updating_device.answer(client) in (OLD, NEW), at
        assert updating_device.answer(updating_device.client(files=Files(fill))) in (OLD, NEW)


def test_everything_is_synced_before_it_gets_its_name(updating_device: Device) -> None:
    """After a power cut a name never leads to bytes that were not on the disk: sync, rename, sync the folder."""
    steps = steps_of(lambda files: updating_device.client(files=files).sync())
    unsynced: set[str] = set()
    for index, (step, path) in enumerate(steps):
        if step == "append":
            unsynced.add(path.name)
        elif step == "sync file":
            unsynced.discard(path.name)
        elif step == "rename":
            source = {"program.alc": f"{updating_device.world.blob('2.0.0').name}.part"}.get(path.name, path.name)
            assert not {name for name in unsynced if name.startswith(source)}, path
            following = [entry for entry in steps[index + 1 :] if entry[0] in ("sync folder", "remove")]
            assert following[0][1] in (path.parent, path), path
    names = [path.name for step, path in steps if step == "rename"]
    assert names.index(updating_device.world.ref("2.0.0").manifest_sha256) < names.index("state.json")


KILLED_DEVICE = """
import os, signal, sys
from pathlib import Path
from alcove.sdk import Client
from alcove.sdk.storage import Files
from alcove.sdk.testing import FakeEngine, ManualClock

def step(name, path):
    if name == "rename" and path.name == "state.json":
        print("downloaded, not active", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

folder, server, root = sys.argv[1:]
client = Client("messenger", folder, server, root, clock=ManualClock(), engine=FakeEngine(), files=Files(step))
client.sync()
"""


def test_device_process_killed_between_download_and_activation(
    updating_device: Device, server: TreeServer, tmp_path: Path
) -> None:
    """Kill -9 of a separate process over real HTTP: the old version, then no second download, then the new one."""
    root = tmp_path / "root.json"
    root.write_bytes(updating_device.world.root)
    command = [sys.executable, "-c", KILLED_DEVICE, str(updating_device.folder), server.url, str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "downloaded, not active\n"), done.stderr
    client = updating_device.client(server.url, transport=None)
    assert updating_device.answer(client) == OLD
    fetched = [path for _, path, _ in server.seen if path.startswith("/blobs")]
    assert client.sync().error is None
    assert updating_device.answer(client) == NEW
    assert [path for _, path, _ in server.seen if path.startswith("/blobs")] == fetched


def reported_device(world: World, device: Device) -> int:
    """Put the device into an experiment; return the seed of its secret."""
    world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    seed = device.seed_for_arm(1)
    device.client(entropy=SeededEntropy(seed)).sync()
    return seed


def test_kill_at_every_disk_step_of_a_report_sends_at_most_one(device: Device) -> None:
    """Before and after the ledger's debit, before and after the upload: never two different reports of a window."""
    reported_device(device.world, device)
    client = device.client()
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(accepted=True)
    copy = keep(device)
    count = len(steps_of(lambda files: device.client(files=files).report()))
    assert count >= 6
    for at in range(count):
        restore(device, copy)
        device.transport.reports.clear()
        run_and_die(lambda files: device.client(files=files).report(), at)
        client = device.client()
        for _ in range(3):
            client.report()
        assert len(set(device.transport.reports)) <= 1, at
        assert client.privacy_summary().reports_made == 1, at


def test_disk_full_at_every_step_of_a_report_is_a_typed_result(device: Device) -> None:
    """No space for ledger or outbox: no report without a debit, and no exception."""
    reported_device(device.world, device)
    client = device.client()
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(accepted=True)
    copy = keep(device)
    count = len(steps_of(lambda files: device.client(files=files).report()))
    for at in range(count):
        restore(device, copy)
        device.transport.reports.clear()
        steps = 0

        def fill(_: str, __: Path, at: int = at) -> None:
            nonlocal steps
            steps += 1
            if steps == at + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        client = device.client(files=Files(fill))
        client.report()
        client.report()
        assert len(set(device.transport.reports)) <= 1, at
        assert client.privacy_summary().reports_made <= 1, at


def test_ledger_that_cannot_be_written_sends_nothing(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a debit on the disk there is no report; the outcome waits."""
    reported_device(device.world, device)
    client = device.client()
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(accepted=True)
    with monkeypatch.context() as patch:
        patch.setattr("alcove.sdk.ledger_file.LedgerFile.append", refuse)
        result = client.report()
    assert isinstance(result.error, LedgerStorageError)
    assert (result.sent, device.transport.reports) == (0, [])
    assert client.report().sent == 1


def refuse(self: object, data: bytes) -> None:
    """Write nothing."""
    raise LedgerStorageError(step="append", path="ledger.jsonl", reason="No space left on device")


def test_processes_that_share_a_folder_do_not_disturb_each_other(device: Device) -> None:
    """Four processes sync, predict and report over one folder while versions change: all end well, and so does it."""
    world = device.world
    reported_device(world, device)
    device.transport.reports.clear()
    children = []
    for number in range(4):
        process = os.fork()
        if process == 0:
            code = 1
            try:
                for turn in range(12):
                    client = device.client(entropy=SeededEntropy(number * 100 + turn))
                    handle = client.feature(FEATURE)
                    ok = handle.predict("hi").error is None and client.sync().error is None
                    ok = ok and handle.predict("hi").error is None
                    handle.record_outcome(accepted=turn % 2 == 0)
                    ok = ok and client.report().error is None
                    if not ok:
                        break
                else:
                    code = 0
            finally:
                os._exit(code)
        children.append(process)
    for turn in range(6):
        world.push(f"5.0.{turn}", fake_program(f"five{turn}"))
        world.set_policy(f"5.0.{turn}")
    statuses = [os.waitpid(process, 0)[1] for process in children]
    assert statuses == [0, 0, 0, 0]
    client = device.client()
    assert client.sync().error is None
    assert device.answer(client) == "five5 5.0.5 default"
    assert client.privacy_summary().reports_made <= 1
    assert not list((device.folder / "staging").iterdir())


def test_threads_of_one_client_do_not_disturb_each_other(device: Device) -> None:
    """Syncs, reports, predictions and new handles from many threads at once."""
    reported_device(device.world, device)
    client = device.client()
    errors: list[object] = []

    def work(number: int) -> None:
        for _ in range(5):
            handle = client.feature(FEATURE)
            answer = handle.predict("hi")
            handle.record_outcome(accepted=number % 2 == 0)
            errors.extend(error for error in (answer.error, client.sync().error, client.report().error) if error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert client.privacy_summary().reports_made == 1
