"""Prints what a command found: a table for people, JSON for programs; both from the same rows.

Names, reasons, cards and error messages come from other people.  So nothing that is printed is markup, and control and
direction characters are shown as escapes: a text cannot colour, link, hide, reorder or forge a line, nor end the
command.  Everything in this package prints through here, and a test forbids the other ways
(`tests/structure/test_output.py`).
"""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = [
    "PIPED_WIDTH",
    "AsJson",
    "Wide",
    "make_console",
    "make_table",
    "percent",
    "plain",
    "print_diff",
    "print_json",
    "print_markdown",
    "print_rows",
    "print_table",
    "say",
    "say_text",
    "show_progress",
    "when",
]

_wide: ContextVar[bool] = ContextVar("wide", default=False)


def _set_wide(is_wide: bool) -> bool:
    _wide.set(is_wide)
    return is_wide


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON to standard output.")]
Wide = Annotated[
    bool,
    typer.Option(
        "--wide",
        help="Print a table as wide as it is; else one line a field where it is too wide.",
        callback=_set_wide,
    ),
]
Row = Mapping[str, Any]
PIPED_WIDTH: Final = 160  # characters of a text that no terminal bounds
_WIDEST: Final = 100_000  # characters of a table that nothing bounds
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, formats (directions), halves, separators
_JOINERS: Final = frozenset("\u200c\u200d")  # which Persian, Hindi and emoji need; they reorder nothing


def plain(text: object) -> str:
    """Return a text on one line, with every character that a terminal would act on as its JSON escape."""
    return "".join(
        _escape(one) if unicodedata.category(one) in _HIDDEN and one not in _JOINERS else one for one in str(text)
    )


def _escape(one: str) -> str:
    units = one.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def say(*lines: object, err: bool = False) -> None:
    """Print lines; whatever they hold, each stays one."""
    for line in lines:
        typer.echo(plain(line), err=err)


def say_text(text: str, *, err: bool = False) -> None:
    """Print a text of several lines."""
    say(*text.split("\n"), err=err)


def make_console(*, err: bool = False, quiet: bool = False, unbounded_width: int = PIPED_WIDTH) -> Console:
    """Return a console to which every text is only that; `unbounded_width` wide where no terminal bounds it."""
    options: dict[str, Any] = {"stderr": err, "quiet": quiet, "markup": False, "emoji": False, "highlight": False}
    console = Console(**options)
    return console if console.is_terminal and not _wide.get() else Console(**options, width=unbounded_width)


def make_table(title: object = None, *, has_header: bool = True) -> Table:
    """Return a table for `make_console`; its cells go through `plain`."""
    shown = None if title is None else plain(title)
    return Table(title=shown, title_justify="left", show_header=has_header)


def print_json(value: object) -> None:
    """Print a value (pydantic models included) as JSON; what a terminal would act on is escaped, as JSON can."""
    say_text(json.dumps(_plain(value), ensure_ascii=False, indent=2))


def print_rows(rows: Sequence[Row], *, as_json: bool, empty: str, title: str | None = None) -> None:
    """Print rows with equal keys as a table, or as a JSON list; `empty` is said where there is none."""
    if as_json:
        print_json(list(rows))
    elif not rows:
        say(empty)
    else:
        print_table(list(rows[0]), [[str(value) for value in row.values()] for row in rows], title=title)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """Print a table; no cell is cut, and no word broken.

    One that would not fit the terminal even with its words below each other is printed as a block of lines for each
    row, NAME  VALUE, unless `--wide` was given; a pipe gets every row on one line.
    """
    console = make_console(unbounded_width=_WIDEST)
    names = [plain(column.replace("_", " ")) for column in columns]
    cells = [[plain(cell) for cell in row] for row in rows]
    if title is not None:  # not the table's own, which is folded at the table's width
        console.print(plain(title), style="italic", soft_wrap=True)
    is_bounded = console.is_terminal and not _wide.get()
    widths = _column_widths(names, cells, console.width) if is_bounded else None
    if is_bounded and widths is None:
        _print_blocks(names, cells)
        return
    table = make_table()
    chosen: Sequence[int | None] = widths or [None for _ in names]
    for name, width in zip(names, chosen, strict=True):
        table.add_column(name, overflow="fold", no_wrap=widths is None, width=width)
    for row in cells:
        table.add_row(*row)
    console.print(table, crop=False)


def _column_widths(names: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """Return how wide each column is in a table of at most `width` characters; None: its words do not fit.

    Each has its longest word; what is left goes to the columns that need least to have no line broken, first.
    """
    columns = list(zip(names, *cells, strict=True))
    widths = [max(cell_len(word) for cell in column for word in (cell.split() or [""])) for column in columns]
    spare = width - sum(widths) - 3 * len(widths) - 1
    if spare < 0:
        return None
    needs = [max(map(cell_len, column)) - least for column, least in zip(columns, widths, strict=True)]
    for done, index in enumerate(sorted(range(len(widths)), key=needs.__getitem__)):
        more = min(needs[index], spare // (len(widths) - done))
        widths[index] += more
        spare -= more
    return widths


def _print_blocks(names: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    margin = max(cell_len(name) for name in names) + 2
    for number, row in enumerate(cells):
        lines = [
            f"{name}{' ' * (margin - cell_len(name))}{cell}" for name, cell in zip(names, row, strict=True) if cell
        ]
        say(*([""] if number else []), *lines)


def print_markdown(text: str) -> None:
    """Print somebody's Markdown: laid out, its links as text."""
    from rich.markdown import Markdown  # noqa: PLC0415 - one command in twenty shows any

    shown = "\n".join(map(plain, text.split("\n")))
    make_console().print(Markdown(shown, hyperlinks=False))


def print_diff(text: str) -> None:
    """Print a unified difference of two texts."""
    from rich.syntax import Syntax  # noqa: PLC0415

    shown = "\n".join(map(plain, text.split("\n")))
    make_console().print(Syntax(shown, "diff", background_color="default", word_wrap=True))


def show_progress(*, of: Literal["steps", "bytes", "names"] = "steps", quiet: bool = False) -> "Progress":
    """Return a progress display on standard error, which goes when it is done; of names where nobody knows how many."""
    from rich.progress import (  # noqa: PLC0415 - a mistake in the options shows no progress
        BarColumn,
        DownloadColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )

    console = make_console(err=True, quiet=quiet)
    if of == "names":
        name = TextColumn("{task.description}", markup=False)
        is_seen = console.is_terminal
        return Progress(
            SpinnerColumn(), name, TimeElapsedColumn(), console=console, transient=True, disable=not is_seen
        )
    bar = (TextColumn("{task.description}", markup=False), BarColumn())
    more = (DownloadColumn(), TransferSpeedColumn()) if of == "bytes" else (TextColumn("{task.percentage:>3.0f} %"),)
    return Progress(*bar, *more, console=console, transient=True)


def percent(basis_points: int) -> str:
    """Return a share in 1/10 000 as a percentage."""
    return f"{basis_points / 100:g} %"


def when(moment_s: int | None) -> str:
    """Return seconds since 1970 as UTC time; 0 and None are "-"."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ") if moment_s else "-"


def _plain(value: object) -> object:
    from pydantic import BaseModel  # noqa: PLC0415 - loads pydantic

    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
