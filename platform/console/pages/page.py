"""Gives every page the same way to the server and back: data by calls, then a template or JSON.

A page is an async function from a request to an `Answer`.  Its data are what `.json` gives; its template shows them.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar

from aiohttp import web
from alcove.platform.client import ClientError, PlatformClient
from alcove.platform.console.actions import Action, FormError, Offer, offer, read_form
from alcove.platform.console.calls import Calls
from alcove.platform.console.problems import Problem, problem_of
from alcove.platform.console.rendering import Ready, Renderer, theme_of, wants_json
from alcove.platform.console.security import form_of
from alcove.platform.console.session import IDLE_HEADER
from alcove.platform.console.sharing import SharedReads
from alcove.platform.console.viewer import VIEWER, somebody

__all__ = ["Answer", "Pages", "Refusal", "back_to_page", "offers_of"]

_Value = TypeVar("_Value")
Page = Callable[[web.Request], Awaitable["Answer"]]


@dataclass(frozen=True)
class Answer:
    """What a page shows.

    Attributes:
        template: that shows it.
        context: what the template needs.
        data: what programs get.
        status: of the answer.
    """

    template: str
    context: Mapping[str, Any]
    data: Any
    status: HTTPStatus = HTTPStatus.OK


@dataclass(frozen=True)
class Refusal:
    """A form that was refused: the page shows it again with what was written.

    Attributes:
        action: name of its action.
        values: what was written.
        problem: why, for people.
        status: of the answer.
        kind: the server's name of the error; "": the form itself was not complete.
    """

    action: str
    values: Mapping[str, str]
    problem: str
    status: HTTPStatus
    kind: str = ""


class Pages:
    """What pages have in common.

    Args:
        calls: to the server.
        renderer: of templates.
    """

    def __init__(self, calls: Calls, renderer: Renderer) -> None:
        self._calls = calls
        self._renderer = renderer
        self._shared = SharedReads()

    async def ask(self, request: web.Request, work: Callable[[PlatformClient], _Value]) -> _Value:
        """Return what calls of the viewer give.

        Raises:
            ClientError: a call failed.
        """
        return await self._calls.run(request[VIEWER].token, work)

    def routes(self, path: str, page: Page, *, is_live: bool = False) -> list[web.RouteDef]:
        """Return the routes of a page: for people at its path, for programs with `.json` behind it.

        Args:
            path: of the page.
            page: makes it.
            is_live: it loads again by itself, and takes regions alone, which are the same for everybody of a role.
        """

        async def handle(request: web.Request) -> web.Response:
            if is_live and IDLE_HEADER in request.headers and not wants_json(request):
                return await self._respond_again(request, page)
            return self.respond(request, await page(request))

        named = "/index.json" if path == "/" else f"{path}.json"
        return [web.get(named, handle), web.get(path, handle)]

    async def _respond_again(self, request: web.Request, page: Page) -> web.Response:
        """Return a page that loads again by itself: read, made and compressed once for all of a role who ask now."""
        role = request[VIEWER].info.role

        async def make() -> Ready:
            answer = await page(request)
            context = {**answer.context, "offers": (), "viewer": somebody(role)}
            return self._renderer.prepare(request, answer.template, context)

        key = (role, str(request.rel_url), theme_of(request))
        return self._renderer.send(request, await self._shared.read(key, make))

    def refuse(self, request: web.Request, problem: Problem) -> web.Response:
        """Return a page, or JSON, that says why there is no answer."""
        return self._renderer.problem(request, problem)

    def respond(self, request: web.Request, answer: Answer) -> web.Response:
        """Return an answer for people, or for programs where one asks."""
        if wants_json(request):
            return web.json_response(answer.data, status=answer.status)
        return self._renderer.page(request, answer.template, answer.context, status=answer.status)

    async def act(
        self,
        request: web.Request,
        action: Action,
        *,
        back: str,
        page: Callable[[web.Request, Refusal], Awaitable[Answer]],
    ) -> web.Response:
        """Do what a form asks; go back to the page, or show it again with what was written and why it was refused.

        Args:
            request: with the form.
            action: that it is of.
            back: address of the page.
            page: makes the page again.
        """
        fields = await form_of(request, request[VIEWER].token)
        try:
            form = read_form(action, fields)
            await self.ask(request, lambda client: action.run(client, form))
        except FormError as error:
            refusal = Refusal(action.name, fields, error.problem, HTTPStatus.BAD_REQUEST)
        except ClientError as error:
            problem = problem_of(error)
            # After a refusal the same form may be sent with other words; after no answer it is the same mutation.
            keeps_id = problem.retry_s or problem.status is HTTPStatus.GATEWAY_TIMEOUT
            values = fields if keeps_id else {name: text for name, text in fields.items() if name != "request_id"}
            detail = f"{problem.title}: {problem.detail}. {problem.remedy}"
            if wants_json(request):
                return self._renderer.problem(request, problem)
            refusal = Refusal(action.name, values, detail, problem.status, problem.kind)
        else:
            if wants_json(request):
                return web.json_response({"done": action.name})
            return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": f"{back}?done={action.name}"})
        if wants_json(request):
            data = {"error": {"kind": "FormError", "title": "Not complete", "detail": refusal.problem, "remedy": ""}}
            return web.json_response(data, status=refusal.status)
        answer = await page(request, refusal)
        is_shown = any(one.problem for one in answer.context.get("offers", ()))
        # An action that the page does not offer any more has no form to say it in.
        context = answer.context if is_shown else {"refused": refusal.problem, **answer.context}
        return self.respond(request, replace(answer, context=context, status=refusal.status))


async def back_to_page(request: web.Request) -> web.Response:
    """Send a person who loads the address of an action, such as after a refused form, to the page that it is on."""
    place = request.path.partition("/actions/")[0]
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": place})


def offers_of(actions: list[Action], path: str, refusal: Refusal | None) -> list[Offer]:
    """Return the actions of a page as forms; the one that was refused with what was written."""
    return [
        offer(action, f"{path}/actions/{action.name}", refusal.values, refusal.problem)
        if refusal is not None and refusal.action == action.name
        else offer(action, f"{path}/actions/{action.name}")
        for action in actions
    ]
