"""Shows what needs a person now."""

import time
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import Experiment, PlatformClient, Rollout, Version
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.viewer import VIEWER

__all__ = ["routes"]

DRAFTS_SHOWN: Final = 20
DAY_S: Final = 86_400
HALT_SHOWN_S: Final = 7 * DAY_S
NEEDS_STATES: Final = ("registered", "validated")


@dataclass(frozen=True)
class _Needs:
    """What was found."""

    stopped: list[Rollout]
    approvals: list[Rollout]
    undecided: list[Experiment]
    drafts: list[Version]


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def home(request: web.Request) -> Answer:
        role = request[VIEWER].role
        needs = await pages.ask(request, lambda client: _read(client, role.team or ""))
        return Answer("home/home.html", vars(needs) | {"team": role.team}, _to_json(needs))

    return pages.routes("/", home)


def _read(client: PlatformClient, team: str) -> _Needs:
    """Ask for all that could need somebody; drafts of a team where the viewer is of one."""
    rollouts = client.rollouts(states=("draft", "running", "paused", "halted"))
    now_s = int(time.time())
    stopped = [one for one in rollouts if _needs_somebody(one, now_s)]
    approvals = [one for one in rollouts if one.proposal is not None and one.state in ("draft", "running", "paused")]
    undecided = [one for one in client.experiments() if one.state == "running" and _is_at_its_end(one, now_s)]
    drafts = client.versions(team=team, states=NEEDS_STATES, order="newest", limit=DRAFTS_SHOWN)
    return _Needs(stopped, approvals, undecided, drafts)


def _needs_somebody(rollout: Rollout, now_s: int) -> bool:
    """Whether a rollout is paused, was halted this week, or runs while its last analysis says that it should not."""
    match rollout.state:
        case "paused":
            return True
        case "halted":
            return now_s - rollout.updated_at_s < HALT_SHOWN_S
        case "running":
            return rollout.analysis is not None and rollout.analysis.decision in ("alarm", "harm", "timeout")
        case _:
            return False


def _is_at_its_end(experiment: Experiment, now_s: int) -> bool:
    """Whether a winner is found, or as many days have passed as the plan has."""
    if experiment.decision is not None and experiment.decision.kind == "winner":
        return True
    planned_s = experiment.plan.days_needed * DAY_S
    return bool(planned_s) and now_s - experiment.started_at_s >= planned_s


def _to_json(needs: _Needs) -> dict[str, Any]:
    rollouts = ("rollout_id", "app", "feature", "version", "state", "share_basis_points", "updated_at_s")
    return {
        "stopped_rollouts": [{name: getattr(one, name) for name in rollouts} for one in needs.stopped],
        "approvals": [
            {name: getattr(one, name) for name in rollouts} | {"proposed_by": one.proposal and one.proposal.proposed_by}
            for one in needs.approvals
        ],
        "undecided_experiments": [
            {name: getattr(one, name) for name in ("experiment_id", "app", "feature", "started_at_s")}
            for one in needs.undecided
        ],
        "drafts": [
            {name: getattr(one, name) for name in ("feature", "version", "team", "state", "published_at_s")}
            for one in needs.drafts
        ],
    }
