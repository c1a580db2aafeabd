"""Lets callers do what takes long by turns, so that none waits for all that another has asked for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

__all__ = ["Computations", "Turns"]

_T = TypeVar("_T")


class Turns:
    """Lets each caller do `most` of something at once; its others wait, and nobody else's.

    Args:
        most: at once, of one caller.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._callers: dict[str, tuple[asyncio.Semaphore, int]] = {}

    def __len__(self) -> int:
        return len(self._callers)

    @asynccontextmanager
    async def turn(self, caller: str) -> AsyncIterator[None]:
        """Wait for the caller's turn, and have it while the block runs."""
        semaphore, count = self._callers.get(caller, (asyncio.Semaphore(self._most), 0))
        self._callers[caller] = semaphore, count + 1
        try:
            async with semaphore:
                yield
        finally:
            _, count = self._callers[caller]
            self._callers[caller] = semaphore, count - 1
            if count == 1:
                del self._callers[caller]


class Computations:
    """Computes what takes seconds of a processor on threads of its own, one thing at a time for each caller.

    A thread cannot be ended: what a caller no longer waits for is computed to its end, and has its turn until then.

    Args:
        most: threads, of all callers together.
        name: of the threads.
    """

    def __init__(self, most: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(most, name)
        self._turns = Turns(1)

    async def run(self, caller: str, work: Callable[[], _T]) -> _T:
        """Return what `work` returns or raises, once it is the caller's turn and a thread is free."""
        async with self._turns.turn(caller):
            begun = self._threads.submit(work)
            answer = asyncio.wrap_future(begun)
            try:
                return await asyncio.shield(answer)
            except asyncio.CancelledError:
                if not begun.cancel():
                    await asyncio.wait([answer])
                raise
