"""Stops runs from another thread: those at hand, and those that come later.

thread 1: `model.run(inputs, cancellation)` raises RunCancelledError soon after
thread 2, or a timer: `cancellation.cancel()`, which returns at once
"""

import threading
from collections.abc import Iterator
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
