"""Provides the one clock of devices and servers, a protocol so that tests can set the time.

The module lies in the lowest package, because registry, SDK and platform all read it.
"""

import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, Protocol

# Time asleep counts: a phone sleeps most of the day.  Darwin's CLOCK_MONOTONIC counts it, Linux has a clock for it.
_SINCE_START: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """The wall clock, the monotonic clock, and the name of the present start."""

    def now_s(self) -> int:
        """Return whole seconds since 1970, as the machine believes; it may jump."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds since the machine started, asleep or not; it only rises until the next start."""
        ...

    def boot_id(self) -> str:
        """Return what names the present start; "" where the system does not say."""
        ...


class SystemClock:
    """The system's clocks."""

    def now_s(self) -> int:
        """Return the system's time."""
        return int(time.time())

    def monotonic_ns(self) -> int:
        """Return the time since the machine was started, asleep or not."""
        return time.clock_gettime_ns(_SINCE_START)

    def boot_id(self) -> str:
        """Return the kernel's own name for this start; "" where there is none."""
        return _system_boot_id()


SYSTEM_CLOCK: Final = SystemClock()


@cache
def _system_boot_id() -> str:
    with suppress(OSError, UnicodeDecodeError):
        return _BOOT_ID.read_text("ascii").strip()
    return ""
