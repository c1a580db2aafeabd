"""Divides tests: cases into quick and thorough ones, files of thorough tests into parts."""

import re
import zlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest


class Part(NamedTuple):
    """One of several parts of all test files; where a file is depends on its path alone.

    Attributes:
        number: which part, from 0 on.
        parts: how many there are.
    """

    number: int
    parts: int

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what K/N means, with K from 1 on.

        Raises:
            pytest.UsageError: it is something else.
        """
        found = re.fullmatch(r"([1-9]\d?)/([1-9]\d?)", text)
        if not found or int(found[1]) > int(found[2]):
            raise pytest.UsageError(f"--part {text}: wanted K/N with K from 1 to N, N at most 99, such as 2/6")
        return cls(int(found[1]) - 1, int(found[2]))

    def has(self, path: str) -> bool:
        """Return whether the file at this path, relative to the repository, belongs to it."""
        return zlib.crc32(path.encode()) % self.parts == self.number


def quick_among(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return parameters of which all but `quick` are thorough."""
    return [value if value in quick else _thorough(value) for value in values]


def quick_every(values: Iterable[Any], step: int) -> list[Any]:
    """Return parameters of which all but each `step`-th, from the first on, are thorough."""
    return [_thorough(value) if number % step else value for number, value in enumerate(values)]


def thin_out(items: Iterable[pytest.Item], folder: Path, step: int) -> None:
    """Mark as thorough, of each function in a folder that has `step` cases or more, all but each `step`-th."""
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec") and folder in item.path.parents:
            cases.setdefault((item.path, item.originalname), []).append(item)
    for found in cases.values():
        if len(found) >= step:
            for number, item in enumerate(found):
                if number % step:
                    item.add_marker(pytest.mark.thorough)


def _thorough(value: Any) -> Any:
    """Return a value, or what `pytest.param` made of some, with the mark."""
    made: Any = pytest.param(value)
    if not isinstance(value, type(made)):
        return pytest.param(value, marks=pytest.mark.thorough)
    return pytest.param(*value.values, marks=[*value.marks, pytest.mark.thorough], id=value.id)
