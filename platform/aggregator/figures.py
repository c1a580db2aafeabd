"""Answers Prometheus with an aggregator's figures: sums since its start, without a task's or a caller's name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["AggregatorFigures", "create_page"]


@dataclass(frozen=True)
class AggregatorFigures:
    """Sums since the start of the process, but for what waits at this moment.

    Attributes:
        uploaded: leader: reports acknowledged.
        added: reports added to a batch.
        released: batches released.
        left_out: reports refused at upload or left out later, by reason.
        connections: open at this moment.
        is_helper_away: leader: whether the last exchange with the helper failed.
    """

    uploaded: int = 0
    added: int = 0
    released: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    connections: int = 0
    is_helper_away: bool = False


def create_page(figures: Callable[[], AggregatorFigures]) -> web.Application:
    """Return the application that answers GET /metrics."""
    registry = CollectorRegistry()
    gauges = {
        name: Gauge(f"alcove_aggregator_{name}", text, registry=registry)
        for name, text in (
            ("uploaded_reports", "Reports acknowledged to devices since the start."),
            ("added_reports", "Reports added to batches since the start."),
            ("released_batches", "Batches released to the collector since the start."),
            ("connections", "Connections that are open now."),
            ("helper_away", "1 if the last exchange with the helper failed."),
        )
    }
    left_out = Gauge(
        "alcove_aggregator_left_out_reports",
        "Reports refused at upload or left out later, since the start.",
        ("reason",),
        registry=registry,
    )

    async def answer(_request: web.Request) -> web.Response:
        now = figures()
        for name, value in (
            ("uploaded_reports", now.uploaded),
            ("added_reports", now.added),
            ("released_batches", now.released),
            ("connections", now.connections),
            ("helper_away", int(now.is_helper_away)),
        ):
            gauges[name].set(value)
        for reason, count in now.left_out.items():
            left_out.labels(reason).set(count)
        headers = {"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"}
        return web.Response(body=generate_latest(registry), headers=headers)

    app = web.Application()
    app.add_routes([web.get("/metrics", answer)])
    return app
