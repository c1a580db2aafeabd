"""Tells a device what time it is, and how much time has passed."""

import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

# Time asleep counts: a phone sleeps most of the day.  Darwin's CLOCK_MONOTONIC counts it, Linux has a clock for it.
_SINCE_START: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """The device's two clocks."""

    def now_s(self) -> int:
        """Return seconds since 1970, by whatever the device believes; it may jump."""
        ...

    def monotonic_ns(self) -> int:
        """Return nanoseconds since some moment; it only rises, until the device starts again."""
        ...


@runtime_checkable
class StartAware(Protocol):
    """A clock that also knows one start of the device from the next."""

    def boot_id(self) -> str:
        """Return what names the present start; "" where the system does not say."""
        ...


class SystemClock:
    """The system's clocks."""

    def now_s(self) -> int:
        """Return the system's time."""
        return int(time.time())

    def monotonic_ns(self) -> int:
        """Return the time since the device was started, asleep or not."""
        return time.clock_gettime_ns(_SINCE_START)

    def boot_id(self) -> str:
        """Return the kernel's own name for this start; "" where there is none."""
        return _system_boot_id()


def boot_of(clock: Clock) -> str:
    """Return which start of the device `clock` counts from; "" where it does not say."""
    return clock.boot_id() if isinstance(clock, StartAware) else ""


@cache
def _system_boot_id() -> str:
    with suppress(OSError, UnicodeDecodeError):
        return _BOOT_ID.read_text("ascii").strip()
    return ""
