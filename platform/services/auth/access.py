"""Says which people may sign in without a token, and as what.

An access names a person as the provider of OpenID Connect does: by issuer and subject, which the provider never gives
to anybody else, or by issuer and verified mail address.  Where a person has none, the provider's own word about groups
counts, for as long as it says so:

    access by subject ─▶ access by mail address ─▶ the first role of the list whose claim the person has ─▶ refused

The server alone decides this.  Whoever carries the proof, the console, cannot choose a role.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError, SignInRefusedError
from alcove.platform.domain.principal import Role
from alcove.platform.services.auth.sessions import add_session
from alcove.platform.services.auth.tokens import MAX_NAME_LENGTH, IssuedToken, issue_access
from alcove.platform.store import Store
from alcove.platform.store.tokens import (
    TokenRecord,
    add_token,
    end_other_sessions,
    find_access,
    replace_access,
)
from sqlalchemy.ext.asyncio import AsyncSession

__all__ = ["Person", "create_person_session", "subject_of"]

KINDS: Final = ("sub", "email", "claim")
MAX_SUBJECT_LENGTH: Final = 255  # characters of OpenID Connect's `sub`; mail addresses are shorter


@dataclass(frozen=True)
class Person:
    """A person whom a provider has proved.

    Attributes:
        issuer: URL of the provider.
        subject: the provider's name of the person, for ever; at most 255 characters.
        email: address that the provider has verified; "": none.
        name: how people call the person, cut to 64 characters; "": unknown.
        claims: values of the claim that roles are given by, such as groups.
        identity_token: the provider's proof, by which it knows the person again at the end; "": none.
    """

    issuer: str
    subject: str
    email: str = ""
    name: str = ""
    claims: frozenset[str] = frozenset()
    identity_token: str = field(default="", repr=False)


def subject_of(issuer: str, kind: str, value: str) -> str:
    """Return how the store names a person: issuer, "sub", "email" or "claim", and value.

    Mail addresses are compared in lower case.

    Raises:
        InvalidFieldError: the issuer is no address, or the value is empty, too long, or not printable.
    """
    if not issuer.startswith(("https://", "http://")) or " " in issuer or not issuer.isprintable():
        raise InvalidFieldError("issuer", "the provider's address, such as https://login.example", issuer)
    if kind not in KINDS or not 1 <= len(value) <= MAX_SUBJECT_LENGTH or not value.isprintable():
        raise InvalidFieldError(kind, f"1 to {MAX_SUBJECT_LENGTH} printable characters", value)
    return f"{issuer} {kind} {value.lower() if kind == 'email' else value}"


async def create_person_session(store: Store, person: Person, roles: Mapping[str, Role], *, now_s: int) -> IssuedToken:
    """Return a new session of a person.

    Args:
        store: has the accesses, and gets the session.
        person: whom the provider has proved.
        roles: by claim, for people without an access; the first that the person has counts.
        now_s: seconds since 1970-01-01 UTC.

    Raises:
        SignInRefusedError: nobody gave the person access.
    """
    async with store.write() as session:
        parent = await _find_access(session, person, now_s) or await _access_by_claim(session, person, roles, now_s)
        if parent is not None:
            return await add_session(session, parent, now_s=now_s, by="OpenID Connect")
    # Outside of the transaction: what the person could do before has ended in it.
    who = person.email or person.subject
    raise SignInRefusedError(f"nobody gave {who!r} access: an operator does so by `alcove access grant`")


async def _find_access(session: AsyncSession, person: Person, now_s: int) -> TokenRecord | None:
    names = [("sub", person.subject)] + ([("email", person.email)] if person.email else [])
    for kind, value in names:
        found = await find_access(session, subject_of(person.issuer, kind, value))
        if found is not None and found.expires_at_s > now_s:
            return found
    return None


async def _access_by_claim(
    session: AsyncSession, person: Person, roles: Mapping[str, Role], now_s: int
) -> TokenRecord | None:
    """Return the access by claim of a person, made or brought to what the provider says now."""
    subject = subject_of(person.issuer, "claim", person.subject)
    role = next((role for claim, role in roles.items() if claim in person.claims), None)
    known = await find_access(session, subject)
    if known is not None and (role is None or known.role != str(role)):
        await end_other_sessions(
            session, known.token_id, "", now_s
        )  # what they could do is no more the provider's word
    if role is None:
        return None
    name = "".join(each for each in person.name if each.isprintable())[:MAX_NAME_LENGTH]
    made = issue_access(role, subject, now_s=now_s, lifetime_s=limits.SESSION_S, name=name)
    if known is None:
        await add_token(session, made)
        return made
    await replace_access(session, known.token_id, role=made.role, name=name, expires_at_s=made.expires_at_s)
    return TokenRecord(**{**vars(made), "token_id": known.token_id, "created_at_s": known.created_at_s})
