"""Defines the parameters that a team declares for a version, and the values that a policy gives them.

A parameter has a type, a default and bounds, all signed by the team (`Manifest.parameters`).  A policy, which the
server signs, gives values (`Setting`): `read_settings` takes those that are within the team's bounds, and no other.

A float is a decimal text in documents, so that a value has one encoding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from alcove.registry import limits
from alcove.registry.canonical import Part
from pydantic import AfterValidator, Field, StrictBool, StrictInt, StringConstraints, model_validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "Encoded",
    "Parameter",
    "RefusedSetting",
    "Setting",
    "Settings",
    "Value",
    "default_settings",
    "encode_text",
    "read_settings",
]

ParameterName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=limits.PARAMETER_TEXT_MAX)]
Encoded = StrictBool | Annotated[StrictInt, Field(ge=-(2**53), le=2**53)] | Text
Value = bool | int | float | str
"""What an app reads."""

_EXPONENT_MAX: Final = 20  # of a decimal number as people write it; what is beyond is out of every bound
_FLOAT: Final = re.compile(r"(?!-0$)-?(0|[1-9][0-9]{0,8})(\.[0-9]{0,8}[1-9])?")


class Setting(Part):
    """One value that a policy gives."""

    name: ParameterName
    value: Encoded


def _rise(settings: tuple[Setting, ...]) -> tuple[Setting, ...]:
    names = [setting.name for setting in settings]
    if names != sorted(set(names)):
        msg = f"values must have distinct names, in order, got {names}"
        raise ValueError(msg)
    return settings


Settings = Annotated[
    tuple[Setting, ...],
    AfterValidator(_rise),
    Field(max_length=limits.PARAMETERS_MAX, exclude_if=lambda settings: not settings),
]
"""Values by rising name; a document that gives none does not write the field."""


class Parameter(Part):
    """One value of a version that a policy may change, within bounds.

    Attributes:
        name: what policies and apps call it.
        type: of its values; a "float" is a decimal text in documents.
        default: what stands where a policy gives no value.
        minimum, maximum: of numbers; None for others.
        choices: every text that it may be; () for others.
        description: what it does, for people; a document of a parameter without one does not write it.
    """

    name: ParameterName
    type: Literal["bool", "int", "float", "text"]
    default: Encoded
    minimum: Annotated[Encoded | None, Field(exclude_if=lambda value: value is None)] = None
    maximum: Annotated[Encoded | None, Field(exclude_if=lambda value: value is None)] = None
    choices: Annotated[
        tuple[Text, ...], Field(max_length=limits.PARAMETER_CHOICES_MAX, exclude_if=lambda value: not value)
    ] = ()
    description: Annotated[
        str, StringConstraints(max_length=limits.PARAMETER_DESCRIPTION_MAX), Field(exclude_if=lambda value: not value)
    ] = ""

    @model_validator(mode="after")
    def _validate(self) -> Self:
        bounds = (self.minimum, self.maximum)
        if self.type in ("int", "float"):
            if None in bounds or self.choices or not all(self._is_typed(bound) for bound in bounds):
                msg = f"parameter {self.name} has a minimum and a maximum of type {self.type}, got {bounds}"
                raise ValueError(msg)
        elif bounds != (None, None) or bool(self.choices) != (self.type == "text"):
            msg = f"parameter {self.name} of type {self.type} has choices if it is a text, and no other bound"
            raise ValueError(msg)
        if len(set(self.choices)) != len(self.choices):
            msg = f"choices of parameter {self.name} are distinct, got {list(self.choices)}"
            raise ValueError(msg)
        problem = self.problem(self.default)
        if problem:
            msg = f"default of parameter {self.name}: {problem}"
            raise ValueError(msg)
        return self

    @property
    def bound(self) -> str:
        """What a value of it is, in words."""
        match self.type:
            case "bool":
                return "true or false"
            case "int":
                return f"a whole number from {self.minimum} to {self.maximum}"
            case "float":
                return f"a decimal number from {self.minimum} to {self.maximum}"
            case _:
                return f"one of {', '.join(self.choices)}"

    def encode(self, value: Encoded) -> Encoded:
        """Return a value as documents hold it; a text is read as people write a value of this type.

        Raises:
            ValueError: it is none of this parameter's; `bound` says what would be one.
        """
        if self.type == "float" and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        found = encode_text(self.type, value) if isinstance(value, str) else value
        problem = self.problem(found)
        if problem:
            raise ValueError(problem)
        return found

    def problem(self, value: Encoded) -> str:
        """Return why a value is none of this parameter, with the bound; "" where it is one."""
        if not self._is_typed(value):
            return f"expected {self.type}, got {value!r}"
        if self.choices and value not in self.choices:
            return f"expected one of {', '.join(self.choices)}, got {value!r}"
        low, high = self.minimum, self.maximum
        if low is not None and high is not None and not _number(low) <= _number(value) <= _number(high):
            return f"expected {low} to {high}, got {value}"
        return ""

    def decode(self, value: Encoded) -> Value:
        """Return what an app reads for a value of this parameter."""
        return float(value) if self.type == "float" else value

    def _is_typed(self, value: object) -> bool:
        match self.type:
            case "bool":
                return isinstance(value, bool)
            case "int":
                return isinstance(value, int) and not isinstance(value, bool)
            case "float":
                return isinstance(value, str) and _is_decimal(value)
            case _:
                return isinstance(value, str)


@dataclass(frozen=True, slots=True)
class RefusedSetting:
    """A value that is not taken; the default stands."""

    name: str
    problem: str


def default_settings(parameters: Iterable[Parameter]) -> dict[str, Value]:
    """Return the default of each parameter."""
    return {one.name: one.decode(one.default) for one in parameters}


def read_settings(
    parameters: Iterable[Parameter], settings: Iterable[Setting]
) -> tuple[Mapping[str, Value], tuple[RefusedSetting, ...]]:
    """Return what a policy's values come to on a device: each parameter's value, and what was not taken.

    Each value is judged by itself: one that is refused leaves the others as they are.

    Args:
        parameters: of the version's manifest.
        settings: of the part of the policy that chose the version.
    """
    known = {one.name: one for one in parameters}
    values, refused = default_settings(known.values()), []
    for setting in settings:
        parameter = known.get(setting.name)
        problem = "the version declares no such parameter" if parameter is None else parameter.problem(setting.value)
        if parameter is None or problem:
            refused.append(RefusedSetting(setting.name, problem))
        else:
            values[setting.name] = parameter.decode(setting.value)
    return values, tuple(refused)


def encode_text(kind: str, text: str) -> Encoded:
    """Return the value of a type that people write so, as documents hold it; whether it is within bounds is not asked.

    Raises:
        ValueError: it is none of the type.
    """
    if len(text) > limits.PARAMETER_TEXT_MAX:
        msg = f"expected at most {limits.PARAMETER_TEXT_MAX} characters, got {len(text)}"
        raise ValueError(msg)
    try:
        match kind:
            case "bool":
                return {"true": True, "false": False}[text]
            case "int":
                return int(text)
            case "float":
                return _decimal(Decimal(text))
            case _:
                return text
    except (KeyError, ValueError, InvalidOperation):
        expected = {"bool": "true or false", "int": "a whole number", "float": "a decimal number"}[kind]
        msg = f"expected {expected}, got {text!r}"
        raise ValueError(msg) from None


def _decimal(number: Decimal) -> str:
    if not number.is_finite() or abs(number.adjusted()) > _EXPONENT_MAX:
        msg = f"expected at most {_EXPONENT_MAX} digits before and after the point, got {number}"
        raise ValueError(msg)
    return f"{number.normalize():f}" if number else "0"


def _is_decimal(text: str) -> bool:
    return _FLOAT.fullmatch(text) is not None


def _number(value: Encoded) -> Decimal:
    return Decimal(value)
