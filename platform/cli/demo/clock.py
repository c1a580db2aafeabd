"""Provides the demo's clock, which lies some hours back and is moved forward by hand.

A window of a task lasts an hour, and its sums are released when it is over.  The demo's server and devices begin half a
day ago, and go from window to window until then; the aggregators have the system's own clock, so that every window of
the demo is past to them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from alcove.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from pathlib import Path

BEHIND_S = 12 * 3600
"""How far the demo begins in the past; it moves forward by less."""

WINDOW_S = 3600
"""Length of the demo's windows, the shortest that a policy may have."""

_INTO_S = 3000  # so far into a window the clock is set: each device's time to report the one before has come


class DemoClock:
    """The system's clocks, set back by what a file says, which all processes of the demo read.

    Args:
        path: the file; made, `BEHIND_S`, if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            self._set_back(time.time() - self._into_window(time.time() - BEHIND_S))

    def now_s(self) -> int:
        """Return the time in the demo."""
        return int(time.time() - self._behind_s())

    def monotonic_ns(self) -> int:
        """Return a time that rises with the system's, and by what the demo's clock was moved."""
        return SYSTEM_CLOCK.monotonic_ns() - int(self._behind_s() * 1e9) + 2 * BEHIND_S * 10**9

    def boot_id(self) -> str:
        """Return the system's own name of its start."""
        return SYSTEM_CLOCK.boot_id()

    def pass_window(self) -> None:
        """Go on to a moment of the next window."""
        target_s = self._into_window(self.now_s() + WINDOW_S)
        self._set_back(time.time() - target_s)

    def _into_window(self, now_s: float) -> float:
        return now_s - now_s % WINDOW_S + _INTO_S

    def _behind_s(self) -> float:
        return float(self._path.read_text(encoding="ascii"))

    def _set_back(self, seconds: float) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(repr(seconds), encoding="ascii")
        new.replace(self._path)
