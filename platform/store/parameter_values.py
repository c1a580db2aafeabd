"""Keeps values of parameters as text, in a column of the row that has them."""

from alcove.registry.parameters import Setting
from pydantic import TypeAdapter

__all__ = ["values_from_text", "values_to_text"]

_VALUES = TypeAdapter(tuple[Setting, ...])


def values_to_text(values: tuple[Setting, ...]) -> str:
    """Return values as JSON; "" for none."""
    return _VALUES.dump_json(values).decode() if values else ""


def values_from_text(text: str) -> tuple[Setting, ...]:
    """Return the values that `values_to_text` wrote."""
    return _VALUES.validate_json(text) if text else ()
