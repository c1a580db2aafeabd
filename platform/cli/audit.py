"""`alcove audit`: lists who changed what, when and why, on the machine that holds the server's data folder."""

import json
from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.connection import Database
from alcove.platform.cli.output import AsJson, print_json, print_rows, when

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Read the audit log (beside the server's data folder).")


@app.callback()
def audit() -> None:
    """Read the audit log (beside the server's data folder)."""


@app.command("list")
def list_command(
    *,
    data_dir: Annotated[Path, typer.Option(help="Folder with the server's data: database, blobs, signed tree.")],
    database: Database = None,
    about: Annotated[
        str, typer.Option("--object", help="List only what was done to this object: a rollout, an experiment, …")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List every change, oldest first: when, who, what was done to what, and the details with the reasons given."""
    from alcove.platform.services.auth.local import list_local_audit  # noqa: PLC0415 - other verbs need no database

    entries = [entry for entry in list_local_audit(data_dir, database=database) if about in ("", entry.subject)]
    if as_json:
        rows = [
            {"at_s": e.at_s, "who": e.principal, "action": e.action, "object": e.subject, "details": e.details}
            for e in entries
        ]
        print_json(rows)
        return
    rows = [
        {
            "when": when(entry.at_s),
            "who": entry.principal,
            "action": entry.action,
            "object": entry.subject,
            "details": json.dumps(entry.details, ensure_ascii=False),
        }
        for entry in entries
    ]
    print_rows(rows, as_json=False, empty="nothing was changed yet")
