"""Answers that are remembered are never older than the last commit of any writer; short reads run in this thread."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alcove.platform.domain.errors import ResourceNotFoundError
from alcove.platform.store import Store
from alcove.platform.store import version_cache as module
from alcove.platform.store.tokens import TokenRecord, add_token, find_token, list_tokens
from alcove.platform.store.version_cache import VersionCache

WRITE = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit(); c.close()"


def token(number: int) -> TokenRecord:
    """A row."""
    return TokenRecord(f"{number:016x}", "0" * 64, "reader", 0, 1, None)


class Asking:
    """Asks how many tokens there are, and counts how often it was read."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.reads = 0

    async def __call__(self) -> int:
        """Return the answer."""
        return await self.store.version_cache.answer("tokens", self._read)

    async def _read(self) -> int:
        self.reads += 1
        async with self.store.read() as session:
            return len(await list_tokens(session))


async def test_an_answer_is_as_new_as_the_last_commit_of_this_server(store: Store) -> None:
    """After each write the next question is read; on SQLite none between writes is."""
    ask = Asking(store)
    for number in range(5):
        async with store.write() as session:
            await add_token(session, token(number))
        for _ in range(3):
            assert await ask() == number + 1
    assert ask.reads == (15 if store.is_shared else 5)


async def test_a_commit_of_another_process_is_seen(tmp_path: Path) -> None:
    """`alcove token revoke` beside a running server, for one."""
    path = tmp_path / "alcove.db"
    store = await Store.open(path)
    ask = Asking(store)
    async with store.write() as session:
        await add_token(session, token(1))
    assert await ask() == 1
    command = [sys.executable, "-c", WRITE, str(path), "DELETE FROM tokens"]
    await asyncio.to_thread(subprocess.run, command, check=True)
    assert await ask() == 0
    await store.close()


async def test_what_is_committed_while_an_answer_is_read_makes_it_stale(tmp_path: Path) -> None:
    """The answer may be the older one, but only this once."""
    path = tmp_path / "alcove.db"
    store = await Store.open(path)

    async def read() -> int:
        async with store.read() as session:
            there = len(await list_tokens(session))
        async with store.write() as session:
            await add_token(session, token(there))
        return there

    assert [await store.version_cache.answer("tokens", read) for _ in range(4)] == [0, 1, 2, 3]
    await store.close()


async def test_an_error_is_not_remembered(store: Store) -> None:
    """Nor is anything else of a question that failed."""

    async def fail() -> int:
        raise ResourceNotFoundError("token", "x")

    async def there() -> int:
        return 7

    with pytest.raises(ResourceNotFoundError):
        await store.version_cache.answer("key", fail)
    assert await store.version_cache.answer("key", there) == 7


async def test_memory_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many questions there are between two commits."""
    monkeypatch.setattr(module, "KEPT", 10)

    async def read() -> int:
        return 1

    for number in range(1000):
        await store.version_cache.answer(number, read)
    assert len(store.version_cache._answers) <= 10


async def test_large_answers_are_few(store: Store) -> None:
    """Who asks for the same page in a thousand sizes has a few of them kept."""

    async def read() -> int:
        return 1

    for number in range(1000):
        await store.version_cache.answer(number, read, lambda _: module.KEPT_BYTES // 4)
    assert len(store.version_cache._answers) <= 4


async def test_without_a_file_nothing_is_remembered() -> None:
    """As with a database that others write too."""
    version_cache, asked = VersionCache(None), []

    async def read() -> int:
        asked.append(1)
        return len(asked)

    assert [await version_cache.answer("key", read) for _ in range(3)] == [1, 2, 3]
    version_cache.close()


async def test_a_reader_of_sqlite_keeps_nothing_and_starts_no_thread(tmp_path: Path) -> None:
    """What a reader changes is thrown away; long reads have threads."""
    store = await Store.open(tmp_path / "alcove.db")
    before = set(threading.enumerate())
    async with store.read() as session:
        assert await find_token(session, "x") is None
        assert set(threading.enumerate()) <= before
        await add_token(session, token(1))
    async with store.read(is_long=True) as session:
        assert await list_tokens(session) == []
    await store.close()
