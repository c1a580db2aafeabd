"""Gives a test an ingress in its own process: a tree, a database with a running experiment, and a port."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alcove.platform.domain.experiments.machine import mark_started
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState
from alcove.platform.ingress.serve import Ingress, run_ingress
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.listening.http import listen_http
from alcove.platform.store import Store
from alcove.platform.store.experiments import add_experiment, save_experiment
from alcove.platform.store.reports import cell_counts
from alcove.platform.store.versions import add_version, find_version
from alcove.registry.policy import TaskPolicy
from alcove.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["RunningIngress", "ask", "post", "record", "run_experiment", "running_ingress"]

TIMESTAMP = b'{"signatures": [], "signed": {}}'
BLOB = "ab" * 32
BLOB_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class RunningIngress:
    """An ingress, and what it counts for.

    Attributes:
        ingress: the ingress itself.
        store: the database, as its owner.
        task: of an experiment that runs.
    """

    ingress: Ingress
    store: Store
    task: TaskPolicy

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return int(self.ingress.http_url.rpartition(":")[2])

    async def count_reports(self) -> int:
        """Return how many reports the database holds of the task."""
        async with self.store.read() as session:
            return sum(await cell_counts(session, self.task.task_id, self.task.cell_count))


@asynccontextmanager
async def running_ingress(folder: Path, clock: Clock = SYSTEM_CLOCK, **settings: Any) -> AsyncIterator[RunningIngress]:
    """Run an ingress in this process, on a folder that is made a data folder with a few files to send."""
    tree = folder / "tree"
    (tree / "metadata").mkdir(parents=True)
    (tree / "blobs").mkdir()
    (tree / "metadata" / "timestamp.json").write_bytes(TIMESTAMP)
    (tree / "blobs" / BLOB).write_bytes(bytes(BLOB_BYTES))
    given = IngressSettings.model_validate({"data_dir": folder, **settings})
    store = await Store.open(given.database)
    try:
        task = await run_experiment(store)
        with listen_http("127.0.0.1", 0) as listener:
            async with run_ingress(given, listener, clock) as ingress:
                yield RunningIngress(ingress, store, task)
    finally:
        await store.close()


async def run_experiment(store: Store, experiment_id: str = "ex-1", *, begun_s: int | None = None) -> TaskPolicy:
    """Return the task of an experiment that the database says is running since `begun_s` (None: since now)."""
    arms = tuple(ArmRecord(name, f"{name}.0.0", "0" * 64, 5000) for name in ("1", "2"))
    draft = ExperimentRecord(
        sequence=0, experiment_id=experiment_id, app=f"app-{experiment_id}", feature="f", salt="salt", arms=arms,
        state=ExperimentState.DRAFT, epsilon="2", latency_edges_ms=(), window_s=3600, minimum_cohort=100,
        created_at_s=1, started_at_s=None, stopped_at_s=None, task_id=None, decision=None, policy_serial=0,
    )  # fmt: skip
    async with store.write() as session:
        if await find_version(session, "f", "1.0.0") is None:
            await add_version(
                session, feature="f", version="1.0.0", team="t", manifest_sha256="0" * 64,
                manifest=b'{"variants":[]}', published_at_s=1,
            )  # fmt: skip
        running = mark_started(
            await add_experiment(session, draft), now_s=SYSTEM_CLOCK.now_s() if begun_s is None else begun_s
        )
        await save_experiment(session, running)
    return task_of(running)


def record(task: TaskPolicy, window: int = 0, cell: int = 0) -> bytes:
    """Return one report on the wire."""
    return struct.pack("<32sIH", bytes.fromhex(task.task_id), window, cell)


async def ask(port: int, request: bytes, *, source: str = "127.0.0.1") -> tuple[int, bytes]:
    """Send bytes as they are from an address of this machine; return status and all that came, 0 if nothing did."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        try:
            writer.write(request)
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
        finally:
            writer.close()
    except (ConnectionError, asyncio.IncompleteReadError):
        return 0, b""
    return int(head.split(b" ", 2)[1]), head


def post(body: bytes, *headers: str, length: int | None = None) -> bytes:
    """Return a POST of reports with these headers, a device's own where none is given."""
    lines = headers or ("Content-Type: application/octet-stream",)
    length_header = f"Content-Length: {len(body) if length is None else length}"
    return "\r\n".join(["POST /reports HTTP/1.1", "Host: a", *lines, length_header, "", ""]).encode() + body
