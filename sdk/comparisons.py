"""Defines what an app shows and records where people compare two versions of a feature by eye or ear.

    handle.compare(inputs) ─▶ ComparedAnswers: first, of the device's own arm ─ second, of the other arm
    the person chooses     ─▶ handle.record_preference(name, "first" | "second" | "neither") ─▶ metric_records.py

Which version a device shows first is its arm, drawn by its keyed hash, so that the order is as random as any other
assignment (decision 0111).  Neither the app nor the person need know which version is which.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from alcove.sdk.errors import OutOfBoundError

if TYPE_CHECKING:
    from alcove.sdk.handle import Answer

__all__ = ["ComparedAnswers", "Preferred", "preference_value"]

T = TypeVar("T")

Preferred = Literal["first", "second", "neither"]
"""What a person chose of two answers."""

_VALUES: Final = MappingProxyType({"first": 1.0, "second": 0.0, "neither": 0.5})


@dataclass(frozen=True, slots=True)
class ComparedAnswers(Generic[T]):
    """Answers of two versions to the same inputs.

    Attributes:
        first: to show first, or on the left: of the version of the device's own arm.
        second: to show second, or on the right.
    """

    first: "Answer[T]"
    second: "Answer[T]"


def preference_value(preferred: object) -> float:
    """Return the value by which a choice is recorded: 1 the first, 0 the second, 1/2 neither.

    Raises:
        OutOfBoundError: it is none of the three.
    """
    value = _VALUES.get(preferred) if isinstance(preferred, str) else None
    if value is None:
        raise OutOfBoundError(name="preferred", bound="first, second or neither", value=preferred)
    return value
