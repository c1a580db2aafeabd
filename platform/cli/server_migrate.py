"""`alcove server migrate`: shows the schema of a server's database, and brings it to another revision."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.connection import Database
from alcove.platform.cli.output import AsJson, print_json, say

__all__ = ["migrate_command"]


def migrate_command(
    *,
    data_dir: Annotated[Path, typer.Option(help="Folder with the server's data: database, blobs, signed tree.")],
    database: Database = None,
    to: Annotated[
        str | None, typer.Option(help="Revision to migrate to, or head; shows where the database stands by default.")
    ] = None,
    is_agreed: Annotated[
        bool, typer.Option("--yes", help="Go back although the older schema has no place for some of the data.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the schema of the database, or migrate it; stop the servers first, and make a backup.

    A server migrates forwards by itself when it starts.  Going back needs this command of the newer version.
    """
    from alcove.platform.store import Store  # noqa: PLC0415 - needs the database
    from alcove.platform.store.database import database_of  # noqa: PLC0415
    from alcove.platform.store.note import compare_stores  # noqa: PLC0415
    from alcove.platform.store.schema_changes import migrate_to, read_schema_state  # noqa: PLC0415

    location, schema = database_of(data_dir, database), Store.schema
    compare_stores(data_dir, database=location, has_blobs=False)
    state = asyncio.run(read_schema_state(location, schema))
    if to is None:
        if as_json:
            print_json({"revision": state.revision, "known": list(state.known), "is_newer": state.is_newer})
        else:
            say(f"{state.where}: schema {state.revision or 'none'}; this version knows {', '.join(state.known)}")
        return
    aim = schema.head if to == "head" else to
    is_known = aim in state.known and state.revision in state.known
    is_back = is_known and state.known.index(aim) < state.known.index(str(state.revision))
    if is_back and not is_agreed:
        problem = (
            f"{aim} is older than {state.revision}: what it has no place for is lost; make a backup, then add --yes"
        )
        raise typer.BadParameter(problem, param_hint="--to")
    before, now = asyncio.run(migrate_to(location, schema, aim))
    if as_json:
        print_json({"before": before, "revision": now})
    else:
        say(f"{state.where}: schema {now}, before {before or 'none'}")
