"""What time is it?  Everything in the registry that asks takes one of these, so a test may set it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_s(self) -> int:
        """Return whole seconds since 1970."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_s(self) -> int:
        """Return whole seconds since 1970."""
        return int(time.time())


SYSTEM_CLOCK: Final = SystemClock()


def utc(moment_s: int) -> datetime:
    """Return the moment as TUF writes it: UTC, whole seconds."""
    return datetime.fromtimestamp(moment_s, UTC)
