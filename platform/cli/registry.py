"""`alcove registry`: verifies the signed tree, its blobs and the rows, and removes blobs that nothing names."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer
from alcove.platform.cli.connection import Blobs, Database
from alcove.platform.cli.exit_codes import FAILED
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import AsJson, print_json, print_rows, say, when
from alcove.runtime.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alcove.platform.store import Store
    from alcove.registry.repository import Repository

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="Maintain the signed tree, its blobs and the rows.")

DataDir = Annotated[Path, typer.Option(help="Folder with the server's data: database, blobs, signed tree.")]
_T = TypeVar("_T")


@app.callback()
def registry() -> None:
    """Maintain the signed tree, its blobs and the rows."""


@app.command("check")
def check(*, data_dir: DataDir, database: Database = None, blobs: Blobs = None, as_json: AsJson = False) -> None:
    """Verify every signature, date, manifest, policy, blob and row; exit code 1 if anything is wrong."""
    from alcove.platform.services.publishing import StoreReport, audit_store  # noqa: PLC0415 - other verbs need no database

    tree = _tree(data_dir, blobs)

    async def work(store: "Store | None") -> StoreReport:
        return await audit_store(store, tree)

    report = asyncio.run(_with_store(data_dir, database, work))
    problems = [
        {"thing": item.thing, "error": type(item.error).__name__, "what": str(item.error)} for item in report.problems
    ]
    found = report.tree
    if as_json:
        print_json(
            {
                "is_sound": report.is_sound,
                "roles": found.role_count,
                "targets": found.target_count,
                "blobs": found.blob_count,
                "rows": report.row_count,
                "problems": problems,
            }
        )
    else:
        say(
            f"{found.role_count} roles, {found.target_count} documents and {found.blob_count} blobs are as signed, "
            f"{report.row_count} rows as published"
        )
        print_rows(problems, as_json=False, empty="nothing is wrong")
    if not report.is_sound:
        raise typer.Exit(FAILED)


@app.command("gc")
def collect_command(
    *,
    data_dir: DataDir,
    database: Database = None,
    blobs: Blobs = None,
    grace_hours: Annotated[
        int, typer.Option(min=1, help="Number of hours for which an unused blob is kept after its upload.")
    ] = 24,
    is_dry: Annotated[bool, typer.Option("--dry-run", help="Print what would be removed, and remove nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove the blobs that neither tree nor rows name; servers may be running, and it may be killed anywhere."""
    from alcove.platform.services.publishing import CollectionResult, RepositoryLock, collect_garbage  # noqa: PLC0415

    tree = _tree(data_dir, blobs)

    async def work(store: "Store | None") -> CollectionResult:
        lock = asyncio.Lock() if store is None else RepositoryLock(store)
        now_s = SYSTEM_CLOCK.now_s()
        return await collect_garbage(store, tree, lock, now_s=now_s, grace_s=grace_hours * 3600, is_dry=is_dry)

    done = asyncio.run(_with_store(data_dir, database, work))
    rows = [
        {"sha256": blob.sha256, "size_bytes": blob.size_bytes, "stored_at_s": blob.stored_at_s} for blob in done.removed
    ]
    if as_json:
        print_json({"is_dry_run": is_dry, "removed": rows, "freed_bytes": done.freed_bytes, "remains": done.remains})
        return
    print_rows(
        [{"blob": row["sha256"], "bytes": row["size_bytes"], "stored": when(blob.stored_at_s)}
         for row, blob in zip(rows, done.removed, strict=True)],
        as_json=False,
        empty="every blob is named, or too young to go",
    )  # fmt: skip
    if rows:
        would = "would be " if is_dry else ""
        say(f"{len(rows)} blobs {would}removed, {done.freed_bytes} bytes")


def _tree(data_dir: Path, blobs: str | None) -> "Repository":
    from alcove.registry.blobs import open_blob_store  # noqa: PLC0415
    from alcove.registry.repository import Repository  # noqa: PLC0415 - loads the signed tree's libraries

    return Repository(data_dir / "tree", blobs=None if blobs is None else open_blob_store(blobs))


async def _with_store(data_dir: Path, database: str | None, work: "Callable[[Store | None], Awaitable[_T]]") -> _T:
    """Do some work with the database; with None where no server has made one yet."""
    from alcove.platform.store import Store  # noqa: PLC0415
    from alcove.platform.store.database import database_of  # noqa: PLC0415
    from alcove.platform.store.note import compare_stores  # noqa: PLC0415

    location = database_of(data_dir, database)
    await asyncio.to_thread(compare_stores, data_dir, database=location, has_blobs=False)
    if isinstance(location, Path) and not await asyncio.to_thread(location.is_file):
        return await work(None)
    store = await Store.open(location)
    try:
        return await work(store)
    finally:
        await store.close()
