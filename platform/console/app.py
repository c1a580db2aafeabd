"""Composes the console: its pages, and what surrounds each of them.

request ─▶ a name of ours ─▶ within limits ─▶ a form of ours ─▶ who asks ─▶ the page ─▶ headers
                                                   whatever ends it becomes a page that says so
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from alcove.platform.client import ClientError, UnauthenticatedError, UnavailableError
from alcove.platform.console.assets import Assets
from alcove.platform.console.calls import Calls
from alcove.platform.console.kept_forms import keep, unsent
from alcove.platform.console.live import Live
from alcove.platform.console.pages import (
    audit,
    comparison,
    devices,
    experiments,
    features,
    health,
    home,
    planner,
    policies,
    privacy,
    program,
    rollouts,
    sessions,
    trust,
    versions,
)
from alcove.platform.console.pages.page import Pages
from alcove.platform.console.pages.wizards import audiences as audience_texts
from alcove.platform.console.pages.wizards import experiments as experiment_wizard
from alcove.platform.console.pages.wizards import rollouts as rollout_wizard
from alcove.platform.console.problems import Problem, problem_of, problem_of_http
from alcove.platform.console.programs.opener import PROGRAMS, Programs
from alcove.platform.console.rendering import THEME_COOKIE, THEMES, Renderer, wants_json
from alcove.platform.console.security import (
    form_of,
    is_local_path,
    refuse_foreign_forms,
    refuse_other_names,
    set_headers,
)
from alcove.platform.console.session import Sessions
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.console.sign_in import OPEN_PATHS, SignIn
from alcove.platform.console.viewer import VIEWER
from alcove.platform.listening.allowance import limit_connections
from alcove.platform.listening.connections import Connections

__all__ = ["create_console"]

FORM_BYTES: Final = 16 * 1024  # of a form; a reason of 500 characters is 2 000 bytes, escaped three times that
YEAR_S: Final = 365 * 86_400
AREAS: Final = (  # a line each; "/rollouts/new" before "/rollouts/ID"
    audience_texts,
    rollout_wizard,
    experiment_wizard,
    home,
    features,
    sessions,
    experiments,
    versions,
    devices,
    policies,
    privacy,
    rollouts,
    program,
    comparison,
    planner,
    trust,
    audit,
    health,
)
_log = structlog.get_logger()


def create_console(settings: ConsoleSettings, calls: Calls, connections: Connections | None = None) -> web.Application:
    """Return the application; the caller runs it, without an access log.

    Args:
        settings: names and cookies.
        calls: to the server.
        connections: those on which requests come; None: without their limits.
    """
    assets = Assets()
    renderer = Renderer(assets)
    keeping = Sessions(settings, calls, renderer)
    sign_in = SignIn(settings, calls, renderer, keeping)
    pages = Pages(calls, renderer)
    live = Live(calls, renderer)
    limits = [] if connections is None else [limit_connections(connections)]
    app = web.Application(
        client_max_size=FORM_BYTES,
        middlewares=[
            _known_names(settings.hosts),
            *limits,
            _problems(renderer),
            _own_forms,
            _signed_in(keeping, sign_in, live, renderer),
        ],
    )
    app[PROGRAMS] = Programs()
    app.add_routes([web.get("/healthz", _answer_probe)])
    app.add_routes(assets.routes())
    app.add_routes(keeping.routes())
    app.add_routes(sign_in.routes())
    app.add_routes([web.post("/theme", _theme_setter(is_secure=settings.is_secure))])
    app.add_routes(live.routes())
    app.on_shutdown.append(live.stop)
    for area in AREAS:
        app.add_routes(area.routes(pages))

    async def protect(_request: web.Request, response: web.StreamResponse) -> None:
        set_headers(response, is_secure=settings.is_secure)

    app.on_response_prepare.append(protect)
    return app


def _known_names(hosts: frozenset[str]) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        refuse_other_names(request, hosts)
        return await handler(request)

    return check


@web.middleware
async def _own_forms(request: web.Request, handler: Handler) -> web.StreamResponse:
    refuse_foreign_forms(request)
    return await handler(request)


def _problems(renderer: Renderer) -> Middleware:
    """Turn whatever ends a request into a page that says so."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except UnavailableError as error:
            form = None if request.path in OPEN_PATHS else await unsent(request)
            return renderer.problem(request, _to_send_again(error) if form else problem_of(error), form)
        except ClientError as error:
            return renderer.problem(request, problem_of(error))
        except web.HTTPException as error:
            return renderer.problem(request, problem_of_http(error))
        except Exception as error:  # noqa: BLE001 - of the console itself; its words are the log's
            _log.error("a page failed", path=request.path, exc_info=error)
            return renderer.problem(request, _OURS)

    return answer


def _to_send_again(error: ClientError) -> Problem:
    remedy = "Nothing is lost: send the form again when the server is back, which is safe."
    return replace(problem_of(error), remedy=remedy)


_OURS: Final = Problem(
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "The console failed",
    "This page could not be made.",
    "Load it again; if it stays, the server's log says more.",
)
_SIGNED_OUT: Final = Problem(
    HTTPStatus.UNAUTHORIZED,
    "Signed out",
    "Nobody is signed in, or the session has ended.",
    "Sign in at /sign-in and send the request again with its cookie.",
    "UnauthenticatedError",
)


def _signed_in(sessions: Sessions, sign_in: SignIn, live: Live, renderer: Renderer) -> Middleware:
    """Let requests for pages pass of those who are signed in; send the others to sign in."""

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/healthz" or request.path in OPEN_PATHS or request.path.startswith("/assets/"):
            return await handler(request)
        viewer = live.viewer_of(request, sessions.token_of(request)) or await sessions.viewer_of(request)
        if viewer is not None:
            request[VIEWER] = viewer
            try:
                return await handler(request)
            except UnauthenticatedError:  # it ended between two calls
                pass
        if wants_json(request) or "HX-Request" in request.headers:  # a part of a page: the page stays as it is
            return renderer.problem(request, _SIGNED_OUT)
        kept = await keep(request)
        if kept is not None:
            answer = sign_in.ask_again(request, kept)
            sessions.forget(answer)
            return answer
        if viewer is None and _comes_from_elsewhere(request):
            return _again(request, renderer)
        answer = sessions.to_sign_in(request)
        sessions.forget(answer)
        return answer

    return check


def _comes_from_elsewhere(request: web.Request) -> bool:
    """Return whether a link on another site led here: the browser then sends no cookie that is for our pages alone."""
    return request.method == "GET" and request.headers.get("Sec-Fetch-Site") == "cross-site"


def _again(request: web.Request, renderer: Renderer) -> web.Response:
    """Return a page that asks for the same address at once: as a page of ours, with the cookie if there is one."""
    address = str(request.rel_url)
    return renderer.page(request, "again.html", {"again": address if is_local_path(address) else "/"})


def _theme_setter(*, is_secure: bool) -> Handler:
    async def set_theme(request: web.Request) -> web.Response:
        fields = await form_of(request, request[VIEWER].token)
        theme, back = fields.get("theme", ""), fields.get("next", "/")
        if theme not in THEMES:
            raise web.HTTPBadRequest(text=f"theme: expected one of {', '.join(THEMES)}")
        answer = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": back if is_local_path(back) else "/"})
        answer.set_cookie(
            THEME_COOKIE, theme, max_age=YEAR_S, path="/", secure=is_secure, httponly=True, samesite="Strict"
        )
        return answer

    return set_theme


async def _answer_probe(_request: web.Request) -> web.Response:
    return web.Response(text="ok\n")
