"""A prediction always answers, at once, with one version, and never over the network."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alcove.runtime.errors import AlcoveRuntimeError, InputError
from alcove.sdk import (
    Answer,
    AnswerError,
    Client,
    ClosedError,
    NoPredictionError,
    OutOfBoundError,
    UnknownFeatureError,
)
from alcove.sdk.engine import Runnable
from alcove.sdk.testing import FakeEngine, SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device, World

MakeDevice = Callable[..., Device]


class Greeting:
    """A typed contract of the feature."""

    name = FEATURE

    def decode(self, outputs: list[Any]) -> str:
        """Return the label, shouted."""
        return str(outputs[0][0][0]).upper()


class Broken(Greeting):
    """A contract whose decoding fails."""

    def decode(self, outputs: list[Any]) -> str:
        """Fail."""
        raise KeyError("no such label")


def test_answer_says_value_version_reason_and_latency(device: Device) -> None:
    """Everything that an app needs to show and to log is in the answer."""
    device.clock.tick_ns = 2_500_000
    assert device.client().feature(FEATURE).predict("hi") == Answer(
        {"label": [["shipped"]]}, "baseline", "baseline", 2.5, None
    )


@pytest.mark.parametrize("kind", [Greeting, Greeting()])
def test_contract_makes_typed_answers(device: Device, kind: Any) -> None:
    """A class or an instance of it: the value is what the contract decodes."""
    client = device.client()
    assert client.feature(kind).predict("hi").value == "SHIPPED"
    client.sync()
    assert client.feature(kind).predict("hi").value == "ONE"


def test_decoding_that_fails_is_an_error_code(device: Device) -> None:
    """A contract that does not fit the program's outputs never breaks the app."""
    answer = device.client().feature(Broken).predict("hi")
    assert (answer.value, answer.error) == (None, AnswerError.DECODE_FAILED)


def test_what_a_contract_raises_is_in_the_answer_and_its_place_in_the_log(
    device: Device, caplog: pytest.LogCaptureFixture
) -> None:
    """The developer finds the exception, its text included; the log has its type and line, never what a user wrote."""
    handle = device.client().feature(Broken)
    for _ in range(2):
        answer = handle.predict("a secret")
        assert isinstance(answer.cause, KeyError)
        assert "no such label" in str(answer.cause)
    assert "no such label" not in repr(answer)
    [record] = [record for record in caplog.records if record.name == "alcove.sdk.handle"]
    assert "KeyError" in record.message
    assert "test_predict.py" in record.message
    assert "no such label" not in record.message
    assert "a secret" not in record.message


def test_contract_does_not_stick_to_the_name(device: Device) -> None:
    """A handle by the name alone answers as it would have before a contract was given."""
    client = device.client()
    assert client.feature(Broken).predict("hi").error is AnswerError.DECODE_FAILED
    assert client.feature(FEATURE).predict("hi").value == {"label": [["shipped"]]}
    assert client.feature(Greeting).predict("hi").value == "SHIPPED"


@pytest.mark.parametrize("text", ["\ud800", b"\xff\xfe", b"abc\x80"])
def test_text_that_is_not_utf8_is_an_error_code(device: Device, text: str | bytes) -> None:
    """Bad data answers; it does not raise."""
    answer = device.client().feature(FEATURE).predict(text)
    assert (answer.value, answer.error, answer.version) == (None, AnswerError.INVALID_TEXT, "baseline")


@pytest.mark.parametrize("inputs", [(), ("a", "b"), (1,), (None,)])
def test_wrong_use_raises(device: Device, inputs: tuple[Any, ...]) -> None:
    """The wrong number or type of inputs is the caller's mistake."""
    with pytest.raises(InputError):
        device.client().feature(FEATURE).predict(*inputs)


def test_unknown_feature_raises_when_it_is_asked_for(device: Device) -> None:
    """The error names the feature and the known ones; predict is too late for that."""
    with pytest.raises(UnknownFeatureError, match="no feature 'weather' here; known: greeting"):
        device.client().feature("weather")


def test_feature_whose_only_version_was_halted_still_gives_a_handle(device: Device) -> None:
    """An app that makes its handles at its start starts after a halt, and answers when there is a version again."""
    device.client(baselines=None).sync()
    device.world.halt("1.0.0")
    device.client(baselines=None).sync()
    client = device.client(baselines=None)
    handle = client.feature(FEATURE)
    assert (handle.predict("hi").error, handle.predict("hi").reason) == (AnswerError.NO_MODEL, "unavailable")
    device.world.set_policy("2.0.0")
    client.sync()
    assert handle.predict("hi").version == "2.0.0"


@pytest.mark.parametrize("app", ["", "My App", "Notes", "-notes", "n" * 65, "a/b", "notes\n"])
def test_name_that_no_policy_has_is_refused_at_once(device: Device, app: str) -> None:
    """An app's name that no server takes raises where it was written, not at a sync, and names the bound."""
    with pytest.raises(OutOfBoundError, match="app must be 1 to 64 of a-z"):
        Client(app, device.folder / "other", "http://127.0.0.1:1", device.world.root)
    assert not (device.folder / "other").exists()


def test_installed_feature_needs_no_baseline(device: Device) -> None:
    """A feature that came by the policy alone is unknown before the first sync and answers after it."""
    client = device.client(baselines=None)
    with pytest.raises(UnknownFeatureError):
        client.feature(FEATURE)
    client.sync()
    assert client.feature(FEATURE).predict("hi").version == "1.0.0"
    assert device.client(baselines=None).feature(FEATURE).predict("hi").version == "1.0.0"


def test_feature_with_nothing_that_loads_answers_with_a_code(device: Device, tmp_path: Path) -> None:
    """A baseline that is missing or damaged is said, not raised; a sync repairs it under the same handle."""
    client = device.client(baselines={FEATURE: tmp_path / "none.alc"})
    handle = client.feature(FEATURE)
    assert handle.predict("hi") == Answer(None, "", "unavailable", 1.0, AnswerError.NO_MODEL)
    client.sync()
    assert handle.predict("hi").version == "1.0.0"


@pytest.mark.parametrize("failure", [AlcoveRuntimeError("busy"), MemoryError()])
def test_run_that_fails_is_an_error_code(device: Device, failure: Exception) -> None:
    """Whatever the runtime refuses while running, the app gets an answer."""

    class Failing:
        """A program that cannot run."""

        outputs = ()

        def __call__(self, *inputs: Any) -> list[Any]:
            """Fail."""
            raise failure

    class FailingEngine(FakeEngine):
        """Loads nothing else."""

        def load(self, path: Path) -> Any:
            """Return what fails."""
            return Failing()

    answer = device.client(engine=FailingEngine()).feature(FEATURE).predict("hi")
    assert (answer.value, answer.error) == (None, AnswerError.RUN_FAILED)


def test_swap_while_threads_predict_never_mixes_or_pauses(device: Device) -> None:
    """Each answer's value and version belong together, through many swaps, and no prediction fails."""
    client = device.client()
    handle = client.feature(FEATURE)
    labels = {"baseline": "shipped", "1.0.0": "one", "2.0.0": "two"}
    seen = {version: threading.Event() for version in labels}
    wrong: list[Answer[Any]] = []
    stop = threading.Event()

    def predict() -> None:
        while not stop.is_set():
            answer = handle.predict("hi")
            seen[answer.version].set()
            if answer.error or answer.value is None or answer.value["label"][0][0] != labels[answer.version]:
                wrong.append(answer)

    threads = [threading.Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    answered = [seen["baseline"].wait(60)]
    for version in ("1.0.0", "2.0.0") * 2:
        seen[version].clear()
        device.world.set_policy(version)
        client.sync()
        answered.append(seen[version].wait(60))
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert answered == [True] * 5


class Gate:
    """A program that waits inside its run until it is let go."""

    outputs = ()

    def __init__(self, inner: Runnable) -> None:
        self.inner = inner
        self.outputs = inner.outputs  # type: ignore[assignment]
        self.entered = threading.Event()
        self.release = threading.Event()

    def __call__(self, *inputs: Any) -> list[Any]:
        """Wait, then run."""
        self.entered.set()
        assert self.release.wait(60)
        return self.inner(*inputs)


def test_running_prediction_ends_with_what_it_began_with(device: Device) -> None:
    """A swap in the middle of a run neither waits for it nor changes its answer."""

    class GatedEngine(FakeEngine):
        """Makes the baseline wait."""

        gate: Gate

        def load(self, path: Path) -> Any:
            """Return the program, the baseline behind the gate."""
            program = super().load(path)
            if "baseline" in path.name:
                self.gate = Gate(program)
                return self.gate
            return program

    engine = GatedEngine()
    client = device.client(engine=engine)
    handle = client.feature(FEATURE)
    answers: list[Answer[Any]] = []
    thread = threading.Thread(target=lambda: answers.append(handle.predict("hi")))
    thread.start()
    assert engine.gate.entered.wait(60)
    assert client.sync().error is None
    assert handle.predict("hi").version == "1.0.0"
    engine.gate.release.set()
    thread.join()
    assert (answers[0].version, answers[0].value) == ("baseline", {"label": [["shipped"]]})


class SlowEngine(FakeEngine):
    """Takes as long as the test wants to load an installed program, once it is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.entered = threading.Event()
        self.release = threading.Event()

    def load(self, path: Path) -> Any:
        """Wait where the path is a slot's, then load."""
        if self.is_slow and "versions" in path.parts:
            self.entered.set()
            self.release.wait(60)
        return super().load(path)


async def test_nothing_waits_for_a_sync_that_loads_a_program(released_world: World, make_device: MakeDevice) -> None:
    """Meanwhile handles are made, predictions answer, here and on the loop, and outcomes are recorded."""
    released_world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"))
    device = make_device(released_world)
    engine = SlowEngine()
    baselines = device.options["baselines"] | {"other": device.options["baselines"][FEATURE]}
    seed = device.seed_for_arm(0)
    client = device.client(engine=engine, entropy=SeededEntropy(seed), baselines=baselines)
    client.sync()
    handle = client.feature(FEATURE)
    engine.is_slow = True
    released_world.set_policy("2.0.0")
    syncing = threading.Thread(target=client.sync)
    syncing.start()
    assert engine.entered.wait(60)
    answers = [
        handle.predict("hi"),
        await handle.predict_async("hi"),
        client.feature(FEATURE).predict("hi"),
        client.feature("other").predict("hi"),
    ]
    handle.record_outcome(accepted=True)
    # Had one of them waited, the load would have given up waiting, and the sync would be over.
    is_waiting = not engine.release.is_set() and handle.version == "1.0.0" and syncing.is_alive()
    engine.release.set()
    syncing.join()
    assert is_waiting
    assert [answer.version for answer in answers] == ["1.0.0", "1.0.0", "1.0.0", "baseline"]
    assert (device.folder / "reports" / "pending.json").exists()
    assert handle.predict("hi").version == "2.0.0"


def test_handle_made_while_a_sync_swaps_answers_with_the_new_version(device: Device) -> None:
    """What was loaded for it beforehand is loaded again: no handle is left behind."""
    engine = SlowEngine()
    client = device.client(engine=engine)
    client.sync()
    engine.is_slow = True
    versions: list[str] = []
    making = threading.Thread(target=lambda: versions.append(client.feature(FEATURE).version))
    making.start()
    assert engine.entered.wait(60)
    engine.is_slow = False
    device.world.set_policy("2.0.0")
    assert client.sync().error is None
    engine.release.set()
    making.join()
    assert versions == ["2.0.0"]


async def test_async_prediction_runs_on_another_thread(device: Device) -> None:
    """The caller's loop continues; answers and wrong use are as in `predict`."""
    names: set[str] = set()

    class Naming(Greeting):
        """Notes the thread that decodes."""

        def decode(self, outputs: list[Any]) -> str:
            """Return the thread's name."""
            names.add(threading.current_thread().name)
            return "done"

    handle = device.client().feature(Naming)
    answers = await asyncio.gather(*(handle.predict_async("hi") for _ in range(8)))
    assert {answer.value for answer in answers} == {"done"}
    assert all(name.startswith("alcove-predict") for name in names)
    with pytest.raises(InputError):
        await handle.predict_async()


async def test_closed_client_raises_but_its_handles_still_predict(device: Device) -> None:
    """Closing ends network and threads, not answers."""
    client = device.client()
    handle = client.feature(FEATURE)
    await handle.predict_async("hi")
    client.close()
    client.close()
    assert handle.predict("hi").error is None
    for call in (client.sync, client.report, lambda: client.feature(FEATURE), client.forget_reports):
        with pytest.raises(ClosedError):
            call()
    with pytest.raises(ClosedError):
        await handle.predict_async("hi")


def test_outcome_before_any_prediction_raises(device: Device) -> None:
    """There is nothing that the user could have accepted."""
    with pytest.raises(NoPredictionError, match="predict first"):
        device.client().feature(FEATURE).record_outcome(accepted=True)


def test_version_removed_under_a_reader_is_found_again(device: Device) -> None:
    """Another process moved on and removed what this one's state named: it answers with what is there."""
    reader = device.client()
    writer = device.client()
    for version in ("1.0.0", "2.0.0"):
        device.world.set_policy(version)
        writer.sync()
    device.world.push("3.0.0", fake_program("three"))
    device.world.set_policy("3.0.0")
    writer.sync()
    assert device.answer(reader) == "three 3.0.0 default"


OFFLINE = """
import sys
from pathlib import Path
from alcove.sdk import Client
from alcove.sdk.testing import FakeEngine

def refuse(event, arguments):
    if event.startswith("socket."):
        raise RuntimeError(f"predict used the network: {event} {arguments}")

sys.addaudithook(refuse)
folder, baseline = sys.argv[1:]
client = Client("messenger", folder, "https://registry.invalid", b"", baselines={"greeting": Path(baseline)},
                engine=FakeEngine())
print(client.feature("greeting").predict("hi").version)
print(client.privacy_summary().bytes_sent)
"""


@pytest.mark.parametrize("is_synced", [False, True])
def test_predict_works_in_a_network_namespace_without_interfaces(device: Device, is_synced: bool) -> None:
    """With no network at all, not even loopback: baseline and installed versions answer, no socket is made."""
    if is_synced:
        device.client().sync()
    unshare = shutil.which("unshare")
    works = unshare and subprocess.run([unshare, "-rn", "true"], check=False, capture_output=True).returncode == 0
    if not works:
        pytest.skip("unshare -rn is not permitted here: the network namespace cannot be made")
    baseline = device.options["baselines"][FEATURE]
    command = [str(unshare), "-rn", sys.executable, "-c", OFFLINE, str(device.folder), str(baseline)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["1.0.0" if is_synced else "baseline", "0"]
