"""Keeps the issuer's public keys as an aggregator saw them first, one for each task and time (A8 of `store.tables`).

A device compares the key that the issuer gives it with what leader and helper keep, so an issuer that gave each device
another key, to know its token again, would need both aggregators to help.

Keys are asked for when a report or a device first needs one, and only for the times around the present: nobody can
make an aggregator ask for, or keep, more than a few a window of a task.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import TokenKeyRow
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.platform.store.dialects import insert
from alcove.privacy.dap.task import DapTask
from alcove.privacy.tokens import TokenKey
from alcove.runtime.clock import Clock
from sqlalchemy import select

__all__ = ["IssuerPort", "TokenKeys"]

TIMES_AROUND: Final = 1
"""Windows before and after the present one for which a key is asked for."""

KEPT: Final = 1024  # keys in memory, and places of those that are missing
MISSING_S: Final = 5.0  # seconds for which a key that is not there, or an issuer that is away, is not asked for again


class IssuerPort(Protocol):
    """The issuer, as an aggregator reaches it."""

    async def fetch_key(self, task: DapTask, time: int) -> TokenKey | None:
        """Return the public key for a task and time, or raise PeerUnavailableError; None: the issuer has none."""
        ...


class TokenKeys:
    """An aggregator's copies of the issuer's public keys.

    Args:
        database: its rows.
        issuer: named in the aggregator's configuration; None: none is, and no task has tokens.
        clock: says which times are around the present.
        monotonic_s: seconds that only rise; ages what is remembered to be missing.
    """

    def __init__(
        self,
        database: AggregatorDatabase,
        issuer: IssuerPort | None,
        clock: Clock,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._issuer = issuer
        self._clock = clock
        self._monotonic_s = monotonic_s
        self._kept: OrderedDict[tuple[bytes, int], TokenKey] = OrderedDict()
        self._missing: OrderedDict[tuple[bytes, int], float] = OrderedDict()
        self._away_until_s = 0.0
        self._asking = asyncio.Lock()

    async def find(self, task: DapTask, times: Iterable[int]) -> dict[int, TokenKey]:
        """Return the keys of those times that have one.

        Raises:
            PeerUnavailableError: the issuer does not answer; asking again helps.
            ServerError: the database does not take it now.
        """
        if task.info.token_issuer is None:
            return {}
        wanted = set(times)
        found = {each: self._kept[task.task_id, each] for each in wanted if (task.task_id, each) in self._kept}
        if len(found) < len(wanted):
            found |= await self._read(task, wanted - found.keys())
        now = task.time_at(self._clock.now_s())
        for each in sorted(wanted - found.keys()):
            if abs(each - now) <= TIMES_AROUND:
                found |= await self._ask(task, each)
        return found

    async def _read(self, task: DapTask, times: Iterable[int]) -> dict[int, TokenKey]:
        query = select(TokenKeyRow.time, TokenKeyRow.key)
        async with self._database.read() as session:
            rows = await session.execute(query.where(TokenKeyRow.task_id == task.task_id, TokenKeyRow.time.in_(times)))
            found = {each: TokenKey.from_bytes(key) for each, key in rows}
        for each, key in found.items():
            self._kept[task.task_id, each] = key
            _trim(self._kept)
        return found

    async def _ask(self, task: DapTask, time: int) -> dict[int, TokenKey]:
        """Ask the issuer, one request at a time, and keep what it says unless another process was told sooner."""
        async with self._asking:
            place = (task.task_id, time)
            if place in self._kept:
                return {time: self._kept[place]}
            if self._issuer is None or self._monotonic_s() < self._missing.get(place, 0.0):
                return {}
            if self._monotonic_s() < self._away_until_s:
                raise PeerUnavailableError(task.info.token_issuer or "", "it did not answer a moment ago")
            try:
                key = await self._issuer.fetch_key(task, time)
            except PeerUnavailableError:
                self._away_until_s = self._monotonic_s() + MISSING_S
                raise
            if key is None:
                self._missing[place] = self._monotonic_s() + MISSING_S
                _trim(self._missing)
                return {}
            row = {"task_id": task.task_id, "time": time, "key": key.encoded}
            async with self._database.write() as session:
                await session.execute(insert(session, TokenKeyRow).values(row).on_conflict_do_nothing())
            return await self._read(task, [time])


def _trim(kept: "OrderedDict[tuple[bytes, int], TokenKey] | OrderedDict[tuple[bytes, int], float]") -> None:
    if len(kept) > KEPT:
        kept.popitem(last=False)
