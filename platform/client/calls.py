"""Defines what the parts of the client need of it: protocols for calls and streams, and request ids."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol

__all__ = ["Caller", "Streamer", "new_id"]


class Caller(Protocol):
    """Makes calls; raises typed errors."""

    def __call__(self, method: Callable[..., Any], request: Any, *, timeout_s: float | None = None) -> Any:
        """Return the answer of a call with a deadline."""
        ...


class Streamer(Protocol):
    """Reads streams; raises typed errors."""

    def __call__(self, method: Callable[..., Any], request: Any, *, timeout_s: float) -> Iterator[Any]:
        """Yield the answers of a call with a deadline."""
        ...


def new_id() -> str:
    """Return a request id that nobody used before."""
    return uuid.uuid4().hex
