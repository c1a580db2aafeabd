"""A backup or a restore, killed at every storage call in turn; a process of `test_killed_backups.py`.

Each child is forked from a process that has no threads yet, works until its nth storage call, and ends there by
SIGKILL.  A second child looks at what is left, repeats the work, and looks again.

`python killed_backup.py JSON` prints a line of JSON for each storage call.
"""

import asyncio
import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import aiosqlite  # noqa: F401 - here, and in each child no more
import alembic.autogenerate
import alembic.command
import alembic.config
import alembic.script  # noqa: F401
import obstore.store  # noqa: F401
from alcove.platform.services.backups import ServerData, create_backup, open_place, restore_backup
from alcove.platform.services.backups.restore import MARKER
from alcove.platform.services.publishing import audit_store
from alcove.platform.store import Store
from alcove.platform.store.row_copies import compare_rows
from alcove.registry.blobs import ObjectBlobStore
from alcove.runtime.clock import SYSTEM_CLOCK
from alcove.runtime.files import Disk
from sqlalchemy import event
from sqlalchemy.engine import Engine

MOST: Final = 2000  # storage calls; a loop that does not end is a fault


class Points:
    """Counts storage calls: files, blobs, rows and commits; kills the process at one of them."""

    def __init__(self, end_at: int) -> None:
        self.end_at = end_at
        self.seen = 0

    def pass_by(self, *_: object) -> None:
        """Stand before a storage call, or half-way through one."""
        if self.seen == self.end_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen += 1

    def install(self) -> None:
        """Stand before everything that changes a file, a store of blobs or a database."""
        write, put = Disk.write, ObjectBlobStore.put

        def half_written(disk: Disk, path: Path, data: bytes) -> None:
            self.pass_by()
            path.write_bytes(data[: len(data) // 2])
            self.pass_by()
            write(disk, path, data)

        def put_around(store: ObjectBlobStore, sha256: str, data: Any) -> int:
            self.pass_by()
            count = put(store, sha256, data)
            self.pass_by()
            return count

        def before(call: Callable[..., Any]) -> Callable[..., Any]:
            def stop_and_call(*args: Any, **options: Any) -> Any:
                self.pass_by()
                return call(*args, **options)

            return stop_and_call

        os.fsync = before(lambda _: None)
        for name in ("replace", "mkdir", "unlink"):
            setattr(Path, name, before(getattr(Path, name)))
        Disk.write = half_written  # type: ignore[method-assign, assignment]
        ObjectBlobStore.put = put_around  # type: ignore[method-assign, assignment]
        event.listen(Engine, "commit", self.pass_by)
        event.listen(Engine, "before_cursor_execute", self._at_statement)

    def _at_statement(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("INSERT"):
            self.pass_by()


class Case:
    """One backup or restore of the world."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        self.is_restore = job["action"] == "restore"
        self.folder = folder
        self.place = job["place"] if self.is_restore else str(folder / "place")
        self.source = ServerData(Path(job["data"]), folder / "no keys")
        self.target = ServerData(folder / "restored", folder / "no keys")

    async def work(self) -> None:
        """Do what is killed."""
        tempfile.tempdir = str(self.folder)
        place = open_place(self.place)
        if self.is_restore:
            await restore_backup(
                place, place.read_record(), self.target, clock=SYSTEM_CLOCK, keys={"timestamp.pem": b"a key"}
            )
        else:
            await create_backup(self.source, place, clock=SYSTEM_CLOCK)

    async def judge(self) -> None:
        """Find nothing half that says it is whole; repeat, and find everything."""
        tempfile.tempdir = str(self.folder)
        if self.is_restore:
            is_complete = (self.target.data_dir / "tree/metadata/timestamp.json").exists()
            if not is_complete or (self.target.data_dir / MARKER).exists():
                await self.work()
            await self.check_restored()
            return
        place = open_place(self.place)
        for backup_id in place.list_ids():
            assert place.find_missing(place.read_record(backup_id).digests()) is None
        await self.work()
        record = place.read_record()
        await restore_backup(place, record, self.target, clock=SYSTEM_CLOCK)
        await self.check_restored()

    async def check_restored(self) -> None:
        """Tree, blobs and rows are those of the world, but for the line of the audit log."""
        stores = [await Store.open(data.location) for data in (self.source, self.target)]
        report = await audit_store(stores[1], self.target.open_tree())
        assert report.problems == (), report.problems
        assert report.row_count == 1
        async with stores[0].read() as mine, stores[1].read() as restored:
            assert await compare_rows(mine, restored) == "audit"
        for store in stores:
            await store.close()


def in_child(work: Callable[[], None]) -> int:
    """Do some work in a forked child; return its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - it must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(job: dict[str, Any]) -> int:
    """End at each storage call in turn until there are no more."""
    gc.freeze()
    for number in range(job["first"], MOST, job["step"]):
        folder = Path(job["work"]) / str(number)
        folder.mkdir(parents=True)
        case = Case(job, folder)

        def work(case: Case = case, number: int = number) -> None:
            Points(number).install()
            asyncio.run(case.work())

        status = in_child(work)
        checked = in_child(lambda case=case: asyncio.run(case.judge()))  # type: ignore[misc]
        sys.stdout.write(json.dumps({"call": number, "status": status, "checked": checked}) + "\n")
        sys.stdout.flush()
        shutil.rmtree(folder)
        if checked or status != -signal.SIGKILL:
            return checked or int(status != 0)
    return 1


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
