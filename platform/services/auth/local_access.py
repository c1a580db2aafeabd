"""Grants, lists and revokes accesses in the server's database, even while the server runs."""

import asyncio
from pathlib import Path

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.principal import Role
from alcove.platform.services.auth.access import subject_of
from alcove.platform.services.auth.tokens import issue_access
from alcove.platform.services.local_store import LOCAL_PRINCIPAL, with_store
from alcove.platform.store import Store
from alcove.platform.store.tokens import TokenRecord, add_token, find_access, revoke_token
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["grant_local_access"]


def grant_local_access(
    data_dir: Path,
    role: str,
    *,
    issuer: str,
    subject: str = "",
    email: str = "",
    name: str = "",
    lifetime_s: int = 365 * 86_400,
    clock: Clock = SYSTEM_CLOCK,
    database: str | None = None,
) -> TokenRecord:
    """Let a person sign in through the provider; an access that the person had before ends, and its sessions with it.

    Args:
        data_dir: of the server; must exist.
        role: "reader", "operator", "operator:<team>" or "team:<name>".
        issuer: URL of the provider.
        subject: the provider's name of the person; exactly one of this and `email`.
        email: address that the provider has verified.
        name: whose it is, shown in lists and in the console; "": nobody said.
        lifetime_s: seconds until it expires, at most 366 days.
        clock: dates it.
        database: URL of the server's database where it is no file in the folder.

    Raises:
        InvalidFieldError: the folder, role, issuer, person, name or lifetime is not acceptable.
    """
    if bool(subject) == bool(email):
        raise InvalidFieldError("subject", "exactly one of subject and email", subject or email)
    person = subject_of(issuer, "sub" if subject else "email", subject or email)

    async def work(store: Store) -> TokenRecord:
        now_s = clock.now_s()
        made = issue_access(Role.parse(role), person, now_s=now_s, lifetime_s=lifetime_s, name=name)
        async with store.write() as session:
            before = await find_access(session, person)
            details: dict[str, object] = {"name": name} if name else {}
            if before is not None:
                await revoke_token(session, before.token_id, now_s)
                details["in_place_of"] = before.token_id
            await add_token(session, made)
            details |= {"role": role, "person": person, "expires_at_s": made.expires_at_s}
            await UnitOfWork(session, LOCAL_PRINCIPAL, now_s).audit("grant access", made.token_id, **details)
        return made

    return asyncio.run(with_store(data_dir, database, work))
