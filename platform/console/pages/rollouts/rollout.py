"""Shows a rollout with its stages, its guardrails and what a person can do with it."""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web
from alcove.platform.client import AuditLine, KeptAnalysis, PlatformClient, Rollout
from alcove.platform.console.actions import Action, may
from alcove.platform.console.pages.page import Answer, Pages, Refusal, back_to_page, offers_of
from alcove.platform.console.pages.rollouts.actions import SEEN, actions_of, all_actions
from alcove.platform.console.pages.rollouts.pictures import make_guardrails, picture_share
from alcove.platform.console.pages.rollouts.timeline import Step, make_timeline
from alcove.platform.console.pages.rollouts.words import DECISIONS, MECHANISMS, describe_state, say_duration
from alcove.platform.console.viewer import VIEWER, Viewer

__all__ = ["ROLLOUT", "Known", "make_context", "routes"]

ROLLOUT: Final = r"{rollout:ro-[A-Za-z0-9_-]{1,64}}"
HISTORY_SHOWN: Final = 200  # lines of the audit log; a rollout of 32 stages has about a hundred
SEEN_LENGTH: Final = 200  # characters of what a form says that its sender saw


@dataclass(frozen=True)
class Known:
    """What the server says of a rollout."""

    rollout: Rollout
    team: str
    history: list[AuditLine]
    analyses: list[KeptAnalysis]


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of one rollout."""

    async def rollout(request: web.Request, refusal: Refusal | None = None) -> Answer:
        name = request.match_info["rollout"]
        known = await pages.ask(request, lambda client: _read(client, name))
        actions = _list_offered(known, request[VIEWER])
        steps = make_timeline(known.rollout, known.history)
        context = make_context(known, steps)
        context["done"] = next((one.done for one in all_actions(name) if one.name == request.query.get("done")), "")
        if refusal is not None and refusal.kind == "StaleEtagError":
            refusal = replace(refusal, problem=_say_both(refusal, known, steps, actions))
            if refusal.action not in [action.name for action in actions]:
                context["refused"] = refusal.problem
        context["offers"] = offers_of(actions, f"/rollouts/{name}", refusal)
        data = {
            "rollout": known.rollout.model_dump(mode="json"),
            "team": known.team,
            "timeline": [asdict(step) for step in steps],
            "share": context["share"].to_json(),
            "guardrails": [one.to_json() for one in context["guardrails"]],
            "analyses": [one.model_dump(mode="json") for one in known.analyses],
            "actions": [action.name for action in actions],
        }
        return Answer("rollouts/rollout.html", context, data)

    async def act(request: web.Request) -> web.Response:
        name = request.match_info["rollout"]
        action = next((one for one in all_actions(name) if one.name == request.match_info["action"]), None)
        if action is None:
            raise web.HTTPNotFound
        back = "/rollouts" if action.name == "delete" else f"/rollouts/{name}"
        return await pages.act(request, action, back=back, page=rollout)

    path = f"/rollouts/{ROLLOUT}"
    return [
        *pages.routes(path, rollout, is_live=True),
        web.get(path + "/actions/{rest:.*}", back_to_page),
        web.post(path + "/actions/{action:[a-z-]{1,32}}", act),
    ]


def _read(client: PlatformClient, rollout_id: str) -> Known:
    rollout = client.rollout(rollout_id)
    (version, *_) = client.versions_page(rollout.feature, size=1).items  # a rollout's feature has one
    history = client.audit(about=rollout_id, limit=HISTORY_SHOWN)
    return Known(rollout, version.team, history, client.stage_analyses(rollout_id))


def _list_offered(known: Known, viewer: Viewer) -> list[Action]:
    """Return the actions that the state allows and the role may do."""
    return [
        action
        for action in actions_of(known.rollout, viewer.info.principal)
        if may(viewer.role, action.rpc, known.team)
    ]


def make_context(known: Known, steps: list[Step]) -> dict[str, Any]:
    """Return what the template needs, but for actions and notices."""
    rollout = known.rollout
    plan, stages = rollout.plan, rollout.plan.stages
    stage = stages[rollout.stage - 1] if 0 < rollout.stage <= len(stages) else None
    guardrails = make_guardrails(rollout, known.analyses)
    return {
        "rollout": rollout,
        "team": known.team,
        "steps": steps,
        "stage": stage,
        "share": picture_share(rollout, known.history, int(time.time())),
        "guardrails": guardrails,
        "decision": DECISIONS.get(rollout.analysis.decision, "") if rollout.analysis else "",
        "mechanism": MECHANISMS.get(plan.mechanism, plan.mechanism),
        "window": say_duration(plan.window_s) if plan.window_s else "",
        "timeout": say_duration(plan.timeout_s) if plan.timeout_s else "",
        "policy_address": f"/policies/{quote(rollout.app, safe='')}",
        "audit_address": f"/audit?object={rollout.rollout_id}",
        "live_address": f"/rollouts/{rollout.rollout_id}",
    }


def _say_both(refusal: Refusal, known: Known, steps: list[Step], actions: list[Action]) -> str:
    """Return what a person saw and what is there now, after somebody else was faster."""
    seen = refusal.values.get(SEEN, "")[:SEEN_LENGTH]
    now = describe_state(known.rollout)
    moves = [move for step in steps for move in step.moves]
    if moves:
        last = moves[-1]
        now += f": {last.who} {last.words}" + (f" because {last.reason}" if last.reason else "")
    is_offered = refusal.action in [action.name for action in actions]
    follows = "Do it again if it still fits." if is_offered else "What you asked for does not fit that any more."
    return f"Nothing was done: somebody else was faster. You saw: {seen}. It is now: {now}. {follows}"
