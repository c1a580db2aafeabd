"""A server's work, killed at every storage call in turn; a process of `test_kill_at_each_write.py`.

The process makes nothing itself but folders, databases and children: each child is forked from a process that has no
threads yet, does the work of one call until its nth storage call, and ends there by SIGKILL (or meets a full disk from
there on).  A second child restarts, judges what is left, and repeats the call.

`python killed_publisher.py JSON` prints a line of JSON for each storage call: where the first child ended, whether its
answer had been given, and what the second one found.
"""

import asyncio
import errno
import json
import os
import resource
import shutil
import signal
import sys
import traceback
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
from alcove.api.registry.v1 import registry_pb2 as registry_pb
from alcove.api.rollout.v1 import rollout_pb2 as rollout_pb
from alcove.platform.domain.errors import PlatformError
from alcove.platform.domain.principal import Principal, Role, set_principal
from alcove.platform.domain.records import Page
from alcove.platform.server.registry_service import RegistryService
from alcove.platform.server.rollout_service import RolloutService
from alcove.platform.services.mutations import Mutations
from alcove.platform.services.policy import PolicyPublisher
from alcove.platform.services.publishing import (
    LockedDisk,
    RepositoryLock,
    VersionPublisher,
    audit_store,
    receive_blob,
    uploads,
)
from alcove.platform.services.validation import InThisProcess
from alcove.platform.store import Store
from alcove.platform.store.audit import list_audit
from alcove.platform.store.manifests import listed_manifests
from alcove.platform.testing.s3 import FULL_PREFIX
from alcove.registry import program_verification
from alcove.registry.blobs import ObjectBlobStore, open_blob_store
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import RegistryError
from alcove.registry.garbage_collection import find_garbage
from alcove.registry.online_keys import load_online_keys
from alcove.registry.repository import Repository
from alcove.registry.testing import FakeVerifier, FolderFetcher
from alcove.runtime.clock import SYSTEM_CLOCK
from alcove.runtime.files import Disk
from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

program_verification.RuntimeVerifier = FakeVerifier  # type: ignore[misc, assignment]

APP: Final = "messenger"
WRITING: Final = ("INSERT", "UPDATE", "DELETE")
REFUSED_BY_POSTGRESQL: Final = "DO $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$"
ACKNOWLEDGED: Final = b"!"


class Points:
    """Counts storage calls; ends the process, or fills the disks, at one of them.

    A full disk is full from there on, and whose it is decides who refuses:

    - a file of ours: the system call (ENOSPC);
    - a database of one file: the system, because this process may write no more bytes to files (RLIMIT_FSIZE);
    - PostgreSQL: the server, with "disk_full" for a statement that writes; at a commit it ends the connection, which is
      what its callers see when there is no room for the log;
    - S3: the server, with the answer that MinIO gives.
    """

    def __init__(self, end_at: int, *, is_full: bool, bucket: str) -> None:
        self.end_at, self.is_full, self.bucket = end_at, is_full, bucket
        self.seen = 0

    def is_reached(self) -> bool:
        """A storage call is about to be made, or half made: go on, end here, or say that the disk is full."""
        at, self.seen = self.seen, self.seen + 1
        if at < self.end_at:
            return False
        if not self.is_full:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def pass_by(self) -> None:
        """Stand before a call on a file of ours."""
        if self.is_reached():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a full disk")

    def install(self) -> None:
        """Stand before every call that changes a disk, a store of blobs or a database."""
        replace, mkdir, write = Path.replace, Path.mkdir, Disk.write
        put = ObjectBlobStore.put

        def half_written(disk: Disk, path: Path, data: bytes) -> None:
            self.pass_by()
            path.write_bytes(data[: len(data) // 2])
            self.pass_by()
            write(disk, path, data)

        def put_around(store: ObjectBlobStore, sha256: str, data: Any) -> int:
            if self.is_full:
                if self.bucket and self.is_reached():
                    fill_bucket(self.bucket)
                return put(store, sha256, data)  # into a folder: what it calls may fail
            self.is_reached()
            count = put(store, sha256, data)
            self.is_reached()
            return count

        def before(call: Callable[..., Any]) -> Callable[..., Any]:
            def stop_and_call(*args: Any, **options: Any) -> Any:
                self.pass_by()
                return call(*args, **options)

            return stop_and_call

        os.fsync = before(lambda _: None)
        Path.replace = before(replace)  # type: ignore[method-assign]
        Path.mkdir = before(mkdir)  # type: ignore[method-assign]
        Disk.write = half_written  # type: ignore[method-assign, assignment]
        ObjectBlobStore.put = put_around  # type: ignore[method-assign, assignment]
        uploads._append = before(uploads._append)
        event.listen(Engine, "before_cursor_execute", self._at_statement, retval=True)
        event.listen(Engine, "commit", self._at_commit)

    def _at_statement(
        self, connection: Connection, _cursor: object, statement: str, parameters: Any, *_: object
    ) -> tuple[str, Any]:
        if not self.is_full:
            self.is_reached()
        elif connection.dialect.name == "postgresql" and statement.startswith(WRITING) and self.is_reached():
            return REFUSED_BY_POSTGRESQL, ()
        return statement, parameters

    def _at_commit(self, connection: Connection) -> None:
        if not self.is_reached():
            return
        if connection.dialect.name == "postgresql":
            with suppress(psycopg.OperationalError):
                connection.connection.cursor().execute("SELECT pg_terminate_backend(pg_backend_pid())")
        else:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


class Case:
    """One call of one server, on a copy of the world."""

    def __init__(self, job: dict[str, Any], folder: Path, database: str) -> None:
        self.job, self.folder = job, folder
        self.database: Path | str = database or folder / "data" / "alcove.db"
        self.keys = load_online_keys(Path(job["keys"]))
        self.version = job["version"]

    @asynccontextmanager
    async def server(self) -> AsyncIterator[tuple[Store, Repository, Mutations, VersionPublisher, PolicyPublisher]]:
        """What `serve.run` puts together, without ports."""
        store = await Store.open(self.database)
        try:
            lock = RepositoryLock(store)
            blobs = open_blob_store(self.job["blobs"]) if self.job["blobs"] else None
            tree = Repository(self.folder / "data" / "tree", keys=self.keys, blobs=blobs, files=LockedDisk(lock))
            publisher = PolicyPublisher(store, tree, lock)
            versions = VersionPublisher(store, tree, lock, SYSTEM_CLOCK, InThisProcess())
            mutations = Mutations(store, publisher, tree, SYSTEM_CLOCK)
            yield store, tree, mutations, versions, publisher
        finally:
            await store.close()

    async def call(self, tree: Repository, mutations: Mutations, versions: VersionPublisher) -> None:
        """Do what was asked, as the service does."""
        if self.job["call"] == "publish":
            set_principal(Principal("0" * 16, Role.parse("team:text")))
            for sha256, text in self.version["blobs"].items():
                data = bytes.fromhex(text)
                await receive_blob(
                    tree.blobs,
                    self.folder / "data" / "uploads",
                    sender="team:text",
                    sha256=sha256,
                    size_bytes=len(data),
                    chunks=_one(data),
                )
            service = RegistryService(mutations, versions, self.folder / "data" / "uploads")
            await service.PublishVersion(
                registry_pb.PublishVersionRequest(
                    request_id="the-one-request",
                    team_metadata=bytes.fromhex(self.version["signed"]),
                    manifest=bytes.fromhex(self.version["manifest"]),
                ),
                None,
            )
        else:
            set_principal(Principal("1" * 16, Role.parse("operator")))
            await RolloutService(mutations, None).AdvanceRollout(
                rollout_pb.AdvanceRolloutRequest(
                    request_id="the-one-request",
                    rollout_id=self.job["rollout"],
                    share_basis_points=10_000,
                    override_reason="test",
                ),
                None,
            )

    def is_in_tree(self, tree: Repository) -> bool:
        """Whether devices see what was asked for."""
        if self.job["call"] == "publish":
            return any(ref.version == self.version["number"] for ref in tree.versions(self.version["feature"]))
        policy = tree.policy(APP)
        return policy is not None and self.version["feature"] in policy.features

    async def work(self, points: Points, answer: int) -> None:
        """Start, then make the call; storage calls count from then on.  The answer is one byte."""
        async with self.server() as (_, tree, mutations, versions, _publisher):
            points.install()
            await self.call(tree, mutations, versions)
            os.write(answer, ACKNOWLEDGED)

    async def judge(self, *, is_acknowledged: bool) -> None:
        """Find a whole tree, restart, find everything whole; repeat the call, find it done once."""
        tree_folder = self.folder / "data" / "tree"
        plain = Repository(tree_folder, blobs=open_blob_store(self.job["blobs"]) if self.job["blobs"] else None)
        assert plain.check().problems == ()
        seen = self.is_in_tree(plain)
        assert seen or not is_acknowledged, "an acknowledged publication is lost"
        for device in ("device", "new device"):
            client = RepositoryClient(
                self.folder / device,
                FolderFetcher(tree_folder),
                "https://tree.invalid",
                (tree_folder / "metadata" / "1.root.json").read_bytes(),
                clock=SYSTEM_CLOCK,
            )
            client.refresh()
        async with self.server() as (store, tree, mutations, versions, publisher):
            await versions.reconcile()
            assert await publisher.flush() == {}
            report = await audit_store(store, tree)
            assert report.problems == (), report.problems
            assert self.is_in_tree(tree) >= seen
            await self.call(tree, mutations, versions)
            assert self.is_in_tree(tree)
            assert (await audit_store(store, tree)).problems == ()
            listed = [(item.feature, item.version) async for item in listed_manifests(store)]
            assert len(listed) == len(set(listed))
            async with store.read() as session:
                audit = await list_audit(session, Page(0, 1000))
            action = "publish version" if self.job["call"] == "publish" else "advance rollout"
            named = f"{self.version['feature']} {self.version['number']}"
            done = [e for e in audit if e.action == action and e.subject in (named, self.job["rollout"])]
            assert len(done) == 1, done
            assert find_garbage(tree, before_s=2**40) == []


async def _one(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _no_waiting(connection: Any, _record: object) -> None:
    if "sqlite" in type(connection).__module__:
        cursor = connection.cursor()
        cursor.execute("PRAGMA synchronous=OFF")
        cursor.close()


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


def reset_database(url: str) -> None:
    """Put the rows of the world back where the database is PostgreSQL; the first time, keep a copy of them."""
    if not url:
        return
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        tables = [name for (name,) in found]
        connection.execute("SET session_replication_role = replica")  # past every trigger
        if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'kept'").fetchall():
            connection.execute("CREATE SCHEMA kept")
            for name in tables:
                connection.execute(f"CREATE TABLE kept.{name} AS TABLE public.{name}".encode())
        connection.execute(f"TRUNCATE {', '.join(tables)}".encode())  # waits until a killed server's connection is gone
        for name in tables:
            connection.execute(f"INSERT INTO public.{name} SELECT * FROM kept.{name}".encode())


def reset_bucket(job: dict[str, Any]) -> None:
    """Take what the version brings out of the bucket; the folder's are a copy."""
    if job["blobs"] and job["call"] == "publish":
        blobs = open_blob_store(job["blobs"])
        for sha256 in job["version"]["blobs"]:
            blobs.remove(sha256)


def fill_bucket(bucket: str, *, is_full: bool = True) -> None:
    """Let the store refuse every object that is put into a bucket, or take them again (`testing/s3_server.py`)."""
    url = f"{os.environ['AWS_ENDPOINT_URL']}{FULL_PREFIX}{bucket}"
    asked = urllib.request.Request(url, method="PUT" if is_full else "DELETE")
    with urllib.request.urlopen(asked, timeout=30):
        pass


def main(job: dict[str, Any]) -> int:
    """End at each storage call in turn, or at each second one, until there are no more."""
    bucket = job["blobs"].removeprefix("s3://").partition("/")[0]
    for number in range(job["first"], 1000, job["step"]):
        folder = Path(job["work"]) / str(number)
        shutil.copytree(job["world"], folder)
        reset_database(job["database"])
        assert in_child(lambda: reset_bucket(job)) == 0
        case = Case(job, folder, job["database"])
        reading, writing = os.pipe()

        def work(case: Case = case, number: int = number, writing: int = writing) -> None:
            points = Points(number, is_full=job["is_full"], bucket=bucket)
            try:
                asyncio.run(case.work(points, writing))
            except (PlatformError, RegistryError):
                if not job["is_full"]:
                    raise
                os._exit(3)  # refused with an error of ours

        status = in_child(work)
        os.close(writing)
        is_acknowledged = os.read(reading, 1) == ACKNOWLEDGED
        os.close(reading)
        if bucket:
            fill_bucket(bucket, is_full=False)

        def judge(case: Case = case, is_acknowledged: bool = is_acknowledged) -> None:
            asyncio.run(case.judge(is_acknowledged=is_acknowledged))

        verdict = in_child(judge)
        line = {"at": number, "status": status, "is_acknowledged": is_acknowledged, "judged": verdict}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        shutil.rmtree(folder)
        if verdict != 0 or status == 0:
            return verdict
    return 1


if __name__ == "__main__":
    # A killed process loses nothing that it wrote: waiting for the disk shows nothing here (see test_power_cut.py).
    os.fsync = lambda _: None  # type: ignore[assignment]
    event.listen(Engine, "connect", _no_waiting)
    sys.exit(main(json.loads(sys.argv[1])))
