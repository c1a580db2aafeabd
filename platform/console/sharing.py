"""Shares work among those who load one page again at the same time: a change has a hundred viewers read the same.

What is shared is a whole page, read, made and compressed once (`Pages.routes`).

    asked ─▶ gathering, for GATHER_S ─▶ one read for all who asked ─▶ each gets what it gave

S1  A read begins after each question that it answers: nobody gets what was there before he asked.
S2  Nobody's rights or session answer for another's: a key names the role, and where the read of another fails, one's
    own is made.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

from alcove.platform.client import ClientError

__all__ = ["GATHER_S", "SharedReads"]

GATHER_S: Final = 0.25  # seconds; nobody waits for what a page does by itself

_Value = TypeVar("_Value")


class SharedReads:
    """Reads that several wait for.

    Args:
        gather_s: seconds for which a read waits for more who ask the same.
    """

    def __init__(self, gather_s: float = GATHER_S) -> None:
        self._gather_s = gather_s
        self._gathering: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, key: Hashable, work: Callable[[], Awaitable[_Value]]) -> _Value:
        """Return what `work` gives, this caller's or that of another who asked for the same key just before.

        Args:
            key: names the question and the rights of who asks.
            work: reads; what it gives is shared, and must not be changed.

        Raises:
            ClientError: this caller's own read failed.
        """
        task = self._gathering.get(key)
        is_own = task is None
        if task is None:
            task = self._gathering[key] = asyncio.create_task(self._gather(key, work))
        try:
            found: _Value = await asyncio.shield(task)  # who goes away takes nothing from the others
        except ClientError:
            if is_own:
                raise
            return await work()
        return found

    async def _gather(self, key: Hashable, work: Callable[[], Awaitable[_Value]]) -> _Value:
        await asyncio.sleep(self._gather_s)
        del self._gathering[key]  # who asks from now on waits for the next read
        return await work()
