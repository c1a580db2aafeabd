"""Syncs and reports by itself, at intervals with jitter, so that devices do not come all at once.

After a failure the interval doubles, and again after each further one, up to 16 hours; where the server says how long
it wants to be left alone (`Retry-After`, of which 12 hours are believed), no turn comes before, and the devices it said
that to do not all come then.  Whatever servers do and say, two turns are at most a day apart, unless the app says more.

Syncs have a thread, and reports have another, which sends one a turn: neither a sync nor another report of the device
is at the same time but by chance.
"""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Final

from alcove.privacy.entropy import Entropy, random_word
from alcove.registry.errors import FetchError
from alcove.sdk.errors import ClosedError, OutOfBoundError, StatusError, TransportError
from alcove.sdk.limits import MAX_BACKOFF_S, MIN_SYNC_INTERVAL_S

if TYPE_CHECKING:
    from alcove.sdk.client import Client
    from alcove.sdk.reports import ReportResult

_LOG: Final = logging.getLogger(__name__)

JITTER: Final = 0.5
"""Share of the interval by which a wait is shorter or longer."""


MAX_DOUBLINGS: Final = 32
"""Beyond it an interval of a second has long been a day."""


@dataclass(frozen=True, slots=True)
class Turn:
    """How one turn went.

    Attributes:
        is_failed: the server could not be reached, or refused.
        asked_wait_s: for how long the server asked to be left alone, in seconds; 0 where it did not.
        left: how many turns more are due; the next comes so much sooner that all have time within the interval.
        next_due_s: seconds until a turn is due at a time that was drawn already; the next does not come later, unless
            this one failed.
    """

    is_failed: bool = False
    asked_wait_s: float = 0.0
    left: int = 0
    next_due_s: float | None = None


def next_wait_s(interval_s: float, entropy: Entropy, *, failures: int = 0, asked_wait_s: float = 0.0) -> float:
    """Return how long to wait for the next turn, in seconds.

    Args:
        interval_s: mean time between two turns while all is well.
        entropy: source of the jitter.
        failures: turns that failed since the last that did not.
        asked_wait_s: never sooner than that.

    Returns:
        Drawn evenly from [0.5, 1.5) of the interval, doubled for each failure up to 16 hours; where the server asked
        for more, from [1, 2) of what it asked for.  Never above a day, unless one and a half of the interval are.
    """
    drawn = random_word(entropy) / (1 << 64)
    mean_s = max(interval_s, min(interval_s * 2.0 ** min(failures, MAX_DOUBLINGS), MAX_BACKOFF_S))
    wait_s = mean_s * (1 - JITTER + 2 * JITTER * drawn)
    return max(wait_s, asked_wait_s * (1 + drawn))


def sync_turn(client: "Client") -> Turn:
    """Sync; a failure is a warning in the log."""
    with suppress(ClosedError):
        result = client.sync()
        if result.error is not None and not isinstance(result.error, ClosedError):
            # Its fields are the server's and the disk's; nothing that a person wrote is in a sync.
            stale = "; what is installed is stale" if client.is_stale else ""
            _LOG.warning("a background sync ended: %s: %s%s", type(result.error).__name__, result.error, stale)
        is_failed = isinstance(result.error, (TransportError, StatusError, FetchError))
        return Turn(is_failed=is_failed, asked_wait_s=result.retry_after_s)
    return Turn()


def report_turn(send: Callable[[], "ReportResult"]) -> Turn:
    """Send one of the reports that wait; one party's error is no failure of a turn that sent another's report."""
    with suppress(ClosedError):
        result = send()
        error = None if result.sent else result.error
        asked_wait_s = error.retry_after_s if isinstance(error, StatusError) else None
        is_failed = isinstance(error, (TransportError, StatusError))
        if error is not None:
            # Nothing of a report is in its error: who was asked, and what they said.
            level = logging.WARNING if is_failed else logging.DEBUG
            _LOG.log(level, "a background report was not sent: %s: %s", type(error).__name__, error)
        return Turn(
            is_failed=is_failed, asked_wait_s=asked_wait_s or 0.0, left=result.waiting, next_due_s=result.next_due_s
        )
    return Turn()


class BackgroundSync:
    """A thread that does one task again and again until it is stopped.

    Args:
        task: what to do; returns how it went.  Should it raise, that is a defect of ours: it is logged, and the next
            turn comes, later as after any failure.
        interval_s: mean time between two tasks, >= 1 second.
        entropy: source of the jitter.
        wait: waits for so many seconds, and tells whether to stop; tests bring their own.
        name: of the thread.

    Raises:
        OutOfBoundError: the interval is shorter than a second, or no number.
    """

    def __init__(
        self,
        task: Callable[[], Turn],
        interval_s: float,
        entropy: Entropy,
        wait: Callable[[float], bool] | None = None,
        *,
        name: str = "alcove-sync",
    ) -> None:
        if not MIN_SYNC_INTERVAL_S <= interval_s < float("inf"):
            raise OutOfBoundError(name="interval_s", bound=f"at least {MIN_SYNC_INTERVAL_S}", value=interval_s)
        self._task = task
        self._interval_s = interval_s
        self._entropy = entropy
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        # The first wait is a random part of the interval: apps that start together do not sync together.
        self._first_wait_s = interval_s * random_word(entropy) / (1 << 64)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the first task comes after a random part of the interval."""
        self._thread.start()

    def cancel(self) -> None:
        """Let no further task begin."""
        self._stopped.set()

    def stop(self, timeout_s: float | None = None) -> None:
        """End after the task at hand; returns when the thread has ended, or after a time without it."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        wait_s = self._first_wait_s
        failures = 0
        while not self._wait(wait_s) and not self._stopped.is_set():
            try:
                turn = self._task()
            except Exception as error:  # noqa: BLE001 - whatever it is, a thread that ended would never sync again
                _log(error)
                turn = Turn(is_failed=True)
            failures = failures + 1 if turn.is_failed else 0
            interval_s = self._interval_s / (1 + turn.left)
            wait_s = next_wait_s(interval_s, self._entropy, failures=failures, asked_wait_s=turn.asked_wait_s)
            if turn.next_due_s is not None and not turn.asked_wait_s:  # a failure of one task delays no other's report
                wait_s = min(wait_s, max(turn.next_due_s, MIN_SYNC_INTERVAL_S))


def _log(error: Exception) -> None:
    """Say what was raised and where in the code; its message could hold the user's data, so that is left out."""
    place = extract_tb(error.__traceback__)[-1]
    _LOG.error("a background sync failed: %s in %s:%s", type(error).__name__, Path(place.filename).name, place.lineno)
