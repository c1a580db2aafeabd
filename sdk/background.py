"""When does a device sync by itself?  At an interval with jitter, so that devices do not come all at once."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from traceback import extract_tb
from typing import Final

from alcove.privacy.entropy import Entropy, random_word
from alcove.sdk.errors import OutOfBoundError
from alcove.sdk.limits import MIN_SYNC_INTERVAL_S

_LOG: Final = logging.getLogger(__name__)

JITTER: Final = 0.5
"""Share of the interval by which a wait is shorter or longer."""


def next_wait_s(interval_s: float, entropy: Entropy) -> float:
    """Return a wait drawn evenly from [0.5, 1.5) of the interval, in seconds."""
    drawn = random_word(entropy) / (1 << 64)
    return interval_s * (1 - JITTER + 2 * JITTER * drawn)


class BackgroundSync:
    """A thread that does one task again and again until it is stopped.

    Args:
        task: what to do; should it raise, that is a defect of ours: it is logged, and the next turn comes.
        interval_s: mean time between two tasks, >= 1 second.
        entropy: source of the jitter.
        wait: waits for so many seconds, and tells whether to stop; tests bring their own.

    Raises:
        OutOfBoundError: the interval is shorter than a second, or no number.
    """

    def __init__(
        self,
        task: Callable[[], object],
        interval_s: float,
        entropy: Entropy,
        wait: Callable[[float], bool] | None = None,
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
        self._thread = threading.Thread(target=self._run, name="alcove-sync", daemon=True)

    def start(self) -> None:
        """Begin; the first task comes after a random part of the interval."""
        self._thread.start()

    def stop(self) -> None:
        """End after the task at hand; returns when the thread has ended."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        wait_s = self._first_wait_s
        while not self._wait(wait_s) and not self._stopped.is_set():
            try:
                self._task()
            except Exception as error:  # noqa: BLE001 - whatever it is, a thread that ended would never sync again
                _log(error)
            wait_s = next_wait_s(self._interval_s, self._entropy)


def _log(error: Exception) -> None:
    """Say what was raised and where in the code; its message could hold the user's data, so that is left out."""
    place = extract_tb(error.__traceback__)[-1]
    _LOG.error("a background sync failed: %s in %s:%s", type(error).__name__, Path(place.filename).name, place.lineno)
