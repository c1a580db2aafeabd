"""Defines the types that aliases, tag keys and tag values must fit."""

from typing import Annotated

from pydantic import AfterValidator, StringConstraints

__all__ = ["AliasName", "TagKey", "TagValue"]


def _printable(value: str) -> str:
    if not value.isprintable():
        msg = "should hold printable characters only"
        raise ValueError(msg)
    return value


AliasName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]  # never looks like a version number
TagKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
TagValue = Annotated[str, StringConstraints(min_length=1, max_length=256), AfterValidator(_printable)]
