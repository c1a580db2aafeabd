"""Shows what needs a person now."""

import asyncio
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import (
    AliasProposal,
    Experiment,
    HealthCheck,
    Page,
    PlatformClient,
    Rollout,
    ServerHealth,
    Trust,
    Version,
)
from alcove.platform.console.expiry import needs_people, renewal_command, validity, validity_of_role, words_of
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.viewer import VIEWER

__all__ = ["routes"]

DRAFTS_SHOWN: Final = 20
NEEDS_STATES: Final = ("registered", "validated")
SHOWN: Final = 20  # of one list; the rest is on the pages that they lead to
NEXT_STEPS: Final = MappingProxyType(
    {
        "paused": "Look at its guardrails; then resume it, roll it back or halt it.",
        "halted": "Devices are back on what they had. Publish a corrected version, or let its team reinstate this one.",
        "alarm": "No devices can have sent these reports: find out who does, and decide by other evidence.",
        "harm": "It is worse than its margin allows: pause it, roll it back or halt it.",
        "timeout": "It takes longer than its plan: advance it with a reason, or roll it back.",
    }
)


@dataclass(frozen=True)
class _Needs:
    """What was found: of each list as much as the page shows, and how long it is."""

    stopped: Page[Rollout]
    approvals: Page[Rollout]
    undecided: Page[Experiment]
    drafts: list[Version]


@dataclass(frozen=True)
class _Ending:
    """Something that ends soon: what, how near, when, and what to do about it."""

    name: str
    validity: str
    expires_at_s: int
    remedy: str
    command: str = ""


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def home(request: web.Request) -> Answer:
        team = request[VIEWER].role.team or ""
        needs, proposals, trust, health = await asyncio.gather(
            pages.ask(request, lambda client: _read(client, team)),
            pages.ask(request, lambda client: client.alias_proposals_page(team=team).items),
            pages.ask(request, lambda client: client.trust()),
            pages.ask(request, lambda client: client.health()),
        )
        ending, failing = _endings(trust), _failing(health)
        context = {
            "team": team,
            "proposals": proposals,
            "ending": ending,
            "failing": failing,
            "shown": SHOWN,
            "problem_of": _problem_of,
            "next_steps": NEXT_STEPS,
            "in_words": lambda moment_s: words_of(moment_s - trust.now_s),
        }
        return Answer("home/home.html", vars(needs) | context, _to_json(needs, proposals, ending, failing))

    return pages.routes("/", home)


def _read(client: PlatformClient, team: str) -> _Needs:
    """Ask for what is shown of all that could need somebody, the newest first; drafts of a team where there is one."""
    return _Needs(
        client.rollouts_page(need="action", order="newest", size=SHOWN),
        client.rollouts_page(need="approval", order="newest", size=SHOWN),
        client.experiments_page(needs_decision=True, order="newest", size=SHOWN),
        client.versions(team=team, states=NEEDS_STATES, order="newest", limit=DRAFTS_SHOWN),
    )


def _problem_of(rollout: Rollout) -> str:
    """Return why a rollout is shown, as `NEXT_STEPS` has it."""
    is_running = rollout.state == "running" and rollout.analysis is not None
    return rollout.analysis.decision if is_running and rollout.analysis is not None else rollout.state


def _endings(trust: Trust) -> list[_Ending]:
    """Return the signatures, tokens and the certificate that end soon or have ended, the most urgent first."""
    found = [
        _Ending(
            f"the signature of role {role.role}",
            validity_of_role(role, trust.now_s),
            role.expires_at_s,
            "Its owners must sign again." if renewal_command(role) else "The server does not renew it: see its health.",
            renewal_command(role),
        )
        for role in needs_people(trust)
    ]
    tokens, certificate_s = trust.tokens, trust.certificate_expires_at_s
    if tokens.expiring:
        name = f"{tokens.expiring} API token{'s' if tokens.expiring > 1 else ''}"
        left_s = tokens.next_expires_at_s - trust.now_s
        remedy = "Renew them on the server's machine, before programs are refused."
        found.append(_Ending(name, validity(left_s), tokens.next_expires_at_s, remedy, "alcove token list"))
    if certificate_s and validity(certificate_s - trust.now_s) != "valid":
        state, remedy = validity(certificate_s - trust.now_s), "Get a new one from its authority."
        found.append(_Ending("the TLS certificate of the server", state, certificate_s, remedy))
    return sorted(found, key=lambda one: one.expires_at_s)


def _failing(health: ServerHealth) -> list[HealthCheck]:
    """Return what does not work, the worst first."""
    return sorted(
        (one for one in health.checks if one.state in ("failed", "degraded")), key=lambda one: one.state != "failed"
    )


def _to_json(
    needs: _Needs, proposals: tuple[AliasProposal, ...], ending: list[_Ending], failing: list[HealthCheck]
) -> dict[str, Any]:
    rollouts = ("rollout_id", "app", "feature", "version", "state", "share_basis_points", "updated_at_s")
    return {
        "stopped_rollouts": [
            {name: getattr(one, name) for name in rollouts} | {"next_step": NEXT_STEPS.get(_problem_of(one), "")}
            for one in needs.stopped.items
        ],
        "approvals": [
            {name: getattr(one, name) for name in rollouts} | {"proposed_by": one.proposal and one.proposal.proposed_by}
            for one in needs.approvals.items
        ],
        "alias_proposals": [one.model_dump(mode="json") for one in proposals],
        "undecided_experiments": [
            {name: getattr(one, name) for name in ("experiment_id", "app", "feature", "started_at_s")}
            for one in needs.undecided.items
        ],
        "totals": {
            "stopped_rollouts": needs.stopped.total,
            "approvals": needs.approvals.total,
            "undecided_experiments": needs.undecided.total,
        },
        "ending": [vars(one) for one in ending],
        "failing": [one.model_dump(mode="json") for one in failing],
        "drafts": [
            {name: getattr(one, name) for name in ("feature", "version", "team", "state", "published_at_s")}
            for one in needs.drafts
        ],
    }
