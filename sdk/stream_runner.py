"""Answers the frames of a stream, one at a time, in a session of the version that answers for the feature.

    frame ─▶ which session? (stream_session.py) ─▶ late already? ─▶ encode ─▶ finite? ─▶ runs ─▶ decode ─▶ in time?
                                                     └ missed         └ refused: InputError   └ stopped: missed

Invariants:
  R1  When a frame has its answer, nothing of it runs any more and nothing reads the app's memory: a run that is late is
      stopped and its end waited for (docs/robustness.md says how soon it comes; an engine that stops none runs to its
      end).  So the state is known: `FrameAnswer.has_advanced`.
  R2  A run that was stopped, refused or failed leaves the state as it was; one that ended late has changed it.
  R3  Each run is watched as a prediction is (`load_attempts.py`).
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from alcove.registry.policy.outcome import Outcome
from alcove.runtime.cancellation import Alarm, Cancellation
from alcove.runtime.errors import AlcoveRuntimeError, InputError, InvalidTextError, RunCancelledError
from alcove.sdk.answers import STALE, ActiveModel, AnswerError, Measurement
from alcove.sdk.frame_inputs import as_inputs, check_finite, copy_inputs
from alcove.sdk.metric_records import MetricRecord
from alcove.sdk.ports import arrange_inputs
from alcove.sdk.stream_frames import Frame, FrameAnswer, StreamSource, Tally
from alcove.sdk.stream_session import Live, StreamSession, open_session

if TYPE_CHECKING:
    from alcove.features import Framing

T = TypeVar("T")

__all__ = ["FrameRunner", "StreamBounds"]

_FAULTS = frozenset({AnswerError.RUN_FAILED, AnswerError.DECODE_FAILED})
"""Errors that a version may be at fault for; a frame that is late may be the device's, and has a metric of its own."""


@dataclass(frozen=True, slots=True)
class StreamBounds:
    """What the app asked of a stream.

    Attributes:
        deadline_ns: longest time for an answer; None: none.
        max_pause_ns: longest pause between frames over which the state holds; None: any.
        allows_nan: inputs need not be finite.
        missed_metric: name of the metric that hears, at the end of each session, whether it missed too many frames.
        missed_share: most of the frames that it may miss or drop.
    """

    deadline_ns: int | None = None
    max_pause_ns: int | None = None
    allows_nan: bool = False
    missed_metric: str | None = None
    missed_share: float = 0.0


@dataclass(frozen=True, slots=True)
class _Result:
    """What came of a frame's runs: a value, or why there is none."""

    value: Any = None
    error: AnswerError | None = None
    cause: Exception | None = None


class FrameRunner(Generic[T]):
    """See above; safe for several threads, which wait for each other.

    Args:
        source: the handle's.
        framing: the feature's; None: a frame is a program's inputs, or what `encode` takes.
        encode: a contract's, without a framing; None: it has none.
        sessions: which session serves.
        bounds: what the app asked for.
        tally: counts frames.
    """

    def __init__(
        self,
        source: StreamSource,
        *,
        framing: "Framing[Any, T] | None",
        encode: Callable[..., tuple[Any, ...]] | None,
        sessions: StreamSession,
        bounds: StreamBounds,
        tally: Tally,
    ) -> None:
        self._source = source
        self._framing = framing
        self._encode_inputs = encode
        self._sessions = sessions
        self._bounds = bounds
        self._tally = tally
        self._lock = threading.Lock()  # held while a frame is answered
        self._alarm: Alarm | None = None
        self._last_ns: int | None = None

    def run(self, frame: Frame, stop: Cancellation) -> FrameAnswer[T]:
        """Return the answer for a frame.

        Raises:
            InputError: no version on the device takes it; or what the framing raises.  The state is as it was.
        """
        left_s = self._left_s(frame)
        if not self._lock.acquire(timeout=-1 if left_s is None else max(left_s, 0.0)):
            # The frame before is still at hand.
            return self._finish(None, frame, _Result(error=AnswerError.DEADLINE_EXCEEDED), 0.0)
        try:
            return self._answer(frame, stop)
        except BaseException:
            self._tally.add("failed")
            raise
        finally:
            self._lock.release()

    def answer(self, frame: Frame, stop: Cancellation) -> FrameAnswer[T]:
        """Return the answer for a frame, of one that `run` refuses too."""
        try:
            return self.run(frame, stop)
        except Exception as error:  # noqa: BLE001 - what a framing, the app's code, raises; whoever waits gets an answer
            active = self._source.model_ref.active
            return FrameAnswer(
                None,
                active.version,
                active.reason,
                0.0,
                AnswerError.INVALID_INPUT,
                error,
                active.config,
                frame=frame.number,
                tag=frame.tag,
                has_advanced=False,
            )

    def reset(self) -> None:
        """Begin anew, after the frame at hand: state and framing."""
        with self._lock:
            self._restart()

    def close(self, timeout_s: float) -> None:
        """Let go of the session, after the frame at hand, and record how it kept its budget."""
        is_free = self._lock.acquire(timeout=timeout_s)
        try:
            self._end_session(self._sessions.live)
            if is_free:
                self._sessions.live = None
        finally:
            if is_free:
                self._lock.release()
        if self._alarm is not None:
            self._alarm.close()

    def end_alarm(self) -> None:
        """Let the thread that keeps the deadlines end; returns at once."""
        if self._alarm is not None:
            self._alarm.end()

    def begin_in_child(self) -> None:
        """Hold nothing in a forked child that only the parent's threads could give back: the state begins anew."""
        self._lock = threading.Lock()
        self._alarm = None
        self._sessions.live = self._sessions.successor = None

    def _answer(self, frame: Frame, stop: Cancellation) -> FrameAnswer[T]:
        start_ns = self._source.clock.monotonic_ns()
        self._source.watch(start_ns)
        live = self._present(start_ns)
        pause_ns = 0 if self._last_ns is None else start_ns - self._last_ns
        self._last_ns = start_ns
        if self._bounds.max_pause_ns is not None and pause_ns > self._bounds.max_pause_ns:
            self._restart()
        is_fresh = not live.has_advanced
        if frame.due_ns is not None and start_ns >= frame.due_ns:
            return self._finish(live, frame, _Result(error=AnswerError.DEADLINE_EXCEEDED), 0.0, is_fresh=is_fresh)
        runs = self._encode(live, frame)
        self._prepare(runs, start_ns)
        try:
            live, result, runs_done = self._serve(live, runs, frame, stop)
        except BaseException:
            self._skip()
            raise
        latency_ms = (self._source.clock.monotonic_ns() - start_ns) / 1e6
        return self._finish(live, frame, result, latency_ms, is_fresh=is_fresh, has_advanced=runs_done > 0)

    def _present(self, now_ns: int) -> Live:
        sessions = self._sessions
        before = sessions.live
        live = sessions.present(self._source.model_ref.active, now_ns, self._tally.read)
        if before is not None and live is not before:
            self._swap(before)
        return live

    def _swap(self, before: Live) -> None:
        self._tally.add("swaps")
        self._end_session(before)

    def _prepare(self, runs: Sequence[tuple[Any, ...]], now_ns: int) -> None:
        """Let the session of a version that is to take over be made, with a copy of what this frame gives a program."""
        active = self._source.model_ref.active
        if self._sessions.is_due(active):
            self._sessions.prepare(active, copy_inputs(runs[0]) if runs else None, now_ns)

    def _encode(self, live: Live, frame: Frame) -> list[tuple[Any, ...]]:
        """Return the inputs of a frame's runs.

        Raises:
            InputError: a number is not finite; or what the framing raises.
        """
        data, encode = frame.data, self._encode_inputs
        encoded: Sequence[Any] = (data,)
        if self._framing is not None:
            encoded = self._framing.encode_frame(data)
        elif encode is not None:
            encoded = (encode(*data) if isinstance(data, tuple) else encode(data),)
        model = live.active.model
        try:
            runs = [as_inputs(inputs) for inputs in encoded]
            if model is not None:
                runs = [tuple(arrange_inputs(model, inputs, {})) for inputs in runs]
                if not self._bounds.allows_nan and getattr(model, "states", None):
                    for inputs in runs:
                        check_finite(model, inputs)
        except BaseException:
            self._skip()
            raise
        return runs

    def _serve(
        self, live: Live, runs: Sequence[tuple[Any, ...]], frame: Frame, stop: Cancellation
    ) -> tuple[Live, _Result, int]:
        """Run a frame; where a version refuses its very first one, on what takes it in the version's place.

        A version that has answered here takes the stream's frames: what it refuses later, the app has changed.

        Raises:
            InputError: nothing takes it.
        """
        try:
            return live, *self._try_frame(live, runs, frame, stop)
        except InputError:
            if live.has_answered or not live.active.key:
                raise
            stood_in = self._stand_in(runs, frame, stop)
            if stood_in is None:
                self._source.model_ref.is_refused = True
                raise
            return stood_in

    def _stand_in(
        self, runs: Sequence[tuple[Any, ...]], frame: Frame, stop: Cancellation
    ) -> tuple[Live, _Result, int] | None:
        source = self._source
        for active in source.stand_ins():
            live = Live(active, open_session(active, self._sessions.threads), self._tally.read())
            try:
                result, runs_done = self._try_frame(live, runs, frame, stop)
            except InputError:
                active.attempt.abandon()
                continue
            source.model_ref.is_refused = False
            source.model_ref.active = active
            if active.task is not None:
                source.record(Measurement(source.name, active, Outcome.FALLBACK, 0.0))
            before, self._sessions.live = self._sessions.live, live
            if before is not None:
                self._swap(before)
            return live, result, runs_done
        return None

    def _try_frame(
        self, live: Live, runs: Sequence[tuple[Any, ...]], frame: Frame, stop: Cancellation
    ) -> tuple[_Result, int]:
        """Run a frame and decode it (R3); returns how many of its runs changed the state, too.

        Raises:
            InputError: the program does not take it.
        """
        attempt, clock = live.active.attempt, self._source.clock
        is_healthy = False
        start_ns = clock.monotonic_ns()
        attempt.enter()
        try:
            outputs, error = self._run(live, runs, frame, stop)
            result = self._decode(live, outputs, frame) if error is None else _Result(error=error)
            is_healthy = result.error is None
        finally:
            attempt.leave(is_healthy=is_healthy, native_ns=clock.monotonic_ns() - start_ns)
        if error is not None:
            self._skip()
        return result, len(outputs)

    def _run(
        self, live: Live, runs: Sequence[tuple[Any, ...]], frame: Frame, stop: Cancellation
    ) -> tuple[list[list[Any]], AnswerError | None]:
        """Return the outputs of the runs that ended, and why others did not."""
        session, outputs = live.session, []
        if session is None:
            is_there = live.active.model is not None
            is_stale = live.active.reason == STALE
            missing = AnswerError.STALE if is_stale else AnswerError.NO_MODEL
            return [], AnswerError.RUN_FAILED if is_there else missing
        try:
            with stop.over(session), nullcontext() if frame.due_ns is None else self._until_due(frame, session.cancel):
                for inputs in runs:
                    outputs.append(session(*inputs))
                    live.has_advanced = live.has_answered = True
        except RunCancelledError:
            return outputs, AnswerError.CANCELLED if stop.is_cancelled else AnswerError.DEADLINE_EXCEEDED
        except InvalidTextError:
            return outputs, AnswerError.INVALID_TEXT
        except InputError:
            raise
        except (AlcoveRuntimeError, MemoryError):
            return outputs, AnswerError.RUN_FAILED
        finally:
            session.uncancel()
        return outputs, None

    def _decode(self, live: Live, outputs: list[list[Any]], frame: Frame) -> _Result:
        """Return a frame's value, unless it is late: then it is nobody's, and framing and state go on after it (R2)."""
        try:
            if self._framing is not None:
                value: Any = self._framing.decode_frame(outputs)
            else:
                model = live.active.model
                value = None if model is None else self._source.decode(model, outputs[0])
        except Exception as error:  # noqa: BLE001 - a contract is the app's code; whatever it raises, the app gets an answer
            return _Result(error=AnswerError.DECODE_FAILED, cause=error)
        if frame.due_ns is not None and self._source.clock.monotonic_ns() > frame.due_ns:
            return _Result(error=AnswerError.DEADLINE_EXCEEDED)
        return _Result(value)

    def _finish(
        self,
        live: Live | None,
        frame: Frame,
        result: _Result,
        latency_ms: float,
        *,
        is_fresh: bool = False,
        has_advanced: bool = False,
    ) -> FrameAnswer[T]:
        """Count a frame and return its answer."""
        active: ActiveModel = self._source.model_ref.active if live is None else live.active
        is_missed = result.error is AnswerError.DEADLINE_EXCEEDED
        self._tally.add("processed" if result.error is None else "missed" if is_missed else "failed")
        answer: FrameAnswer[T] = FrameAnswer(
            result.value,
            active.version,
            active.reason,
            latency_ms,
            result.error,
            result.cause,
            active.config,
            frame=frame.number,
            tag=frame.tag,
            is_fresh=is_fresh,
            has_advanced=has_advanced,
        )
        is_first_fault = live is not None and result.error in _FAULTS and not live.has_failed
        if live is not None and is_first_fault:
            live.has_failed = True
        self._source.settle(active, answer, is_first_fault=is_first_fault)
        return answer

    def _skip(self) -> None:
        if self._framing is not None:
            self._framing.skip_frame()

    def _restart(self) -> None:
        self._tally.add("resets")
        self._last_ns = None
        if self._framing is not None:
            self._framing.reset()
        live = self._sessions.live
        if live is not None:
            live.has_advanced = False
            if live.session is not None:
                live.session.reset()

    def _end_session(self, live: Live | None) -> None:
        """Record whether a session missed or dropped too many of its frames."""
        bounds = self._bounds
        if live is None or bounds.missed_metric is None:
            return
        now, since = self._tally.read(), live.since
        late = now.missed + now.dropped - since.missed - since.dropped
        frames = now.processed + now.failed - since.processed - since.failed + late
        if frames > 0:
            is_over = late > bounds.missed_share * frames
            self._source.record_metric(
                MetricRecord(self._source.name, live.active, bounds.missed_metric, float(is_over))
            )

    def _left_s(self, frame: Frame) -> float | None:
        return None if frame.due_ns is None else (frame.due_ns - self._source.clock.monotonic_ns()) / 1e9

    def _until_due(self, frame: Frame, action: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `action` if the block still runs when the frame's answer is due."""
        if self._alarm is None:
            self._alarm = Alarm()
        return self._alarm.after(self._left_s(frame) or 0.0, action)
