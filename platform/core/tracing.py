"""Records where a call spends its time, as spans; does nothing where traces are switched off."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

__all__ = ["Tracer", "is_traced", "set_tracer", "span"]


class Tracer(Protocol):
    """Makes spans: an adapter of OpenTelemetry's tracer in the server."""

    def span(self, name: str, parent: str | None, attributes: dict[str, str | int]) -> AbstractContextManager[Any]:
        """Return a block that is one span, inside `parent` (a W3C traceparent) or the span of the present task."""
        ...


_tracer: Tracer | None = None
_NOTHING: AbstractContextManager[None] = nullcontext()


def set_tracer(tracer: Tracer | None) -> None:
    """Send the spans of this process to `tracer` from now on; None: nowhere."""
    global _tracer  # noqa: PLW0603 - one process, one tracer, as OpenTelemetry itself has it
    _tracer = tracer


def is_traced() -> bool:
    """Tell whether anybody asked for traces."""
    return _tracer is not None


def span(name: str, *, parent: str | None = None, **attributes: str | int) -> AbstractContextManager[Any]:
    """Return a block that shows as one span in traces.

    Args:
        name: of the span.
        parent: W3C traceparent of the span around it, where another process made that one.
        attributes: no secret, no address, no content.
    """
    return _NOTHING if _tracer is None else _tracer.span(name, parent, attributes)
