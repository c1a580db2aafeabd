"""Copies all rows of a store into another one, from one moment on, whichever databases the two are.

A copy is made table by table in the order of their foreign keys, from one transaction of a reader into one of a writer:
what it holds was all there at the moment when the reader's transaction began, writers go on meanwhile, and a copy that
ends anywhere before its commit leaves nothing.  Both stores have this version's schema, because both were opened by it.

Left out is what is secret and lives for days: the private keys of tokens with their windows, and the secret of
challenges (`SECRET_TABLES`).  The issuer makes new ones.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, Final

from alcove.platform.domain.errors import StoreOccupiedError
from alcove.platform.store import alert_tables, catalog_tables, metric_tables  # noqa: F401 - they join `Base`
from alcove.platform.store.tables import Base, IssuerKeyRow, IssuerSecretRow
from sqlalchemy import Table, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["SECRET_TABLES", "begin_copy", "compare_rows", "copy_rows", "count_rows", "refuse_occupied"]

SECRET_TABLES: Final = frozenset({IssuerKeyRow.__tablename__, IssuerSecretRow.__tablename__})
BATCH_ROWS: Final = 500  # in memory; a policy has up to some hundred kilobytes


async def begin_copy(session: AsyncSession) -> None:
    """Fix the moment of which a reader's session sees the rows: with the first question, in both databases."""
    await session.execute(text("SELECT version_num FROM alembic_version"))


async def copy_rows(source: AsyncSession, target: AsyncSession) -> dict[str, int]:
    """Copy all rows but those of `SECRET_TABLES`; return their number by table.

    Args:
        source: of a reader.
        target: of a writer, in a store without rows.
    """
    counts: dict[str, int] = {}
    for table in _tables():
        counts[table.name] = 0
        async with aclosing(_read_rows(source, table)) as parts:
            async for part in parts:
                await target.execute(table.insert(), part)
                counts[table.name] += len(part)
    await _raise_sequences(target)
    return counts


async def compare_rows(one: AsyncSession, other: AsyncSession) -> str | None:
    """Return the first table in which two stores differ, or None where they hold the same rows."""
    for table in _tables():
        if await _count(one, table) != await _count(other, table):
            return table.name
        async with aclosing(_read_rows(one, table)) as mine, aclosing(_read_rows(other, table)) as others:
            async for part in mine:
                if part != await anext(others):
                    return table.name
    return None


async def count_rows(session: AsyncSession) -> dict[str, int]:
    """Return the number of rows of each table, secret ones included."""
    return {table.name: await _count(session, table) for table in Base.metadata.sorted_tables}


async def refuse_occupied(session: AsyncSession, where: str) -> None:
    """Refuse a store that holds rows already.

    Raises:
        StoreOccupiedError: naming the first such table.
    """
    for name, count in (await count_rows(session)).items():
        if count:
            raise StoreOccupiedError(where, name, count)


async def _read_rows(session: AsyncSession, table: Table) -> AsyncGenerator[list[dict[str, Any]], None]:
    """Give a table's rows in the order of its key, some at a time; the cursor is closed at the end, or before."""
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=BATCH_ROWS)
    rows = await session.stream(query)
    try:
        async for part in rows.mappings().partitions():
            yield [dict(row) for row in part]
    finally:
        await rows.close()


def _tables() -> list[Table]:
    return [table for table in Base.metadata.sorted_tables if table.name not in SECRET_TABLES]


async def _count(session: AsyncSession, table: Table) -> int:
    return int((await session.execute(select(func.count()).select_from(table))).scalar_one())


async def _raise_sequences(session: AsyncSession) -> None:
    """Let PostgreSQL number new rows after those that came with their numbers; SQLite does so by itself."""
    if session.get_bind().dialect.name != "postgresql":
        return
    for table in _tables():
        column = table.autoincrement_column
        if column is None:
            continue
        names: Mapping[str, str] = {"table": table.name, "column": column.name}
        sequence = (await session.execute(text("SELECT pg_get_serial_sequence(:table, :column)"), names)).scalar()
        highest = (await session.execute(select(func.max(column)))).scalar()
        if sequence is not None and highest is not None:
            await session.execute(
                text("SELECT setval(:sequence, :highest)"), {"sequence": sequence, "highest": highest}
            )
