"""Puts a leader, a helper and their collector together in one process, without sockets, from the product's parts."""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from alcove.platform.aggregator.aggregation import Aggregation
from alcove.platform.aggregator.collection import Collection
from alcove.platform.aggregator.collector import CollectorConfig, read_collector_config
from alcove.platform.aggregator.config import read_config
from alcove.platform.aggregator.helper import Helper
from alcove.platform.aggregator.keys import read_keys
from alcove.platform.aggregator.noise import NoiseSource
from alcove.platform.aggregator.provisioning import create_pair
from alcove.platform.aggregator.store import AggregatorDatabase
from alcove.platform.aggregator.store.tables import BucketRow
from alcove.platform.aggregator.tasks import OpenTask, TaskBook
from alcove.platform.aggregator.token_keys import TokenKeys
from alcove.platform.aggregator.uploads import Uploads
from alcove.platform.store.dialects import join_sqlite
from alcove.privacy.dap.messages import BatchMode, CollectionJobReq, Interval, Query, UploadRequest
from alcove.privacy.dap.release import center
from alcove.privacy.dap.reports import Recipients
from alcove.privacy.dap.task import DapTask
from alcove.privacy.entropy import OsEntropy
from alcove.registry.policy import TaskPolicy, make_task
from alcove.registry.policy.dap import dap_time, idle_cell, make_dap_task
from alcove.runtime.testing_seams import ManualClock
from alcove.sdk.prio3_reports import make_window_report
from sqlalchemy import select

LEADER_URL, HELPER_URL = "https://leader.example", "https://helper.example"
WINDOW_S: Final = 86_400
TIME: Final = 20_000
"""Of the task, now."""

FIRST_TIME: Final = 10_000
"""When the task began: windows from then on are open."""

FIRST: Final = (30, 30, 20, 10, 10)
"""Devices in each cell, the last one being that of idle devices: a batch of 100."""

SECOND: Final = (29, 31, 20, 10, 10)
"""The same where one device reports another cell."""


class DirectHelper:
    """The helper without a network between."""

    def __init__(self, helper: Helper, book: TaskBook, clock: ManualClock) -> None:
        self._helper = helper
        self._book = book
        self._clock = clock

    async def aggregate(self, task: DapTask, request: bytes) -> bytes:
        """Answer an aggregation job."""
        return (await self._helper.aggregate(await self._open(task), request))[1]

    async def release(self, task: DapTask, request: bytes) -> bytes:
        """Answer a request for a batch."""
        return (await self._helper.release(await self._open(task), request))[1]

    async def _open(self, task: DapTask) -> OpenTask:
        return await self._book.announce(task.task_id, task.encoded, self._clock.now_s())


@dataclass(frozen=True)
class Seats:
    """Both aggregators, the collector's key, and a task in which they take part.

    Attributes:
        policy_task: two arms by two outcomes, for devices.
        task: the same in DAP.
        opened: the same, as the leader has it.
        recipients: keys for the devices.
        collector: of whom the sums are.
        leader_database: the leader's rows.
        helper_database: the helper's.
        uploads: the leader, for devices.
        aggregation: the leader's jobs with the helper.
        collection: the leader, for the collector.
        helper: the helper.
    """

    policy_task: TaskPolicy
    task: DapTask
    opened: OpenTask
    recipients: Recipients
    collector: CollectorConfig
    leader_database: AggregatorDatabase
    helper_database: AggregatorDatabase
    uploads: Uploads
    aggregation: Aggregation
    collection: Collection
    helper: Helper

    async def aggregate(self, counts: Sequence[int], time: int) -> None:
        """Let as many devices report each cell as `counts` says, and let both aggregators add their reports."""
        window = time - dap_time(self.policy_task, 0)
        cells = [cell for cell, count in enumerate(counts) for _ in range(count)]
        reports = tuple(
            make_window_report(
                self.policy_task,
                self.task,
                window,
                None if cell == idle_cell(self.policy_task) else cell,
                recipients=self.recipients,
                entropy=OsEntropy(),
            )
            for cell in cells
        )
        refused = await self.uploads.take(self.opened, UploadRequest(reports).to_bytes())
        while await self.aggregation.run_job():
            pass
        if refused or self.aggregation.rejected:
            raise RuntimeError(f"reports are left out: {refused}, {self.aggregation.rejected}")

    async def read_buckets(self, time: int) -> tuple[BucketRow, BucketRow]:
        """Return what the leader and the helper hold of a window."""
        rows = []
        for database in (self.leader_database, self.helper_database):
            async with database.read() as session:
                rows.append((await session.scalars(select(BucketRow).where(BucketRow.time == time))).one())
        return rows[0], rows[1]

    def decode(self, share: bytes) -> list[int]:
        """Return the elements of a share."""
        return self.task.circuit.field.decode(share, self.task.circuit.output_length)

    def subtract(self, share: bytes, other: bytes) -> tuple[int, ...]:
        """Return the integers by which two shares differ."""
        field = self.task.circuit.field
        return center(field.subtract(self.decode(share), self.decode(other)), field.modulus)

    def add(self, share: bytes, other: bytes) -> tuple[int, ...]:
        """Return the integers that two shares are of."""
        field = self.task.circuit.field
        return center(field.add(self.decode(share), self.decode(other)), field.modulus)


def make_request(time: int) -> CollectionJobReq:
    """Return the collector's request for one window."""
    return CollectionJobReq(Query(BatchMode.TIME_INTERVAL, Interval(time, 1).to_bytes()), b"", ())


def make_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder in memory where the system has one, so that no disk is waited for."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


@asynccontextmanager
async def open_seats(
    folder: Path, epsilon: Fraction, leader_noise: NoiseSource, helper_noise: NoiseSource
) -> AsyncIterator[Seats]:
    """Give both aggregators over fresh databases in a folder, configured as `alcove aggregator create` does it."""
    create_pair(folder, LEADER_URL, HELPER_URL, min_batch_size=sum(FIRST))
    collector = read_collector_config(folder / "collector" / "collector.json")
    clock = ManualClock(TIME * WINDOW_S + WINDOW_S // 2)
    policy_task = make_task(
        experiment_id="audit",
        epsilon=str(epsilon),
        arm_count=2,
        latency_edges_ms=(),
        window_s=WINDOW_S,
        first_window_start_s=FIRST_TIME * WINDOW_S,
        aggregation=collector.aggregation,
    )
    task = make_dap_task(policy_task)
    configs = [read_config(folder / seat / "aggregator.json") for seat in ("leader", "helper")]
    rings = [read_keys(folder / seat / "keys", clock.now_s()) for seat in ("leader", "helper")]
    databases = [await _open_database(folder / seat / "aggregator.db") for seat in ("leader", "helper")]
    books = [TaskBook(database, config) for database, config in zip(databases, configs, strict=True)]
    token_keys = [TokenKeys(database, None, clock) for database in databases]  # the task asks for no tokens
    helper = Helper(databases[1], configs[1], lambda: rings[1], token_keys[1], clock, noise=helper_noise)
    port = DirectHelper(helper, books[1], clock)
    try:
        yield Seats(
            policy_task,
            task,
            await books[0].announce(task.task_id, task.encoded, clock.now_s()),
            Recipients(rings[0].configs.configs[0], rings[1].configs.configs[0]),
            collector,
            databases[0],
            databases[1],
            Uploads(databases[0], lambda: rings[0], token_keys[0], clock),
            Aggregation(databases[0], books[0], lambda: rings[0], port, clock=clock),
            Collection(databases[0], configs[0], books[0], port, clock=clock, noise=leader_noise),
            helper,
        )
    finally:
        for database in databases:
            await database.close()


async def _open_database(path: Path) -> AggregatorDatabase:
    """Return a migrated database whose transactions run in this thread, as `alcove ingress` has them: it takes half."""
    await (await AggregatorDatabase.open(path)).close()
    return AggregatorDatabase(*join_sqlite(str(path)), where=str(path))
