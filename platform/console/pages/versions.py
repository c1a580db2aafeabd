"""Shows a version with all that is known of it, its actions, and its comparison with another one."""

import json
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from alcove.platform.client import AuditLine, FeatureRules, PlatformClient, VersionDetails
from alcove.platform.console.actions import Action, may
from alcove.platform.console.pages.features import FEATURE
from alcove.platform.console.pages.page import Answer, Pages, Refusal, back_to_page, offers_of
from alcove.platform.console.pages.version_actions import actions_of
from alcove.platform.console.tables import Column, Table
from alcove.platform.console.viewer import VIEWER
from alcove.platform.domain.principal import Role

__all__ = ["routes"]

VERSION: Final = r"{version:\d{1,6}\.\d{1,6}\.\d{1,6}}"
HISTORY_SHOWN: Final = 50


@dataclass(frozen=True)
class _Figure:
    """One figure of two versions; None: one of them has none."""

    name: str
    unit: str
    left: int | None
    right: int | None

    @property
    def change(self) -> int | None:
        """What the right one has more."""
        return None if self.left is None or self.right is None else self.right - self.left


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def version(request: web.Request, refusal: Refusal | None = None) -> Answer:
        feature, name = request.match_info["feature"], request.match_info["version"]
        details, rules, history = await pages.ask(request, lambda client: _read(client, feature, name))
        actions = _list_offered(details, rules, request[VIEWER].role)
        path = f"/features/{feature}/versions/{name}"
        manifest = json.loads(details.manifest)
        context = {
            "details": details,
            "version": details.version,
            "manifest": manifest,
            "history": history,
            "offers": offers_of(actions, path, refusal),
            "done": _notice_of(request, details),
        }
        data = details.model_dump(mode="json", exclude={"manifest"}) | {
            "manifest": manifest,
            "history": [line.model_dump(mode="json") for line in history],
            "actions": [action.name for action in actions],
        }
        return Answer("versions/version.html", context, data)

    async def act(request: web.Request) -> web.Response:
        feature, name = request.match_info["feature"], request.match_info["version"]
        action = next((one for one in actions_of(feature, name) if one.name == request.match_info["action"]), None)
        if action is None:
            raise web.HTTPNotFound
        return await pages.act(request, action, back=f"/features/{feature}/versions/{name}", page=version)

    async def compare(request: web.Request) -> Answer:
        feature, left = request.match_info["feature"], request.match_info["version"]
        right = request.query.get("with", "")
        found = await pages.ask(request, lambda client: _read_two(client, feature, left, right))
        table = _comparison(found[0], found[1], f"/features/{feature}/versions/{left}/compare")
        context = {"feature": feature, "left": left, "right": right, "table": table}
        data = {"feature": feature, "left": left, "right": right} | table.to_json()
        return Answer("versions/compare.html", context, data)

    path = f"/features/{FEATURE}/versions/{VERSION}"
    return [
        *pages.routes(path, version),
        *pages.routes(f"{path}/compare", compare),
        web.get(path + "/actions/{rest:.*}", back_to_page),
        web.post(path + "/actions/{action:[a-z-]{1,32}}", act),
    ]


def _read(client: PlatformClient, feature: str, version: str) -> tuple[VersionDetails, FeatureRules, list[AuditLine]]:
    details = client.version_details(feature, version=version)
    return details, client.rules(feature), client.audit(about=f"{feature} {version}", limit=HISTORY_SHOWN)


def _read_two(client: PlatformClient, feature: str, left: str, right: str) -> tuple[VersionDetails, VersionDetails]:
    return client.version_details(feature, version=left), client.version_details(feature, version=right)


def _list_offered(details: VersionDetails, rules: FeatureRules, role: Role) -> list[Action]:
    """Return the actions that the state allows and the role may do."""
    version = details.version
    return [
        action
        for action in actions_of(version.feature, version.version, version.state, is_any_usable=rules.accepts_any_state)
        if may(role, action.rpc, version.team)
    ]


def _notice_of(request: web.Request, details: VersionDetails) -> str:
    wanted = request.query.get("done", "")
    version = details.version
    return next((one.done for one in actions_of(version.feature, version.version) if one.name == wanted), "")


def _comparison(left: VersionDetails, right: VersionDetails, path: str) -> Table[_Figure]:
    figures: list[_Figure] = []
    sides = [{one.name: one for one in each.version.variants} for each in (left, right)]
    for name in sorted(sides[0].keys() | sides[1].keys()):
        for field, words in (("size_bytes", "size"), ("memory_ceiling_bytes", "memory of a run")):
            values = [None if name not in side else getattr(side[name], field) for side in sides]
            figures.append(_Figure(f"{name}: {words}", "bytes", *values))
    return Table(
        "comparison",
        f"{left.version.feature} {left.version.version} beside {right.version.version}",
        (
            Column("figure", "Figure", lambda one: one.name),
            Column("left", left.version.version, lambda one: one.left, "bytes"),
            Column("right", right.version.version, lambda one: one.right, "bytes"),
            Column("change", "Change", lambda one: one.change, "bytes"),
        ),
        figures,
        path,
    )
