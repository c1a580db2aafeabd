"""A version that crashes the app three times in a row is quarantined, and no other; real processes are killed."""

import errno
import faulthandler
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alcove.sdk import QuarantinedError
from alcove.sdk import load_attempts as attempts_module
from alcove.sdk.load_attempts import AttemptLog
from alcove.sdk.storage import Files
from alcove.sdk.testing import FakeEngine, FakeProgram, fake_program

from tests.sdk.conftest import FEATURE, Device, World
from tests.sdk.test_crash import keep, restore

# Processes are forked beside the threads of the tree's blob store, which the children never use.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

ONE, TWO = "one 1.0.0 default", "two 2.0.0 default"
BACK = "one 1.0.0 fallback"
SHIPPED = "shipped baseline baseline"


class DeadlyEngine(FakeEngine):
    """Kills its own process, where and how it is asked, with one program.

    Args:
        label: the program's answer.
        where: "load", "run" or "verify".
        how: kills the process.
    """

    def __init__(self, label: str, where: str, how: Callable[[], object]) -> None:
        super().__init__()
        self.label, self.where, self.how = label, where, how

    @property
    def verifier(self) -> Any:
        """Return the fake one, or the killer."""
        return _DeadlyInspector(self) if self.where == "verify" else super().verifier

    def load(self, path: Path) -> FakeProgram:
        """Return the program, if it lets us live."""
        program = super().load(path)
        if self.label not in ("any", program.label):
            return program
        if self.where == "load":
            self.how()
        return _DeadlyProgram(program.label, self.how) if self.where == "run" else program


class _DeadlyProgram(FakeProgram):
    def __init__(self, label: str, how: Callable[[], object]) -> None:
        super().__init__(label)
        self.how = how

    def __call__(self, *inputs: Any) -> list[Any]:
        if inputs != ("harmless",):
            self.how()
        return super().__call__(*inputs)


class _DeadlyInspector:
    def __init__(self, engine: DeadlyEngine) -> None:
        self.engine = engine

    def inspect(self, variant: str, program: bytes) -> Any:
        if f'"label": "{self.engine.label}"'.encode() in program:
            self.engine.how()
        return FakeEngine().verifier.inspect(variant, program)

    def certify(self, variant: str, program: bytes) -> None:
        self.inspect(variant, program)


def die(number: int) -> Callable[[], None]:
    """Return what kills the process by a signal, now."""
    return lambda: os.kill(os.getpid(), number)


def in_process(action: Callable[[], object]) -> int:
    """Run an action in a real process; return its status."""
    process = os.fork()
    if process == 0:
        code = 1
        faulthandler.disable()
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1]


def list_living(device: Device) -> list[Path]:
    """Return the attempts of living processes."""
    return [path for path in (device.folder / "tries").glob("*.running") if attempts_module._is_held(path)]


def answer_with(device: Device, engine: FakeEngine, kind: str = "app") -> int:
    """Start an app in a process of its own and let it predict once; return the status."""

    def run() -> None:
        sys.argv[:] = [kind]
        client = device.client(engine=engine)
        client.feature(FEATURE).predict("hello")

    return in_process(run)


@pytest.fixture
def updated_device(device: Device) -> Device:
    """A device that has answered with 1.0.0 and has 2.0.0 since."""
    client = device.client()
    client.sync()
    assert device.answer(client) == ONE
    device.world.set_policy("2.0.0")
    assert client.sync().error is None
    client.close()
    return device


@pytest.mark.parametrize("how", [signal.SIGSEGV, signal.SIGKILL, signal.SIGABRT, signal.SIGBUS])
@pytest.mark.parametrize("where", ["load", "run"])
def test_three_crashes_lead_to_previous_then_to_the_baseline(updated_device: Device, where: str, how: int) -> None:
    """Each start dies of the new version, three times; then of the old one; then the app's own answers, for good."""
    engine = DeadlyEngine("two", where, die(how))
    for crash in range(3):
        assert os.WTERMSIG(answer_with(updated_device, engine)) == how, crash
    assert answer_with(updated_device, engine) == 0
    client = updated_device.client(engine=engine)
    assert updated_device.answer(client) == BACK
    both = DeadlyEngine("any", where, die(how))
    both_but_baseline = _SparingEngine(both, updated_device.options["baselines"][FEATURE])
    for crash in range(3):
        assert os.WTERMSIG(answer_with(updated_device, both_but_baseline)) == how, crash
    assert answer_with(updated_device, both_but_baseline) == 0
    assert updated_device.answer(updated_device.client(engine=both_but_baseline)) == SHIPPED


class _SparingEngine(FakeEngine):
    """Deadly with every program but one file."""

    def __init__(self, deadly: DeadlyEngine, spared: Path) -> None:
        super().__init__()
        self.deadly, self.spared = deadly, spared

    def load(self, path: Path) -> FakeProgram:
        """Return the program, if it lets us live."""
        return super().load(path) if path == self.spared else self.deadly.load(path)


def test_quarantined_version_is_refused_until_the_team_publishes_another(updated_device: Device) -> None:
    """The sync says so by a typed error, asks for nothing of it, and the next version is installed as ever."""
    engine = DeadlyEngine("two", "run", die(signal.SIGSEGV))
    for _ in range(3):
        answer_with(updated_device, engine)
    client = updated_device.client(engine=engine)
    assert updated_device.answer(client) == BACK
    for _ in range(2):
        updated_device.transport.requests.clear()
        result = client.sync()
        assert isinstance(result.error, QuarantinedError)
        assert (result.error.feature, result.error.version, result.error.crashes) == (FEATURE, "2.0.0", 3)
        assert result.error.manifest_sha256 == updated_device.world.ref("2.0.0").manifest_sha256
        assert not [sent for sent in updated_device.transport.requests if sent.path.startswith("/blobs")]
        assert updated_device.answer(client) == BACK
    updated_device.world.push("2.0.1", fake_program("two repaired"))
    updated_device.world.set_policy("2.0.1")
    assert client.sync().error is None
    assert updated_device.answer(client) == "two repaired 2.0.1 default"
    updated_device.world.set_policy("2.0.0")
    assert isinstance(client.sync().error, QuarantinedError)
    assert updated_device.answer(client) == "two repaired 2.0.1 default"


def test_version_that_crashes_while_it_is_verified_is_quarantined_before_it_is_installed(
    updated_device: Device,
) -> None:
    """Verifying runs the program: three syncs die of it, the fourth refuses it."""
    updated_device.world.push("3.0.0", fake_program("three"))
    updated_device.world.set_policy("3.0.0")
    engine = DeadlyEngine("three", "verify", die(signal.SIGSEGV))
    for _ in range(3):
        status = in_process(lambda: updated_device.client(engine=engine).sync())
        assert os.WTERMSIG(status) == signal.SIGSEGV
        assert updated_device.answer(updated_device.client()) == TWO
    client = updated_device.client(engine=engine)
    assert isinstance(client.sync().error, QuarantinedError)
    assert updated_device.answer(client) == TWO


def kill_after(device: Device, label: str, where: str, seconds: float) -> int:
    """Sync or predict in a process that ends when its try says that it was so long in its run; return the status.

    There a run begins at zero, and each pulse finds that the run has taken so long.
    """

    def wait_and_die() -> None:
        while True:
            attempts = [attempts_module._read(path) for path in list_living(device)]
            if any(record is not None and record[3] >= seconds * 1e9 for record in attempts):
                os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        def monotonic_ns() -> int:
            return int(seconds * 1e9) if threading.current_thread().name == "alcove-pulse" else 0

        vars(attempts_module).update(time=SimpleNamespace(monotonic_ns=monotonic_ns), PULSE_S=0.0005)
        client = device.client(engine=DeadlyEngine(label, where, wait_and_die))
        if where == "verify":
            client.sync()
        else:
            client.feature(FEATURE).predict("hello")

    return in_process(run)


@pytest.mark.parametrize(("where", "label"), [("verify", "three"), ("run", "two")])
def test_app_that_is_killed_at_several_moments_of_a_long_check_or_run_keeps_its_version(
    updated_device: Device, where: str, label: str
) -> None:
    """Six kills, each farther or less far into it; then three as far, which is what a program does."""
    if where == "verify":
        updated_device.world.push("3.0.0", fake_program("three"))
        updated_device.world.set_policy("3.0.0")
    attempts = AttemptLog(updated_device.folder / "tries", Files())
    for seconds in (2, 30, 5, 60, 3, 20):
        assert os.WTERMSIG(kill_after(updated_device, label, where, seconds)) == signal.SIGKILL
        assert not attempts.list_quarantined(), seconds
    attempts.keep_only(frozenset())
    for _ in range(3):
        assert not attempts.list_quarantined()
        assert os.WTERMSIG(kill_after(updated_device, label, where, 1000)) == signal.SIGKILL
    assert attempts.list_quarantined()


def test_pulse_of_a_quick_run_ends_with_it(updated_device: Device) -> None:
    """Nothing beats between runs, nor in quick ones after the first answer."""
    client = updated_device.client()
    handle = client.feature(FEATURE)
    assert updated_device.answer(client) == TWO
    attempt = handle._model_ref.active.attempt
    assert (attempt.is_slow, attempt._pulse) == (False, None)
    beating = []
    for native_ns in (0, 10**9, 10**6, 0):
        attempt.enter()
        beating.append(attempt._pulse is not None)
        attempt.leave(is_healthy=True, native_ns=native_ns)
    assert beating == [False, False, True, False]
    assert attempt._pulse is None


def test_process_that_answers_and_ends_at_rest_forgives_the_crashes_before_it(updated_device: Device) -> None:
    """Two crashes, an answer, two crashes: that is not three in a row."""
    deadly = DeadlyEngine("two", "run", die(signal.SIGSEGV))
    for _ in range(3):
        for _ in range(2):
            assert os.WTERMSIG(answer_with(updated_device, deadly)) == signal.SIGSEGV
        assert answer_with(updated_device, FakeEngine()) == 0
    assert updated_device.answer(updated_device.client()) == TWO


def test_app_that_is_killed_while_its_version_is_at_rest_has_not_crashed_of_it(updated_device: Device) -> None:
    """Between the load and the first prediction nothing of the version runs: a system that ends apps is no crash."""

    def load_and_die() -> None:
        updated_device.client().feature(FEATURE)
        os.kill(os.getpid(), signal.SIGKILL)

    for _ in range(5):
        assert os.WTERMSIG(in_process(load_and_die)) == signal.SIGKILL
    assert updated_device.answer(updated_device.client()) == TWO
    assert not list((updated_device.folder / "tries").glob("*.crash"))


def test_prediction_that_is_refused_is_neither_a_crash_nor_health(updated_device: Device) -> None:
    """Bad input of the app's says nothing about the version: it stays watched, and is caught later."""
    deadly = DeadlyEngine("two", "run", die(signal.SIGSEGV))

    def refuse_and_crash() -> None:
        handle = updated_device.client(engine=deadly).feature(FEATURE)
        handle._run = lambda *_: (None, "invalid_text", None)  # type: ignore[method-assign, assignment]
        handle.predict(b"\xff")
        del handle._run
        handle.predict("hello")

    for _ in range(3):
        assert os.WTERMSIG(in_process(refuse_and_crash)) == signal.SIGSEGV
    assert updated_device.answer(updated_device.client(engine=deadly)) == BACK


def test_crash_loop_beside_a_healthy_process_is_caught_and_leaves_that_one_alone(updated_device: Device) -> None:
    """Two programs of one app: one is well with the new version, again at each start; the other dies of it."""
    deadly = DeadlyEngine("two", "run", die(signal.SIGSEGV))
    alive = updated_device.client()
    assert updated_device.answer(alive) == TWO
    for _ in range(3):
        assert answer_with(updated_device, FakeEngine(), kind="service") == 0
        assert os.WTERMSIG(answer_with(updated_device, deadly, kind="keyboard")) == signal.SIGSEGV
        assert updated_device.answer(alive) == TWO
    assert answer_with(updated_device, deadly, kind="keyboard") == 0
    assert updated_device.answer(alive) == TWO
    assert isinstance(alive.sync().error, QuarantinedError)
    assert updated_device.answer(alive) == BACK


def test_processes_in_the_middle_of_their_first_run_are_no_crashes(updated_device: Device) -> None:
    """Three slow first predictions at a time, while others start and end: nobody takes the living for dead."""
    entered, go_on, before = os.pipe(), os.pipe(), len(list_living(updated_device))

    def wait() -> None:
        os.write(entered[1], b"x")
        os.read(go_on[0], 1)

    slow = []
    for _ in range(3):
        process = os.fork()
        if process == 0:
            code = 1
            signal.alarm(60)  # should the test fail, nobody is left waiting
            try:
                sys.argv[:] = ["app"]
                client = updated_device.client(engine=DeadlyEngine("two", "run", wait))
                code = 0 if updated_device.answer(client) == TWO else 2
            finally:
                os._exit(code)
        slow.append(process)
    os.close(entered[1])
    for _ in slow:
        assert os.read(entered[0], 1) == b"x"
    for _ in range(3):
        assert answer_with(updated_device, FakeEngine()) == 0
    attempts = AttemptLog(updated_device.folder / "tries", Files())
    assert len(list_living(updated_device)) == 3 + before
    assert not attempts.list_quarantined()
    os.write(go_on[1], b"xxx")
    assert [os.waitpid(process, 0)[1] for process in slow] == [0, 0, 0]
    assert not attempts.list_quarantined()
    assert not list((updated_device.folder / "tries").glob("*.crash"))
    assert updated_device.answer(updated_device.client()) == TWO


def test_what_a_device_can_go_back_to_changes_only_for_what_has_answered(device: Device) -> None:
    """2.0.0 never answered: when 3.0.0 takes its place and crashes, 1.0.0 answers, which did."""
    client = device.client()
    client.sync()
    assert device.answer(client) == ONE
    client.close()
    device.world.push("3.0.0", fake_program("three"))
    for version in ("2.0.0", "3.0.0"):
        device.world.set_policy(version)
        assert device.client().sync().error is None
    deadly = DeadlyEngine("three", "run", die(signal.SIGSEGV))
    for _ in range(3):
        answer_with(device, deadly)
    assert device.answer(device.client(engine=deadly)) == BACK


def test_previous_is_the_last_one_when_it_has_answered(device: Device) -> None:
    """The control of the one above: 2.0.0 answered, so it is what the device goes back to."""
    device.world.push("3.0.0", fake_program("three"))
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        device.world.set_policy(version)
        client = device.client()
        assert client.sync().error is None
        if version != "3.0.0":
            device.answer(client)
    deadly = DeadlyEngine("three", "run", die(signal.SIGSEGV))
    for _ in range(3):
        answer_with(device, deadly)
    assert device.answer(device.client(engine=deadly)) == "two 2.0.0 fallback"


def test_try_is_on_the_disk_before_the_program_is_loaded(updated_device: Device) -> None:
    """Written, synced, named, its name synced: then the first byte is read (load_attempts.py, T1)."""
    order: list[str] = []

    class Watching(FakeEngine):
        def load(self, path: Path) -> FakeProgram:
            order.append("load")
            return super().load(path)

    files = Files(lambda step, path: order.append(step) if "tries" in str(path) else None)
    client = updated_device.client(engine=Watching(), files=files)
    order.clear()
    handle = client.feature(FEATURE)
    assert order == ["append", "sync file", "rename", "sync folder", "load"]
    order.clear()
    handle.predict("hello")
    assert order == ["append"]
    order.clear()
    for _ in range(10):
        handle.predict("hello")
    assert order == []


def test_kill_at_every_disk_step_of_load_and_first_prediction_leaves_a_device_that_answers(
    updated_device: Device,
) -> None:
    """SIGKILL before each step in turn, three times each: whatever that looks like, the next process answers."""

    def predict(at: int) -> int:
        count = 0

        def step(_: str, __: Path) -> None:
            nonlocal count
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

        return in_process(lambda: updated_device.client(files=Files(step)).feature(FEATURE).predict("hello"))

    copy = keep(updated_device)
    answers: list[str] = []
    while True:
        restore(updated_device, copy)
        statuses = [predict(len(answers)) for _ in range(3)]
        if statuses[0] == 0:
            break
        assert [os.WTERMSIG(status) for status in statuses] == [signal.SIGKILL] * 3
        client = updated_device.client()
        answers.append(updated_device.answer(client))
        assert client.sync().error is None or answers[-1] == BACK
        assert len(list_living(updated_device)) == len(list((updated_device.folder / "tries").glob("*.running"))), (
            "others are settled"
        )
        assert not list((updated_device.folder / "tries").glob("*.partial"))
    # Counted once it has its name; not before, and not when the marker is made after the first answer, at rest.
    assert set(answers[:-1]) == {TWO, BACK}
    assert answers[0] == answers[-1] == TWO


def test_disk_full_at_every_step_of_load_and_first_prediction_answers_all_the_same(updated_device: Device) -> None:
    """What cannot be counted is loaded: an answer comes before a count (load_attempts.py, T1)."""
    for lasting in (False, True):
        failed, at = True, 0
        while failed:
            failed, steps = False, 0

            def fill(_: str, __: Path, at: int = at, lasting: bool = lasting) -> None:
                nonlocal steps, failed
                steps += 1
                if steps == at + 1 or (lasting and steps > at):
                    failed = True
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            client = updated_device.client(files=Files(lambda _, __: None))
            client._active_models._slots.attempts._files = Files(fill)
            assert updated_device.answer(client) == TWO, at
            assert updated_device.answer(client) == TWO, at
            at += 1
        assert at >= 4
    assert not AttemptLog(updated_device.folder / "tries", Files()).list_quarantined()


def test_quarantine_holds_where_it_cannot_be_written_down(updated_device: Device) -> None:
    """Three crashes are on the disk; that the marker finds no place on it changes nothing."""
    deadly = DeadlyEngine("two", "run", die(signal.SIGSEGV))
    for _ in range(3):
        answer_with(updated_device, deadly)

    def full(_: str, __: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for _ in range(2):
        client = updated_device.client(engine=deadly)
        client._active_models._slots.attempts._files = Files(full)
        assert updated_device.answer(client) == BACK


def test_state_file_is_what_an_older_app_reads(updated_device: Device) -> None:
    """Nothing of this is in state.json, so an app that goes back to an older release keeps its versions."""
    import json

    updated_device.answer(updated_device.client())
    document = json.loads((updated_device.folder / "state.json").read_bytes())
    assert document["format"] == 1
    assert document.keys() == {"format", "features"}
    assert document["features"][FEATURE].keys() == {"current", "previous", "recent"}
    assert document["features"][FEATURE]["current"].keys() == {"version", "manifest_sha256", "reason", "arm", "task"}


def test_what_is_known_of_versions_that_are_gone_is_forgotten_but_for_quarantines(updated_device: Device) -> None:
    """The folder does not grow with the number of versions ever seen."""
    deadly = DeadlyEngine("two", "run", die(signal.SIGSEGV))
    for _ in range(3):
        answer_with(updated_device, deadly)
    client = updated_device.client()
    for number in range(6):
        updated_device.world.push(f"4.0.{number}", fake_program(f"four {number}"))
        updated_device.world.set_policy(f"4.0.{number}")
        assert client.sync().error is None
        updated_device.answer(client)
    living = set(list_living(updated_device))
    names = sorted(
        path.name.partition(".")[2] for path in (updated_device.folder / "tries").iterdir() if path not in living
    )
    assert names.count("quarantined") == 1
    assert names.count("proven") <= 4
    assert len(names) <= 5


def test_device_in_an_experiment_asks_for_the_same_after_a_crash_loop(
    released_world: World, make_device: Callable[..., Device]
) -> None:
    """Which arm crashed is not to be seen: both devices fetch the experiment's new arm, and nothing else of it."""
    from alcove.sdk.testing import SeededEntropy

    released_world.push("3.0.0", fake_program("three"))
    traces = []
    for arm, label in ((0, "one"), (1, "two")):
        device = make_device(released_world, f"arm{arm}")
        released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
        entropy = SeededEntropy(device.seed_for_arm(arm))
        device.client(entropy=entropy).sync()
        deadly = DeadlyEngine(label, "run", die(signal.SIGSEGV))
        for _ in range(3):
            answer_with(device, deadly)
        client = device.client()
        device.answer(client)
        device.transport.requests.clear()
        released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0", "3.0.0"))
        assert isinstance(client.sync().error, QuarantinedError)
        traces.append([sent.path for sent in device.transport.requests if sent.path.startswith("/blobs")])
    assert traces[0] == traces[1] != []


NATIVE_CRASH = """
import ctypes, sys
from pathlib import Path
from alcove.sdk import Client
from alcove.sdk.engine import NativeEngine

class Engine(NativeEngine):
    def load(self, path):
        program = super().load(path)
        return program if "versions" not in str(path) else Deadly(program)

class Deadly:
    def __init__(self, program):
        self.program, self.outputs = program, program.outputs
    def __call__(self, *inputs):
        self.program(*inputs)
        ctypes.string_at(0)

folder, server, root = sys.argv[1:]
client = Client("messenger", folder, server, root, engine=Engine())
answer = client.feature("language_id").predict("Wo ist der Bahnhof?")
print(answer.version, answer.reason, answer.error, flush=True)
"""


def test_segmentation_fault_in_a_real_model_process_ends_in_the_shipped_model(tmp_path: Path) -> None:
    """A separate process with the native runtime reads address 0 after the run: killed three times, then it answers."""
    from alcove.features.language_id import LanguageId
    from alcove.sdk.state import Slot, State, state_to_bytes

    digest = "ab" * 32
    folder = tmp_path / "data" / "versions" / "language_id" / digest
    folder.mkdir(parents=True)
    program = LanguageId().default_program
    (folder / "program.alc").write_bytes(Path(program).read_bytes())
    state = State().activate("language_id", Slot("9.0.0", digest, "default"))
    (tmp_path / "data" / "state.json").write_bytes(state_to_bytes(state))
    command = [sys.executable, "-c", NATIVE_CRASH, str(tmp_path / "data"), "http://127.0.0.1:1", "unused"]
    for crash in range(3):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stdout) == (-signal.SIGSEGV, ""), (crash, done.stderr)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[1:] == ["baseline", "None"]
