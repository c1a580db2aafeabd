"""`alcove audit`: lists who changed what, when and why: from the server, or beside its data folder."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.connection import CallOptions, Database
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import print_json, print_rows, when
from alcove.platform.cli.plans import duration_s
from alcove.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from alcove.platform.client import AuditLine

__all__ = ["app", "since_of"]

app = CommandGroup(no_args_is_help=True, help="Read the audit log.")


@dataclass(frozen=True)
class _Wanted:
    """Which changes are asked for; as `PlatformClient.audit` names them."""

    about: str = ""
    app: str = ""
    text: str = ""
    principal: str = ""
    action: str = ""
    since_s: int = 0
    until_s: int = 0


@app.callback()
def audit() -> None:
    """Read the audit log."""


@app.command("list")
def list_command(
    *,
    about: Annotated[
        str, typer.Option("--object", help="List only what was done to this object: a rollout, an experiment, …")
    ] = "",
    app_name: Annotated[
        str, typer.Option("--app", help="List only what was done in this app, to its rollouts and experiments too.")
    ] = "",
    since: Annotated[
        str, typer.Option(help="List only what was done since: 90s, 15m, 6h or 2d ago, or a day, YYYY-MM-DD (UTC).")
    ] = "",
    until: Annotated[
        str, typer.Option(help="List only what was done before: so long ago, or the beginning of a day, as --since.")
    ] = "",
    text: Annotated[
        str, typer.Option(help="List only changes in which each of these words occurs: in the object or the details.")
    ] = "",
    by: Annotated[
        str, typer.Option("--by", help="List only what was done by somebody in whose role and id this occurs.")
    ] = "",
    action: Annotated[str, typer.Option(help="List only actions in which this occurs, such as halt.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="Largest number of changes to list; 0: all.")] = 50,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="The server's data folder: read it here, without a token, instead of asking the server."),
    ] = None,
    database: Database = None,
    call: CallOptions,
) -> None:
    """List changes, the newest first: when, who, what was done to what, and the details with the reasons given."""
    now_s = SYSTEM_CLOCK.now_s()
    wanted = _Wanted(
        about=about,
        app=app_name,
        text=text,
        principal=by,
        action=action,
        since_s=since_of(since, now_s=now_s) if since else 0,
        until_s=since_of(until, now_s=now_s, option="--until") if until else 0,
    )
    if data_dir is None:
        with call.connect() as client:
            lines = client.audit(**vars(wanted), limit=limit or None)
    else:
        lines = _local_lines(data_dir, database, wanted, limit=limit or None)
    if call.as_json:
        keys = {"at_s": "at_s", "who": "who", "action": "action", "object": "subject", "details": "details"}
        print_json([{key: getattr(line, field) for key, field in keys.items()} for line in lines])
        return
    rows = [
        {
            "when": when(line.at_s),
            "who": line.who,
            "action": line.action,
            "object": line.subject,
            "details": json.dumps(line.details, ensure_ascii=False),
        }
        for line in lines
    ]
    print_rows(rows, as_json=False, empty="nothing was changed yet" if wanted == _Wanted() else "no such change")


def _local_lines(data_dir: Path, database: str | None, wanted: _Wanted, *, limit: int | None) -> "list[AuditLine]":
    from alcove.platform.client import AuditLine  # noqa: PLC0415 - loads gRPC
    from alcove.platform.domain.field_validation import validate_search  # noqa: PLC0415 - others need no database
    from alcove.platform.services.auth.local import newest_local_audit  # noqa: PLC0415
    from alcove.platform.store.audit import AuditFilter  # noqa: PLC0415

    filters = AuditFilter(
        subject=wanted.about,
        app=wanted.app,
        since_s=wanted.since_s,
        until_s=wanted.until_s,
        words=validate_search(wanted.text),
        principal=wanted.principal,
        action=wanted.action,
    )
    return [
        AuditLine(
            at_s=entry.at_s, who=entry.principal, action=entry.action, subject=entry.subject, details=entry.details
        )
        for entry in newest_local_audit(data_dir, filters, limit=limit, database=database)
    ]


def since_of(text: str, *, now_s: int, option: str = "--since") -> int:
    """Return the time that "2d" (ago) or "2026-11-30" (its beginning, UTC) names, in seconds since 1970-01-01 UTC.

    Raises:
        typer.BadParameter: it names none.
    """
    try:
        return int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError:
        pass
    try:
        return max(0, now_s - duration_s(text))
    except typer.BadParameter:
        raise typer.BadParameter(f"write 2d, 6h, 15m, 90s or 2026-11-30; got {text!r}", param_hint=option) from None
