"""Shows a person's sessions: each browser that is signed in, and how to sign it out."""

from typing import Any, Final

from aiohttp import web
from alcove.platform.client import PlatformClient
from alcove.platform.console.actions import Action, Field, Form, FormError
from alcove.platform.console.pages.page import Answer, Pages, Refusal, back_to_page

__all__ = ["routes"]

PATH: Final = "/sessions"
SESSIONS: Final = "/alcove.api.session.v1.SessionService/"


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def show(request: web.Request, refusal: Refusal | None = None) -> Answer:
        found = await pages.ask(request, lambda client: client.sessions())
        done = request.query.get("done", "")
        context = {"sessions": found, "done": next((one.done for one in ACTIONS if one.name == done), "")}
        if refusal is not None:
            context["refused"] = refusal.problem
        return Answer("sessions/sessions.html", context, {"sessions": [one.model_dump() for one in found]})

    async def page(request: web.Request) -> Answer:
        return await show(request)

    def route(action: Action) -> web.RouteDef:
        async def act(request: web.Request) -> web.Response:
            return await pages.act(request, action, back=PATH, page=show)

        return web.post(f"{PATH}/actions/{action.name}", act)

    back = web.get(f"{PATH}/actions/{{action}}", back_to_page)
    return [*pages.routes(PATH, page), *map(route, ACTIONS), back]


def _end(client: PlatformClient, form: Form) -> Any:
    session_id = form.values["session_id"]
    if not session_id:
        raise FormError("session_id", "Say which session.")
    client.delete_session(session_id)
    return None


def _end_others(client: PlatformClient, _form: Form) -> Any:
    return client.delete_other_sessions()


ACTIONS: Final = (
    Action(
        "end",
        "End",
        SESSIONS + "DeleteSession",
        "Signs that browser out at once.",
        "The session has ended.",
        _end,
        needs_reason=False,
        fields=(Field("session_id", "Session"),),
    ),
    Action(
        "end-others",
        "End all others",
        SESSIONS + "DeleteOtherSessions",
        "Signs all your browsers out but this one, at once.",
        "Your other sessions have ended.",
        _end_others,
        needs_reason=False,
    ),
)
