"""Defines what both wizards do with a form that was sent: show it again, forecast, create."""

import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import ClientError, UnauthenticatedError
from alcove.platform.console.forecasting import ComputingError
from alcove.platform.console.kept_forms import RESUME, LongForm, read_long_form
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.problems import problem_of
from alcove.platform.console.rendering import wants_json
from alcove.platform.console.viewer import VIEWER

__all__ = ["Result", "Shown", "field_of", "handle", "sentence_of"]

_BUSY: Final = (
    "Computing: the forecast is not there yet, since the server computes two at a time. Nothing is lost; press “Check "
    "and forecast” again in a moment."
)


@dataclass(frozen=True)
class Shown:
    """What a form shows beside its fields.

    Attributes:
        problem: why it was refused, a sentence; "": it was not.
        notice: what happened else; "": nothing.
        request_id: names the creation, so that sending the form twice creates once.
        extra: what the step found, for the template.
        data: the same for programs.
        status: of the answer.
        error: of the call that was refused; None: none was.
    """

    problem: str = ""
    notice: str = ""
    request_id: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    status: HTTPStatus = HTTPStatus.OK
    error: ClientError | None = None


@dataclass(frozen=True)
class Result:
    """What a step did.

    Attributes:
        address: of what was created; "": nothing was.
        shown: beside the form.
    """

    address: str = ""
    shown: Shown = Shown()


def sentence_of(error: ClientError) -> str:
    """Return what a form says of a call that failed."""
    problem = problem_of(error)
    if problem.retry_s or problem.status is HTTPStatus.GATEWAY_TIMEOUT:
        return f"{problem.title}: {problem.detail}. What you wrote is below; sending it again creates it once."
    return f"{problem.title}: {problem.detail}. Nothing was created, and what you wrote is below."


def field_of(error: ClientError, names: Iterable[str]) -> str:
    """Return the field that a refusal names; "": none of these."""
    named = error.message.partition(":")[0].removeprefix("plan.")
    return named if named in names else ""


async def handle(
    request: web.Request,
    pages: Pages,
    make: Callable[[LongForm, Shown], Awaitable[Answer]],
    step: Callable[[LongForm], Awaitable[Result]],
) -> web.Response:
    """Answer a form that was sent: go to what it created, or show it again with every word that was written.

    Args:
        request: with the form.
        pages: what pages have in common.
        make: makes the page of a form.
        step: does what the button says; not called where nothing may be done.
    """
    form = await read_long_form(request, request[VIEWER].token)
    request_id = form.fields.get("request_id") or uuid.uuid4().hex
    if form.step == RESUME or form.step.startswith("add-"):
        notice = "" if form.step != RESUME else "What you wrote is here again. Nothing was sent."
        return pages.respond(request, await make(form, Shown(notice=notice, request_id=request_id)))
    try:
        result = await step(form)
    except UnauthenticatedError:
        raise
    except ComputingError:
        result = Result(shown=Shown(notice=_BUSY, extra={"asks_again": "check"}, data={"computing": True}))
    except ClientError as error:
        problem = problem_of(error)
        # After a refusal other words may follow; after no answer it is the same creation.
        keeps_id = problem.retry_s or problem.status is HTTPStatus.GATEWAY_TIMEOUT
        result = Result(
            shown=Shown(
                sentence_of(error),
                request_id=request_id if keeps_id else uuid.uuid4().hex,
                data={"error": problem.to_json()["error"]},
                status=problem.status,
                error=error,
            )
        )
    if not result.address:
        shown = result.shown
        if not shown.request_id:
            shown = replace(shown, request_id=request_id)
        return pages.respond(request, await make(form, shown))
    if wants_json(request):
        return web.json_response({"address": result.address})
    return web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": result.address})
