"""Reads histories, item attributes and test questions, and draws negatives, with numpy alone.

Numbers of items are bare names: nothing here or behind it reads an order into them.  That matters, since in some public
sets items are numbered as users first meet them, and a number would then tell what comes next.
"""

import json
import lzma
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

NEGATIVES: Final = 99
_SEPARATORS: Final = re.compile(r"[\s,]+")
_LARGEST_ID: Final = 2**31 - 1


@dataclass(frozen=True)
class Lines:
    """Users and what they touched, oldest first.

    Attributes:
        users: a name for each.
        items: ids for each, int64, 1 or more.
    """

    users: tuple[str, ...]
    items: tuple[Ids, ...]

    def without_last(self) -> "Lines":
        """Return the same without the last item of every user with 2 or more."""
        return Lines(self.users, tuple(row[:-1] if len(row) >= 2 else row for row in self.items))


@dataclass(frozen=True)
class Questions:
    """For each user, the candidates among which the item that came next is to be found.

    Attributes:
        rows: number of the user's line in `Lines`, -1 for a user without one, int64 [n].
        histories: what is known of the user, ids, oldest first.
        candidates: int64 [n, 1 + negatives]; the first is the one that came next.
    """

    rows: Ids
    histories: tuple[Ids, ...]
    candidates: Ids

    def some(self, most: int, seed: int) -> "Questions":
        """Return at most so many, drawn."""
        if len(self.rows) <= most:
            return self
        chosen = np.sort(np.random.default_rng(seed).permutation(len(self.rows))[:most])
        return Questions(self.rows[chosen], tuple(self.histories[i] for i in chosen), self.candidates[chosen])


def read_text(path: Path) -> str:
    """Return the text of a file, `.xz` or plain.

    Raises:
        ValueError: it is neither.
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    try:
        return (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
    except (lzma.LZMAError, UnicodeDecodeError) as error:
        raise ValueError(f"{path.name} is no text, plain or .xz: {error}") from None


def read_lines(path: Path) -> Lines:
    """Return the users of a file, one a line: `user item item ...`, separated by blanks or commas.

    Raises:
        ValueError: a line has no item, or an item is no number from 1 to 2147483647; names the line.
    """
    users, items = [], []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        fields = _SEPARATORS.split(line.strip())
        if fields == [""]:
            continue
        users.append(fields[0])
        items.append(_ids(fields[1:], f"{path.name}, line {number}"))
    if not users:
        raise ValueError(f"{path.name} holds no line")
    return Lines(tuple(users), tuple(items))


def read_questions(path: Path, lines: Lines) -> Questions:
    """Return the questions of a file: `user<TAB>target<TAB>negatives`, of users of `lines` or unknown ones.

    Raises:
        ValueError: a line is not in that form, or has another number of negatives than the first.
    """
    places = {user: row for row, user in enumerate(lines.users)}
    rows: list[int] = []
    candidates: list[Ids] = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        user, *rest = _SEPARATORS.split(line.strip())
        if not user and not rest:
            continue
        ids = _ids(rest, f"{path.name}, line {number}")
        if len(ids) < 2 or (candidates and len(ids) != len(candidates[0])):
            wanted = f"{len(candidates[0]) - 1}" if candidates else "1 or more"
            raise ValueError(f"{path.name}, line {number}: {wanted} negatives expected, not {len(ids) - 1}")
        rows.append(places.get(user, -1))
        candidates.append(ids)
    if not rows:
        raise ValueError(f"{path.name} holds no line")
    none = np.zeros(0, np.int64)
    histories = tuple(lines.items[row] if row >= 0 else none for row in rows)
    return Questions(np.array(rows), histories, np.stack(candidates))


def read_attributes(path: Path) -> dict[int, list[int]]:
    """Return the attributes of items: a JSON object of lists of numbers.

    Raises:
        ValueError: it is something else.
    """
    document = json.loads(read_text(path))
    if not isinstance(document, dict):
        raise ValueError(f"{path.name} must be an object of lists")  # noqa: TRY004 (of a file, not of an argument)
    found = {}
    for item, values in document.items():
        if not item.isdecimal() or not isinstance(values, list) or not all(type(v) is int and v >= 0 for v in values):
            raise ValueError(f"{path.name}: {item!r:.40} must be an item with a list of numbers")
        found[int(item)] = values
    return found


def questions_of_last(lines: Lines, negatives: int, seed: int) -> Questions:
    """Return a question about the last item of every user with 3 or more, with drawn negatives they never touched.

    Raises:
        ValueError: nobody has 3 items and so many negatives.
    """
    every = known_ids(lines)
    enough = [len(items) >= 3 and len(every) - len(np.unique(items)) >= negatives for items in lines.items]
    rows = np.flatnonzero(enough)
    if not len(rows):
        raise ValueError(f"nobody has 3 items or more and {negatives} of {len(every)} items that they never touched")
    rng = np.random.default_rng(seed)
    candidates = np.stack([_with_negatives(lines.items[row], every, negatives, rng) for row in rows])
    return Questions(rows, tuple(lines.items[row][:-1] for row in rows), candidates)


def known_ids(lines: Lines) -> Ids:
    """Return all ids that occur, ascending."""
    return np.unique(np.concatenate(lines.items))


def table_ids(lines: Lines, more: Iterable[Ids] = (), attributes: Mapping[int, Sequence[int]] | None = None) -> Ids:
    """Return the ids that get a row of a table, ascending: all that occur or have attributes."""
    return np.unique(np.concatenate([*lines.items, *more, np.array(sorted(attributes or ()), np.int64)]))


def rows_of(ids: Ids, every: Ids) -> Ids:
    """Return the rows, 1 to n, of ids in a table of `every` id, ascending; 0 for one that has none."""
    places = np.searchsorted(every, ids)
    found = every[np.minimum(places, len(every) - 1)] == ids
    return np.where(found, places + 1, 0)


def in_rows(questions: Questions, every: Ids) -> Questions:
    """Return questions with rows of a table instead of ids."""
    histories = tuple(rows_of(history, every) for history in questions.histories)
    return Questions(questions.rows, histories, rows_of(questions.candidates, every))


def _ids(fields: Sequence[str], where: str) -> Ids:
    if not fields:
        raise ValueError(f"{where}: no item")
    if not all(field.isdecimal() and len(field) <= 10 and 1 <= int(field) <= _LARGEST_ID for field in fields):
        raise ValueError(f"{where}: items must be numbers from 1 to {_LARGEST_ID}")
    return np.array(fields, np.int64)


def _with_negatives(touched: Ids, every: Ids, count: int, rng: np.random.Generator) -> Ids:
    """Return the last touched item and `count` different ones that were never touched."""
    seen = {int(item) for item in touched}
    chosen: list[int] = []
    while len(chosen) < count:
        for item in rng.choice(every, count + 8).tolist():
            if item not in seen and len(chosen) < count:
                seen.add(item)
                chosen.append(item)
    return np.array([touched[-1], *chosen], np.int64)
