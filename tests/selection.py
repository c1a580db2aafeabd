"""Divides the cases of a test: a few run with `make test`, all of them with `make thorough`'s."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def quick_among(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return parameters of which all but `quick` are thorough."""
    return [value if value in quick else _thorough(value) for value in values]


def quick_every(values: Iterable[Any], step: int) -> list[Any]:
    """Return parameters of which all but each `step`-th, from the first on, are thorough."""
    return [_thorough(value) if number % step else value for number, value in enumerate(values)]


def _thorough(value: Any) -> Any:
    """Return a value, or what `pytest.param` made of some, with the mark."""
    made: Any = pytest.param(value)
    if not isinstance(value, type(made)):
        return pytest.param(value, marks=pytest.mark.thorough)
    return pytest.param(*value.values, marks=[*value.marks, pytest.mark.thorough], id=value.id)
