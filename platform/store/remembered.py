"""Caches what was read from SQLite until the next commit.

SQLite counts, for each connection, the commits of all others, those of other processes too; asking for the count takes
microseconds, and a look-up through SQLAlchemy a hundred times as long.  An answer is kept with the count from before it
was read, so whatever was committed in between makes it stale.  PostgreSQL has no such count: there each read is a read.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, TypeVar

__all__ = ["Remembered"]

KEPT: Final = 2000  # answers; a page of a thousand rollouts is about 400 kB, most are a few hundred bytes
_Answer = TypeVar("_Answer")


class Remembered:
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

    async def answer(self, key: Hashable, read: Callable[[], Awaitable[_Answer]]) -> _Answer:
        """Return what `read` returned for this key since the last commit, or what it returns now.

        Args:
            key: names the question, with everything that the answer depends on besides the database.
            read: asks; what it returns is shared and must never be changed.
        """
        if self._connection is None:
            return await read()
        count = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if count != self._count or len(self._answers) >= KEPT:
            self._count = count
            self._answers = {}
        answers = self._answers  # those of this count: a newer count has others
        if key not in answers:
            answers[key] = await read()
        found: _Answer = answers[key]
        return found

    def close(self) -> None:
        """Forget everything."""
        self._answers = {}
        if self._connection is not None:
            self._connection.close()
