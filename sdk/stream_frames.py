"""Defines the values of a stream: a frame on its way, its answer, the counters, and what a stream has of its handle."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from alcove.runtime.cancellation import Cancellation
from alcove.runtime.clock import Clock
from alcove.sdk.answers import ActiveModel, Answer, Measurement, ModelRef
from alcove.sdk.engine import Runnable
from alcove.sdk.metric_records import MetricRecord

T = TypeVar("T")

__all__ = ["Frame", "FrameAnswer", "StreamCounters", "StreamSource", "Tally"]


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stream.

    Attributes:
        data: what the app passed.
        number: counted from 0, over all frames that the stream got.
        tag: the app's own, for example the time of the recording.
        due_ns: reading of the monotonic clock by which its answer is due; None: no deadline.
    """

    data: Any
    number: int
    tag: object = None
    due_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameAnswer(Answer[T], Generic[T]):
    """The answer for one frame.

    Attributes:
        frame: number of the frame, counted from 0 over all that the stream got; a gap is a frame that was dropped.
        tag: what was submitted with it.
        is_fresh: nothing of earlier frames was in the state: the first of a stream, after a reset, or after another
            version took over.
        has_advanced: the state has this frame in it.  False: it is as if the frame had not been.
    """

    frame: int
    tag: object = field(default=None, compare=False)
    is_fresh: bool = False
    has_advanced: bool = True


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """What became of the frames of a stream; `received` is the sum of the four after it and of those on their way.

    Attributes:
        received: frames that the stream got.
        processed: were answered with a value, in time.
        dropped: gave way to a newer one while they waited, or waited when the stream was closed.
        missed: were late for their deadline, or it had passed before they began.
        failed: were answered with another error, or refused.
        resets: restarts of the state by the app, or by a pause.
        swaps: restarts of the state because another version took over.
    """

    received: int = 0
    processed: int = 0
    dropped: int = 0
    missed: int = 0
    failed: int = 0
    resets: int = 0
    swaps: int = 0


class Tally:
    """Counts the frames of a stream; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> int:
        """Count one more and return how many there were before."""
        with self._lock:
            before = self._counts[name]
            self._counts[name] = before + 1
            return before

    def read(self) -> StreamCounters:
        """Return the counts, all of one moment."""
        with self._lock:
            return StreamCounters(**self._counts)

    def renew_lock(self) -> None:
        """Hold no lock of the parent in a forked child."""
        self._lock = threading.Lock()


class Settle(Protocol):
    """Takes each answer of a stream."""

    def __call__(self, active: ActiveModel, answer: Answer[Any], *, is_first_fault: bool) -> None:
        """Note an answer."""
        ...


@dataclass(frozen=True, slots=True)
class StreamSource:
    """What a stream has of the handle that it was opened by.

    Attributes:
        name: the feature's.
        model_ref: what answers at present.
        clock: measures latency and deadlines.
        closing: the client's end.
        decode: makes the value of a program and the outputs of a run.
        watch: called before each frame with the monotonic clock's reading.
        stand_ins: gives what may answer in the place of a version that does not take what the app passes.
        settle: takes each answer.
        record: takes outcomes.
        record_metric: takes records of the app's own metrics.
        deadline_s: the handle's, in seconds; None: it has none.
    """

    name: str
    model_ref: ModelRef
    clock: Clock
    closing: Cancellation
    decode: Callable[[Runnable, list[Any]], Any]
    watch: Callable[[int], None]
    stand_ins: Callable[[], Iterable[ActiveModel]]
    settle: Settle
    record: Callable[[Measurement], None]
    record_metric: Callable[[MetricRecord], None]
    deadline_s: float | None
