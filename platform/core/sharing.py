"""Lets callers who ask for the same thing within some seconds share one answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ["Shared"]

_T = TypeVar("_T")


class Shared(Generic[_T]):
    """An answer that is made once for all who ask while it is made, and for `fresh_s` seconds after.

    A caller who gives up ends it for nobody else.  What it raises, all who waited get, and the next one asks again.

    Args:
        work: makes the answer.
        fresh_s: seconds that it is given again.
    """

    def __init__(self, work: Callable[[], Awaitable[_T]], fresh_s: float) -> None:
        self._work = work
        self._fresh_s = fresh_s
        self._task: asyncio.Task[_T] | None = None
        self._until_s = 0.0

    async def get(self) -> _T:
        """Return the answer."""
        now_s = asyncio.get_running_loop().time()
        if self._task is None or (self._task.done() and (now_s >= self._until_s or self._has_failed(self._task))):
            self._task = asyncio.create_task(self._make())
        return await asyncio.shield(self._task)

    async def close(self) -> None:
        """End what is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _make(self) -> _T:
        answer = await self._work()
        self._until_s = asyncio.get_running_loop().time() + self._fresh_s
        return answer

    @staticmethod
    def _has_failed(task: asyncio.Task[_T]) -> bool:
        return task.cancelled() or task.exception() is not None
