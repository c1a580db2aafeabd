"""Runs a leader and a helper as processes of their own, and asks them what devices and the collector ask."""

import asyncio
import io
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import aiohttp
from alcove.platform.aggregator.collector import CollectorClient, read_collector_config, read_recipients
from alcove.platform.aggregator.problems import DapProblem, ProblemType, encode_id
from alcove.platform.testing.aggregators import AggregatorProcesses
from alcove.privacy.dap.messages import MEDIA_TYPE, Report, UploadRequest
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.reports import Recipients
from alcove.privacy.dap.task import DapTask

SEATS: Final = ("leader", "helper")
WAIT_S: Final = 300
UPLOAD_REPORTS: Final = 500

ASK_AGAIN_S: Final = 0.1
"""Seconds between two requests for a batch: each takes the leader a millisecond, which is not what is measured."""


@contextmanager
def run_aggregators(folder: Path) -> Iterator[AggregatorProcesses]:
    """Give both aggregators below a folder, which run until the block is left."""
    processes = AggregatorProcesses(folder)
    try:
        for seat in SEATS:
            processes.start(seat, "--behind-proxy", "127.0.0.1")  # one address sends what a city does
        yield processes
    finally:
        for seat in list(processes.running):
            processes.stop(seat)


@asynccontextmanager
async def open_exchange(processes: AggregatorProcesses) -> AsyncIterator["Exchange"]:
    """Give a way to ask both processes; each request has a connection of its own, as devices have."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        yield Exchange(session, processes)


class Exchange:
    """What devices and the collector ask of both processes."""

    def __init__(self, session: aiohttp.ClientSession, processes: AggregatorProcesses) -> None:
        self._session = session
        self._urls = processes.urls
        config = read_collector_config(processes.folder / "collector" / "collector.json")
        self._collector = CollectorClient(session, config)

    async def announce(self, task: DapTask) -> Recipients:
        """Let both take part in a task, and return their keys."""
        await self._collector.announce(task)
        return await read_recipients(self._session, *self._urls.values())

    async def upload(self, task: DapTask, reports: Sequence[Report]) -> None:
        """Send reports, some hundreds in a request.

        Raises:
            RuntimeError: one was refused.
        """
        url = f"{self._urls['leader']}/tasks/{encode_id(task.task_id)}/reports"
        headers = {"Content-Type": f"{MEDIA_TYPE};message=upload-req"}
        for first in range(0, len(reports), UPLOAD_REPORTS):
            body = UploadRequest(tuple(reports[first : first + UPLOAD_REPORTS])).to_bytes()
            async with self._session.post(url, data=io.BytesIO(body), headers=headers) as answer:
                if answer.status != 200 or await answer.read():
                    raise RuntimeError(f"reports are refused: status {answer.status}")

    async def collect(self, task: DapTask, time_of_task: int) -> Release:
        """Return what both release of a window, as soon as they do."""
        until_s = time.monotonic() + WAIT_S
        while time.monotonic() < until_s:
            try:
                found = await self._collector.collect(task, time_of_task, 1)
            except DapProblem as problem:
                if problem.kind is not ProblemType.INVALID_BATCH_SIZE:
                    raise
                found = None
            if found is not None:
                return found
            await asyncio.sleep(ASK_AGAIN_S)
        raise RuntimeError(f"no release within {WAIT_S} s")
