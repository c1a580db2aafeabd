"""Answers submitted frames on a thread of its own: the newest waits, an older one is dropped, nothing is queued.

    submit ─▶ [ waiting: one ] ─▶ answer ─▶ on_answer, or [ ready: one ] ─▶ iteration
                  │ displaced ─▶ dropped         └ not taken yet: the next frame stays where it waits

Invariants:
  P1  Each frame is answered once or dropped once, and released once after it.
  P2  Answers come in the order of their frames.
  P3  `submit` never waits for a run: the lock is held for a few assignments, and the app's functions run without it.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from alcove.runtime.cancellation import Cancellation
from alcove.sdk.errors import ClosedError, StreamClosedError
from alcove.sdk.stream_frames import Frame, FrameAnswer, StreamSource, Tally

T = TypeVar("T")

_LOG: Final = logging.getLogger(__name__)

__all__ = ["FramePump"]


class FramePump(Generic[T]):
    """See above; safe for several threads.  The thread begins with the first frame, and keeps no process from ending.

    Args:
        answer: answers one frame, and raises nothing; is stopped by the cancellation.
        tally: counts what is dropped.
        source: the feature's name and the client's end.
        on_answer: hears each answer; None: they are taken.
        on_release: hears each frame that is read no more.
    """

    def __init__(
        self,
        answer: Callable[[Frame, Cancellation], FrameAnswer[T]],
        tally: Tally,
        source: StreamSource,
        *,
        on_answer: Callable[[FrameAnswer[T]], object] | None,
        on_release: Callable[[Any], object] | None,
    ) -> None:
        self._answer = answer
        self._tally = tally
        self._feature = source.name
        self._closing = source.closing
        self._on_answer = on_answer
        self._on_release = on_release
        self._is_finishing = False
        self._stop = Cancellation()
        self.begin_in_child()

    def begin_in_child(self) -> None:
        """Begin without the parent's thread and locks, and without what waits for them."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._waiting: Frame | None = None
        self._ready: FrameAnswer[T] | None = None
        self._has_ended = False
        self._wakers: list[Callable[[], object]] = []

    def submit(self, make_frame: Callable[[], Frame]) -> int:
        """Let a frame wait, in the place of the one that does, and return its number.

        Args:
            make_frame: makes it, once it is certain that it is taken.

        Raises:
            StreamClosedError: closed or finished.
            ClosedError: the client was closed.
            RuntimeError: the system has no thread.
        """
        with self._changed:
            self._check_open()
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="alcove-stream", daemon=True)
                thread.start()
                self._thread = thread
            frame = make_frame()
            displaced, self._waiting = self._waiting, frame
            self._changed.notify_all()
        if displaced is not None:
            self._drop(displaced)
        return frame.number

    def take(self) -> FrameAnswer[T] | None:
        """Return the next answer, when it is there; None: there will be none."""
        with self._changed:
            while not self._is_settled():
                self._changed.wait()
            return self._take()

    async def iterate(self) -> AsyncIterator[FrameAnswer[T]]:
        """Give the answers as they come."""
        import asyncio  # noqa: PLC0415 - an app that calls this has loaded it

        loop = asyncio.get_running_loop()
        while True:
            news = asyncio.Event()
            with self._changed:
                is_settled = self._is_settled()
                answer = self._take() if is_settled else None
                if not is_settled:
                    self._wakers.append(lambda news=news: loop.call_soon_threadsafe(news.set))  # type: ignore[misc]
            if not is_settled:
                await news.wait()
            elif answer is None:
                return
            else:
                yield answer

    def finish(self) -> None:
        """Take no more frames; what waits is answered."""
        with self._changed:
            self._is_finishing = True
            self._has_ended = self._has_ended or self._thread is None
            self._tell()

    def cancel(self) -> None:
        """Stop the frame at hand and end; returns at once."""
        self._stop.cancel()
        with self._changed:
            self._has_ended = self._has_ended or self._thread is None
            self._tell()

    def close(self, timeout_s: float) -> None:
        """Stop the frame at hand, drop the one that waits, and end; waits for that, unless on the thread itself."""
        self.cancel()
        self.join(timeout_s)

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the end of the thread and tell whether it came."""
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return thread is None
        thread.join(timeout_s)
        return not thread.is_alive()

    def _check_open(self) -> None:
        if self._closing.is_cancelled:
            raise ClosedError
        if self._is_finishing or self._stop.is_cancelled:
            raise StreamClosedError(feature=self._feature)

    def _is_settled(self) -> bool:
        """Tell whether `_take` has an answer, or knows that none will come."""
        return self._ready is not None or self._has_ended or self._stop.is_cancelled

    def _take(self) -> FrameAnswer[T] | None:
        answer, self._ready = self._ready, None
        self._changed.notify_all()
        return None if self._stop.is_cancelled else answer

    def _tell(self) -> None:
        """Wake all who wait."""
        self._changed.notify_all()
        wakers, self._wakers = self._wakers, []
        for wake in wakers:
            with suppress(RuntimeError):  # its loop has ended
                wake()

    def _work(self) -> None:
        """Answer one frame after the other until the end."""
        with self._closing.over(self):
            while (frame := self._next()) is not None:
                answer = self._answer(frame, self._stop)
                self._call(self._on_release, frame.data)
                del frame
                self._deliver(answer)
        with self._changed:
            left, self._waiting = self._waiting, None
            self._has_ended = True
            self._tell()
        if left is not None:
            self._drop(left)

    def _next(self) -> Frame | None:
        with self._changed:
            while self._waiting is None and not self._is_finishing and not self._stop.is_cancelled:
                self._changed.wait()
            if self._stop.is_cancelled:
                return None
            frame, self._waiting = self._waiting, None
            return frame

    def _deliver(self, answer: FrameAnswer[T]) -> None:
        if self._on_answer is not None:
            self._call(self._on_answer, answer)
            return
        with self._changed:
            while self._ready is not None and not self._stop.is_cancelled:
                self._changed.wait()
            self._ready = answer
            self._tell()

    def _drop(self, frame: Frame) -> None:
        self._tally.add("dropped")
        self._call(self._on_release, frame.data)

    def _call(self, function: Callable[[Any], object] | None, value: Any) -> None:
        """Call the app's function; what it raises is logged by its type, and the stream goes on."""
        if function is None:
            return
        try:
            function(value)
        except Exception as error:  # noqa: BLE001 - the app's code; the frames after it must not fail by it
            _LOG.warning("%s: on_answer or on_release of a stream raised %s", self._feature, type(error).__name__)
