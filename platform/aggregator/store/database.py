"""Opens an aggregator's database."""

from pathlib import Path
from typing import Final

from alcove.platform.aggregator.store.migrations import HEAD
from alcove.platform.store.schema import Database, Schema
from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["DATABASE_FILE", "AggregatorDatabase"]

DATABASE_FILE: Final = "aggregator.db"
"""In the aggregator's data folder."""


class AggregatorDatabase(Database):
    """An aggregator's rows. Writers of a SQLite file queue; those of PostgreSQL run at once and lock rows (A6)."""

    schema = Schema(Path(__file__).parent / "migrations", HEAD)

    def __init__(self, readers: AsyncEngine, searchers: AsyncEngine, writers: AsyncEngine, *, where: str) -> None:
        super().__init__(readers, searchers, writers, where=where)
        if self.is_shared:
            self._writers = writers.execution_options(is_writer=False)
