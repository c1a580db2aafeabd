"""Shows an app's policy as it is signed, its history, and what changed between two of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web
from alcove.platform.client import (
    InvalidRequestError,
    NotFoundError,
    Page,
    PlatformClient,
    PolicySummary,
    SignedPolicy,
    ValueOverride,
)
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.tables import Column, Table, size_choice, size_of
from alcove.platform.domain.document_difference import Line, compare_documents, layout_document
from alcove.platform.domain.policy_changes import Change, list_changes

__all__ = ["APP", "apps_table", "routes"]

APP: Final = r"{app:[A-Za-z0-9][A-Za-z0-9._-]{0,63}}"
HISTORY_SHOWN: Final = 20
SERIAL_DIGITS: Final = 16


@dataclass(frozen=True)
class _Found:
    """What was found of an app."""

    signed: SignedPolicy
    other: SignedPolicy | None
    changes: list[Change]
    lines: list[Line] | None
    history: Page[PolicySummary]
    overrides: list[ValueOverride]


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def policies(request: web.Request) -> Answer:
        table = await pages.ask(request, lambda client: apps_table(client, request.query, "/policies"))
        return Answer("policies/policies.html", {"table": table}, table.to_json())

    async def policy(request: web.Request) -> Answer:
        app, query = request.match_info["app"], request.query
        found = await pages.ask(request, lambda client: _read(client, app, query))
        history = _history(app, found.history, query)
        context = {
            "app": app,
            "signed": found.signed,
            "policy": found.signed.policy,
            "other": found.other,
            "changes": found.changes,
            "lines": found.lines,
            "history": history,
            "overrides": found.overrides,
            "text": layout_document(found.signed.document),
            "tasks": _tasks(found.signed),
        }
        return Answer("policies/policy.html", context, _to_json(found, history))

    async def document(request: web.Request) -> web.Response:
        app, serial = request.match_info["app"], int(request.match_info["serial"])
        found = await pages.ask(request, lambda client: client.policy_at(app, serial))
        name = f"{app}-policy-{found.policy.serial}.json"
        headers = {"Content-Disposition": f'attachment; filename="{name}"'}
        return web.Response(body=found.document, content_type="application/json", headers=headers)

    path = f"/policies/{APP}"
    return [
        *pages.routes("/policies", policies),
        web.get(path + r"/documents/{serial:[1-9]\d{0,15}}", document),
        *pages.routes(path, policy),
    ]


def apps_table(client: PlatformClient, query: Mapping[str, str], path: str) -> Table[PolicySummary]:
    """Return the apps that have a policy, each leading to its page below `path`."""
    size, token = query.get("size", ""), query.get("page", "")
    page = client.policies_page(size=size_of(size), token=token)
    return Table(
        "apps",
        "Apps with a policy",
        (
            Column("app", "App", lambda one: one.app, href=lambda one: f"{path}/{one.app}"),
            Column("serial", "Newest policy", lambda one: one.serial, "number"),
            Column("decided_at_s", "Decided", lambda one: one.decided_at_s, "time"),
            Column("decided_by", "By", lambda one: one.decided_by),
            Column("causes", "Because of", _causes),
            Column("size_bytes", "Size", lambda one: one.size_bytes, "bytes"),
        ),
        page.items,
        path,
        (size_choice(size),),
        page.next_token,
        token,
        "No app has a policy: nothing was ever rolled out.",
        "alcove rollout create",
    )


def _causes(one: PolicySummary) -> str:
    return "; ".join(f"{cause.action} {cause.object}" for cause in one.causes)


def _serial(query: Mapping[str, str], name: str) -> int:
    """Return a serial number that an address asks for; 0: none."""
    text = query.get(name, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= SERIAL_DIGITS and int(text) > 0):
        problem = f"{name}: expected a serial number of up to {SERIAL_DIGITS} digits, got {text!r:.120}"
        raise InvalidRequestError("INVALID_ARGUMENT", "InvalidFieldError", problem)
    return int(text)


def _read(client: PlatformClient, app: str, query: Mapping[str, str]) -> _Found:
    serial, other = _serial(query, "serial"), _serial(query, "with")
    signed = client.policy_at(app, serial)
    token = query.get("page", "")
    history = client.policies_page(app, size=HISTORY_SHOWN, token=token)
    before = None
    if other:
        before = client.policy_at(app, other)
    elif signed.policy.serial > 1:
        before = _read_before(client, app, signed.policy.serial)
    changes = [] if before is None else list_changes(before.policy, signed.policy)
    lines = [] if before is None else compare_documents(before.document, signed.document)
    return _Found(signed, before, changes, lines, history, [] if signed.signature is None else client.overrides(app))


def _read_before(client: PlatformClient, app: str, serial: int) -> SignedPolicy | None:
    """Return the policy before one; None: there is none."""
    try:
        earlier = client.policies_page(app, size=1, token=str(serial)).items
        return client.policy_at(app, earlier[0].serial) if earlier else None
    except NotFoundError:
        return None


def _history(app: str, page: Page[PolicySummary], query: Mapping[str, str]) -> Table[PolicySummary]:
    return Table(
        "history",
        f"Policies of {app}, the newest first",
        (
            Column("serial", "Serial", lambda one: one.serial, href=lambda one: f"/policies/{app}?serial={one.serial}"),
            Column("decided_at_s", "Decided", lambda one: one.decided_at_s, "time"),
            Column("decided_by", "By", lambda one: one.decided_by),
            Column("causes", "Because of", _causes),
            Column("size_bytes", "Size", lambda one: one.size_bytes, "bytes"),
        ),
        page.items,
        f"/policies/{app}",
        (),
        page.next_token,
        query.get("page", ""),
    )


def _tasks(signed: SignedPolicy) -> int:
    rules = signed.policy.features.values()
    parts = [one for each in rules for one in (*each.experiments, each.rollout) if one is not None]
    holdout = signed.policy.holdout
    return sum(len(part.tasks) for part in parts) + (holdout is not None and holdout.readout is not None)


def _to_json(found: _Found, history: Table[PolicySummary]) -> dict[str, Any]:
    signed = found.signed
    return {
        "app": signed.policy.app,
        "serial": signed.policy.serial,
        "policy": json.loads(signed.document),
        "halt": signed.halt.model_dump(mode="json"),
        "summary": signed.summary.model_dump(mode="json"),
        "signature": None if signed.signature is None else signed.signature.model_dump(mode="json"),
        "overrides": [one.model_dump(mode="json") for one in found.overrides],
        "compared_with": None if found.other is None else found.other.policy.serial,
        "changes": [vars(change) for change in found.changes],
        "history": history.to_json(),
    }
