"""Shows an experiment: the decision, what it rests on, and what may be done."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web
from alcove.platform.client import Experiment
from alcove.platform.console.actions import Action, may
from alcove.platform.console.pages.experiments.actions import actions_of
from alcove.platform.console.pages.experiments.reading import Reading, context_of, read
from alcove.platform.console.pages.page import Answer, Pages, Refusal, back_to_page, offers_of
from alcove.platform.console.viewer import VIEWER
from alcove.platform.domain.principal import Role

__all__ = ["PATH", "routes"]

PATH: Final = r"/experiments/{experiment_id:ex-[0-9a-f]{1,32}}"


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of the page and its actions."""

    async def experiment(request: web.Request, refusal: Refusal | None = None) -> Answer:
        experiment_id = request.match_info["experiment_id"]
        reading = await pages.ask(request, lambda client: read(client, experiment_id))
        actions = _list_offered(reading, request[VIEWER].role)
        context = context_of(reading) | {
            "history": reading.history,
            "offers": offers_of(actions, f"/experiments/{experiment_id}", refusal),
            "done": _notice_of(request, reading.experiment),
            "conflict": _conflict_of(refusal, reading),
        }
        data = reading.to_json() | {"actions": [action.name for action in actions]}
        return Answer("experiments/experiment.html", context, data)

    async def act(request: web.Request) -> web.Response:
        experiment_id, name = request.match_info["experiment_id"], request.match_info["action"]
        action = next((one for one in actions_of(experiment_id) if one.name == name), None)
        if action is None:
            raise web.HTTPNotFound
        back = "/experiments" if name == "delete" else f"/experiments/{experiment_id}"
        return await pages.act(request, action, back=back, page=experiment)

    return [
        *pages.routes(PATH, experiment, is_live=True),
        web.get(PATH + "/actions/{rest:.*}", back_to_page),
        web.post(PATH + "/actions/{action:[a-z-]{1,32}}", act),
    ]


def _list_offered(reading: Reading, role: Role) -> list[Action]:
    """Return the actions that the state allows and the role may do."""
    experiment = reading.experiment
    return [
        action for action in actions_of(experiment.experiment_id, experiment) if may(role, action.rpc, reading.team)
    ]


def _notice_of(request: web.Request, experiment: Experiment) -> str:
    wanted = request.query.get("done", "")
    return next((one.done for one in actions_of(experiment.experiment_id) if one.name == wanted), "")


def _conflict_of(refusal: Refusal | None, reading: Reading) -> Mapping[str, str] | None:
    """Return both states where somebody else was faster: the one that was decided on, and the one of now."""
    if refusal is None or refusal.status is not HTTPStatus.CONFLICT:
        return None
    seen, now = refusal.values.get("seen", ""), reading.experiment
    if not seen or refusal.values.get("etag") == now.etag:
        return None
    last = reading.history[0] if reading.history else None
    by = "" if last is None else f"{last.action}, by {last.who}"
    return {"seen": seen, "now": now.state, "by": by}
