"""Shows the list of experiments, filtered, ordered and paged by the server."""

import time
from collections.abc import Mapping
from typing import Final, Literal

from aiohttp import web
from alcove.platform.client import Experiment, PlatformClient
from alcove.platform.client.records import decision_in_words
from alcove.platform.console.pages.experiments.words import arm_names, metric_name, name_arms
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.tables import Choice, Column, Table, size_choice, size_of

__all__ = ["routes"]

DAY_S: Final = 86_400
STATES: Final = ("draft", "running", "stopped")
ORDERS: Final = (("", "Newest first"), ("oldest", "Oldest first"))
PARAMETERS: Final = ("app", "feature", "state", "text", "order", "size", "page")


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the route of the list."""

    async def experiments(request: web.Request) -> Answer:
        table = await pages.ask(request, lambda client: _read(client, request.query))
        done = "The draft was deleted." if request.query.get("done") == "delete" else ""
        return Answer("experiments/experiments.html", {"table": table, "done": done}, table.to_json())

    return pages.routes("/experiments", experiments)


def _read(client: PlatformClient, query: Mapping[str, str]) -> Table[Experiment]:
    app, feature, state, text, order, size, token = (query.get(name, "") for name in PARAMETERS)
    sort: Literal["oldest", "newest"] = "oldest" if order == "oldest" else "newest"
    states = [state] if state in STATES else []
    page = client.experiments_page(app, feature, states=states, text=text, order=sort, size=size_of(size), token=token)
    now_s = int(time.time())
    return Table(
        "experiments",
        "Experiments",
        (
            Column("experiment_id", "Experiment", lambda one: one.experiment_id, href=_path),
            Column("app", "App", lambda one: one.app),
            Column("feature", "Feature", lambda one: one.feature, href=lambda one: f"/features/{one.feature}"),
            Column("arms", "Arms", _arms),
            Column("state", "State", lambda one: one.state, "state"),
            Column("primary", "Primary metric", lambda one: metric_name(one.primary)),
            Column("decision", "Decision", _decision),
            Column("progress", "Progress", lambda one: _progress(one, now_s)),
            Column("started_at_s", "Started", lambda one: one.started_at_s, "time"),
        ),
        page.items,
        "/experiments",
        (
            Choice("text", "Contains", text),
            Choice("app", "App", app),
            Choice("feature", "Feature", feature),
            Choice("state", "State", state, (("", "Any"), *((each, each) for each in STATES))),
            Choice("order", "Order", order, ORDERS, is_filter=False),
            size_choice(size),
        ),
        page.next_token,
        token,
        "No experiment yet. An experiment compares two or more versions by private reports.",
        "alcove experiment create",
    )


def _path(one: Experiment) -> str:
    return f"/experiments/{one.experiment_id}"


def _arms(one: Experiment) -> str:
    return ", ".join(f"{arm.name} {arm.version} ({arm.share_basis_points / 100:g} %)" for arm in one.arms)


def _decision(one: Experiment) -> str:
    """Return the decision that was kept, or the one of the last interim analysis."""
    decision = one.decision or (one.interim_analyses[-1].decision if one.interim_analyses else None)
    return "" if decision is None else name_arms(decision_in_words(arm_names(one), decision), one.arms)


def _progress(one: Experiment, now_s: int) -> str:
    """Return the days since the start with those of the plan, and the reports of the last analysis."""
    if not one.started_at_s:
        return f"planned: {one.plan.days_needed} days" if one.plan.days_needed else ""
    days = max(((one.stopped_at_s or now_s) - one.started_at_s) // DAY_S, 0)
    text = f"day {days} of {one.plan.days_needed}" if one.plan.days_needed else f"day {days}"
    if one.interim_analyses:
        text += f"; {one.interim_analyses[-1].report_count:,} of {one.plan.planned_reports:,} reports"
    return text
