"""Converts values of parameters to and from wire messages; each service has its own, which are alike."""

from collections.abc import Iterable
from typing import TypeVar

from alcove.api.experiment.v1 import experiment_pb2
from alcove.api.rollout.v1 import rollout_pb2
from alcove.platform.domain.parameter_values import GivenValues
from alcove.registry.parameters import Encoded, Setting

__all__ = ["setting_messages", "values_from"]

_Message = TypeVar("_Message", experiment_pb2.Setting, rollout_pb2.Setting)


def values_from(messages: Iterable[experiment_pb2.Setting | rollout_pb2.Setting]) -> GivenValues:
    """Return names and values as they were sent; nothing is checked yet."""
    return tuple((message.name, _value(message)) for message in messages)


def setting_messages(kind: type[_Message], settings: Iterable[Setting]) -> list[_Message]:
    """Return a message of each value: `text` for a text, and for a float its decimal number."""
    return [_message(kind, setting) for setting in settings]


def _value(message: experiment_pb2.Setting | rollout_pb2.Setting) -> Encoded | None:
    match message.WhichOneof("value"):
        case "boolean":
            return message.boolean
        case "integer":
            return message.integer
        case "text":
            return message.text
        case _:
            return None


def _message(kind: type[_Message], setting: Setting) -> _Message:
    match setting.value:
        case bool():
            return kind(name=setting.name, boolean=setting.value)
        case int():
            return kind(name=setting.name, integer=setting.value)
        case _:
            return kind(name=setting.name, text=setting.value)
