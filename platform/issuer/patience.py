"""Writes when other writers let it: the issuer's process goes behind the server's (`Store.join`)."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from alcove.platform.domain.errors import StoreBusyError
from alcove.platform.store import Store
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["write_patiently"]

BUSY_S: Final = 3.0  # seconds of trying before the device is sent away
AGAIN_S: Final = 0.02  # seconds until a busy database is tried again
_T = TypeVar("_T")


async def write_patiently(store: Store, work: Callable[[AsyncSession], Awaitable[_T]]) -> _T:
    """Return what `work` returns in a transaction of its own; it may be called again.

    Raises:
        StoreBusyError: other writers held the database for too long.
        ServerError: the database does not take it.
    """
    until_s = time.monotonic() + BUSY_S
    while True:
        try:
            async with store.write() as session:
                return await work(session)
        except StoreBusyError:
            if time.monotonic() >= until_s:
                raise
        await asyncio.sleep(AGAIN_S)
