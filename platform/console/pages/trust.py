"""Shows whom devices trust: the roles of the signed tree, their keys, and what has to be signed again."""

from typing import Any, Final

from aiohttp import web
from alcove.platform.client import Trust, TrustedRole
from alcove.platform.console.expiry import needs_people, renewal_command, validity, validity_of_role, words_of
from alcove.platform.console.pages.page import Answer, Pages
from alcove.platform.console.tables import Column, Table

__all__ = ["routes"]

ABOUT: Final = {
    "root": "says who signs everything else; ships inside the apps",
    "targets": "says which team may sign which feature",
    "snapshot": "says which metadata belongs together",
    "timestamp": "says what is newest; devices notice within a day that it is not renewed",
    "policy": "chooses among signed versions",
    "halt": "stops versions; only their team's key lifts that",
}


def routes(pages: Pages) -> list[web.RouteDef]:
    """Return the routes of this area."""

    async def trust(request: web.Request) -> Answer:
        found = await pages.ask(request, lambda client: client.trust())
        worrying = needs_people(found)
        context = {
            "trust": found,
            "table": _roles_table(found),
            "worrying": worrying,
            "validity": lambda role: validity_of_role(role, found.now_s),
            "in_words": lambda moment_s: words_of(moment_s - found.now_s),
            "certificate": validity(found.certificate_expires_at_s - found.now_s),
            "renewal_command": renewal_command,
            "about": ABOUT,
        }
        return Answer("trust/trust.html", context, _to_json(found))

    return pages.routes("/trust", trust)


def _roles_table(trust: Trust) -> Table[TrustedRole]:
    def count_signers(role: TrustedRole) -> str:
        count = sum(key.has_signed for key in role.keys)
        return f"{count} of {len(role.keys)}, {role.threshold} needed"

    return Table(
        "roles",
        "Roles of the signed tree",
        (
            Column("role", "Role", lambda one: one.role),
            Column("holder", "Keys held", lambda one: one.holder),
            Column("keys", "Keys that signed", count_signers),
            Column("validity", "Signature", lambda one: validity_of_role(one, trust.now_s), "state"),
            Column("expires_at_s", "Expires", lambda one: one.expires_at_s, "time"),
            Column("left", "That is", lambda one: words_of(one.expires_at_s - trust.now_s)),
            Column("signed_at_s", "Last signed", lambda one: one.signed_at_s, "time"),
            Column("version", "Version", lambda one: one.version, "number"),
            Column("targets", "Documents", lambda one: one.targets, "number"),
        ),
        trust.roles,
        "/trust",
    )


def _to_json(trust: Trust) -> dict[str, Any]:
    roles = [
        role.model_dump(mode="json")
        | {"validity": validity_of_role(role, trust.now_s), "renewal_command": renewal_command(role)}
        for role in trust.roles
    ]
    return trust.model_dump(mode="json") | {"roles": roles}
