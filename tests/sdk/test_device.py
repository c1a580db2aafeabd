"""Small parts of a device: secret, state, lock, disk, background sync, import cost and public names."""

import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import alcove.sdk
import pytest
from alcove.runtime.clock import SystemClock
from alcove.sdk import DeviceStorageError, ForeignFolderError, OutOfBoundError
from alcove.sdk.background import BackgroundSync, Turn, next_wait_s
from alcove.sdk.engine import NativeEngine
from alcove.sdk.identity import installation_secret
from alcove.sdk.state import FeatureSlots, Slot, State, state_from_bytes, state_to_bytes
from alcove.sdk.storage import FileLock, Files
from alcove.sdk.testing import FakeEngine, SeededEntropy
from hypothesis import given
from hypothesis import strategies as st

from tests.sdk.conftest import FEATURE, Device

DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True)
OPTIONAL_TEXT = st.none() | st.text()
SLOTS = st.builds(
    Slot,
    st.just("1.2.3"),
    DIGESTS,
    st.sampled_from(["default", "rollout"]),
    st.none() | st.integers(0, 7),
    st.none() | st.text(),
)
RECENT = st.lists(st.frozensets(DIGESTS, max_size=2), max_size=2).map(tuple)
STATES = st.dictionaries(NAMES, st.builds(FeatureSlots, st.none() | SLOTS, st.none() | SLOTS, RECENT)).map(State)


def test_secret_is_made_once_and_private(tmp_path: Path) -> None:
    """32 bytes, 0600 from the first moment, the same ever after; nothing is left beside it."""
    path = tmp_path / "identity"
    secret = installation_secret(path, Files(), SeededEntropy(1))
    assert installation_secret(path, Files(), SeededEntropy(2)) == secret
    assert len(secret) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64, 100])
def test_a_secret_of_a_wrong_size_is_replaced_and_logged(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Its arms are lost with it, so the device begins as a new installation does; the log says so, once."""
    path = tmp_path / "identity"
    path.write_bytes(b"x" * size)
    secret = installation_secret(path, Files(), SeededEntropy(1))
    assert len(secret) == 32
    assert installation_secret(path, Files(), SeededEntropy(2)) == secret
    assert path.stat().st_mode & 0o777 == 0o600
    assert caplog.messages == ["identity has not 32 bytes: a new one is made, and the device's arms change"]


def test_a_device_with_a_damaged_secret_follows_rollouts_again(device: Device) -> None:
    """The next sync brings what the policy says."""
    client = device.client()
    client.sync()
    (device.folder / "identity").write_bytes(b"short")
    device.world.set_policy("1.0.0", rollout=("2.0.0", 10_000))
    assert client.sync().error is None
    assert device.answer(client) == "two 2.0.0 rollout"


def test_threads_that_replace_a_damaged_secret_agree(tmp_path: Path) -> None:
    """One of them replaces it; nobody removes what another made."""
    path = tmp_path / "identity"
    path.write_bytes(b"x")
    with ThreadPoolExecutor(8) as pool:
        secrets = set(pool.map(lambda seed: installation_secret(path, Files(), SeededEntropy(seed)), range(32)))
    assert secrets == {path.read_bytes()}


def test_a_data_folder_removed_while_the_app_runs_is_made_again(device: Device) -> None:
    """The version in memory answers on; the next sync installs again, and what it installs answers after a restart."""
    client = device.client()
    client.sync()
    assert device.answer(client) == "one 1.0.0 default"
    shutil.rmtree(device.folder)
    assert device.answer(client) == "one 1.0.0 default"
    assert client.sync().error is None
    assert device.answer(client) == "one 1.0.0 default"
    handle = client.feature(FEATURE)
    handle.predict("hi")
    handle.record_outcome(accepted=True)
    assert client.report().error is None
    client.close()
    assert device.answer(device.client()) == "one 1.0.0 default"


def test_a_data_folder_replaced_by_somebody_elses_is_left_alone(device: Device) -> None:
    """A folder that is made again is ours, or is not touched."""
    client = device.client()
    client.sync()
    shutil.rmtree(device.folder)
    device.folder.mkdir()
    (device.folder / "holiday.jpg").write_bytes(b"mine")
    assert isinstance(client.sync().error, ForeignFolderError)
    assert [path.name for path in device.folder.iterdir()] == ["holiday.jpg"]


def test_racing_processes_agree_on_one_secret(tmp_path: Path) -> None:
    """The second caller takes what is there."""
    path = tmp_path / "identity"

    def race(step: str, _: Path) -> None:
        if step == "link":
            path.write_bytes(b"r" * 32)

    assert installation_secret(path, Files(race), SeededEntropy()) == b"r" * 32


def test_racing_threads_never_write_into_one_secret(tmp_path: Path) -> None:
    """One is about to write its own when the other's has its name, and the temporary file is still there."""
    path = tmp_path / "identity"
    may_write, secrets = threading.Event(), []

    def hold(step: str, _: Path) -> None:
        if step == "append":
            assert may_write.wait(60)

    late = threading.Thread(target=lambda: secrets.append(installation_secret(path, Files(hold), SeededEntropy(2))))

    def release(step: str, _: Path) -> None:
        if step == "append":
            late.start()
        if step == "remove":
            may_write.set()
            late.join(60)

    secrets.append(installation_secret(path, Files(release), SeededEntropy(1)))
    assert secrets[0] == secrets[1] == path.read_bytes() == SeededEntropy(1).random_bytes(32)


@given(STATES)
def test_state_survives_the_file(state: State) -> None:
    """Writing then reading gives the same state."""
    assert state_from_bytes(state_to_bytes(state)) == state


@given(st.binary(max_size=200) | STATES.map(state_to_bytes).flatmap(lambda data: st.just(data[: len(data) // 2])))
def test_other_bytes_are_no_state(data: bytes) -> None:
    """Damage is a ValueError, never something else."""
    with pytest.raises(ValueError, match=r"^state "):
        state_from_bytes(data)


@pytest.mark.parametrize("name", ["../../x", "", ".", "..", "a/b", "a\0b"])
def test_state_never_leads_out_of_its_folder(name: str) -> None:
    """A feature's name that is a path is damage."""
    data = json.dumps({"format": 1, "features": {name: {"current": None, "previous": None, "recent": []}}}).encode()
    with pytest.raises(ValueError, match="name is due"):
        state_from_bytes(data)


@given(STATES, NAMES, SLOTS)
def test_activating_keeps_what_was_current_as_previous(state: State, feature: str, slot: Slot) -> None:
    """The new version is current, the old one previous; the same version again moves nothing."""
    before = state.slots(feature)
    after = state.activate(feature, slot).slots(feature)
    assert after.current == slot
    if before.current is not None and before.current.manifest_sha256 == slot.manifest_sha256:
        assert after.previous == before.previous
    else:
        assert after.previous == before.current
    assert state.activate(feature, slot).activate(feature, slot) == state.activate(feature, slot)


def list_slotted(state: State) -> set[str]:
    """Return the digests that are current or previous somewhere."""
    slots = [slot for entry in state.features.values() for slot in (entry.current, entry.previous)]
    return {slot.manifest_sha256 for slot in slots if slot is not None}


@given(STATES, st.data())
def test_withdrawn_versions_are_in_no_slot(state: State, data: st.DataObject) -> None:
    """After a halt no slot names the version, what is left has moved up, and a second halt changes nothing."""
    digests = sorted(list_slotted(state))
    halted = frozenset(data.draw(st.sets(st.sampled_from(digests)))) if digests else frozenset()
    after = state.withdraw(halted)
    assert list_slotted(after) == set(digests) - halted
    assert all(slots.current is not None or slots.previous is None for slots in after.features.values())
    assert after.withdraw(halted) == after


@given(STATES, NAMES, st.lists(st.tuples(SLOTS, st.frozensets(DIGESTS, max_size=2)), max_size=6))
def test_what_stays_installed_depends_on_what_was_fetched(
    state: State, feature: str, turns: list[tuple[Slot, frozenset[str]]]
) -> None:
    """Whichever version of each fetched set was activated, the same ones stay."""
    chosen = other = state.with_slots(feature, FeatureSlots())
    for slot, more in turns:
        fetched = more | {slot.manifest_sha256}
        chosen = chosen.activate(feature, slot).record_fetched(feature, fetched)
        twin = replace(slot, manifest_sha256=max(fetched))
        other = other.activate(feature, twin).record_fetched(feature, fetched)
    assert chosen.slots(feature).installed_digests() == other.slots(feature).installed_digests()


def test_lock_excludes_and_tells(tmp_path: Path) -> None:
    """A held lock is seen as held, by the same process too, and is free after."""
    lock = FileLock(tmp_path / "lock")
    with lock.hold(), FileLock(tmp_path / "lock").hold_if_free() as is_held:
        assert not is_held
    with lock.hold_if_free() as is_held:
        assert is_held
    with pytest.raises(DeviceStorageError), FileLock(tmp_path / "none" / "lock").hold():
        pass


def test_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    """A file in the folder's place is named."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DeviceStorageError, match="make folder"):
        alcove.sdk.Client("app", tmp_path / "file" / "data", "https://example.com", b"")


def test_files_are_replaced_whole_with_their_mode(tmp_path: Path) -> None:
    """Old or new, never a part; a failed replacement leaves the old one and no leftover."""
    path = tmp_path / "file"
    Files().write_whole(path, b"old", 0o444)
    Files().write_whole(path, b"new", 0o444)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o444)

    def fail(step: str, _: Path) -> None:
        if step == "rename":
            raise OSError(28, os.strerror(28))

    with pytest.raises(DeviceStorageError, match="rename file: No space left"):
        Files(fail).write_whole(path, b"newer")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"new"
    with pytest.raises(DeviceStorageError, match="more than 2 bytes"):
        Files().read(path, 2)
    with pytest.raises(DeviceStorageError, match="read"):
        Files().read(tmp_path, 2)
    assert Files().read(tmp_path / "none", 2) is None


def test_waits_of_the_background_sync_are_jittered() -> None:
    """Between half and one and a half of the interval, and not all the same."""
    entropy = SeededEntropy(4)
    waits = [next_wait_s(100.0, entropy) for _ in range(200)]
    assert min(waits) >= 50
    assert max(waits) < 150
    assert max(waits) - min(waits) > 80


def test_background_sync_works_until_it_is_stopped() -> None:
    """Each turn waits, then works; the waits are by hand."""
    turns = iter([False, False, False, True])
    waited: list[float] = []
    done: list[int] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return next(turns)

    def work() -> Turn:
        done.append(1)
        return Turn()

    background = BackgroundSync(work, 10.0, SeededEntropy(), wait)
    background.start()
    background.stop()
    assert len(done) <= 3
    assert all(0 <= seconds < 15 for seconds in waited)


def test_defect_in_a_turn_is_logged_without_data_and_the_next_turn_comes(caplog: pytest.LogCaptureFixture) -> None:
    """The thread outlives whatever a sync raises; the log names the kind and the place, never the message."""
    turns = iter([False, False, True])
    done: list[int] = []

    def fail() -> Turn:
        done.append(1)
        raise RuntimeError("what the user wrote")

    ended = threading.Event()

    def wait(_: float) -> bool:
        is_over = next(turns)
        if is_over:
            ended.set()
        return is_over

    background = BackgroundSync(fail, 10.0, SeededEntropy(), wait)
    background.start()
    assert ended.wait(60)
    background.stop()
    assert len(done) == 2
    assert [record.name for record in caplog.records] == ["alcove.sdk.background"] * 2
    assert "RuntimeError in test_device.py:" in caplog.text
    assert "what the user wrote" not in caplog.text


@pytest.mark.parametrize("interval_s", [0, -1, 0.5, float("inf"), float("nan")])
def test_background_sync_refuses_a_flood(device: Device, interval_s: float) -> None:
    """An interval below a second is the caller's mistake."""
    with pytest.raises(OutOfBoundError, match="interval_s must be at least 1"):
        device.client().start_background_sync(interval_s)


def test_background_sync_installs_by_itself(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread syncs, one reports; starting again replaces them, closing ends them."""
    synced = threading.Event()
    client = device.client()
    client.add_sync_listener(lambda result: synced.set() if result.error is None else None)
    monkeypatch.setattr("alcove.sdk.background.random_word", lambda entropy: 0)
    client.start_background_sync(1.0)
    client.start_background_sync(1.0)
    assert synced.wait(30)
    client.close()
    assert device.answer(device.client()) == "one 1.0.0 default"
    assert not {"alcove-sync", "alcove-report"} & {thread.name for thread in threading.enumerate()}


def test_system_clock_and_native_engine_say_sensible_things() -> None:
    """The defaults are the machine's clocks and this distribution's runtime."""
    clock = SystemClock()
    assert clock.now_s() > 1_700_000_000
    assert clock.monotonic_ns() <= clock.monotonic_ns()
    assert NativeEngine().version.count(".") == 2


HEAVY = ("tuf", "securesystemslib", "pydantic", "torch", "grpc", "cryptography", "urllib3", "numpy", "ssl", "asyncio")


def test_import_of_the_client_is_light() -> None:
    """Importing loads none of the libraries that only a sync, a report or a model needs."""
    code = f"import sys\nfrom alcove.sdk import Client\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


def test_import_of_the_client_is_quick() -> None:
    """At most 0.2 s of the processor, the best of five: other work on the machine hardly counts."""
    code = "import time\nstart = time.process_time()\nfrom alcove.sdk import Client\nprint(time.process_time() - start)"
    command = [sys.executable, "-c", code]
    times = [
        float(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout) for _ in range(5)
    ]
    assert min(times) <= 0.2, times


def test_public_names_are_there_and_no_others() -> None:
    """Each name of the list is importable; an unknown one is an AttributeError."""
    for package in ("alcove.sdk", "alcove.privacy", "alcove.sdk.testing"):
        module = importlib.import_module(package)
        assert module.__all__ == sorted(module.__all__, key=str)
        for name in module.__all__:
            assert getattr(module, name).__name__ == name
        with pytest.raises(AttributeError, match="nonsense"):
            _ = module.nonsense


def test_fake_runtime_refuses_what_is_no_program(device: Device, tmp_path: Path) -> None:
    """Users' tests see damage as they would with the real one."""
    path = tmp_path / "x.alc"
    path.write_bytes(b"nonsense")
    client = device.client(baselines={FEATURE: path}, engine=FakeEngine())
    assert client.feature(FEATURE).predict("hi").error == "no_model"
