"""Answers Prometheus for an ingress that runs by itself: what the server's page says of it otherwise."""

from collections.abc import Callable

from aiohttp import web
from alcove.platform.ingress.figures import IngressFigures
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

__all__ = ["IngressGauges", "create_ingress_page"]


class IngressGauges:
    """The ingress's figures in a registry of Prometheus."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counted = Gauge("alcove_reports_counted", "Reports counted since the start.", registry=registry)
        self._refused = Gauge(
            "alcove_bodies_refused",
            "Bodies of reports, requests and connections of devices refused since the start.",
            ("reason",),
            registry=registry,
        )
        self._check_ins = Gauge(
            "alcove_check_ins",
            "Check-ins of devices since the start, by what they got; not those that a CDN or nginx answers.",
            ("outcome",),
            registry=registry,
        )
        self._connections = Gauge("alcove_device_connections", "Connections of devices, open now.", registry=registry)

    def show(self, figures: IngressFigures) -> None:
        """Store the figures that the ingress sent."""
        self._counted.set(figures.counted)
        self._connections.set(figures.connections)
        for reason, count in figures.refused.items():
            self._refused.labels(reason).set(count)
        for outcome, count in figures.check_ins.items():
            self._check_ins.labels(outcome).set(count)


def create_ingress_page(figures: Callable[[], IngressFigures]) -> web.Application:
    """Return the application that answers GET /metrics with an ingress's own figures."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    gauges = IngressGauges(registry)

    async def answer(_request: web.Request) -> web.Response:
        gauges.show(figures())
        headers = {"Content-Type": CONTENT_TYPE_LATEST, "Cache-Control": "no-store"}
        return web.Response(body=generate_latest(registry), headers=headers)

    app = web.Application()
    app.add_routes([web.get("/metrics", answer)])
    return app
