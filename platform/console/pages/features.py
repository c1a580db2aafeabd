"""Shows features, and each with its versions and aliases."""

from collections.abc import Mapping
from typing import Any, Final, Literal, cast

from aiohttp import web
from alcove.platform.client import (
    Aliases,
    FeatureRules,
    FeatureSummary,
    NotFoundError,
    Page,
    PlatformClient,
    Version,
)
from alcove.platform.console.actions import Action, Form, may
from alcove.platform.console.pages.page import Answer, Pages, Refusal, back_to_page, offers_of
from alcove.platform.console.tables import Choice, Column, Table, size_choice, size_of
from alcove.platform.console.viewer import VIEWER
from alcove.platform.domain.principal import Role

__all__ = ["FEATURE", "routes"]

FEATURE: Final = r"{feature:[a-z][a-z0-9_]{0,63}}"
PARAMETERS: Final = ("text", "state", "order", "size", "page")
STATES: Final = ("registered", "validated", "released", "deprecated", "revoked")
ORDERS: Final = (("", "Highest first"), ("newest", "Newest first"), ("oldest", "Oldest first"))
REGISTRY: Final = "/alcove.api.registry.v1.RegistryService/"


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def features(request: web.Request) -> Answer:
        table = await pages.ask(request, lambda client: _features(client, request.query))
        return Answer("features/features.html", {"table": table}, table.to_json())

    async def feature(request: web.Request, refusal: Refusal | None = None) -> Answer:
        name = request.match_info["feature"]
        found = await pages.ask(request, lambda client: _feature(client, name, request.query))
        table, aliases, rules, team = found
        actions = _approvals(aliases, request[VIEWER].role, team)
        context = {
            "feature": name,
            "team": team,
            "table": table,
            "aliases": aliases,
            "rules": rules,
            "offers": offers_of(actions, f"/features/{name}", refusal),
            "done": _notice_of(request, actions),
        }
        data = {
            "feature": name,
            "team": team,
            "versions": table.to_json(),
            "aliases": aliases.model_dump(mode="json"),
            "rules": rules.model_dump(mode="json"),
        }
        return Answer("features/feature.html", context, data)

    async def approve(request: web.Request) -> web.Response:
        action = _approval(request.match_info["proposal"])
        back = f"/features/{request.match_info['feature']}"
        return await pages.act(request, action, back=back, page=feature)

    path = f"/features/{FEATURE}"
    return [
        *pages.routes("/features", features),
        *pages.routes(path, feature),
        web.get(path + "/actions/{rest:.*}", back_to_page),
        web.post(path + "/actions/approve-{proposal:[a-z0-9-]{1,64}}", approve),
    ]


def _features(client: PlatformClient, query: Mapping[str, str]) -> Table[FeatureSummary]:
    text, team, size, token = (query.get(name, "") for name in ("text", "team", "size", "page"))
    page = client.features_page(team=team, text=text, size=size_of(size), token=token)
    return Table(
        "features",
        "Features with published versions",
        (
            Column("feature", "Feature", lambda one: one.feature, href=lambda one: f"/features/{one.feature}"),
            Column("team", "Team", lambda one: one.team),
            Column("newest_release", "Newest release", lambda one: one.newest_release, href=_release),
            Column("states", "Versions", lambda one: {each.state: each.versions for each in one.states}, "counts"),
            Column("published_at_s", "Last published", lambda one: one.published_at_s, "time"),
        ),
        page.items,
        "/features",
        (Choice("text", "Name contains", text), Choice("team", "Team", team), size_choice(size)),
        page.next_token,
        token,
        "No feature has a published version.",
        "alcove model push",
    )


def _release(feature: FeatureSummary) -> str:
    return f"/features/{feature.feature}/versions/{feature.newest_release}" if feature.newest_release else ""


def _feature(
    client: PlatformClient, name: str, query: Mapping[str, str]
) -> tuple[Table[Version], Aliases, FeatureRules, str]:
    text, state, order, size, token = (query.get(each, "") for each in PARAMETERS)
    sort = cast("Literal['oldest', 'newest', 'highest']", order if order in ("newest", "oldest") else "highest")
    states = [state] if state in STATES else []
    page = client.versions_page(name, states=states, text=text, order=sort, size=size_of(size), token=token)
    first = page.items or client.versions_page(name, size=1).items
    if not first:
        raise NotFoundError("NOT_FOUND", "ResourceNotFoundError", f"no feature named {name!r} has a published version")
    table = _versions_table(name, page, query)
    return table, client.aliases(name), client.rules(name), first[0].team


def _versions_table(name: str, page: Page[Version], query: Mapping[str, str]) -> Table[Version]:
    text, state, order, size, token = (query.get(each, "") for each in PARAMETERS)
    return Table(
        "versions",
        f"Versions of {name}",
        (
            Column("version", "Version", lambda one: one.version, href=lambda one: f"{_path(name)}/{one.version}"),
            Column("state", "State", lambda one: one.state, "state"),
            Column("size_bytes", "Size", lambda one: min(each.size_bytes for each in one.variants), "bytes"),
            Column("variants", "Variants", lambda one: ", ".join(each.name for each in one.variants)),
            Column("latency_ms", "Run on the server, ms", _latencies),
            Column("checks", "Checks", _checks),
            Column("released_by", "Released by", lambda one: one.released_by),
            Column("aliases", "Aliases", lambda one: ", ".join(one.aliases)),
            Column("tags", "Tags", lambda one: ", ".join(f"{tag.key}={tag.value}" for tag in one.tags)),
            Column("published_at_s", "Published", lambda one: one.published_at_s, "time"),
        ),
        page.items,
        f"/features/{name}",
        (
            Choice("text", "Contains", text),
            Choice("state", "State", state, (("", "Any"), *((each, each) for each in STATES))),
            Choice("order", "Order", order, ORDERS, is_filter=False),
            size_choice(size),
        ),
        page.next_token,
        token,
        "No version fits.",
    )


def _latencies(version: Version) -> str:
    """Return what a run took when the version was validated, of each variant that was measured."""
    return ", ".join(f"{one.variant} {one.latency_ms:.3g}" for one in version.latencies)


def _checks(version: Version) -> str:
    if not version.checks:
        return "not validated"
    return (
        f"{version.failed_checks} of {version.checks} failed" if version.failed_checks else f"{version.checks} passed"
    )


def _path(name: str) -> str:
    return f"/features/{name}/versions"


def _approval(proposal_id: str) -> Action:
    """Return the action that makes a proposed move of an alias."""

    def run(client: PlatformClient, form: Form) -> Any:
        return client.approve_alias(proposal_id, request_id=form.request_id)

    return Action(
        f"approve-{proposal_id}",
        "Approve",
        REGISTRY + "ApproveAlias",
        "Makes the move that somebody else has proposed.",
        "The alias has moved.",
        run,
        needs_reason=False,
    )


def _approvals(aliases: Aliases, role: Role, team: str) -> list[Action]:
    if not may(role, REGISTRY + "ApproveAlias", team):
        return []
    return [_approval(one.proposal_id) for one in aliases.proposals]


def _notice_of(request: web.Request, actions: list[Action]) -> str:
    done = request.query.get("done", "")
    return "The alias has moved." if done.startswith("approve-") and not _has(actions, done) else ""


def _has(actions: list[Action], name: str) -> bool:
    return any(action.name == name for action in actions)
