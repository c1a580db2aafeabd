"""Sends spans to an OTLP collector or to standard error, where one is set; OpenTelemetry is an optional extra.

The server's own spans, not those of opentelemetry-instrumentation-grpc: that one is in beta, notes each exception of an
asyncio call twice and ends streams that it does not know.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from alcove.platform.core.tracing import set_tracer
from alcove.platform.domain.errors import TracingMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace.export import SpanExporter

__all__ = ["CONSOLE", "tracing"]

CONSOLE = "console"


@contextmanager
def tracing(where: str | None, exporter: SpanExporter | None = None) -> Iterator[None]:
    """Send spans to a collector while the block runs; what it still holds at the end is sent.

    Args:
        where: "http(s)://host:4317" of an OTLP collector (gRPC), "console", or None: no spans are made.
        exporter: takes the spans instead; for tests.

    Raises:
        TracingMissingError: OpenTelemetry is not installed.
    """
    if where is None and exporter is None:
        yield
        return
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an optional extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        chosen = exporter or _exporter(where or CONSOLE)
    except ImportError:
        raise TracingMissingError from None
    provider = TracerProvider(resource=Resource.create({"service.name": "alcove"}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(chosen))
    set_tracer(_Adapter(provider.get_tracer("alcove.platform.server")))
    try:
        yield
    finally:
        set_tracer(None)
        provider.shutdown()


def _exporter(where: str) -> SpanExporter:
    if where == CONSOLE:
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # noqa: PLC0415

        return ConsoleSpanExporter(out=sys.stderr)
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter  # noqa: PLC0415

    return OTLPSpanExporter(endpoint=where, insecure=where.startswith("http://"))


class _Adapter:
    """OpenTelemetry's tracer as `alcove.platform.core.tracing` knows one."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer

    @contextmanager
    def span(self, name: str, parent: str | None, attributes: dict[str, str | int]) -> Iterator[None]:
        """Make a span; of an error it tells the class, because the words may quote what a caller sent."""
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

        is_call = "rpc.system" in attributes
        around = None if parent is None else TraceContextTextMapPropagator().extract({"traceparent": parent})
        with self._tracer.start_as_current_span(
            name,
            context=around,
            kind=SpanKind.SERVER if is_call else SpanKind.INTERNAL,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ) as made:
            try:
                yield
            except Exception as error:
                made.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise
