"""Shows a version with all that is known of it, and its actions."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import AuditLine, Check, FeatureRules, PlatformClient, VersionDetails
from alcove.platform.console.actions import Action, may
from alcove.platform.console.pages.features import FEATURE
from alcove.platform.console.pages.page import Answer, Pages, Refusal, back_to_page, offers_of
from alcove.platform.console.pages.version_actions import actions_of
from alcove.platform.console.viewer import VIEWER
from alcove.platform.domain.principal import Role

__all__ = ["VERSION", "routes"]

VERSION: Final = r"{version:\d{1,6}\.\d{1,6}\.\d{1,6}}"
HISTORY_SHOWN: Final = 50


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
            "latencies": _latencies(details, manifest),
            "parity": [check for check in _checks(details) if check.name == "certificate"],
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

    path = f"/features/{FEATURE}/versions/{VERSION}"
    return [
        *pages.routes(path, version),
        web.get(path + "/actions/{rest:.*}", back_to_page),
        web.post(path + "/actions/{action:[a-z-]{1,32}}", act),
    ]


def _read(client: PlatformClient, feature: str, version: str) -> tuple[VersionDetails, FeatureRules, list[AuditLine]]:
    details = client.version_details(feature, version=version)
    return details, client.rules(feature), client.audit(about=f"{feature} {version}", limit=HISTORY_SHOWN)


def _checks(details: VersionDetails) -> Sequence[Check]:
    return () if details.validation is None else details.validation.checks


def _latencies(details: VersionDetails, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each kind of device: what it must have, and what is known of a run's time."""
    checks = {check.variant: check for check in _checks(details) if check.name == "latency"}
    return [
        {
            "variant": variant["name"],
            "needs": variant.get("needs") or {},
            "size_bytes": variant["size_bytes"],
            "check": checks.get(variant["name"]),
        }
        for variant in manifest["variants"]
    ]


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
