"""How does a command print what it found?  A table for people, JSON for programs; both from the same rows."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

__all__ = ["AsJson", "percent", "print_json", "print_rows", "print_table", "when"]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Row = Mapping[str, Any]
PIPED_WIDTH = 160  # characters of a table that no terminal bounds


def print_json(value: object) -> None:
    """Print a value (pydantic models included) as JSON."""
    typer.echo(json.dumps(_plain(value), ensure_ascii=False, indent=2))


def print_rows(rows: Sequence[Row], *, as_json: bool, empty: str, title: str | None = None) -> None:
    """Print rows with equal keys as a table, or as a JSON list; `empty` is said where there is none."""
    if as_json:
        print_json(list(rows))
    elif not rows:
        typer.echo(empty)
    else:
        print_table(list(rows[0]), [[str(value) for value in row.values()] for row in rows], title=title)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table; ids and digests are never cut."""
    table = Table(*(column.replace("_", " ") for column in columns), title=title, title_justify="left")
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    console.print(table)


def percent(permyriad: int) -> str:
    """Return a share in 1/10 000 as a percentage."""
    return f"{permyriad / 100:g} %"


def when(moment_s: int | None) -> str:
    """Return seconds since 1970 as UTC time; 0 and None are "-"."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if moment_s else "-"


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
