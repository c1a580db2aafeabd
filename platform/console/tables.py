"""Defines tables: columns, filters, order and pages, all in the address, so that what one sees can be shared."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

__all__ = ["Choice", "Column", "Table", "size_choice", "size_of"]

_Row = TypeVar("_Row")
ROWS: Final = (50, 200)  # of a page: usual, most


@dataclass(frozen=True)
class Column(Generic[_Row]):
    """One column.

    Attributes:
        name: of the value in JSON.
        title: what people read, with its unit.
        value: takes the value from a row.
        kind: how it is shown: "text", "number", "bytes", "time", "state", "share", "digest", "counts", "details" (names
            and texts), or "figure": as the row's own `kind`, bytes or a unit, says.
        href: where it leads; None: nowhere.
    """

    name: str
    title: str
    value: Callable[[_Row], Any]
    kind: str = "text"
    href: Callable[[_Row], str] | None = None

    @property
    def is_number(self) -> bool:
        """Whether it stands at the right, digit under digit."""
        return self.kind in ("number", "bytes", "share", "figure")


@dataclass(frozen=True)
class Choice:
    """One control above a table: a text to search for, or one of some values.

    Attributes:
        name: of the parameter in the address.
        title: what people read.
        value: as it is now; "": not set.
        options: (value, words) to choose from; (): any text.
        is_filter: whether it leaves rows out; else it only says in which order and how many.
        kind: of the control without options: "search" or "date".
    """

    name: str
    title: str
    value: str = ""
    options: Sequence[tuple[str, str]] = ()
    is_filter: bool = True
    kind: str = "search"


def size_of(text: str) -> int:
    """Return how many rows an address asks for; the usual number where it asks for none, or for too many."""
    return int(text) if text.isascii() and text.isdigit() and 1 <= int(text) <= ROWS[1] else ROWS[0]


def size_choice(text: str) -> Choice:
    """Return the control for the number of rows of a page."""
    options = (("", str(ROWS[0])), ("100", "100"), (str(ROWS[1]), str(ROWS[1])))
    return Choice("size", "Rows", text if size_of(text) != ROWS[0] else "", options, is_filter=False)


@dataclass(frozen=True)
class Table(Generic[_Row]):
    """A page of a list.

    Attributes:
        name: its id on the page.
        caption: what it lists, for those who hear it.
        columns: from left to right.
        rows: of this page, in the server's order.
        path: address without parameters.
        choices: filters and order.
        next_token: of the page after it; "": this is the last one.
        token: of this page; "": it is the first one.
        empty: what to say where there is no row.
        command: the next step on a command line where there is no row; "": none.
        note: what to know of this page, a sentence below its rows; "": nothing.
    """

    name: str
    caption: str
    columns: Sequence[Column[_Row]]
    rows: Sequence[_Row]
    path: str
    choices: Sequence[Choice] = ()
    next_token: str = ""
    token: str = ""
    empty: str = "Nothing here yet."
    command: str = ""
    note: str = ""

    @property
    def is_filtered(self) -> bool:
        """Whether a filter may be why there is no row."""
        return any(choice.value and choice.is_filter for choice in self.choices)

    def address(self, token: str = "") -> str:
        """Return the address of a page of this list, with its filters and order."""
        chosen = {choice.name: choice.value for choice in self.choices if choice.value}
        query = urlencode(chosen | ({"page": token} if token else {}))
        return f"{self.path}?{query}" if query else self.path

    def to_json(self) -> dict[str, Any]:
        """Return the page as programs read it."""
        rows = [{column.name: column.value(row) for column in self.columns} for row in self.rows]
        return {"rows": rows, "next_page": self.address(self.next_token) if self.next_token else None}
