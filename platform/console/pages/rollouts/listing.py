"""Lists rollouts."""

from collections.abc import Mapping
from typing import Final, Literal

from aiohttp import web
from alcove.platform.client import Page, PlatformClient, Rollout
from alcove.platform.console.actions import may
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.pages.rollouts.actions import DELETED, SERVICE
from alcove.platform.console.tables import Choice, Column, Table, size_choice, size_of
from alcove.platform.console.viewer import VIEWER

__all__ = ["routes"]

PARAMETERS: Final = ("app", "feature", "state", "text", "order", "size", "page")
STATES: Final = ("draft", "running", "paused", "completed", "rolled_back", "halted")
ORDERS: Final = (("", "Newest first"), ("oldest", "Oldest first"))


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of the list."""

    async def rollouts(request: web.Request) -> Answer:
        page = await pages.ask(request, lambda client: _read(client, request.query))
        table = _table(page, request.query)
        role = request[VIEWER].role
        context = {
            "table": table,
            "may_create": may(role, SERVICE + "CreateRollout", role.team or ""),
            "done": DELETED if request.query.get("done") == "delete" else "",
        }
        return Answer("rollouts/rollouts.html", context, table.to_json())

    return pages.routes("/rollouts", rollouts)


def _read(client: PlatformClient, query: Mapping[str, str]) -> Page[Rollout]:
    app, feature, state, text, order, size, token = (query.get(name, "") for name in PARAMETERS)
    sort: Literal["oldest", "newest"] = "oldest" if order == "oldest" else "newest"
    states = [state] if state in STATES else []
    return client.rollouts_page(
        app,
        feature,
        states=states,
        text=text,
        order=sort,
        size=size_of(size),
        token=token,
    )


def _table(page: Page[Rollout], query: Mapping[str, str]) -> Table[Rollout]:
    app, feature, state, text, order, size, token = (query.get(name, "") for name in PARAMETERS)
    return Table(
        "rollouts",
        "Rollouts",
        (
            Column("rollout_id", "Rollout", lambda one: one.rollout_id, href=lambda one: f"/rollouts/{one.rollout_id}"),
            Column("app", "App", lambda one: one.app),
            Column("feature", "Feature", lambda one: one.feature, href=lambda one: f"/features/{one.feature}"),
            Column("version", "Version", lambda one: one.version, href=_version),
            Column("state", "State", lambda one: one.state, "state"),
            Column("share_basis_points", "Share of devices", lambda one: one.share_basis_points, "share"),
            Column("stage", "Stage", _stage),
            Column("decision", "Last analysis", lambda one: one.analysis and one.analysis.decision, "state"),
            Column("updated_at_s", "Updated", lambda one: one.updated_at_s, "time"),
        ),
        page.items,
        "/rollouts",
        (
            Choice("text", "Contains", text),
            Choice("app", "App", app),
            Choice("feature", "Feature", feature),
            Choice("state", "State", state, (("", "Any"), *((each, each.replace("_", " ")) for each in STATES))),
            Choice("order", "Order", order, ORDERS, is_filter=False),
            size_choice(size),
        ),
        page.next_token,
        token,
        "No version was rolled out yet.",
        "alcove rollout create APP FEATURE VERSION",
    )


def _version(rollout: Rollout) -> str:
    return f"/features/{rollout.feature}/versions/{rollout.version}"


def _stage(rollout: Rollout) -> str:
    return f"{rollout.stage} of {len(rollout.plan.stages)}" if rollout.plan.stages else ""
