"""Keeps the session that serves a stream, and makes that of the version which takes over.

    frame ─▶ present(): the model that answers is the session's own ─ yes ─▶ it serves the frame
                └ no ─▶ prepare() in a thread of its own: session, one run on a copy of the frame, reset
                            │ meanwhile the version before serves; it holds its own memory, whatever a sync removes
                            └ ready, failed, or `MAX_WARM_UP_S` over ─▶ the next frame begins with the new session

Invariants:
  W1  A frame is served by one session from its first run to its last.
  W2  No frame waits for a load: that is the sync's; nor, with a warm-up, for memory that is touched for the first time.
  W3  The state of one version never meets a program of another.
"""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from alcove.runtime.cancellation import Cancellation
from alcove.runtime.errors import AlcoveRuntimeError
from alcove.sdk.answers import ActiveModel
from alcove.sdk.engine import Session, begin_session
from alcove.sdk.limits import MAX_WARM_UP_S
from alcove.sdk.stream_frames import StreamCounters

__all__ = ["Live", "StreamSession"]


@dataclass(slots=True, eq=False)
class Live:
    """A session and the version that it is of.

    Attributes:
        active: what answers; replaced where only its reason, arm or parameters change.
        session: its session; None where it has no model, or none could be made.
        since: the counters when it began.
        has_advanced: there is a frame in its state.
        has_answered: it took a frame of the app's.
        has_failed: a fault of it was counted.
    """

    active: ActiveModel
    session: Session | None
    since: StreamCounters
    has_advanced: bool = False
    has_answered: bool = False
    has_failed: bool = False


class Successor:
    """The session of the version that takes over, made on a thread of its own.

    Attributes:
        active: the version.
        start_ns: when it was begun.
        session: the session; None until `is_ready`, and where it could not be made.
        is_ready: it was made, or failed.

    Args:
        inputs: of one run, which share no memory with the app's; None: no run.
        threads: of the session.
        stop: ends the run.
    """

    def __init__(
        self, active: ActiveModel, inputs: tuple[Any, ...] | None, *, threads: int, stop: Cancellation, start_ns: int
    ) -> None:
        self.active = active
        self.start_ns = start_ns
        self.session: Session | None = None
        self.is_ready = threading.Event()
        self._inputs = inputs
        self._threads = threads
        self._stop = stop
        try:
            threading.Thread(target=self._prepare, name="alcove-warm-up", daemon=True).start()
        except RuntimeError:  # no thread to be had: the frame's own makes the session
            self.is_ready.set()

    def _prepare(self) -> None:
        try:
            self.session = open_session(self.active, self._threads, self._inputs, self._stop)
        finally:
            self._inputs = None
            self.is_ready.set()


def open_session(
    active: ActiveModel, threads: int, inputs: tuple[Any, ...] | None = None, stop: Cancellation | None = None
) -> Session | None:
    """Return a session of what answers, its state untouched; None where it has no model, or none can be made.

    Args:
        active: what answers.
        threads: of the session.
        inputs: of one run, so that all memory was touched; what comes of it is nobody's.
        stop: ends that run.
    """
    if active.model is None:
        return None
    active.attempt.enter()
    try:
        session = begin_session(active.model, threads)
        if inputs is not None and stop is not None:
            with contextlib.suppress(AlcoveRuntimeError, MemoryError), stop.over(session):
                session(*inputs)
            session.uncancel()
            session.reset()
    except (AlcoveRuntimeError, MemoryError, OSError):
        return None
    finally:
        active.attempt.leave(is_healthy=False)
    return session


@dataclass(slots=True)
class StreamSession:
    """Which session serves the frame at hand; one thread at a time.

    Attributes:
        threads: of each session.
        has_warm_up: sessions of later versions are made and run once before they serve.
        stop: the stream's end.
        live: what serves; None before the first frame.
        successor: what is being made; None: nothing.
    """

    threads: int
    has_warm_up: bool
    stop: Cancellation
    live: Live | None = None
    successor: Successor | None = field(default=None)

    def present(self, active: ActiveModel, now_ns: int, counters: Callable[[], StreamCounters]) -> Live:
        """Return what serves the frame at hand; another than before is a swap, but for the first.

        Args:
            active: what answers for the feature at present.
            now_ns: reading of the monotonic clock.
            counters: reads those of this moment.
        """
        live = self.live
        if live is not None and live.active.model is active.model:
            live.active, self.successor = active, None
            if live.session is None:
                live.session = open_session(active, self.threads)  # there was no memory for it
            return live
        if live is None or live.session is None or active.model is None or not self.has_warm_up:
            return self.begin(active, counters)
        successor = self.successor
        if successor is None or successor.active.model is not active.model:
            return live
        if successor.is_ready.is_set() or now_ns - successor.start_ns > MAX_WARM_UP_S * 1e9:
            if successor.session is None:
                return self.begin(active, counters)
            return self._serve(Live(active, successor.session, counters()))
        return live

    def prepare(self, active: ActiveModel, inputs: tuple[Any, ...] | None, now_ns: int) -> None:
        """Begin to make the session of a version that does not serve yet."""
        self.successor = Successor(active, inputs, threads=self.threads, stop=self.stop, start_ns=now_ns)

    def is_due(self, active: ActiveModel) -> bool:
        """Tell whether `prepare` is due: another version answers than the one that serves, and is not being made."""
        live, successor = self.live, self.successor
        if live is None or live.active.model is active.model or active.model is None:
            return False
        return successor is None or successor.active.model is not active.model

    def begin(self, active: ActiveModel, counters: Callable[[], StreamCounters]) -> Live:
        """Serve with a new session, made here and now."""
        return self._serve(Live(active, open_session(active, self.threads), counters()))

    def _serve(self, live: Live) -> Live:
        self.live, self.successor = live, None
        return live
