"""Which addresses answer devices?  All of them here; everything else is 404.

    GET  /metadata/<file>.json           signed metadata; timestamp.json is the only one that changes
    GET  /targets/<folder>/<sha256>.<name>.json
    GET  /blobs/<sha256>
    POST /reports                        1 to 1024 reports of 38 bytes
    GET  /healthz                        "ok" while the process serves

Nothing here reads, keeps or logs a remote address, and no answer depends on who asks.
"""

from pathlib import Path

from aiohttp import web
from alcove.platform.ingress.rate import RateLimit
from alcove.platform.ingress.reports import ReportCollector, reports_handler
from alcove.platform.ingress.static import static_routes

__all__ = ["create_ingress"]


def create_ingress(tree_folder: Path, collector: ReportCollector, rate: RateLimit) -> web.Application:
    """Return the application; the caller runs it, without an access log.

    Args:
        tree_folder: the static tree.
        collector: counts reports.
        rate: how many reports a second are accepted, from all devices together.
    """
    app = web.Application(client_max_size=0)
    app.on_response_prepare.append(_say_nothing_of_the_server)
    app.add_routes(static_routes(tree_folder))
    app.add_routes([web.post("/reports", reports_handler(collector, rate)), web.get("/healthz", _healthz)])
    return app


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n", headers={"Cache-Control": "no-store"})


async def _say_nothing_of_the_server(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "alcove"
    response.headers["X-Content-Type-Options"] = "nosniff"
