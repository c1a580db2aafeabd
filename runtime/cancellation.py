"""Stops runs from another thread: those at hand, and those that come later.

thread 1: `model.run(inputs, cancellation)` raises RunCancelledError soon after
thread 2, or a timer: `cancellation.cancel()`, which returns at once
"""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Stoppable(Protocol):
    """What can be stopped from any thread: a session, or another cancellation."""

    def cancel(self) -> None:
        """Stop it; returns at once."""
        ...


class Cancellation:
    """A decision to stop, which is never taken back; safe for any number of threads.

    Invariants:
        C1  What is joined is cancelled when the decision comes, or at once where it came before.
        C2  What has left is never cancelled by it: a session that was joined can serve another call.
    """

    __slots__ = ("_is_cancelled", "_joined", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._joined: set[Stoppable] = set()
        self._is_cancelled = False

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Stop all that is joined and all that joins later; returns at once, and may be called again."""
        with self._lock:
            self._is_cancelled = True
            for stoppable in self._joined:
                stoppable.cancel()

    @contextmanager
    def over(self, stoppable: Stoppable) -> Iterator[None]:
        """Hold something that is stopped with this, while the block runs (C1, C2)."""
        with self._lock:
            if self._is_cancelled:
                stoppable.cancel()
            else:
                self._joined.add(stoppable)
        try:
            yield
        finally:
            with self._lock:
                self._joined.discard(stoppable)


class Alarm:
    """Calls something after a while, from a thread that starts with the alarm and ends with `close`.

    For who may start no thread later; one that does so anyhow takes `threading.Timer`.  One block after the other costs
    its thread no turn for each: it sleeps until the earliest time that it was set to, and looks then.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at_s = 0.0
        self._wakes_at_s = math.inf
        self._action: Callable[[], object] | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._wait, name="alcove-alarm", daemon=True)
        self._thread.start()

    @contextmanager
    def after(self, seconds: float, action: Callable[[], object]) -> Iterator[None]:
        """Call `action` once, if the block still runs after `seconds`; one block at a time."""
        self._set(time.monotonic() + seconds, action)
        try:
            yield
        finally:
            self._set(0.0, None)

    def close(self) -> None:
        """End the thread; returns when it has ended."""
        self.end()
        self._thread.join()

    def end(self) -> None:
        """Let the thread end; returns at once."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    def _set(self, at_s: float, action: Callable[[], object] | None) -> None:
        with self._changed:
            self._at_s, self._action = at_s, action
            if action is not None and at_s < self._wakes_at_s:
                self._wakes_at_s = at_s
                self._changed.notify()

    def _wait(self) -> None:
        with self._changed:
            while not self._is_closed:
                now_s = time.monotonic()
                if self._action is not None and self._at_s <= now_s:
                    action, self._action = self._action, None
                    action()
                    continue
                if self._action is not None:
                    self._wakes_at_s = self._at_s
                elif self._wakes_at_s <= now_s:
                    self._wakes_at_s = math.inf
                self._changed.wait(None if self._wakes_at_s == math.inf else self._wakes_at_s - now_s)
