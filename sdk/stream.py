"""Provides streams of frames for camera and audio: state in a session, an answer for each frame, never a queue.

with client.feature(NoiseSuppression).stream(deadline_ms=16) as stream:
    for hop in microphone:
        answer = stream.process(hop)          # here and now, on the caller's thread

with client.feature(Background).stream(on_answer=show) as stream:
    camera.start(stream.submit)               # returns at once; at most one frame waits, and the newest takes its place
    ...
"""

import math
import os
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar

from alcove.runtime.cancellation import Cancellation
from alcove.sdk.errors import OutOfBoundError, StreamClosedError
from alcove.sdk.limits import CLOSE_WAIT_S, MAX_DEADLINE_MS, MAX_STREAM_THREADS
from alcove.sdk.metric_records import check_name
from alcove.sdk.stream_frames import Frame, FrameAnswer, StreamCounters, StreamSource, Tally
from alcove.sdk.stream_pump import FramePump
from alcove.sdk.stream_runner import FrameRunner, StreamBounds
from alcove.sdk.stream_session import StreamSession

if TYPE_CHECKING:
    from types import TracebackType

    from alcove.features import Framing

F = TypeVar("F")
T = TypeVar("T")

__all__ = ["FeatureStream", "StreamOptions"]


class StreamOptions(TypedDict, Generic[T], total=False):
    """What an app may ask of a stream.

    Attributes:
        deadline_ms: longest time for a frame's answer, in milliseconds, > 0, from the call of `process` or `submit` on;
            the handle's if omitted.  A frame that is late is answered with `AnswerError.DEADLINE_EXCEEDED`.
        warm_up: make and run the session of a new version on another thread before it takes over; True if omitted.
        max_pause_s: longest pause between frames, in seconds, > 0, over which the state holds; after a longer one it
            begins anew.  None, as if omitted: any.
        allow_nan: let numbers that are not finite into a program with state; False if omitted: such a frame is refused.
        threads: how many compute a frame together, 1 to 16; 1 if omitted.
        missed_metric: name of a metric of the kind "share" (`alcove metric create`) that gets one record for each
            version that served: whether more than `missed_share` of its frames were missed or dropped.
        missed_share: see above, 0 to 1; 0.01 if omitted.
        on_answer: called with the answer of each frame that was submitted, on the stream's thread; the next frame
            begins when it returns.  None: they are iterated.
        on_release: called with each frame that was submitted, once the stream reads it no more: it was answered, or
            dropped.  For buffers that are used again.
    """

    deadline_ms: float | None
    warm_up: bool
    max_pause_s: float | None
    allow_nan: bool
    threads: int
    missed_metric: str | None
    missed_share: float
    on_answer: Callable[[FrameAnswer[T]], object] | None
    on_release: Callable[[Any], object] | None


class FeatureStream(Generic[F, T]):
    """Frames of one source in order: a camera, a microphone, a call; made by `handle.stream()`.

    Each stream has a session of its own; open one for each source.  A sync that installs another version swaps it
    between two frames: its state begins anew, and the next answer says so (`FrameAnswer.is_fresh`).

    Arrays that lie row-major are read in place, of numpy and of anything with `__dlpack__`; others are copied, and no
    type is converted.

    Args:
        source: what it has of its handle.
        framing: the feature's; None: a frame is a program's input, or a tuple of its inputs.
        encode: makes a program's inputs of a frame; None: the frame is that.
        deadline_ms: as the other options, see `StreamOptions`.

    Raises:
        OutOfBoundError: an option is out of its bound.
    """

    def __init__(
        self,
        source: StreamSource,
        framing: "Framing[F, T] | None",
        *,
        encode: Callable[..., tuple[Any, ...]] | None = None,
        deadline_ms: float | None = None,
        warm_up: bool = True,
        max_pause_s: float | None = None,
        allow_nan: bool = False,
        threads: int = 1,
        missed_metric: str | None = None,
        missed_share: float = 0.01,
        on_answer: Callable[[FrameAnswer[T]], object] | None = None,
        on_release: Callable[[Any], object] | None = None,
    ) -> None:
        if deadline_ms is None and source.deadline_s is not None:
            deadline_ms = source.deadline_s * 1000
        if deadline_ms is not None and not 0 < deadline_ms <= MAX_DEADLINE_MS:
            raise OutOfBoundError(name="deadline_ms", bound=f"above 0, at most {MAX_DEADLINE_MS}", value=deadline_ms)
        if max_pause_s is not None and not 0 < max_pause_s < math.inf:
            raise OutOfBoundError(name="max_pause_s", bound="above 0 and finite", value=max_pause_s)
        if not 1 <= threads <= MAX_STREAM_THREADS:
            raise OutOfBoundError(name="threads", bound=f"1 to {MAX_STREAM_THREADS}", value=threads)
        if not 0 <= missed_share <= 1:
            raise OutOfBoundError(name="missed_share", bound="0 to 1", value=missed_share)
        bounds = StreamBounds(
            deadline_ns=None if deadline_ms is None else int(deadline_ms * 1e6),
            max_pause_ns=None if max_pause_s is None else int(max_pause_s * 1e9),
            allows_nan=allow_nan,
            missed_metric=None if missed_metric is None else check_name(missed_metric),
            missed_share=missed_share,
        )
        self._source = source
        self._bounds = bounds
        self._tally = Tally()
        self._stop = Cancellation()
        sessions = StreamSession(threads, warm_up, self._stop)
        self._runner: FrameRunner[T] = FrameRunner(
            source, framing=framing, encode=encode, sessions=sessions, bounds=bounds, tally=self._tally
        )
        self._on_answer = on_answer
        self._pump: FramePump[T] = FramePump(
            self._runner.answer, self._tally, source, on_answer=on_answer, on_release=on_release
        )
        self._process = os.getpid()
        weakref.finalize(self, _abandon, self._pump, self._runner)

    def process(self, frame: F, *, tag: object = None) -> FrameAnswer[T]:
        """Return the answer for the next frame, computed on this thread; after the frame at hand, if there is one.

        When it returns, nothing reads the frame any more.

        Args:
            frame: what the feature's framing takes; without one the program's input, or a tuple of its inputs.
            tag: comes back with the answer, for example the time of the recording.

        Raises:
            InputError: no version on the device takes the frame, or it holds a number that is not finite (see
                `StreamOptions.allow_nan`); or what the feature's framing raises.  The state is as before, and the
                stream goes on.
            StreamClosedError: the stream was closed.
        """
        self._check_open()
        return self._runner.run(self._next(frame, tag), self._stop)

    def submit(self, frame: F, *, tag: object = None) -> int:
        """Let the next frame be answered on the stream's thread, and return its number, at once.

        At most one frame waits while another is at hand: a newer one takes its place, and it counts as dropped.  An
        answer that nobody has taken yet holds up the next frame just so.  The frame is read later, in place: leave its
        memory alone until its answer comes, or `on_release` has it.

        Args:
            frame: as `process`.  One that `process` would refuse is answered with `AnswerError.INVALID_INPUT`.
            tag: as `process`.

        Raises:
            StreamClosedError: the stream was closed or finished.
            ClosedError: the client was closed.
            RuntimeError: the system has no thread.
        """
        self._check_open()
        return self._pump.submit(partial(self._next, frame, tag))

    def finish(self) -> None:
        """Take no more frames by `submit`; the one that waits is answered, and the iteration ends.  Returns at once."""
        self._pump.finish()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the thread of a finished or closed stream has ended, after the last answer; False: it has not.

        Args:
            timeout_s: longest wait, in seconds; None: any.
        """
        return self._pump.join(timeout_s)

    def __iter__(self) -> Iterator[FrameAnswer[T]]:
        """Give the answers of submitted frames as they come, until the stream is finished or closed.

        Raises:
            OutOfBoundError: the answers go to `on_answer`.
        """
        self._check_iterated()
        return iter(self._pump.take, None)

    def __aiter__(self) -> AsyncIterator[FrameAnswer[T]]:
        """Give the answers of submitted frames as they come, in an event loop; as `__iter__`."""
        self._check_iterated()
        return self._pump.iterate()

    def reset(self) -> None:
        """Begin anew, after the frame at hand: the next answer is fresh.

        Raises:
            StreamClosedError: the stream was closed.
        """
        self._check_open()
        self._runner.reset()

    def close(self) -> None:
        """End the stream and let go of its session; again is harmless.

        A frame at hand on another thread is stopped, and answered with `AnswerError.CANCELLED`; one that waits is
        dropped.
        """
        if self._stop.is_cancelled:
            return
        self._stop.cancel()
        self._pump.close(CLOSE_WAIT_S)
        self._runner.close(CLOSE_WAIT_S)

    @property
    def counters(self) -> StreamCounters:
        """Return what became of the frames so far."""
        return self._tally.read()

    @property
    def is_closed(self) -> bool:
        """Tell whether the stream was closed."""
        return self._stop.is_cancelled

    def __enter__(self) -> "FeatureStream[F, T]":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._stop.is_cancelled:
            raise StreamClosedError(feature=self._source.name)
        if self._process != os.getpid():
            self._process = os.getpid()
            self._tally.renew_lock()
            self._runner.begin_in_child()
            self._pump.begin_in_child()

    def _check_iterated(self) -> None:
        if self._on_answer is not None:
            raise OutOfBoundError(name="on_answer", bound="None where answers are iterated", value=self._on_answer)

    def _next(self, frame: Any, tag: object) -> Frame:
        """Return a frame with its number and the time that its answer is due."""
        deadline_ns = self._bounds.deadline_ns
        due_ns = None if deadline_ns is None else self._source.clock.monotonic_ns() + deadline_ns
        return Frame(frame, self._tally.add("received"), tag, due_ns)


def _abandon(pump: FramePump[Any], runner: FrameRunner[Any]) -> None:
    """End the threads of a stream that nobody holds any more."""
    pump.cancel()
    runner.end_alarm()
