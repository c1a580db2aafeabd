"""Sessions: tokens for a browser, which are one caller with the token that they are of, and end with it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from alcove.platform.domain import limits
from alcove.platform.domain.errors import (
    InvalidFieldError,
    ResourceNotFoundError,
    SessionError,
    SignInRefusedError,
    UnauthenticatedError,
)
from alcove.platform.domain.principal import Principal, Role
from alcove.platform.services.auth.access import Person, create_person_session, subject_of
from alcove.platform.services.auth.local import create_local_token, renew_local_token
from alcove.platform.services.auth.sessions import (
    create_certificate_session,
    create_session,
    delete_other_sessions,
    delete_session,
    note_session_use,
    own_sessions,
)
from alcove.platform.services.auth.tokens import IssuedToken, authenticate, issue_access, issue_session, issue_token
from alcove.platform.services.local_store import with_store
from alcove.platform.store import Store
from alcove.platform.store.tokens import add_token, find_token, limit_token, list_tokens, revoke_token

NOW_S = 1_800_000_000


async def issue(store: Store, lifetime_s: int = 90 * 86_400) -> tuple[IssuedToken, Principal]:
    """A token of a team in the store, and who presents it."""
    issued = issue_token(Role.parse("team:text"), now_s=NOW_S, lifetime_s=lifetime_s, name="anna")
    async with store.write() as session:
        await add_token(session, issued.record)
    return issued, authenticate(issued.text, issued.record, now_s=NOW_S)


async def test_a_session_is_the_same_caller_as_its_token(store: Store) -> None:
    """Same name in the audit log, so that nobody approves with the one what he proposed with the other."""
    _, principal = await issue(store)
    made = await create_session(store, principal, now_s=NOW_S)
    seen = authenticate(made.text, made.record, now_s=NOW_S)
    assert (seen.name, seen.role, seen.name_of_token) == (principal.name, principal.role, "anna")
    assert seen.session_id == made.record.token_id != principal.token_id
    assert made.record.expires_at_s == NOW_S + limits.SESSION_S


async def test_a_session_ends_no_later_than_its_token() -> None:
    """A token of an hour has sessions of an hour."""
    parent = issue_token(Role.parse("reader"), now_s=NOW_S, lifetime_s=3600)
    made = issue_session(parent.record, now_s=NOW_S + 600, lifetime_s=limits.SESSION_S)
    assert made.record.expires_at_s == NOW_S + 3600
    with pytest.raises(UnauthenticatedError, match="expired"):
        authenticate(made.text, made.record, now_s=NOW_S + 3600)


async def test_what_ends_a_token_ends_its_sessions_and_no_others(store: Store) -> None:
    """Revoked, or limited when it is renewed."""
    first, one = await issue(store)
    second, other = await issue(store)
    sessions = [(await create_session(store, who, now_s=NOW_S)).record for who in (one, other)]
    async with store.write() as session:
        await revoke_token(session, first.record.token_id, NOW_S + 5)
        await limit_token(session, second.record.token_id, NOW_S + 60)
        found = [await find_token(session, each.token_id) for each in sessions]
    assert found == [replace(sessions[0], revoked_at_s=NOW_S + 5), replace(sessions[1], expires_at_s=NOW_S + 60)]


async def test_ending_a_session_leaves_its_token(store: Store) -> None:
    """And is in the audit log, as its beginning is."""
    issued, principal = await issue(store)
    made = await create_session(store, principal, now_s=NOW_S)
    await delete_session(store, authenticate(made.text, made.record, now_s=NOW_S), now_s=NOW_S + 1)
    async with store.read() as session:
        assert (await find_token(session, made.record.token_id)) == replace(made.record, revoked_at_s=NOW_S + 1)
        assert (await find_token(session, issued.record.token_id)) == issued.record


async def test_a_token_has_a_bounded_number_of_sessions(store: Store) -> None:
    """The oldest give way; those that are over are removed."""
    issued, principal = await issue(store)
    for second in range(limits.SESSIONS_OF_TOKEN + 3):
        last = await create_session(store, principal, now_s=NOW_S + second)
    async with store.read() as session:
        kept = [each for each in await list_tokens(session) if each.is_session]
    assert len(kept) == limits.SESSIONS_OF_TOKEN
    assert kept[-1] == last.record
    assert kept[0].created_at_s == NOW_S + 3
    await create_session(store, principal, now_s=NOW_S + 2 * limits.SESSION_S)
    async with store.read() as session:
        assert len(await list_tokens(session)) == 2
    assert issued.record.expires_at_s > NOW_S + 2 * limits.SESSION_S


async def test_a_caller_with_a_certificate_alone_has_no_session(store: Store) -> None:
    """There is no token that it could be of."""
    with pytest.raises(SessionError, match="API token"):
        await create_session(store, Principal("dns:deploy.acme.example", Role.parse("operator")), now_s=NOW_S)


def test_a_session_is_not_renewed(tmp_path: Path) -> None:
    """Renewing it would make a token of months out of one of hours."""
    _, record = create_local_token(tmp_path, "reader")

    async def work(store: Store) -> IssuedToken:
        principal = Principal(record.token_id, Role.parse("reader"))
        return await create_session(store, principal, now_s=record.created_at_s)

    made = asyncio.run(with_store(tmp_path, None, work))
    with pytest.raises(InvalidFieldError, match="signing in"):
        renew_local_token(tmp_path, made.record.token_id)


IDLE_S = 3600


async def principal_of(store: Store, made: IssuedToken, now_s: int) -> Principal:
    """Who presents a session."""
    async with store.read() as session:
        record = await find_token(session, made.record.token_id)
    return authenticate(made.text, record, now_s=now_s, idle_s=IDLE_S)


async def test_a_session_that_nobody_uses_ends_and_one_in_use_does_not(store: Store) -> None:
    """A use is written down each five minutes at most, so that not every page is a write."""
    _, principal = await issue(store)
    made = await create_session(store, principal, now_s=NOW_S)
    for minutes in (0, 4, 50, 54, 100):
        now_s = NOW_S + minutes * 60
        caller = await principal_of(store, made, now_s)
        await note_session_use(store, caller, now_s=now_s)
        noted_s = (await principal_of(store, made, now_s)).active_at_s
        assert noted_s == NOW_S + {0: 0, 4: 0, 50: 50, 54: 50, 100: 100}[minutes] * 60
    await principal_of(store, made, NOW_S + 159 * 60)
    with pytest.raises(UnauthenticatedError, match="idle for 60 minutes"):
        await principal_of(store, made, NOW_S + 160 * 60)
    assert await own_sessions(store, principal, now_s=NOW_S + 160 * 60, idle_s=IDLE_S) == []


async def test_a_token_is_never_idle(store: Store) -> None:
    """A job that runs once a month keeps its token."""
    issued, _ = await issue(store)
    authenticate(issued.text, issued.record, now_s=NOW_S + 80 * 86_400, idle_s=IDLE_S)


async def test_nobody_ends_or_sees_a_session_of_another(store: Store) -> None:
    """Neither by its id nor by ending all others."""
    _, one = await issue(store)
    _, other = await issue(store)
    made = await create_session(store, other, now_s=NOW_S)
    for session_id in (made.record.token_id, other.token_id, one.token_id, "0" * 16):
        with pytest.raises(ResourceNotFoundError):
            await delete_session(store, one, session_id, now_s=NOW_S)
    assert await delete_other_sessions(store, one, now_s=NOW_S) == 0
    assert await own_sessions(store, one, now_s=NOW_S, idle_s=IDLE_S) == []
    await principal_of(store, made, NOW_S)


async def test_the_session_of_a_certificate_is_its_principals_and_ends_with_it(store: Store) -> None:
    """One caller with the certificate's own calls."""
    name = "email:anna@acme.example"
    made = await create_certificate_session(store, name, Role.parse("operator:text"), NOW_S + 600, now_s=NOW_S)
    caller = await principal_of(store, made, NOW_S)
    assert (caller.name, caller.expires_at_s) == (f"operator:text/{name}", NOW_S + 600)
    assert [one.token_id for one in await own_sessions(store, caller, now_s=NOW_S, idle_s=IDLE_S)] == [
        caller.session_id
    ]
    with pytest.raises(UnauthenticatedError, match="expired"):
        await principal_of(store, made, NOW_S + 600)


async def test_an_access_has_no_secret_and_its_person_alone_gets_sessions(store: Store) -> None:
    """Whatever is presented as a token with its id is refused; an expired or revoked access signs nobody in."""
    issuer = "https://login.example"
    access = issue_access(
        Role.parse("reader"), subject_of(issuer, "sub", "anna"), now_s=NOW_S, lifetime_s=3600, name="Anna"
    )
    async with store.write() as session:
        await add_token(session, access)
    for secret in ("0" * 64, "f" * 64):
        with pytest.raises(UnauthenticatedError, match="unknown token"):
            authenticate(f"alc_{access.token_id}_{secret}", access, now_s=NOW_S)
    made = await create_person_session(store, Person(issuer, "anna"), {}, now_s=NOW_S)
    caller = await principal_of(store, made, NOW_S)
    assert (caller.name, caller.name_of_token) == (f"reader/{access.token_id}", "Anna")
    for person in (Person("https://evil.example", "anna"), Person(issuer, "Anna"), Person(issuer, "b", email="anna")):
        with pytest.raises(SignInRefusedError):
            await create_person_session(store, person, {}, now_s=NOW_S)
    with pytest.raises(SignInRefusedError):
        await create_person_session(store, Person(issuer, "anna"), {}, now_s=NOW_S + 3600)
    async with store.write() as session:
        await revoke_token(session, access.token_id, NOW_S)
    with pytest.raises(SignInRefusedError):
        await create_person_session(store, Person(issuer, "anna"), {}, now_s=NOW_S)
    with pytest.raises(UnauthenticatedError, match="revoked"):
        await principal_of(store, made, NOW_S)


async def test_a_person_by_claim_is_one_caller_and_loses_what_the_claim_no_longer_gives(store: Store) -> None:
    """The same principal at each sign-in; sessions of a role that the provider took away end with the next one."""
    roles = {"ops": Role.parse("operator"), "text": Role.parse("team:text")}
    who = Person("https://login.example", "cleo", name="Cleo\n" + "x" * 100, claims=frozenset({"ops", "text"}))
    first = await create_person_session(store, who, roles, now_s=NOW_S)
    again = await create_person_session(store, who, roles, now_s=NOW_S + 60)
    one, other = await principal_of(store, first, NOW_S), await principal_of(store, again, NOW_S + 60)
    assert one.name == other.name == f"operator/{one.token_id}"
    assert len(one.name_of_token) == 64
    less = replace(who, claims=frozenset({"text"}))
    last = await create_person_session(store, less, roles, now_s=NOW_S + 120)
    assert str((await principal_of(store, last, NOW_S + 120)).role) == "team:text"
    with pytest.raises(UnauthenticatedError):
        await principal_of(store, first, NOW_S + 120)
    with pytest.raises(SignInRefusedError):
        await create_person_session(store, replace(who, claims=frozenset()), roles, now_s=NOW_S + 180)
    with pytest.raises(UnauthenticatedError, match="revoked"):  # though nobody was signed in
        await principal_of(store, last, NOW_S + 180)


@pytest.mark.parametrize(
    ("issuer", "kind", "value"),
    [
        ("login.example", "sub", "a"),
        ("https://a b", "sub", "a"),
        ("https://a", "sub", ""),
        ("https://a", "sub", "x" * 256),
        ("https://a", "email", "a\nb"),
        ("https://a", "odd", "a"),
    ],
)
def test_a_person_has_an_issuer_and_a_printable_name(issuer: str, kind: str, value: str) -> None:
    """What else is refused, so that no two people can have one name in the store."""
    with pytest.raises(InvalidFieldError):
        subject_of(issuer, kind, value)
