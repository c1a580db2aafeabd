"""Finds the fields that an update changes: those that its field mask names; without one, those that it sets."""

from collections.abc import Collection

from alcove.platform.domain.errors import InvalidFieldError
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

__all__ = ["masked_fields"]


def masked_fields(
    mask: FieldMask, message: Message, changeable: Collection[str], *, field: str = "update_mask"
) -> frozenset[str]:
    """Return the top-level fields of `message` that an update changes, as AIP-134 has it.

    A path that is named and not set clears the field.  "*" names every changeable field.

    Args:
        mask: of the request; may be empty.
        message: holds the new values.
        changeable: names of the fields that may change.
        field: name of the mask in the request.

    Raises:
        InvalidFieldError: a path names nothing that may change, or the update changes nothing.
    """
    bound = f"paths among {', '.join(sorted(changeable))}, or '*'"
    if not mask.paths:
        paths = {descriptor.name for descriptor, _ in message.ListFields()} & set(changeable)
    elif list(mask.paths) == ["*"]:
        paths = set(changeable)
    else:
        paths = set(mask.paths)
        for path in sorted(paths - set(changeable)):
            raise InvalidFieldError(field, bound, path)
    if not paths:
        raise InvalidFieldError(field, bound, "nothing to change")
    return frozenset(paths)
