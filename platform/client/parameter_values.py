"""Defines values of a version's parameters as callers write and read them, and puts them into requests."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.rollout.v1 import rollout_pb2
from pydantic import BeforeValidator, StrictBool, StrictFloat, StrictInt

__all__ = ["ParameterValue", "ParameterValues", "setting_messages"]

_Message = TypeVar("_Message", experiment_pb2.Setting, rollout_pb2.Setting)
_INT64_MAX = 2**63 - 1

ParameterValue = StrictBool | StrictInt | StrictFloat | str
"""What a server answers for a float is its decimal number as a text."""


def _read(values: Any) -> Any:
    if not isinstance(values, list):
        return values
    return {each["name"]: _read_value(each) for each in values}


def _read_value(message: Mapping[str, Any]) -> ParameterValue:
    if "integer" in message:
        return int(message["integer"])  # JSON of 64 bits is a text
    found: ParameterValue = message["boolean"] if "boolean" in message else message["text"]
    return found


ParameterValues = Annotated[Mapping[str, ParameterValue], BeforeValidator(_read)]
"""Values by the names of parameters; a parameter that is not there has its default."""


def setting_messages(kind: type[_Message], values: Mapping[str, ParameterValue]) -> list[_Message]:
    """Return a message of each value; texts are read by the server as the parameter's type says."""
    return [_message(kind, name, value) for name, value in values.items()]


def _message(kind: type[_Message], name: str, value: ParameterValue) -> _Message:
    if isinstance(value, bool):
        return kind(name=name, boolean=value)
    if isinstance(value, int) and abs(value) <= _INT64_MAX:
        return kind(name=name, integer=value)
    return kind(name=name, text=str(value))
