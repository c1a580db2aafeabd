"""Copies fields of one name between records and wire messages."""

from typing import Any

from google.protobuf.message import Message

__all__ = ["matching_fields"]


def matching_fields(kind: type[Message], record: object) -> dict[str, Any]:
    """Return what a record has under the names of a message's fields; a None leaves its field unset."""
    return {name: getattr(record, name) for name in kind.DESCRIPTOR.fields_by_name if hasattr(record, name)}
