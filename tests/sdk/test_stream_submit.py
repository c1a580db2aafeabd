"""Submitted frames never queue: one waits at most, the newest, and each is answered or dropped once."""

import asyncio
import gc
import logging
import queue
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from alcove.runtime.cancellation import Cancellation
from alcove.sdk import AnswerError, ClosedError, FrameAnswer, OutOfBoundError, StreamClosedError, StreamCounters
from alcove.sdk.stream_frames import Frame, Tally
from alcove.sdk.stream_pump import FramePump
from alcove.sdk.testing import FakeSession
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.sdk.conftest import Device
from tests.sdk.streams import LONG_MS, Counting, client_of, engine_of, labels, stop_here


class Gate:
    """Lets the runs of an engine begin one at a time.

    Attributes:
        begun: what the runs at hand were given, in order.
        go_on: one permit lets one run end.
    """

    def __init__(self) -> None:
        self.begun: queue.Queue[Any] = queue.Queue()
        self.go_on = threading.Semaphore(0)

    def __call__(self, session: FakeSession, inputs: tuple[Any, ...]) -> None:
        """Wait for a permit."""
        self.begun.put(inputs[0])
        assert self.go_on.acquire(timeout=60)


@pytest.fixture
def gate(counting: Device) -> Iterator[Gate]:
    """The gate of the device's engine."""
    gate = Gate()
    engine_of(counting).before_run = gate
    yield gate
    gate.go_on.release(1000)


def test_newest_frame_takes_the_place_of_the_one_that_waits(counting: Device, gate: Gate) -> None:
    """While a run is at hand a hundred frames come: the last one is answered, the others are counted and released."""
    answers: list[FrameAnswer[str]] = []
    released: list[Any] = []
    handle = client_of(counting).feature(Counting)
    with handle.stream(on_answer=answers.append, on_release=released.append) as stream:
        assert stream.submit("first", tag="t") == 0
        assert gate.begun.get(timeout=60) == "first"
        numbers = [stream.submit(f"frame {number}") for number in range(100)]
        assert numbers == list(range(1, 101))
        assert released == [f"frame {number}" for number in range(99)]
        gate.go_on.release(2)
        stream.finish()
        assert stream.join(60)
        assert [(answer.frame, answer.value, answer.tag) for answer in answers] == [
            (0, "old#0", "t"),
            (100, "old#1", None),
        ]
        assert released[99:] == ["first", "frame 99"]
        assert stream.counters == StreamCounters(received=101, processed=2, dropped=99)


def test_iteration_gives_the_answers_in_order_and_ends_with_the_stream(counting: Device) -> None:
    """A consumer that keeps up loses none; `finish` answers what waits."""
    with client_of(counting).feature(Counting).stream() as stream:
        stream_answers = iter(stream)
        answers = []
        for _ in range(20):
            stream.submit("a")
            answers.append(next(stream_answers))
        stream.submit("a")
        stream.finish()
        answers += list(stream_answers)
        assert labels(answers) == [f"old#{number}" for number in range(21)]
        with pytest.raises(StreamClosedError):
            stream.submit("a")
        assert stream.process("a").value == "old#21"


def test_event_loop_takes_answers_as_they_come(counting: Device) -> None:
    """`async for` ends with `finish`; a task that is cancelled while it waits leaves the stream as it is."""
    stream = client_of(counting).feature(Counting).stream()

    async def take() -> list[FrameAnswer[str]]:
        waiting = asyncio.ensure_future(anext(aiter(stream)))
        await asyncio.sleep(0)
        waiting.cancel()
        answers = []
        stream.submit("a")
        async for answer in stream:
            answers.append(answer)
            if len(answers) < 20:
                stream.submit("a")
            else:
                stream.finish()
        return answers

    assert labels(asyncio.run(take())) == [f"old#{number}" for number in range(20)]
    stream.close()


def test_answer_that_nobody_takes_holds_up_the_next_frame(counting: Device, gate: Gate) -> None:
    """One answer is there, one is kept back, one frame waits: the others are dropped."""
    with client_of(counting).feature(Counting).stream() as stream:
        gate.go_on.release(3)
        stream.submit("0")
        gate.begun.get(timeout=60)
        wait_ready(stream)
        stream.submit("1")
        gate.begun.get(timeout=60)
        for number in range(2, 10):
            stream.submit(str(number))
        stream.finish()
        assert [(answer.frame, answer.value) for answer in stream] == [(0, "old#0"), (1, "old#1"), (9, "old#2")]
        assert stream.counters == StreamCounters(received=10, processed=3, dropped=7)


def wait_ready(stream: Any) -> None:
    """Wait until an answer is there."""
    pump = stream._pump
    with pump._changed:
        assert pump._changed.wait_for(lambda: pump._ready is not None, 60)


def test_frame_that_process_would_refuse_is_answered_with_the_error(counting: Device) -> None:
    """A callback hears it with its cause, and the stream goes on."""
    with client_of(counting).feature(Counting).stream() as stream:
        answers = []
        for frame in ("a", ("a", "b"), 7, "b"):
            stream.submit(frame)
            answers.append(next(iter(stream)))
        assert labels(answers) == ["old#0", None, None, "old#1"]
        assert [answer.error for answer in answers[1:3]] == [AnswerError.INVALID_INPUT] * 2
        assert "1 text is due" in str(answers[1].cause)
        assert [answer.frame for answer in answers] == [0, 1, 2, 3]
        assert stream.counters == StreamCounters(received=4, processed=2, failed=2)


def test_frame_that_waited_beyond_its_deadline_is_not_begun(counting: Device, gate: Gate) -> None:
    """The time that it waits is in its budget."""
    answers: list[FrameAnswer[str]] = []
    with client_of(counting).feature(Counting).stream(deadline_ms=LONG_MS, on_answer=answers.append) as stream:
        stream.submit("a")
        assert gate.begun.get(timeout=60) == "a"
        stream.submit("b")
        counting.clock.pass_s(LONG_MS / 1000 + 1)
        gate.go_on.release()
        stream.finish()
        assert stream.join(60)
        assert [answer.error for answer in answers] == [AnswerError.DEADLINE_EXCEEDED] * 2
        assert [answer.has_advanced for answer in answers] == [True, False]
        assert gate.begun.empty()


def test_what_the_apps_functions_raise_is_logged_by_its_type_and_ends_nothing(
    counting: Device, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a callback nor a release that fails takes the frames after it away."""
    heard: list[FrameAnswer[str]] = []

    def fail(value: Any) -> None:
        if isinstance(value, FrameAnswer):
            heard.append(value)
        raise KeyError("a secret")

    with (
        caplog.at_level(logging.WARNING, "alcove.sdk.stream_pump"),
        client_of(counting).feature(Counting).stream(on_answer=fail, on_release=fail) as stream,
    ):
        stream.submit("a")
        stream.finish()
        assert stream.join(60)
    assert labels(heard) == ["old#0"]
    assert [record.message for record in caplog.records if record.name == "alcove.sdk.stream_pump"] == [
        "greeting: on_answer or on_release of a stream raised KeyError"
    ] * 2


def test_close_stops_the_frame_at_hand_and_drops_the_one_that_waits(counting: Device) -> None:
    """Both are released, and whoever iterates is let go."""
    begun = threading.Event()
    released: list[Any] = []

    def wait(session: FakeSession, inputs: tuple[Any, ...]) -> None:
        begun.set()
        stop_here(session, inputs)

    engine_of(counting).before_run = wait
    stream = client_of(counting).feature(Counting).stream(on_release=released.append)
    given: list[Any] = []
    thread = threading.Thread(target=lambda: given.extend(stream))
    thread.start()
    stream.submit("a")
    assert begun.wait(60)
    stream.submit("b")
    stream.close()
    thread.join(60)
    assert not thread.is_alive()
    assert given == []
    assert released == ["a", "b"]
    assert stream.counters == StreamCounters(received=2, failed=1, dropped=1)
    assert stream.join(60)


def test_closing_the_client_ends_the_streams_threads(counting: Device) -> None:
    """The run at hand is answered with the code; no frame is taken after it."""
    begun = threading.Event()
    answers: list[FrameAnswer[str]] = []

    def wait(session: FakeSession, inputs: tuple[Any, ...]) -> None:
        begun.set()
        stop_here(session, inputs)

    client = client_of(counting)
    engine_of(counting).before_run = wait
    stream = client.feature(Counting).stream(on_answer=answers.append)
    stream.submit("a")
    assert begun.wait(60)
    client.close()
    assert stream.join(60)
    assert [answer.error for answer in answers] == [AnswerError.CANCELLED]
    with pytest.raises(ClosedError):
        stream.submit("b")
    assert stream.counters.received == 1
    stream.close()


def test_callback_may_close_its_stream(counting: Device) -> None:
    """It does not wait for itself."""
    closed = threading.Event()

    def close(_: Any) -> None:
        stream.close()
        closed.set()

    stream = client_of(counting).feature(Counting).stream(on_answer=close)
    stream.submit("a")
    assert closed.wait(60)
    assert stream.join(60)


def test_iteration_beside_a_callback_is_refused(counting: Device) -> None:
    """Answers have one way."""
    with counting.client().feature(Counting).stream(on_answer=print) as stream:
        with pytest.raises(OutOfBoundError, match="on_answer must be None"):
            iter(stream)
        with pytest.raises(OutOfBoundError, match="on_answer must be None"):
            aiter(stream)


def test_thread_of_a_stream_begins_with_a_frame_and_ends_with_it(counting: Device) -> None:
    """An app that forgot to close leaves no thread behind; one that only processes begins none."""

    def own() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name in ("alcove-stream", "alcove-alarm")]

    stream = client_of(counting).feature(Counting).stream(deadline_ms=LONG_MS)
    assert own() == []
    stream.submit("a")
    assert next(iter(stream)).value == "old#0"
    threads = [thread for thread in threading.enumerate() if thread.name in ("alcove-stream", "alcove-alarm")]
    assert {thread.name for thread in threads} == {"alcove-stream", "alcove-alarm"}
    assert all(thread.daemon for thread in threads)
    del stream
    gc.collect()
    for thread in threads:
        thread.join(60)
    assert own() == []


class Submitting(RuleBasedStateMachine):
    """Frames, runs that end, and answers that are taken, in any order, against a model of three places."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: queue.Queue[int] = queue.Queue()
        self.permits: queue.Queue[None] = queue.Queue()
        self.released: queue.Queue[int] = queue.Queue()
        self.tally = Tally()
        source: Any = SimpleNamespace(name="feature", closing=Cancellation())
        self.pump: FramePump[int] = FramePump(
            self.answer, self.tally, source, on_answer=None, on_release=self.released.put
        )
        self.submitted = 0
        self.waiting: int | None = None
        self.at_hand: int | None = None
        self.held: int | None = None
        self.ready: int | None = None
        self.due_releases: list[int] = []
        self.seen_releases: list[int] = []
        self.dropped = 0
        self.is_over = False

    def answer(self, frame: Frame, stop: Cancellation) -> FrameAnswer[int]:
        """Wait for a permit."""
        self.begun.put(frame.number)
        self.permits.get(timeout=60)
        return FrameAnswer(frame.number, "1.0.0", "default", 0.0, frame=frame.number)

    def follow(self) -> None:
        """Do in the model what the pump's thread does by itself, and wait until it has."""
        if self.held is not None and self.ready is None:
            self.ready, self.held = self.held, None
        if self.ready is not None:
            with self.pump._changed:
                assert self.pump._changed.wait_for(lambda: self.pump._ready is not None, 60)
        if self.at_hand is None and self.held is None and self.waiting is not None and not self.is_over:
            self.at_hand, self.waiting = self.waiting, None
            assert self.begun.get(timeout=60) == self.at_hand

    @rule(count=st.integers(1, 3))
    def submit(self, count: int) -> None:
        """Frames come."""
        for _ in range(count):
            if self.is_over:
                with pytest.raises(StreamClosedError):
                    self.pump.submit(lambda: Frame(0, 0))
                return
            number = self.submitted
            self.submitted += 1
            assert self.pump.submit(lambda number=number: Frame(number, number)) == number  # type: ignore[misc]
            if self.waiting is not None:
                self.dropped += 1
                self.due_releases.append(self.waiting)
            self.waiting = number
            self.follow()

    @precondition(lambda self: self.at_hand is not None)
    @rule()
    def end_run(self) -> None:
        """The run at hand ends."""
        self.permits.put(None)
        assert self.at_hand is not None
        self.due_releases.append(self.at_hand)
        self.held, self.at_hand = self.at_hand, None
        self.follow()

    @precondition(lambda self: self.ready is not None)
    @rule()
    def take(self) -> None:
        """The answer that is there is taken."""
        answer = self.pump.take()
        assert answer is not None
        assert answer.frame == self.ready
        self.ready = None
        self.follow()

    @precondition(lambda self: not self.is_over and self.at_hand is None and self.held is None)
    @rule()
    def close(self) -> None:
        """The stream is closed between two runs."""
        self.pump.close(60)
        self.is_over = True
        self.ready = None
        assert self.pump.take() is None

    @invariant()
    def counts_are_the_models(self) -> None:
        """What was dropped is what was displaced, and was released; never more than one frame waits."""
        assert self.tally.read().dropped == self.dropped
        waits = self.pump._waiting
        assert (None if waits is None else waits.number) == self.waiting
        while len(self.seen_releases) < len(self.due_releases):
            self.seen_releases.append(self.released.get(timeout=60))
        assert self.seen_releases == self.due_releases
        assert self.released.empty()

    def teardown(self) -> None:
        """End the thread."""
        self.pump.cancel()
        self.permits.put(None)
        assert self.pump.join(60) or self.submitted == 0


TestSubmitting = Submitting.TestCase
TestSubmitting.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
