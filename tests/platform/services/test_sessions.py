"""Sessions: tokens for a browser, which are one caller with the token that they are of, and end with it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError, SessionError, UnauthenticatedError
from alcove.platform.domain.principal import Principal, Role
from alcove.platform.services.auth.local import create_local_token, renew_local_token
from alcove.platform.services.auth.sessions import create_session, delete_session
from alcove.platform.services.auth.tokens import IssuedToken, authenticate, issue_session, issue_token
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
