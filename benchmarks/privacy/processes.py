"""Runs a leader and a helper as processes of their own, on ports of loopback, as `alcove aggregator` starts them."""

import asyncio
import io
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
from alcove.platform.aggregator.collector import CollectorClient, read_collector_config, read_recipients
from alcove.platform.aggregator.problems import DapProblem, ProblemType, encode_id
from alcove.platform.aggregator.provisioning import create_pair
from alcove.privacy.dap.messages import MEDIA_TYPE, Report, UploadRequest
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.reports import Recipients
from alcove.privacy.dap.task import DapTask

SEATS: Final = ("leader", "helper")
WAIT_S: Final = 300
UPLOAD_REPORTS: Final = 500


class Processes:
    """Both aggregators below a folder, which run until the block is left.

    Attributes:
        folder: leader/ and helper/ with their rows and keys, collector/, and a log of each.
        urls: where they answer.
        pids: their processes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        with _free_ports() as ports:
            self.urls = {seat: f"http://127.0.0.1:{port}" for seat, port in zip(SEATS, ports, strict=True)}
        create_pair(folder, *self.urls.values())

    def __enter__(self) -> Self:
        """Start both, and wait until they answer."""
        for seat in SEATS:
            command = [sys.executable, "-m", "alcove.platform.cli.entry", "aggregator", seat]
            options = ["--data-dir", str(self.folder / seat)]  # it finds its port in its URL
            with self.log(seat).open("wb") as log:
                process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log)
            self._running.append(process)
            if process.stdout is None or not process.stdout.readline():
                raise RuntimeError(f"the {seat} does not start: {self.log(seat).read_text()}")
        self.pids = {seat: process.pid for seat, process in zip(SEATS, self._running, strict=True)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop both."""
        for process in self._running:
            process.terminate()
            process.wait(WAIT_S)
            if process.stdout is not None:
                process.stdout.close()

    def log(self, seat: str) -> Path:
        """Return where an aggregator's log is."""
        return self.folder / f"{seat}.log"


@asynccontextmanager
async def open_exchange(processes: Processes) -> AsyncIterator["Exchange"]:
    """Give a way to ask both processes; each request has a connection of its own, as devices have."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        yield Exchange(session, processes)


class Exchange:
    """What devices and the collector ask of both processes."""

    def __init__(self, session: aiohttp.ClientSession, processes: Processes) -> None:
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
            await asyncio.sleep(0.02)
        raise RuntimeError(f"no release within {WAIT_S} s")


@contextmanager
def _free_ports() -> Iterator[tuple[int, int]]:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        yield first.getsockname()[1], second.getsockname()[1]
