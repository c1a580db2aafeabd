"""Finds what of a server expires soon: signatures that people renew, API tokens, and its TLS certificate."""

import asyncio
from pathlib import Path

from alcove.platform.domain.alerts.alert import Alert, AlertKind
from alcove.platform.domain.alerts.conditions import alert_of_expiry
from alcove.platform.store import Store
from alcove.platform.store.tokens import list_tokens
from alcove.registry.online import list_expiring
from alcove.registry.repository import Repository
from cryptography import x509

__all__ = ["find_expiries", "read_certificate_life"]


async def find_expiries(
    store: Store, tree: Repository, *, certificate: Path | None, source: str, now_s: int
) -> list[Alert]:
    """Return the alerts of what expires soon or has expired.

    Args:
        store: has the tokens; sessions, revoked ones, and those that expired more than a day ago are left out.
        tree: has the signatures.
        certificate: PEM chain of the server; None: it has none.
        source: names the server.
        now_s: the time, seconds since 1970-01-01 UTC.

    Raises:
        ServerError: the database cannot be read.
        RegistryError: the tree is damaged.
        OSError, ValueError: the certificate cannot be read.
    """
    signatures = await asyncio.to_thread(lambda: list_expiring(tree.state(), now_s))
    found = [
        alert_of_expiry(
            source, AlertKind.METADATA_EXPIRING, f"the signature of role {role}", expires_at_s=end_s, now_s=now_s
        )
        for role, end_s in signatures.items()
    ]
    async with store.read() as session:
        tokens = await list_tokens(session)
    for token in tokens:
        if not token.is_session and token.revoked_at_s is None and token.expires_at_s > now_s - 86_400:
            name = f" ({token.name})" if token.name else ""
            found.append(
                alert_of_expiry(
                    source,
                    AlertKind.KEY_EXPIRING,
                    f"API token {token.token_id}{name} of role {token.role}",
                    expires_at_s=token.expires_at_s,
                    lifetime_s=token.expires_at_s - token.created_at_s,
                    now_s=now_s,
                )
            )
    if certificate is not None:
        begin_s, end_s = await asyncio.to_thread(read_certificate_life, certificate)
        subject = "the TLS certificate of the server"
        found.append(
            alert_of_expiry(
                source,
                AlertKind.KEY_EXPIRING,
                subject,
                expires_at_s=end_s,
                lifetime_s=end_s - begin_s,
                now_s=now_s,
            )
        )
    return [alert for alert in found if alert is not None]


def read_certificate_life(path: Path) -> tuple[int, int]:
    """Return since when and until when the first certificate of a PEM chain holds, seconds since 1970-01-01 UTC.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    held = x509.load_pem_x509_certificate(path.read_bytes())
    return int(held.not_valid_before_utc.timestamp()), int(held.not_valid_after_utc.timestamp())
