"""Defines the types that aliases, tag keys and tag values must fit, and the order of versions."""

from typing import Annotated

from alcove.registry.canonical import version_key
from pydantic import AfterValidator, StringConstraints

__all__ = ["AliasName", "TagKey", "TagValue", "sort_key", "version_of_key"]


def _printable(value: str) -> str:
    if not value.isprintable():
        msg = "should hold printable characters only"
        raise ValueError(msg)
    return value


AliasName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]  # never looks like a version number
TagKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_.-]{0,63}$")]
TagValue = Annotated[str, StringConstraints(min_length=1, max_length=256), AfterValidator(_printable)]


def sort_key(version: str) -> int:
    """Return a number that sorts as "MAJOR.MINOR.PATCH" does; each part is below a million."""
    major, minor, patch = version_key(version)
    return (major * 1_000_000 + minor) * 1_000_000 + patch


def version_of_key(key: int) -> str:
    """Return the version whose `sort_key` it is."""
    rest, patch = divmod(key, 1_000_000)
    major, minor = divmod(rest, 1_000_000)
    return f"{major}.{minor}.{patch}"
