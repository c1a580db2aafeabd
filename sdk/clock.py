"""What time is it, and how much time has passed?"""

import time
from typing import Protocol


class Clock(Protocol):
    """The device's two clocks."""

    def now_s(self) -> int:
        """Return seconds since 1970, by whatever the device believes; it may jump."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds since some moment; it only rises."""
        ...


class SystemClock:
    """The system's clocks."""

    def now_s(self) -> int:
        """Return the system's time."""
        return int(time.time())

    def monotonic_ns(self) -> int:
        """Return the system's performance counter."""
        return time.perf_counter_ns()
