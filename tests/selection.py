"""Divides the cases of a test: a few run with `make test`, all of them with `make thorough`'s."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def quick_among(values: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """Return parameters of which all but `quick` are thorough."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.thorough) for value in values]


def quick_every(values: Iterable[Any], step: int) -> list[Any]:
    """Return parameters of which all but each `step`-th, from the first on, are thorough."""
    return [
        pytest.param(value, marks=pytest.mark.thorough) if number % step else value
        for number, value in enumerate(values)
    ]
