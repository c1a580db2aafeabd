"""Defines the routes that answer devices; everything else is 404.

    GET  /metadata/<file>.json           signed metadata; timestamp.json is the only one that changes
    GET  /targets/<folder>/<sha256>.<name>.json
    GET  /blobs/<sha256>
    POST /reports                        one report of 38 to 68 bytes
    …    <path of the issuer's address>  enrollment and tokens, where this server issues them (`token_handler`)
    GET  /healthz                        "ok" while the process serves

Nothing here logs a remote address, and no answer depends on who asks, except how often (`connections`).
"""

from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler
from alcove.platform.ingress.check_ins import count_check_ins
from alcove.platform.ingress.report_handler import reports_handler
from alcove.platform.ingress.reports import ReportCollector
from alcove.platform.ingress.static import static_routes
from alcove.platform.listening.allowance import limit_connections
from alcove.platform.listening.connections import Connections
from alcove.platform.listening.rate import RateLimit
from alcove.registry.blobs import BlobStore

__all__ = ["create_ingress"]

_log = structlog.get_logger()


def create_ingress(
    tree_folder: Path,
    collector: ReportCollector,
    rate: RateLimit,
    bodies: RateLimit,
    *,
    blobs: BlobStore | None = None,
    connections: Connections | None = None,
    routes: Sequence[web.RouteDef] = (),
    check_ins: Counter[str] | None = None,
) -> web.Application:
    """Return the application; the caller runs it, without an access log.

    Args:
        tree_folder: the static tree.
        collector: counts reports.
        rate: how many reports a second are accepted, from all devices together.
        bodies: how many bodies a second are read, good or bad.
        blobs: where they are no files of the tree.
        connections: those on which requests come; None: without their limits.
        routes: of the issuer of tokens, if this server has one.
        check_ins: counts them by what devices got (`check_ins.OUTCOMES`); None: nobody asks.
    """
    counting = [] if check_ins is None else [count_check_ins(check_ins)]
    limits = [] if connections is None else [limit_connections(connections)]
    app = web.Application(client_max_size=0, middlewares=[*counting, *limits, _no_bodies, _own_errors])
    app.on_response_prepare.append(_say_nothing_of_the_server)
    app.add_routes(static_routes(tree_folder, blobs))
    app.add_routes([web.post("/reports", reports_handler(collector, rate, bodies)), web.get("/healthz", _healthz)])
    app.add_routes(routes)
    return app


@web.middleware
async def _no_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Close the connection after a request whose body nobody reads; what it holds is not waited for."""
    try:
        response = await handler(request)
    except web.HTTPException as refusal:
        if request.can_read_body:
            refusal.force_close()
        raise
    if request.can_read_body:
        response.force_close()
    return response


@web.middleware
async def _own_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer for what nobody expected: the web server's own log of it would name the caller's address."""
    try:
        return await handler(request)
    except web.HTTPException:
        raise
    except ConnectionError:
        if request.transport is not None and not request.transport.is_closing():
            raise  # of something else than the device
        return web.Response(status=400)  # it went away: nobody hears this, and a line for each would fill the disk
    except Exception as error:  # noqa: BLE001 - whatever it was, the device gets an answer and the log a line
        _log.error("internal error", path=request.path.split("/", 2)[1], exc_info=error)
        return web.Response(status=500, text="internal error\n", headers={"Cache-Control": "no-store"})


async def _healthz(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n", headers={"Cache-Control": "no-store"})


async def _say_nothing_of_the_server(_request: web.Request, response: web.StreamResponse) -> None:
    if response.status == HTTPStatus.EXPECTATION_FAILED:
        response.force_close()  # the web server answers it before a middleware could count the request
    is_kept = response.status == HTTPStatus.NOT_FOUND and "Cache-Control" in response.headers
    if response.status >= HTTPStatus.BAD_REQUEST and not is_kept:  # of a file it would have the lifetime of its bytes
        response.headers["Cache-Control"] = "no-store"
    response.headers["Server"] = "alcove"
    response.headers["X-Content-Type-Options"] = "nosniff"
