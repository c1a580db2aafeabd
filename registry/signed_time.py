"""Names the moments that a signed tree proves, and writes dates as TUF does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final


@dataclass(frozen=True, slots=True)
class SignedTime:
    """What an accepted tree says of time.

    Attributes:
        version: of the timestamp.
        signed_s: earliest moment at which the timestamp can have been signed, seconds since 1970.
        expires_s: when the timestamp or the snapshot ceases to hold, whichever comes first.
        keys: ids of the keys that may sign the timestamp.
    """

    version: int
    signed_s: int
    expires_s: int
    keys: tuple[str, ...]


Floor = Callable[[Sequence[str]], int]
"""Returns a moment that has passed for certain, given the ids of the keys that may sign the timestamp; 0: none known.

What a key signed that root has taken away counts no longer: a thief could have signed any date.
"""


LAST_S: Final = 253_402_300_799
"""The last moment that a date of the tree can say: the end of the year 9999."""


def utc(moment_s: int) -> datetime:
    """Return the moment as TUF writes it: UTC, whole seconds; for one beyond `LAST_S`, that."""
    return datetime.fromtimestamp(min(moment_s, LAST_S), UTC)
