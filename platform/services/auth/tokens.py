"""Issues API tokens and authenticates callers by them.

`alc_<id>_<secret>`: 16 hexadecimal digits that name it and 64 that prove it (256 random bits, so that one SHA-256 is as
good as a slow hash: there is no dictionary to try).  The store keeps SHA-256(id ":" secret) only.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, replace

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError, UnauthenticatedError
from alcove.platform.domain.principal import Principal, Role
from alcove.platform.store.tokens import TokenRecord

__all__ = ["IssuedToken", "authenticate", "issue_access", "issue_session", "issue_token", "token_id_of"]

_TOKEN = re.compile(r"alc_([0-9a-f]{16})_([0-9a-f]{64})")
_NOBODY = TokenRecord("0" * 16, "0" * 64, "reader", 0, 0, 0)  # compared with where there is no such token
MAX_NAME_LENGTH = 64
MAX_LIFETIME_S = 366 * 86_400  # seconds; a token that nobody renews for a year is nobody's


@dataclass(frozen=True)
class IssuedToken:
    """A new token: `text` is shown once, `record` is what the store keeps."""

    text: str
    record: TokenRecord


def issue_token(role: Role, *, now_s: int, lifetime_s: int, name: str = "") -> IssuedToken:
    """Return a new token; `name` says whose it is or what for.

    Raises:
        InvalidFieldError: the lifetime is not in 1 s to 366 days, or the name is no line of at most 64 characters.
    """
    if not 1 <= lifetime_s <= MAX_LIFETIME_S:
        raise InvalidFieldError("lifetime_s", f"1 to {MAX_LIFETIME_S}", lifetime_s)
    if len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise InvalidFieldError("name", f"at most {MAX_NAME_LENGTH} printable characters", name)
    token_id, secret = secrets.token_hex(8), secrets.token_hex(32)
    record = TokenRecord(token_id, _digest(token_id, secret), str(role), now_s, now_s + lifetime_s, None, name)
    return IssuedToken(f"alc_{token_id}_{secret}", record)


def issue_access(role: Role, subject: str, *, now_s: int, lifetime_s: int, name: str = "") -> TokenRecord:
    """Return what is kept of a new access: a token without a secret, for who proves to be its subject.

    Raises:
        InvalidFieldError: as `issue_token`.
    """
    made = issue_token(role, now_s=now_s, lifetime_s=lifetime_s, name=name).record
    return replace(made, secret_sha256="", subject=subject)  # which no digest equals


def issue_session(parent: TokenRecord, *, now_s: int, lifetime_s: int) -> IssuedToken:
    """Return a new session of a token, which ends no later than that one."""
    until_s = min(lifetime_s, parent.expires_at_s - now_s)
    issued = issue_token(Role.parse(parent.role), now_s=now_s, lifetime_s=until_s, name=parent.name)
    return IssuedToken(issued.text, replace(issued.record, parent_id=parent.token_id))


def token_id_of(text: str) -> str:
    """Return the id inside a token.

    Raises:
        UnauthenticatedError: `text` has not the form of a token.
    """
    return _split(text)[0]


def authenticate(
    text: str, record: TokenRecord | None, *, now_s: int, idle_s: int = limits.SESSION_IDLE_S
) -> Principal:
    """Return who presents the token.

    Args:
        text: the token as received.
        record: what the store knows of `token_id_of(text)`; None when it knows nothing.
        now_s: seconds since 1970-01-01 UTC.
        idle_s: seconds after which a session ends that nobody uses.

    Raises:
        UnauthenticatedError: malformed, unknown, wrong, expired, idle or revoked.  The secret is compared in constant
            time, and an unknown id takes the same path, so that time tells nothing about which ids exist.
    """
    token_id, secret = _split(text)
    known = record or _NOBODY
    is_proved = hmac.compare_digest(_digest(token_id, secret), known.secret_sha256)
    if record is None or not is_proved:
        reason = "unknown token"
        raise UnauthenticatedError(reason)
    if known.revoked_at_s is not None:
        reason = "this token was revoked"
        raise UnauthenticatedError(reason)
    if now_s >= known.expires_at_s:
        reason = "this token has expired"
        raise UnauthenticatedError(reason)
    role = Role.parse(known.role)
    if known.is_session:
        if now_s >= known.active_at_s + idle_s:
            reason = f"this session was idle for {idle_s // 60} minutes"
            raise UnauthenticatedError(reason)
        return Principal(known.parent_id, role, known.name, token_id, known.expires_at_s, known.active_at_s)
    return Principal(token_id, role, known.name, expires_at_s=known.expires_at_s)


def _split(text: str) -> tuple[str, str]:
    match = _TOKEN.fullmatch(text)
    if match is None:
        reason = "malformed token"
        raise UnauthenticatedError(reason)
    return match[1], match[2]


def _digest(token_id: str, secret: str) -> str:
    return hashlib.sha256(f"{token_id}:{secret}".encode()).hexdigest()
