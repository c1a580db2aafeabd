"""Lets callers do what takes long by turns, so that none waits for all that another has asked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Turns"]


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
