"""A stream answers each frame with the state of those before, whatever happens between two of them."""

import os
import threading
from pathlib import Path
from typing import Any, assert_type

import pytest
from alcove.registry.policy import Outcome
from alcove.runtime.errors import AlcoveRuntimeError, InputError
from alcove.sdk import (
    Answer,
    AnswerError,
    FeatureStream,
    FrameAnswer,
    OutOfBoundError,
    Port,
    Signature,
    StreamClosedError,
    StreamCounters,
    StreamingHandle,
)
from alcove.sdk.limits import MAX_WARM_UP_S
from alcove.sdk.load_attempts import _RECORD
from alcove.sdk.testing import FakeSession, SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device
from tests.sdk.streams import (
    LONG_MS,
    NEW,
    OLD,
    Counting,
    Spelling,
    client_of,
    engine_of,
    join_warm_up,
    labels,
    stop_here,
    swap,
)

FRAMES = 5


def test_each_stream_keeps_a_state_of_its_own_until_it_is_reset(counting: Device) -> None:
    """Frames count up in one stream; another, and predictions beside it, change nothing there."""
    handle = client_of(counting).feature(Counting)
    with handle.stream() as stream, handle.stream() as other:
        answers = [stream.process("a"), stream.process("b", tag=7.5)]
        assert other.process("a").value == "old#0"
        assert handle.predict("a").value == "old#0"
        answers.append(stream.process("c"))
        stream.reset()
        answers.append(stream.process("d"))
        assert labels(answers) == ["old#0", "old#1", "old#2", "old#0"]
        assert [answer.frame for answer in answers] == [0, 1, 2, 3]
        assert [answer.is_fresh for answer in answers] == [True, False, False, True]
        assert all(answer.has_advanced for answer in answers)
        assert [answer.tag for answer in answers] == [None, 7.5, None, None]
        assert (answers[0].version, answers[0].reason, answers[0].error) == (OLD, "default", None)
        assert stream.counters == StreamCounters(received=4, processed=4, resets=1)


def test_swap_before_each_frame_in_turn_leaves_no_gap_and_says_so(counting: Device) -> None:
    """The frames before it have the old state, those after it a new one, and none is without an answer."""
    client = client_of(counting)
    before, after = (OLD, "old"), (NEW, "new")
    for at in range(FRAMES):
        with client.feature(Counting).stream(warm_up=False) as stream:
            answers = []
            for number in range(FRAMES):
                if number == at:
                    swap(counting, client, after[0])
                answers.append(stream.process("a"))
            expected = [f"{before[1]}#{number}" for number in range(at)]
            assert labels(answers) == expected + [f"{after[1]}#{number}" for number in range(FRAMES - at)]
            assert [answer.is_fresh for answer in answers] == [number in (0, at) for number in range(FRAMES)]
            assert [answer.version for answer in answers] == [before[0]] * at + [after[0]] * (FRAMES - at)
            assert stream.counters == StreamCounters(received=FRAMES, processed=FRAMES, swaps=int(at > 0))
        before, after = after, before


def test_swap_with_a_warm_up_waits_for_the_new_session_and_no_frame_does(counting: Device) -> None:
    """While the new version's first run hangs the old one answers; then it begins with a state that nothing touched."""
    client, warm, go_on = client_of(counting), threading.Event(), threading.Event()
    seen: list[tuple[Any, ...]] = []

    def hang(session: FakeSession, inputs: tuple[Any, ...]) -> None:
        if session.program.label == "new" and not go_on.is_set():
            seen.append(inputs)
            warm.set()
            assert go_on.wait(60)

    engine_of(counting).before_run = hang
    with client.feature(Counting).stream() as stream:
        answers = [stream.process("a")]
        swap(counting, client)
        loads = len(engine_of(counting).loads)
        answers.append(stream.process("b"))
        assert warm.wait(60)
        answers += [stream.process("c"), stream.process("d")]
        go_on.set()
        join_warm_up()
        answers += [stream.process("e"), stream.process("f")]
        assert labels(answers) == ["old#0", "old#1", "old#2", "old#3", "new#0", "new#1"]
        assert [answer.is_fresh for answer in answers] == [True, False, False, False, True, False]
        assert seen == [("b",)]
        assert len(engine_of(counting).loads) == loads
        assert stream.counters.swaps == 1


def test_warm_up_that_takes_too_long_is_not_waited_for(counting: Device) -> None:
    """A version that was halted answers for two seconds more at most, however the next one's warm-up goes."""
    client, go_on = client_of(counting), threading.Event()
    main = threading.current_thread()

    def hang(session: FakeSession, _: tuple[Any, ...]) -> None:
        if threading.current_thread() is not main:
            assert go_on.wait(60)

    engine_of(counting).before_run = hang
    with client.feature(Counting).stream() as stream:
        stream.process("a")
        swap(counting, client)
        assert stream.process("a").version == OLD
        counting.clock.pass_s(MAX_WARM_UP_S + 0.1)
        assert stream.process("a").value == "new#0"
        go_on.set()
        join_warm_up()
        assert stream.process("a").value == "new#1"


def test_warm_up_whose_run_fails_still_swaps(counting: Device) -> None:
    """The frames find out what is wrong with a version, as they would without a warm-up."""
    client = client_of(counting)

    def fail(session: FakeSession, _: tuple[Any, ...]) -> None:
        if session.program.label == "new":
            raise AlcoveRuntimeError("no")

    engine_of(counting).before_run = fail
    with client.feature(Counting).stream() as stream:
        stream.process("a")
        swap(counting, client)
        assert stream.process("a").value == "old#1"
        join_warm_up()
        answer = stream.process("a")
        assert (answer.version, answer.error) == (NEW, AnswerError.RUN_FAILED)


def test_run_that_is_stopped_at_its_deadline_leaves_the_state_as_it_was(counting: Device) -> None:
    """Each frame in turn: it is answered with the code, the next goes on as if it had not been."""
    handle = client_of(counting).feature(Counting)
    for at in range(FRAMES):
        with handle.stream(deadline_ms=LONG_MS) as stream:
            answers = []
            for number in range(FRAMES):
                # As the alarm does, at the moment that the test needs.
                engine_of(counting).before_run = (lambda session, _: session.cancel()) if number == at else None
                answers.append(stream.process("a"))
            expected = [f"old#{number}" for number in range(FRAMES - 1)]
            assert labels(answers) == [*expected[:at], None, *expected[at:]]
            assert [answer.error is AnswerError.DEADLINE_EXCEEDED for answer in answers] == [
                number == at for number in range(FRAMES)
            ]
            assert [answer.has_advanced for answer in answers] == [number != at for number in range(FRAMES)]
            assert stream.counters == StreamCounters(received=FRAMES, processed=FRAMES - 1, missed=1)


def test_run_that_hangs_is_stopped_when_its_deadline_comes(counting: Device) -> None:
    """By the clock on the wall, once for each frame that hangs; the frames between need no time of it."""
    counting.clock.tick_ns = 0
    engine_of(counting).before_run = stop_here
    with client_of(counting).feature(Counting).stream(deadline_ms=5) as stream:
        for _ in range(3):
            answer = stream.process("a")
            assert (answer.error, answer.has_advanced) == (AnswerError.DEADLINE_EXCEEDED, False)
        assert stream.counters == StreamCounters(received=3, missed=3)


def test_run_that_ends_late_is_missed_and_its_state_continues(counting: Device) -> None:
    """An engine that stops no run: the value is nobody's, the answer says that the state has the frame in it."""
    with client_of(counting).feature(Counting).stream(deadline_ms=LONG_MS) as stream:
        stream.process("a")
        engine_of(counting).before_run = lambda *_: counting.clock.pass_s(LONG_MS / 1000 + 1)
        answer = stream.process("b")
        assert (answer.value, answer.error, answer.has_advanced) == (None, AnswerError.DEADLINE_EXCEEDED, True)
        engine_of(counting).before_run = None
        assert stream.process("c").value == "old#2"
        assert stream.counters == StreamCounters(received=3, processed=2, missed=1)


def test_deadline_of_the_handle_is_the_streams_unless_it_has_its_own(counting: Device) -> None:
    """A frame is as hasty as a prediction, or as its stream says."""
    handle = client_of(counting).feature(Counting, deadline_ms=1000)
    engine_of(counting).before_run = lambda *_: counting.clock.pass_s(2)
    with handle.stream() as stream, handle.stream(deadline_ms=3000) as patient:
        assert stream.process("a").error is AnswerError.DEADLINE_EXCEEDED
        assert patient.process("a").error is None


def test_run_that_fails_leaves_the_state_as_it_was(counting: Device) -> None:
    """Each frame in turn: the code, and the frames after it in their order."""
    handle = client_of(counting).feature(Counting)

    def fail(*_: Any) -> None:
        raise AlcoveRuntimeError("no")

    for at in range(FRAMES):
        with handle.stream() as stream:
            answers = []
            for number in range(FRAMES):
                engine_of(counting).before_run = fail if number == at else None
                answers.append(stream.process("a"))
            expected = [f"old#{number}" for number in range(FRAMES - 1)]
            assert labels(answers) == [*expected[:at], None, *expected[at:]]
            assert answers[at].error is AnswerError.RUN_FAILED
            assert stream.counters == StreamCounters(received=FRAMES, processed=FRAMES - 1, failed=1)


def test_frame_that_is_refused_raises_and_the_stream_continues(counting: Device) -> None:
    """What the program does not take is named; bad text is a code, as of a prediction."""
    with client_of(counting).feature(Counting).stream() as stream:
        stream.process("a")
        loads = len(engine_of(counting).loads)
        for _ in range(3):
            with pytest.raises(InputError):
                stream.process(("a", "b"))
        assert stream.process("\ud800").error is AnswerError.INVALID_TEXT
        assert stream.process("b").value == "old#1"
        assert len(engine_of(counting).loads) == loads
        assert stream.counters == StreamCounters(received=6, processed=2, failed=4)


def test_version_that_takes_other_frames_leaves_them_to_the_one_before(counting: Device) -> None:
    """The first frame it refuses is answered in its place, and the later ones in the same session."""
    counting.world.push("3.1.0", fake_program("three", inputs=2, has_state=True))
    client = client_of(counting, baselines={})
    handle = client.feature(Counting)
    with handle.stream(warm_up=False) as stream:
        assert stream.process("a").value == "old#0"
        handle._model_ref.is_refused = True  # so that the other version is installed unchecked
        swap(counting, client, "3.1.0")
        answers = [stream.process("b"), stream.process("c")]
        assert labels(answers) == ["old#0", "old#1"]
        assert [answer.reason for answer in answers] == ["fallback", "fallback"]
        assert answers[0].is_fresh
        assert handle.predict("a").reason == "fallback"


def test_halt_and_silence_of_the_server_reach_a_stream(counting: Device) -> None:
    """A halted version leaves at the next frame after the sync, and everything installed when the server is silent."""
    client = client_of(counting, max_stale_s=86_400.0)
    with client.feature(Counting).stream(warm_up=False) as stream:
        stream.process("a")
        counting.world.halt(OLD)
        client.sync()
        assert stream.process("a").value == "shipped"
        swap(counting, client)
        assert stream.process("a").value == "new#0"
        counting.clock.pass_s(86_401)
        answer = stream.process("a")
        assert (answer.value, answer.reason) == ("shipped", "stale")


def test_stream_without_a_model_answers_with_the_code_until_there_is_one(counting: Device, tmp_path: Path) -> None:
    """Nothing could be loaded: each frame says so, and a sync brings the first value."""
    client = counting.client(baselines={FEATURE: tmp_path / "absent.alc"})
    with client.feature(Counting).stream() as stream:
        answer = stream.process("a")
        assert (answer.error, answer.has_advanced) == (AnswerError.NO_MODEL, False)
        client.sync()
        assert stream.process("a").value == "old#0"


def test_runs_of_a_stream_are_watched_as_predictions_are(counting: Device) -> None:
    """On the disk a frame at hand is a run at hand; an answer is an answer, also of the session that warms up."""
    client = client_of(counting)

    def records() -> list[tuple[int, int]]:
        files = (counting.folder / "tries").glob("*.running")
        return sorted(_RECORD.unpack(path.read_bytes())[:2] for path in files)

    seen: dict[str, list[list[tuple[int, int]]]] = {"old": [], "new": []}
    engine_of(counting).before_run = lambda session, _: seen[session.program.label].append(records())
    with client.feature(Counting).stream() as stream:
        stream.process("a")
        stream.process("b")
        assert seen["old"] == [[(1, 0)], [(1, 1)]]
        assert records() == [(0, 2)]
        swap(counting, client)
        stream.process("c")
        join_warm_up()
        assert [(1, 0) in found for found in seen["new"]] == [True]
        assert records() == [(0, 0), (0, 3)]


def test_pause_longer_than_the_app_allows_resets(counting: Device) -> None:
    """A stream that stops for a while keeps its state, unless the app gave a bound."""
    handle = client_of(counting).feature(Counting)
    with handle.stream() as patient, handle.stream(max_pause_s=5) as stream:
        for one in (patient, stream):
            one.process("a")
        counting.clock.pass_s(4)
        assert stream.process("b").value == "old#1"
        counting.clock.pass_s(6)
        answer = stream.process("c")
        assert (answer.value, answer.is_fresh) == ("old#0", True)
        assert stream.counters.resets == 1
        assert patient.process("b").value == "old#1"


def test_closed_stream_takes_no_more_and_lets_its_session_go(counting: Device) -> None:
    """After each number of frames; twice is harmless."""
    handle = client_of(counting).feature(Counting)
    for at in range(FRAMES):
        stream = handle.stream(deadline_ms=LONG_MS)
        for _ in range(at):
            stream.process("a")
        stream.close()
        stream.close()
        assert stream.is_closed
        assert stream.counters == StreamCounters(received=at, processed=at)
        assert stream._runner._sessions.live is None
        for use in (stream.process, stream.submit):
            with pytest.raises(StreamClosedError, match="greeting: this stream was closed"):
                use("a")
        with pytest.raises(StreamClosedError):
            stream.reset()
    assert not [thread for thread in threading.enumerate() if thread.name == "alcove-alarm"]


def test_close_stops_the_frame_at_hand_on_another_thread(counting: Device) -> None:
    """It is answered with the code, and its state is gone with the stream."""
    stream = client_of(counting).feature(Counting).stream()
    begun, answers = threading.Event(), []

    def wait(session: FakeSession, inputs: tuple[Any, ...]) -> None:
        begun.set()
        stop_here(session, inputs)

    engine_of(counting).before_run = wait
    thread = threading.Thread(target=lambda: answers.append(stream.process("a")))
    thread.start()
    assert begun.wait(60)
    stream.close()
    thread.join(60)
    assert [answer.error for answer in answers] == [AnswerError.CANCELLED]
    assert stream.counters.failed == 1


def test_stream_answers_after_the_client_was_closed_as_a_handle_does(counting: Device) -> None:
    """On the caller's thread; there is no other any more."""
    client = client_of(counting)
    stream = client.feature(Counting).stream()
    stream.process("a")
    client.close()
    assert stream.process("b").value == "old#1"
    stream.close()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("deadline_ms", 0),
        ("deadline_ms", float("nan")),
        ("max_pause_s", 0),
        ("max_pause_s", float("inf")),
        ("threads", 0),
        ("threads", 17),
        ("missed_share", -0.1),
        ("missed_share", 1.1),
        ("missed_metric", "Missed Frames"),
    ],
)
def test_option_out_of_its_bound_is_refused(counting: Device, option: str, value: Any) -> None:
    """Where the stream is opened, not at its first frame; named, with bound and value."""
    named = "name" if option == "missed_metric" else option
    with pytest.raises(OutOfBoundError, match=f"^{named} must be"):
        counting.client().feature(Counting).stream(**{option: value})


def test_threads_reach_the_session(counting: Device) -> None:
    """As many as the app asked for compute a frame."""
    seen: list[int] = []
    engine_of(counting).before_run = lambda session, _: seen.append(session.threads)
    with client_of(counting).feature(Counting).stream(threads=3) as stream:
        stream.process("a")
    assert seen == [3]


@pytest.mark.parametrize(("late", "is_over"), [(0, False), (1, False), (2, True)])
def test_budget_that_was_missed_is_one_record_a_version(counting: Device, late: int, is_over: bool) -> None:
    """At the end of each session: True where more than the share of its frames was late; none of a stream unused."""
    client = client_of(counting)
    handle = client.feature(Counting)
    records: list[Any] = []
    handle._record_metric = records.append
    stream = handle.stream(deadline_ms=LONG_MS, missed_metric="rough_calls", missed_share=0.1, warm_up=False)
    for number in range(10):
        engine_of(counting).before_run = (lambda *_: counting.clock.pass_s(61)) if number < late else None
        stream.process("a")
    assert records == []
    swap(counting, client)
    engine_of(counting).before_run = None
    stream.process("a")
    stream.close()
    assert [(one.feature, one.name, one.active.version, one.value) for one in records] == [
        (FEATURE, "rough_calls", OLD, float(is_over)),
        (FEATURE, "rough_calls", NEW, 0.0),
    ]
    handle.stream(missed_metric="rough_calls").close()
    assert len(records) == 2


def test_faults_of_a_version_count_once_a_session_and_late_frames_not(counting: Device) -> None:
    """A guardrail hears of a version that fails thirty times a second once, and not that a device is slow."""
    counting.world.set_policy(OLD, rollout=(NEW, 5000), control=5000)
    client = counting.client(entropy=SeededEntropy(counting.seed_for_arm(1, salt="roll-salt")))
    client.sync()
    handle = client.feature(Counting)
    seen: list[Any] = []
    handle._record = seen.append
    noted: list[Any] = []
    handle._note = lambda active, _: noted.append(active.version)

    def fail(*_: Any) -> None:
        raise AlcoveRuntimeError("no")

    with handle.stream(deadline_ms=LONG_MS) as stream:
        engine_of(counting).before_run = lambda *_: counting.clock.pass_s(61)
        assert stream.process("a").error is AnswerError.DEADLINE_EXCEEDED
        assert seen == []
        engine_of(counting).before_run = fail
        for _ in range(3):
            assert stream.process("a").error is AnswerError.RUN_FAILED
        assert [one.outcome for one in seen] == [Outcome.ERROR]
        engine_of(counting).before_run = None
        answer: FrameAnswer[str] = stream.process("a")
        assert noted == [answer.version]
    handle.record_outcome(accepted=True)
    handle.record_outcome(accepted=False, answer=answer)
    assert [one.outcome for one in seen[1:]] == [Outcome.ACCEPTED, Outcome.REFUSED]


def test_framing_of_a_feature_cuts_frames_into_runs_and_outlives_a_swap(counting: Device) -> None:
    """Frames of no run, one and two; what waits for the next frame is not lost when a version takes over."""
    client = client_of(counting)
    contract = Spelling()
    with client.feature(contract).stream(warm_up=False) as stream:
        assert stream.process("a").value == []
        assert stream.process("bc").value == ["old#0"]
        assert stream.process("def").value == ["old#1", "old#2"]
        stream.process("g")
        swap(counting, client)
        answer = stream.process("hi")
        assert (answer.value, contract.framings[0].rest) == (["new#0"], "i")
        stream.reset()
        assert contract.framings[0].rest == ""
        assert stream.process("xy").value == ["new#0"]
        with pytest.raises(ValueError, match="a frame is no question"):
            stream.process("?")
        assert stream.process("xy").value == ["new#1"]
        assert contract.framings[0].skipped == 0


def test_frame_of_several_runs_that_fails_at_each_tells_its_framing(counting: Device) -> None:
    """It has no value; the answer says whether runs before the failure are in the state."""
    client = client_of(counting)
    for at in range(3):
        contract = Spelling()
        runs: list[Any] = []

        def fail_once(_: FakeSession, inputs: tuple[Any, ...], at: int = at, runs: list[Any] = runs) -> None:
            runs.append(inputs)
            if len(runs) == at + 1:
                raise AlcoveRuntimeError("no")

        engine_of(counting).before_run = fail_once
        with client.feature(contract).stream() as stream:
            answer = stream.process("abcdef")
            assert (answer.value, answer.error) == (None, AnswerError.RUN_FAILED)
            assert answer.has_advanced is (at > 0)
            assert contract.framings[0].skipped == 1
            assert stream.process("gh").value == [f"old#{at}"]


def test_types_of_a_stream_are_its_features(counting: Device) -> None:
    """What mypy and pyright say of it: frames and values of the framing, or any frame and the contract's value."""
    client = client_of(counting)
    with client.feature(Spelling).stream() as spelling, client.feature(Counting).stream() as counts:
        assert_type(spelling, FeatureStream[str, list[str]])
        assert_type(counts, FeatureStream[Any, str])
        assert_type(client.feature(Spelling), StreamingHandle[str, list[str], str])
        assert_type(spelling.process("ab"), FrameAnswer[list[str]])
        assert_type(client.feature(Spelling).predict("ab"), Answer[str])
        assert_type([answer.value for answer in counts] if counts.is_closed else [], list[str | None])
        with pytest.raises(TypeError):
            spelling.process(7)  # type: ignore[arg-type]  # the misuse that the test is about
        with pytest.raises(TypeError):
            client.feature(Counting).stream(deadline=5)  # type: ignore[call-arg]  # as above


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_has_a_fresh_state_and_threads_of_its_own(counting: Device) -> None:
    """Its parent's state and threads are not there; it neither hangs nor ends the parent's stream."""
    with client_of(counting).feature(Counting).stream(deadline_ms=LONG_MS) as stream:
        stream.submit("a")
        assert next(iter(stream)).value == "old#0"
        process = os.fork()
        if process == 0:
            values: list[Any] = []
            try:
                values.append(stream.process("b").value)
                stream.submit("c")
                values.append(next(iter(stream)).value)
            finally:
                os._exit(0 if values == ["old#0", "old#1"] else 1)
        assert os.waitpid(process, 0)[1] == 0
        assert stream.process("b").value == "old#1"


class Typed(Counting):
    """A contract that says what it takes."""

    signature = Signature(inputs=(Port("text", "text"),), outputs=(Port("label", "i32", (1, 1), labels=("a", "b")),))

    def encode(self, text: str, times: int = 1) -> tuple[Any, ...]:
        """Return the inputs."""
        return (text * times,)


def test_frame_of_a_typed_contract_is_what_its_encode_takes(counting: Device) -> None:
    """One value, or a tuple of several."""
    seen: list[Any] = []
    engine_of(counting).before_run = lambda _, inputs: seen.append(inputs)
    with client_of(counting).feature(Typed()).stream() as stream:
        assert stream.process("a").value == "old#0"
        assert stream.process(("ab", 2)).value == "old#1"
        with pytest.raises(TypeError):
            stream.process(("ab", 2, 3))
        assert stream.process("a").value == "old#2"
    assert seen == [("a",), ("abab",), ("a",)]
