"""Provides the migration steps that SQLite and PostgreSQL spell differently.

Whatever a revision needs beyond Alembic's own words is one function here, so that both databases get it.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alcove.platform.store.dialects import BIG
from alembic import op

__all__ = ["BIG", "drop_immutable", "make_immutable", "partial_index"]


def make_immutable(table: str) -> None:
    """Let the database refuse every change of rows that are there: they can only be added."""
    if op.get_context().dialect.name == "postgresql":
        op.execute(
            "CREATE OR REPLACE FUNCTION alcove_append_only() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$"
        )
        # For each statement: refused even where it would touch no row, and TRUNCATE knows no rows.
        op.execute(
            f"CREATE TRIGGER {table}_refuses_change BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION alcove_append_only()"
        )
        return
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER {table}_refuses_{verb.lower()} BEFORE {verb} ON {table} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        )


def drop_immutable() -> None:
    """Drop what `make_immutable` shares between tables, when the last of them is gone."""
    if op.get_context().dialect.name == "postgresql":
        op.execute("DROP FUNCTION alcove_append_only()")


def partial_index(name: str, table: str, columns: Sequence[str], *, where: str) -> None:
    """Make a unique index over the rows of which `where` is true."""
    condition = sa.text(where)
    op.create_index(name, table, list(columns), unique=True, sqlite_where=condition, postgresql_where=condition)
