"""Repeats a piece of work while a block runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import structlog

__all__ = ["repeating"]

_log = structlog.get_logger()


@asynccontextmanager
async def repeating(
    every_s: float, work: Callable[[], Awaitable[None]], report: Callable[[Exception | None], None] | None = None
) -> AsyncIterator[None]:
    """Do `work` at each interval while the block runs; what it raises is logged, and it is tried again.

    The task is asked to end, not cancelled: a cancelled database call takes its connection with it.

    Args:
        every_s: seconds between two.
        work: what is done.
        report: is called after each with what it raised, None: nothing.
    """
    is_over = asyncio.Event()

    async def keep() -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(is_over.wait(), every_s)
                return
            problem: Exception | None = None
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - a full disk today must not end the work of tomorrow
                _log.error("failed, will be tried again", exc_info=error)
                problem = error
            if report is not None:
                report(problem)

    task = asyncio.create_task(keep())
    try:
        yield
    finally:
        is_over.set()
        await task
