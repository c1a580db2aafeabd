"""Reads tokens from the database, many in one query: calls with made-up tokens cost a query together, not one each.

    asked ─▶ waiting ──the query before is done──▶ read with all that wait ─▶ answered

A caller gets the answer of a query that began after its question.  Tokens that there are may be remembered, those that
there are not never are: anybody can make up more of them.
"""

import asyncio
from typing import Final

from alcove.platform.store import Store
from alcove.platform.store.tokens import TokenRecord, find_tokens

__all__ = ["TokenReads"]

AT_ONCE: Final = 500  # tokens of one query; SQLite takes 32 766 parameters, and a query should be over soon


class TokenReads:
    """Looks tokens up.

    Args:
        store: has them.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, asyncio.Future[TokenRecord | None]] = {}
        self._task: asyncio.Task[None] | None = None
        self.queries = 0

    async def record(self, token_id: str) -> TokenRecord | None:
        """Return the token of this id, None where there is none.

        Raises:
            StoreBusyError, StoreUnavailableError: the database.
        """
        try:
            return await self._store.version_cache.answer(("token", token_id), lambda: self._find_token(token_id))
        except _UnknownTokenError:
            return None

    async def _find_token(self, token_id: str) -> TokenRecord:
        asked = self._waiting.get(token_id)
        if asked is None:
            asked = self._waiting[token_id] = asyncio.get_running_loop().create_future()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read())
        found = await asyncio.shield(asked)
        if found is None:
            raise _UnknownTokenError  # which is how not to be remembered
        return found

    async def _read(self) -> None:
        while self._waiting:
            ids = list(self._waiting)[:AT_ONCE]
            batch = {token_id: self._waiting.pop(token_id) for token_id in ids}
            self.queries += 1
            try:
                async with self._store.read() as session:
                    found = await find_tokens(session, ids)
            except Exception as error:  # noqa: BLE001 - the callers get the error
                for asked in batch.values():
                    asked.set_exception(error)
                    asked.exception()  # the caller may have gone
            else:
                for token_id, asked in batch.items():
                    asked.set_result(found.get(token_id))


class _UnknownTokenError(Exception):
    """There is no such token."""
