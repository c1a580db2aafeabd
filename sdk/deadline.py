"""Brings a prediction back in time, and stops the run that would be late.

    predict ─▶ the handle's own thread is free? ─▶ hand the run over ─▶ wait ─▶ the answer
                 │ not within the deadline                         └ not within the deadline ─▶ `DeadlineExceededError`
                 └─▶ `DeadlineExceededError`, nothing begun            the run is cancelled; nobody sees its answer

The caller never waits for a run to notice that it was cancelled: that takes it until its next operator, or some
milliseconds within a long one (docs/robustness.md).  A runtime that cannot stop a run lets it run to its end.  So
there is one thread for each handle and no queue: runs that are late do not pile up, and while one is, further calls
fail without beginning another.
"""

import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from alcove.runtime.cancellation import Cancellation

T = TypeVar("T")


class DeadlineExceededError(Exception):
    """A run is not back in time; inside this package only, the app gets an answer with a code."""


class _Run:
    """One call on its way: what to do, and what came of it."""

    __slots__ = ("cancellation", "error", "is_done", "result", "work")

    def __init__(self, work: Callable[[Cancellation], Any]) -> None:
        self.work = work
        self.cancellation = Cancellation()
        self.result: Any = None
        self.error: BaseException | None = None
        self.is_done = threading.Event()


class DeadlineRunner:
    """Runs one call at a time on a thread of its own, and waits for it no longer than was said.

    The thread begins with the first call and ends with this object; it does not keep a process from ending.  A forked
    child, which has no such thread, begins one of its own.
    """

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._calls: queue.SimpleQueue[_Run | None] = queue.SimpleQueue()
        self._is_free = threading.Lock()
        self._start = threading.Lock()
        self._is_started = False
        self._process = os.getpid()
        weakref.finalize(self, self._calls.put, None)

    def run(self, work: Callable[[Cancellation], T], deadline_s: float) -> T:
        """Return what `work` returns, or raise what it raises, within the deadline.

        Args:
            work: the call; it gets what stops it once it is late, or once its caller was interrupted.
            deadline_s: longest wait, in seconds, > 0.

        Raises:
            DeadlineExceededError: it is not back in time, or an earlier one has not ended.
        """
        end_s = time.monotonic() + deadline_s
        if self._process != os.getpid():
            self._renew()
        if not self._is_free.acquire(timeout=deadline_s):
            raise DeadlineExceededError
        call = _Run(work)
        self._begin()
        self._calls.put(call)
        is_in_time = False
        try:
            is_in_time = call.is_done.wait(max(0.0, end_s - time.monotonic()))
        finally:
            if not is_in_time:
                call.cancellation.cancel()
        if not is_in_time:
            raise DeadlineExceededError
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def _begin(self) -> None:
        with self._start:
            if not self._is_started:
                thread = threading.Thread(
                    target=_work, args=(self._calls, self._is_free), name="alcove-deadline", daemon=True
                )
                thread.start()
                self._is_started = True


def _work(calls: "queue.SimpleQueue[_Run | None]", is_free: threading.Lock) -> None:
    """Do one call after the other until there is None; holds on to none of them, nor to the runner."""
    while (call := calls.get()) is not None:
        try:
            call.result = call.work(call.cancellation)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's, who waits for it
            call.error = error
        is_free.release()
        call.is_done.set()
        del call
