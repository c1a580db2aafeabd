"""Shows the audit log: who changed what, when and why, with a search that the address holds."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from alcove.platform.client import AuditLine, AuditPage, PlatformClient
from alcove.platform.console.expiry import DAY_S
from alcove.platform.console.links import path_of_object
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.rendering import show_share
from alcove.platform.console.tables import Choice, Column, Table, size_choice, size_of

__all__ = ["routes"]

FILTERS: Final = (("text", "Words"), ("by", "Done by"), ("action", "Action"), ("object", "Object"), ("app", "App"))
LAST_S: Final = 253_402_300_800  # the year 10000, which no date has
DAYS: Final = (("since", "Since (day, UTC)"), ("until", "Until (day, UTC)"))


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def audit(request: web.Request) -> Answer:
        query = request.query
        since_s, until_s = _day(query, "since"), _day(query, "until")
        found = await pages.ask(
            request, lambda client: _find(client, query, since_s, until_s + DAY_S if until_s else 0)
        )
        table = _entries_table(found, query)
        data = table.to_json() | {"searched_back_to_s": found.searched_back_to_s}
        return Answer("audit/audit.html", {"table": table}, data)

    return pages.routes("/audit", audit)


def _find(client: PlatformClient, query: Mapping[str, str], since_s: int, until_s: int) -> AuditPage:
    return client.audit_page(
        about=query.get("object", ""),
        app=query.get("app", ""),
        text=query.get("text", ""),
        principal=query.get("by", ""),
        action=query.get("action", ""),
        since_s=since_s,
        until_s=until_s,
        size=size_of(query.get("size", "")),
        token=query.get("page", ""),
    )


def _entries_table(found: AuditPage, query: Mapping[str, str]) -> Table[AuditLine]:
    chosen = [Choice(name, title, query.get(name, "")) for name, title in FILTERS]
    days = [Choice(name, title, query.get(name, ""), kind="date") for name, title in DAYS]
    note = ""
    if found.next_token and found.searched_back_to_s:
        reached = datetime.fromtimestamp(found.searched_back_to_s, UTC)
        note = f"Searched back to {reached:%Y-%m-%d %H:%M} UTC; the next page searches further."
    return Table(
        "entries",
        "Changes, the newest first",
        (
            Column("at_s", "When", lambda one: one.at_s, "time"),
            Column("who", "Who", lambda one: one.who),
            Column("action", "Action", lambda one: one.action),
            Column(
                "object", "Object", lambda one: one.subject, href=lambda one: path_of_object(one.action, one.subject)
            ),
            Column("details", "Details", _details, "details"),
        ),
        found.items,
        "/audit",
        (*chosen, *days, size_choice(query.get("size", ""))),
        found.next_token,
        query.get("page", ""),
        "Nothing was changed yet.",
        note=note,
    )


def _details(line: AuditLine) -> dict[str, str]:
    """Return names and values in words, the reasons first."""
    given = {name: value for name, value in line.details.items() if value not in (None, "", [], {})}
    order = sorted(given, key=lambda name: (not name.endswith("reason"), name))
    return dict(_detail(name, given[name]) for name in order)


def _detail(name: str, value: object) -> tuple[str, str]:
    """Return a name and a value as people read them: a time in UTC, a share in percent."""
    if isinstance(value, int) and name.endswith("_at_s") and 0 < value < LAST_S:
        return name.removesuffix("_s"), f"{datetime.fromtimestamp(value, UTC):%Y-%m-%d %H:%M} UTC"
    if isinstance(value, int) and name.endswith("basis_points"):
        return name.replace("basis_points", "share").replace("share_share", "share"), show_share(value)
    return name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _day(query: Mapping[str, str], name: str) -> int:
    """Return the beginning of a day, seconds since 1970-01-01 UTC; 0: none was given.

    Raises:
        web.HTTPBadRequest: it is no day.
    """
    text = query.get(name, "").strip()
    if not text:
        return 0
    try:
        return max(1, int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()))
    except ValueError:
        raise web.HTTPBadRequest(text=f"{name}: expected a day such as 2026-11-30, got {text[:40]!r}") from None
