"""Makes wire messages of records whose fields bear the same names."""

from typing import Any, TypeVar

from google.protobuf.message import Message

__all__ = ["to_message"]

_Message = TypeVar("_Message", bound=Message)


def to_message(kind: type[_Message], record: object, **own: Any) -> _Message:
    """Return a message with the fields of `own`, and each other field from the record's attribute of the same name.

    A None leaves its field unset.

    Raises:
        AttributeError: a field of the message is neither in `own` nor an attribute of the record.
    """
    copied = {name: getattr(record, name) for name in kind.DESCRIPTOR.fields_by_name if name not in own}
    return kind(**copied, **own)
