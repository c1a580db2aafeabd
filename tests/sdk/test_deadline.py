"""Predictions with a deadline return when it has passed, whatever the model does, and late runs do not pile up."""

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import pytest
from alcove.runtime import Cancellation
from alcove.runtime.errors import AlcoveRuntimeError, InputError
from alcove.sdk import AnswerError, NoPredictionError, OutOfBoundError
from alcove.sdk.deadline import DeadlineExceededError, DeadlineRunner
from alcove.sdk.testing import FakeEngine, FakeProgram

from tests.sdk.conftest import FEATURE, Device

LONG_MS = 30_000.0


class SlowEngine(FakeEngine):
    """Its programs wait before they answer, while they are asked to.

    Attributes:
        go_on: lets them answer.
        begun: how many runs were begun.
    """

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.go_on.set()
        self.begun = 0

    def load(self, path: Path) -> FakeProgram:
        """Return a program that waits."""
        return _SlowProgram(super().load(path).label, self)


class _SlowProgram(FakeProgram):
    def __init__(self, label: str, engine: SlowEngine) -> None:
        super().__init__(label)
        self.engine = engine

    def __call__(self, *inputs: Any) -> list[Any]:
        self.engine.begun += 1
        assert self.engine.go_on.wait(60)
        return super().__call__(*inputs)


def test_late_run_answers_with_a_code_and_later_ones_do_not_pile_up(device: Device) -> None:
    """While the model hangs each call comes back with the code, and only the first began a run; then it answers."""
    engine = SlowEngine()
    client = device.client(engine=engine)
    hasty = client.feature(FEATURE, deadline_ms=20)
    patient = client.feature(FEATURE, deadline_ms=LONG_MS)
    engine.go_on.clear()
    for _ in range(3):
        answer = hasty.predict("hello")
        assert (answer.value, answer.error) == (None, AnswerError.DEADLINE_EXCEEDED)
        assert (answer.version, answer.reason) == ("baseline", "baseline")
    assert engine.begun == 1
    with pytest.raises(NoPredictionError):
        hasty.record_outcome(accepted=True)
    engine.go_on.set()
    assert patient.predict("hello").error is None
    assert hasty._runner is not None
    assert hasty._runner.run(lambda _: "free again", 60) == "free again"
    with pytest.raises(NoPredictionError):
        hasty.record_outcome(accepted=True)


def test_prediction_in_time_is_what_it_is_without_a_deadline(device: Device) -> None:
    """Value, version, reason; errors and wrong use too."""
    client = device.client()
    client.sync()
    plain, timed = client.feature(FEATURE), client.feature(FEATURE, deadline_ms=LONG_MS)
    for text in ("hello", b"\xff", "\ud800"):
        without, within = plain.predict(text), timed.predict(text)
        assert (without.value, without.version, without.reason, without.error) == (
            within.value,
            within.version,
            within.reason,
            within.error,
        )
    with pytest.raises(InputError):
        timed.predict(1, 2)
    timed.predict("hello")
    timed.record_outcome(accepted=True)


def test_async_prediction_keeps_the_deadline(device: Device) -> None:
    """Awaited, it comes back just so."""
    engine = SlowEngine()
    handle = device.client(engine=engine).feature(FEATURE, deadline_ms=20)
    engine.go_on.clear()
    assert asyncio.run(handle.predict_async("hello")).error is AnswerError.DEADLINE_EXCEEDED
    engine.go_on.set()


def test_many_threads_with_one_deadline_each_get_an_answer(device: Device) -> None:
    """One at a time behind the scenes; nobody gets another's answer."""
    runner = DeadlineRunner()
    seen: dict[int, int] = {}

    def call(number: int) -> None:
        for turn in range(50):
            value = runner.run(lambda _, turn=turn: number * 1000 + turn, 60)  # type: ignore[misc]
            assert value == number * 1000 + turn
        seen[number] = 50

    threads = [threading.Thread(target=call, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == dict.fromkeys(range(8), 50)


def test_error_of_a_late_run_is_nobodys() -> None:
    """It does not surface in the next call, and the thread lives on."""
    runner, go_on = DeadlineRunner(), threading.Event()

    def fail(_: Cancellation) -> None:
        go_on.wait(60)
        raise AlcoveRuntimeError

    with pytest.raises(DeadlineExceededError):
        runner.run(fail, 0.02)
    go_on.set()
    assert runner.run(lambda _: 7, 60) == 7
    with pytest.raises(AlcoveRuntimeError):
        runner.run(fail, 60)
    assert runner.run(lambda _: 8, 60) == 8


def test_thread_ends_with_its_handle(device: Device) -> None:
    """No thread before the first prediction, one after it, none when the handle is gone."""
    before = {thread.ident for thread in threading.enumerate()}
    handle = device.client().feature(FEATURE, deadline_ms=LONG_MS)
    assert {thread.ident for thread in threading.enumerate()} <= before
    handle.predict("hello")
    (thread,) = (thread for thread in threading.enumerate() if thread.ident not in before)
    assert thread.daemon
    del handle
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("deadline_ms", [0, -1, float("nan"), float("inf")])
def test_deadline_out_of_its_bound_is_refused(device: Device, deadline_ms: float) -> None:
    """Named, with bound and value."""
    with pytest.raises(OutOfBoundError, match="deadline_ms must be above 0"):
        device.client().feature(FEATURE, deadline_ms=deadline_ms)
