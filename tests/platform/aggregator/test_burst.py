"""Ten times what an aggregator stores in time: each report is acknowledged and counted, or refused and kept."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from alcove.platform.aggregator import uploads
from alcove.platform.aggregator.batches import compute_checksum, sum_batch
from alcove.platform.aggregator.store import AggregatorDatabase, run_in
from alcove.privacy.dap.messages import CHECKSUM_BYTES, Report, UploadRequest
from alcove.privacy.dap.release import Release
from sqlalchemy.ext.asyncio import AsyncSession

from tests.platform.aggregator.pair import TASK, Seats
from tests.platform.aggregator.test_app import TASK_PATH, _type_header, serve_seats
from tests.privacy.dap.party import TIME

COUNTS = (40, 30, 50, 40)


@dataclass
class SlowDatabase(AggregatorDatabase):
    """A database whose writers wait until they may go on."""

    inner: AggregatorDatabase
    may_go_on: asyncio.Event

    @asynccontextmanager
    async def read(self, *, is_long: bool = False) -> AsyncIterator[AsyncSession]:
        """Give a session."""
        async with self.inner.read(is_long=is_long) as session:
            yield session

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Give a session when its time has come."""
        await self.may_go_on.wait()
        async with self.inner.write() as session:
            yield session


async def checksums(seats: Seats) -> list[bytes]:
    """Return the checksum of the window at both aggregators."""
    opened = await seats.book.find(TASK.task_id)
    found = []
    for database in (seats.leader_database, seats.helper_database):
        async with database.read() as session:
            batch = await run_in(session, sum_batch, opened.verifier, TASK.task_id, TIME, TIME + 1)
            found.append(batch.checksum)
    return found


async def test_burst_is_stored_or_asked_to_come_again(files: Seats, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for 16 of 160 that come at once: the others get Retry-After, and nothing acknowledged is missing."""
    monkeypatch.setattr(uploads, "WAITING_MOST", 16)
    monkeypatch.setattr(uploads, "AT_ONCE", 4)
    gate = asyncio.Event()
    gate.set()
    monkeypatch.setattr(files, "leader_database", SlowDatabase(files.leader_database, gate))
    files.restart()
    reports = [files.report(cell, f"{cell} {number}") for cell, count in enumerate(COUNTS) for number in range(count)]
    acknowledged: set[bytes] = set()

    async with serve_seats(files) as served:
        url = f"{served.leader}/{TASK_PATH}/reports"
        arrived = asyncio.Semaphore(0)

        async def send(report: Report) -> None:
            body = io.BytesIO(UploadRequest((report,)).to_bytes())
            async with served.session.post(url, data=body, headers=_type_header("upload-req")) as answer:
                if answer.status == 200:
                    assert await answer.read() == b""
                    acknowledged.add(report.metadata.report_id)
                else:
                    assert answer.status == 503
                    assert int(answer.headers["Retry-After"]) > 0
                    arrived.release()

        gate.clear()
        first = [asyncio.create_task(send(report)) for report in reports]
        for _ in range(len(reports) - 16 - 4):
            await arrived.acquire()
        gate.set()
        await asyncio.gather(*first)
        assert 16 <= len(acknowledged) <= 16 + 4
        waiting = [report for report in reports if report.metadata.report_id not in acknowledged]
        assert (await files.upload(*reports[:1])) == ()  # a device that lost the answer
        await files.aggregate()
        assert await checksums(files) == [compute_checksum(bytes(CHECKSUM_BYTES), acknowledged)] * 2
        while waiting:
            await asyncio.gather(*map(send, waiting[:16]))
            waiting = [report for report in waiting if report.metadata.report_id not in acknowledged]
    await files.aggregate()
    every = {report.metadata.report_id for report in reports}
    assert await checksums(files) == [compute_checksum(bytes(CHECKSUM_BYTES), every)] * 2
    assert await files.collect() == Release(160, TIME, 1, COUNTS)
