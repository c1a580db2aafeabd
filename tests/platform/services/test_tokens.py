"""Tokens: what is stored, how they are compared, and over which connections they are taken."""

import hmac
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alcove.platform.domain.errors import (
    InvalidFieldError,
    PlaintextRefusedError,
    ResourceNotFoundError,
    UnauthenticatedError,
)
from alcove.platform.domain.principal import Role, current_principal
from alcove.platform.server.identity import Identity
from alcove.platform.services.auth.local import create_local_token, list_local_tokens, revoke_local_token
from alcove.platform.services.auth.tokens import MAX_LIFETIME_S, authenticate, issue_token, token_id_of
from alcove.platform.store import Store
from alcove.platform.store.tokens import add_token
from alcove.runtime.testing_seams import ManualClock

NOW_S = 1_800_000_000


def test_a_token_is_stored_as_a_digest_only(tmp_path: Path) -> None:
    """No byte of the secret is anywhere in the data folder."""
    text, record = create_local_token(tmp_path, "operator")
    secret = text.rpartition("_")[2]
    stored = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert record.token_id.encode() in stored
    assert secret.encode() not in stored
    assert bytes.fromhex(secret) not in stored
    assert text.encode() not in stored


def test_the_database_is_private(tmp_path: Path) -> None:
    """Nobody but its owner reads the database or its companions."""
    create_local_token(tmp_path, "reader")
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


def test_a_token_proves_its_role_until_it_expires() -> None:
    """Up to the second before its end it holds, then it does not."""
    issued = issue_token(Role.parse("team:text"), now_s=NOW_S, lifetime_s=10)
    principal = authenticate(issued.text, issued.record, now_s=NOW_S + 9)
    assert (principal.role.name, principal.role.team) == ("team", "text")
    assert principal.name == f"team:text/{issued.record.token_id}"
    with pytest.raises(UnauthenticatedError, match="expired"):
        authenticate(issued.text, issued.record, now_s=NOW_S + 10)


def test_every_wrong_digit_of_the_secret_is_refused() -> None:
    """One changed digit anywhere makes it an unknown token."""
    issued = issue_token(Role.parse("reader"), now_s=NOW_S, lifetime_s=10)
    for index in range(issued.text.rindex("_") + 1, len(issued.text)):
        other = "0" if issued.text[index] != "0" else "1"
        wrong = issued.text[:index] + other + issued.text[index + 1 :]
        with pytest.raises(UnauthenticatedError, match="unknown"):
            authenticate(wrong, issued.record, now_s=NOW_S)


def test_secrets_are_compared_in_constant_time_also_for_unknown_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison that leaks no position runs whether or not the id exists."""
    compared: list[tuple[str, str]] = []
    real = hmac.compare_digest

    def watch(one: str, other: str) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr("alcove.platform.services.auth.tokens.hmac.compare_digest", watch)
    issued = issue_token(Role.parse("reader"), now_s=NOW_S, lifetime_s=10)
    authenticate(issued.text, issued.record, now_s=NOW_S)
    with pytest.raises(UnauthenticatedError):
        authenticate(issued.text, None, now_s=NOW_S)
    assert len(compared) == 2


@pytest.mark.parametrize("lifetime_s", [0, -1, MAX_LIFETIME_S + 1])
def test_a_lifetime_out_of_bounds_is_refused(lifetime_s: int) -> None:
    """No token lives forever or not at all."""
    with pytest.raises(InvalidFieldError, match="lifetime_s"):
        issue_token(Role.parse("reader"), now_s=NOW_S, lifetime_s=lifetime_s)


@pytest.mark.parametrize("role", ["", "root", "team", "team:", "team:Text", "operator ", "team:a/b", "reader:x"])
def test_a_role_that_there_is_not_is_refused(role: str, tmp_path: Path) -> None:
    """A typing error makes no token."""
    with pytest.raises(InvalidFieldError, match="role"):
        create_local_token(tmp_path, role)
    assert list_local_tokens(tmp_path) == []


def test_revoking_twice_keeps_the_first_moment(tmp_path: Path) -> None:
    """A revoked token stays as it was; an unknown one is named."""
    _, record = create_local_token(tmp_path, "reader")
    first = revoke_local_token(tmp_path, record.token_id, clock=ManualClock(NOW_S))
    again = revoke_local_token(tmp_path, record.token_id, clock=ManualClock(NOW_S + 5))
    assert first.revoked_at_s == again.revoked_at_s == NOW_S
    with pytest.raises(ResourceNotFoundError, match="0000"):
        revoke_local_token(tmp_path, "0000")


def test_tokens_need_a_data_folder(tmp_path: Path) -> None:
    """A mistyped folder is reported, not made."""
    with pytest.raises(InvalidFieldError, match="data_dir"):
        create_local_token(tmp_path / "absent", "reader")
    assert not (tmp_path / "absent").exists()


def test_nobody_is_nobody() -> None:
    """Outside an authenticated call there is no principal."""
    with pytest.raises(UnauthenticatedError):
        current_principal()


@pytest.mark.parametrize(
    ("peer", "is_encrypted", "is_taken"),
    [
        ("ipv4:127.0.0.1:5000", False, True),
        ("ipv4:127.8.8.8:5000", False, True),
        ("ipv6:%5B::1%5D:5000", False, True),
        ("ipv6:[::1]:5000", False, True),
        ("unix:", False, True),
        ("ipv4:192.0.2.7:5000", False, False),
        ("ipv4:1.127.0.0:5000", False, False),
        ("ipv6:%5B2001:db8::1%5D:5000", False, False),
        ("ipv6:%5B::ffff:192.0.2.7%5D:5000", False, False),
        ("", False, False),
        ("ipv4:192.0.2.7:5000", True, True),
    ],
)
async def test_a_token_in_clear_is_taken_from_this_machine_only(
    store: Store, peer: str, is_encrypted: bool, is_taken: bool
) -> None:
    """From another machine only TLS will do."""
    issued = issue_token(Role.parse("reader"), now_s=NOW_S, lifetime_s=10)
    async with store.write() as session:
        await add_token(session, issued.record)
    context: Any = SimpleNamespace(
        auth_context=lambda: {"transport_security_type": [b"ssl"]} if is_encrypted else {},
        invocation_metadata=lambda: [("authorization", f"Bearer {issued.text}")],
        peer=lambda: peer,
    )
    identity = Identity(store, ManualClock(NOW_S))
    if is_taken:
        assert (await identity.of(context)).token_id == token_id_of(issued.text)
    else:
        with pytest.raises(PlaintextRefusedError):
            await identity.of(context)
