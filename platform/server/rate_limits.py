"""Bounds what one caller holds of the server: calls a second, calls and streams at once, requests half sent.

Callers are counted after they are authenticated, each by its token or certificate, so that a loop gone wrong at one
team stops nobody else's halt.  Of the places for all callers together, some are kept for operators.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Final

from alcove.platform.domain import limits
from alcove.platform.domain.errors import BusyCallerError, ServerFullError, TooManyCallsError
from alcove.platform.domain.principal import Principal
from alcove.platform.listening.rate import RateLimit

__all__ = ["CallerLimits"]

CALLERS_KEPT: Final = 10_000  # callers in memory; they are authenticated, so there are never many


@dataclass
class _Held:
    """Calls and streams that one caller holds now."""

    rate: RateLimit
    calls: int = 0
    streams: int = 0
    reading: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(limits.CALLER_READS))
    publishing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(limits.CALLER_PUBLICATIONS))


class CallerLimits:
    """Lets each caller make `per_second` calls a second, and hold a bounded number of them at once.

    Args:
        per_second: calls, > 0; at most as many in one burst.
        monotonic_s: seconds that only rise.
    """

    def __init__(self, per_second: int, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._monotonic_s = monotonic_s
        self._callers: dict[str, _Held] = {}
        self._calls = 0

    def __len__(self) -> int:
        return len(self._callers)

    def take(self, caller: str) -> None:
        """Count a call.

        Raises:
            TooManyCallsError: the caller made too many; it says when the next one passes.
        """
        if not self._of(caller).rate.take(1):
            raise TooManyCallsError(caller, self._per_second)

    @contextmanager
    def hold(self, principal: Principal, *, is_stream: bool) -> Iterator[None]:
        """Give a call its place while the block runs.

        Raises:
            BusyCallerError: the caller has as many calls or streams under way as it may.
            ServerFullError: all callers together have; the last places are for operators.
        """
        held = self._of(principal.name)
        if held.calls >= limits.CALLER_CALLS:
            raise BusyCallerError(principal.name, "calls", limits.CALLER_CALLS)
        if is_stream and held.streams >= limits.CALLER_STREAMS:
            raise BusyCallerError(principal.name, "streams", limits.CALLER_STREAMS)
        reserve = 0 if principal.role.name == "operator" else limits.CALLS_FOR_OPERATORS
        if self._calls >= limits.CALLS_AT_ONCE - reserve:
            raise ServerFullError(limits.CALLS_AT_ONCE - reserve)
        self._calls += 1
        held.calls += 1
        held.streams += is_stream
        try:
            yield
        finally:
            self._calls -= 1
            held.calls -= 1
            held.streams -= is_stream

    @asynccontextmanager
    async def reading(self, caller: str) -> AsyncIterator[None]:
        """Wait until few enough requests of this caller are half there; the block reads one."""
        async with self._of(caller).reading:
            yield

    @asynccontextmanager
    async def publishing(self, caller: str) -> AsyncIterator[None]:
        """Wait until few enough publications of this caller are under way; the block is one."""
        async with self._of(caller).publishing:
            yield

    def _of(self, caller: str) -> _Held:
        held = self._callers.get(caller)
        if held is None:
            if len(self._callers) >= CALLERS_KEPT:
                self._callers = {name: one for name, one in self._callers.items() if one.calls}
            held = self._callers[caller] = _Held(RateLimit(self._per_second, self._monotonic_s))
        return held
