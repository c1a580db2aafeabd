"""Errors of the features that come with alcove.

ValueError
└── FieldError      a field of an answer or of a request is not as it must be
"""

import reprlib

__all__ = ["FieldError"]


class FieldError(ValueError):
    """A field of an answer or of a request is not as it must be; the message names field, bound and value.

    Attributes:
        field: its name, with a dot before the name or place of what it is in: "weights.recency", "candidates.3".
        bound: what is expected, for people: "0 to 1".
        value: what was seen.
    """

    def __init__(self, field: str, bound: str, value: object) -> None:
        super().__init__(f"{field}: expected {bound}, not {reprlib.repr(value)}")  # a request may be long, and nested
        self.field = field
        self.bound = bound
        self.value = value
