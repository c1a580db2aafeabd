"""`alcove server status`: asks a running server how its parts are, and whom devices trust."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.exit_codes import FAILED
from alcove.platform.cli.output import print_json, print_rows, say, when

if TYPE_CHECKING:
    from alcove.platform.client import ServerHealth, Trust

__all__ = ["status_command"]


def status_command(*, call: CallOptions) -> None:
    """Show how the parts of a running server are, and the keys and expiry dates of the signed tree.

    Exits with 1 where a part does not work.
    """
    with call.connect() as client:
        health, trust = client.health(), client.trust()
    if call.as_json:
        print_json({"health": health.model_dump(), "trust": trust.model_dump()})
    else:
        _print_health(health)
        _print_trust(trust)
    if health.state == "failed":
        raise typer.Exit(FAILED)


def _print_health(health: "ServerHealth") -> None:
    rows = [
        {
            "part": check.name,
            "state": check.state,
            "found": " ".join(part for part in (check.summary, check.remedy, check.detail) if part),
            "last worked": when(check.last_ok_s),
        }
        for check in health.checks
    ]
    print_rows(rows, as_json=False, empty="nothing was looked at", title=f"health: {health.state}")


def _print_trust(trust: "Trust") -> None:
    rows = [
        {
            "role": role.role,
            "held": role.holder,
            "keys": f"{role.threshold} of {len(role.keys)}",
            "signed by": " ".join(key.key_id[:12] for key in role.keys if key.has_signed),
            "version": role.version,
            "signed": when(role.signed_at_s),
            "expires": f"{when(role.expires_at_s)} ({_days(role.expires_at_s - trust.now_s)})",
            "documents": role.targets,
        }
        for role in trust.roles
    ]
    print_rows(rows, as_json=False, empty="no role", title="signed tree")
    tree, tokens = trust.tree, trust.tokens
    say(f"tree        {tree.versions} versions, {tree.metadata_bytes:,} bytes of metadata")
    soon = f", the first at {when(tokens.next_expires_at_s)}" if tokens.expiring else ""
    say(f"API tokens  {tokens.valid} valid, {tokens.expiring} end soon{soon}")
    if trust.certificate_expires_at_s:
        say(f"certificate until {datetime.fromtimestamp(trust.certificate_expires_at_s, UTC):%Y-%m-%d %H:%M} UTC")


def _days(left_s: int) -> str:
    if left_s < 0:
        return "expired"
    return f"{left_s // 86_400} days" if left_s >= 2 * 86_400 else f"{left_s // 3600} hours"
