"""`alcove server backup`, `backups`, `restore` and `prune`: copies of a server's data, and data from copies."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from alcove.platform.cli.connection import Blobs, Database
from alcove.platform.cli.files import online_folder, read_secret
from alcove.platform.cli.output import AsJson, print_json, print_rows, say, show_progress, when
from alcove.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from alcove.platform.services.backups import BackupRecord, ServerData

__all__ = ["backup_command", "backups_command", "prune_command", "restore_command"]

Place = Annotated[
    str, typer.Argument(metavar="PLACE", help="Folder of the backups, or a URL such as s3://bucket/prefix.")
]
DataDir = Annotated[Path, typer.Option(help="Folder with the server's data: database, blobs, signed tree.")]
PassphraseFile = Annotated[
    Path | None,
    typer.Option(help="File of mode 0600 with the passphrase of the keys; at least 16 characters."),
]


def backup_command(
    place: Place,
    *,
    data_dir: DataDir,
    database: Database = None,
    blobs: Blobs = None,
    keys: Annotated[
        Path | None, typer.Option(help="Back up the online keys in this folder too; needs --passphrase-file.")
    ] = None,
    passphrase_file: PassphraseFile = None,
    as_json: AsJson = False,
) -> None:
    """Back up rows, signed tree and blobs as of one moment; servers may run and publish meanwhile.

    What PLACE holds already is not copied again.  Keys are left out unless --keys names them.
    """
    from alcove.platform.services.backups import create_backup, open_place  # noqa: PLC0415 - needs the database
    from alcove.platform.services.backups.sealed_keys import seal_keys  # noqa: PLC0415

    if (keys is None) != (passphrase_file is None):
        problem = "--keys and --passphrase-file come together: keys are backed up encrypted, or not at all"
        raise typer.BadParameter(problem, param_hint="--keys")
    sealed = None
    if keys is not None and passphrase_file is not None:
        sealed = seal_keys(keys, read_secret(passphrase_file).strip())
    opened = open_place(place)
    with _progress("blobs", quiet=as_json) as advance:
        made = asyncio.run(
            create_backup(
                _data(data_dir, database, blobs, keys),
                opened,
                clock=SYSTEM_CLOCK,
                sealed_keys=sealed,
                on_progress=advance,
            )
        )
    record = made.record
    if as_json:
        print_json(_describe(record) | {"stored_bytes": made.stored_bytes})
        return
    say(
        f"backup {record.backup_id} in {opened.where}: {sum(record.row_counts.values())} rows, "
        f"{len(record.files)} files of the tree, {len(record.blobs)} blobs, {record.size_bytes} bytes, "
        f"of them {made.stored_bytes} new"
    )
    say("the keys are not in it" if record.keys is None else "the online keys are in it, encrypted")


def backups_command(place: Place, *, as_json: AsJson = False) -> None:
    """List the backups of a place, the oldest first."""
    from alcove.platform.services.backups import open_place  # noqa: PLC0415

    opened = open_place(place)
    found = [_describe(opened.read_record(backup_id)) for backup_id in opened.list_ids()]
    if as_json:
        print_json(found)
        return
    shown = [
        {
            "backup": row["backup"],
            "made": when(row["made_at_s"]),
            "timestamp": row["published"]["timestamp"],
            "blobs": row["blobs"],
            "bytes": row["size_bytes"],
            "keys": "yes" if row["has_keys"] else "no",
        }
        for row in found
    ]
    print_rows(shown, as_json=False, empty="no backups")


def restore_command(
    place: Place,
    *,
    data_dir: Annotated[Path, typer.Option(help="Folder for the server's data; absent or empty.")],
    database: Database = None,
    blobs: Blobs = None,
    backup: Annotated[
        str | None, typer.Option(help="Id of the backup (alcove server backups); else the newest.")
    ] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the online keys, beside which is noted what was published; DATA_DIR-keys by default."
        ),
    ] = None,
    passphrase_file: PassphraseFile = None,
    is_older_accepted: Annotated[
        bool,
        typer.Option("--accept-older", help="Restore less than was published from here; the server says what to do."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into an empty folder and an empty database; repeat it after an interruption.

    With --passphrase-file the keys that are in the backup are written to the folder of keys.
    """
    from alcove.platform.services.backups import open_place, restore_backup  # noqa: PLC0415
    from alcove.platform.services.backups.sealed_keys import open_keys  # noqa: PLC0415

    opened = open_place(place)
    record = opened.read_record(backup)
    files = None
    if passphrase_file is not None:
        if record.keys is None:
            problem = f"backup {record.backup_id} holds no keys"
            raise typer.BadParameter(problem, param_hint="--passphrase-file")
        files = open_keys(opened.get(record.keys), read_secret(passphrase_file).strip())
    with _progress("blobs", quiet=as_json) as advance:
        done = asyncio.run(
            restore_backup(
                opened,
                record,
                _data(data_dir, database, blobs, keys),
                clock=SYSTEM_CLOCK,
                keys=files,
                is_older_accepted=is_older_accepted,
                on_progress=advance,
            )
        )
    warning = None
    if not done.noted:
        warning = (
            f"nothing here says how far the server had published: devices that saw more than timestamp "
            f"{record.published['timestamp']} refuse what comes next; compare with metadata/timestamp.json at the "
            "address that devices ask, before you start it"
        )
    if as_json:
        print_json(_describe(record) | {"noted": done.noted, "warning": warning})
        return
    say(
        f"backup {record.backup_id} of {when(record.made_at_s)} restored to {data_dir}: "
        f"timestamp {record.published['timestamp']}, {sum(record.row_counts.values())} rows, {len(record.blobs)} blobs"
    )
    if warning is not None:
        say(f"alcove: {warning}", err=True)
    say(f"next: alcove registry check --data-dir {data_dir}, then alcove serve")


def prune_command(
    place: Place,
    *,
    keep: Annotated[int, typer.Option(min=1, help="Number of backups that remain, the newest.")],
    as_json: AsJson = False,
) -> None:
    """Remove all but the newest backups, and what no other one needs; not while a backup is made."""
    from alcove.platform.services.backups import open_place  # noqa: PLC0415

    removed, freed = open_place(place).prune(keep, SYSTEM_CLOCK.now_s())
    if as_json:
        print_json({"removed": removed, "freed_bytes": freed})
        return
    say(f"{len(removed)} backups removed, {freed} bytes", *removed)


def _data(data_dir: Path, database: str | None, blobs: str | None, keys: Path | None) -> "ServerData":
    from alcove.platform.services.backups import ServerData  # noqa: PLC0415

    return ServerData(data_dir, keys or online_folder(data_dir), database, blobs)


def _describe(record: "BackupRecord") -> dict[str, Any]:
    return {
        "backup": record.backup_id,
        "made_at_s": record.made_at_s,
        "alcove": record.alcove,
        "schema_revision": record.schema_revision,
        "published": record.published,
        "rows": sum(record.row_counts.values()),
        "files": len(record.files),
        "blobs": len(record.blobs),
        "size_bytes": record.size_bytes,
        "has_keys": record.keys is not None,
    }


@contextmanager
def _progress(name: str, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many bytes are done, on a terminal."""
    with show_progress(of="bytes", quiet=quiet) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
