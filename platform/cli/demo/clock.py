"""Provides the demo's clock, which lies some hours back and is moved forward by hand.

A window of a task lasts an hour, its reports come in the next one, and its sums are released after that.  The demo's
processes begin half a day ago, and go together from window to window.
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
    """A clock that runs as the system's does, set back by what a file says, or stands still where the file says.

    All processes of the demo read the same file.

    Args:
        path: the file; made, `BEHIND_S`, if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        if not path.exists():
            self._run_from(_start_of(time.time() - BEHIND_S) + _INTO_S)

    def now_s(self) -> int:
        """Return the time in the demo."""
        return int(self._now_s())

    def monotonic_ns(self) -> int:
        """Return a time that rises as the demo's does."""
        return int(self._now_s() * 1e9)

    def boot_id(self) -> str:
        """Return the system's own name of its start."""
        return SYSTEM_CLOCK.boot_id()

    def stop_at_end(self) -> None:
        """Stand still in the last second of the window, in which all has been asked for that a window is there for."""
        self._write(f"at {_start_of(self._now_s()) + WINDOW_S - 1}")

    def pass_window(self) -> None:
        """Run on from a moment of the next window."""
        self._run_from(_start_of(self._now_s()) + WINDOW_S + _INTO_S)

    def _now_s(self) -> float:
        how, seconds = self._path.read_text(encoding="ascii").split()
        return float(seconds) if how == "at" else time.time() - float(seconds)

    def _run_from(self, now_s: float) -> None:
        self._write(f"behind {time.time() - now_s}")

    def _write(self, line: str) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(line, encoding="ascii")
        new.replace(self._path)


def _start_of(now_s: float) -> float:
    return now_s - now_s % WINDOW_S
