"""Caches what was read from SQLite until the next commit.

SQLite counts, for each connection, the commits of all others, those of other processes too; asking for the count takes
microseconds, and a look-up through SQLAlchemy a hundred times as long.  An answer is kept with the count from before it
was read, so whatever was committed in between makes it stale.  PostgreSQL has no such count: there each read is a read.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

__all__ = ["VersionCache"]

KEPT: Final = 2000  # answers; most are a few hundred bytes
KEPT_BYTES: Final = 8 * 1024 * 1024  # of them on the wire, five times that in memory; a page of rollouts may be 400 kB
SMALL_BYTES: Final = 256
_Answer = TypeVar("_Answer")


class VersionCache:
    """Answers of one server that hold until the next commit.

    Args:
        path: the SQLite file; None: nothing is remembered.
    """

    def __init__(self, path: str | None) -> None:
        self._connection: sqlite3.Connection | None = None
        if path is not None:
            self._connection = sqlite3.connect(path, timeout=0.1, check_same_thread=False)
        self._count = -1
        self._answers: dict[Hashable, Any] = {}
        self._bytes = 0

    async def answer(
        self,
        key: Hashable,
        read: Callable[[], Awaitable[_Answer]],
        size_of: Callable[[_Answer], int] = lambda _answer: SMALL_BYTES,
    ) -> _Answer:
        """Return what `read` returned for this key since the last commit, or what it returns now.

        Args:
            key: names the question, with everything that the answer depends on besides the database.
            read: asks; what it returns is shared and must never be changed.
            size_of: returns the bytes of an answer, where a caller can make it large.
        """
        if self._connection is None:
            return await read()
        count = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if count != self._count or len(self._answers) >= KEPT or self._bytes >= KEPT_BYTES:
            self._count = count
            self._answers, self._bytes = {}, 0
        answers = self._answers  # those of this count: a newer count has others
        if key not in answers:
            answers[key] = await read()
            self._bytes += size_of(answers[key])
        found: _Answer = answers[key]
        return found

    def close(self) -> None:
        """Forget everything."""
        self._answers = {}
        if self._connection is not None:
            self._connection.close()
