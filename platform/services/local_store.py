"""Opens the server's database for whoever owns its data folder, even while the server runs."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.store import Store
from alcove.platform.store.database import database_of
from alcove.platform.store.note import compare_stores

__all__ = ["LOCAL_PRINCIPAL", "with_store"]

LOCAL_PRINCIPAL: Final = "local"  # the owner of the data folder, in the audit log
_T = TypeVar("_T")


async def with_store(data_dir: Path, database: str | None, work: Callable[[Store], Awaitable[_T]]) -> _T:
    """Return what work does with the database of a data folder.

    Args:
        data_dir: of the server.
        database: its URL where it is no file in the folder.
        work: gets the opened database, which is closed afterwards.

    Raises:
        InvalidFieldError: the folder does not exist.
        OtherStoreError: another database belongs to the folder.
    """
    if not await asyncio.to_thread(data_dir.is_dir):
        raise InvalidFieldError("data_dir", "the server's data folder (made by 'alcove keys create')", str(data_dir))
    location = database_of(data_dir, database)
    await asyncio.to_thread(compare_stores, data_dir, database=location, has_blobs=False)
    store = await Store.open(location)
    try:
        return await work(store)
    finally:
        await store.close()
