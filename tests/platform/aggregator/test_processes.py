"""Two aggregator processes with real sockets and files of their own: what devices send comes out as noised sums."""

import asyncio
import io
import json
import time

import aiohttp
import pytest
from alcove.platform.aggregator.collector import CollectorClient, read_collector_config, read_recipients
from alcove.platform.aggregator.problems import DapProblem, ProblemType, encode_id
from alcove.platform.testing.aggregators import PATIENCE_S, AggregatorProcesses
from alcove.privacy.dap.messages import MEDIA_TYPE, Report, UploadErrors, UploadRequest
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.reports import Recipients, make_report
from alcove.privacy.dap.task import DapTask
from alcove.privacy.entropy import OsEntropy

from tests.privacy.dap.party import make_task

WINDOW_S = 3600
COUNTS = (70, 0, 40, 10)
SECRETS = ("verify_secret", "leader_token", "collector_token", "private_key")


def _make_task(processes: AggregatorProcesses, cells: int = 4) -> DapTask:
    """Return a task that these two take part in."""
    urls = processes.urls
    return make_task(cells=cells, window_s=WINDOW_S, leader_url=urls["leader"], helper_url=urls["helper"])


def _make_session() -> aiohttp.ClientSession:
    """Return a session whose connections are new each time: the processes behind them are killed."""
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))


def _reports(task: DapTask, recipients: Recipients) -> list[Report]:
    now = task.time_at(time.time())
    return [
        make_report(task, cell, now, recipients, OsEntropy()) for cell, count in enumerate(COUNTS) for _ in range(count)
    ]


async def _upload(session: aiohttp.ClientSession, url: str, task: DapTask, reports: list[Report]) -> bytes:
    headers = {"Content-Type": f"{MEDIA_TYPE};message=upload-req"}
    body = UploadRequest(tuple(reports)).to_bytes()
    place = f"{url}/tasks/{encode_id(task.task_id)}/reports"
    async with session.post(place, data=io.BytesIO(body), headers=headers) as answer:
        assert answer.status == 200
        return await answer.read()


async def _collect(client: CollectorClient, task: DapTask, time_of_task: int) -> Release:
    """Ask until there is a release, or patience is over."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        try:
            found = await client.collect(task, time_of_task - 1, 3)
        except DapProblem as problem:
            if problem.kind is not ProblemType.INVALID_BATCH_SIZE:
                raise
            found = None
        if found is not None:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError("no release in time")


async def test_batch_goes_from_devices_to_the_collector_though_both_are_killed(processes: AggregatorProcesses) -> None:
    """Half of the reports, both killed, started again, the other half: all are in the release, within the noise."""
    task = _make_task(processes)
    config = read_collector_config(processes.folder / "collector" / "collector.json")
    async with _make_session() as session:
        client = CollectorClient(session, config)
        await client.announce(task)
        reports = _reports(task, await read_recipients(session, *processes.urls.values()))
        assert await _upload(session, processes.urls["leader"], task, reports[:60]) == b""
        for seat in ("helper", "leader"):
            processes.kill(seat)
        for seat in ("leader", "helper"):
            processes.start(seat)
        assert await _upload(session, processes.urls["leader"], task, reports) == b""
        found = await _collect(client, task, reports[0].metadata.time)
        assert found.reports == sum(COUNTS)
        # Noise of both, scale 2 each: beyond 120 with a probability below 1e-24.
        assert all(abs(total - count) < 120 for total, count in zip(found.sums, COUNTS, strict=True))
        assert await _collect(client, task, reports[0].metadata.time) == found
        late = await _upload(
            session,
            processes.urls["leader"],
            task,
            _reports(task, await read_recipients(session, *processes.urls.values()))[:1],
        )
        assert len(UploadErrors.from_bytes(late).status) == 1
    assert [processes.stop(seat) for seat in ("leader", "helper")] == [0, 0]


@pytest.mark.thorough
async def test_uploads_and_jobs_of_many_large_reports_arrive(processes: AggregatorProcesses) -> None:
    """600 reports of 64 cells: more than 1 MB at the leader and 280 kB a job at the helper, each in one request."""
    task = _make_task(processes, cells=64)
    config = read_collector_config(processes.folder / "collector" / "collector.json")
    now = task.time_at(time.time())
    async with _make_session() as session:
        client = CollectorClient(session, config)
        await client.announce(task)
        recipients = await read_recipients(session, *processes.urls.values())
        reports = [make_report(task, cell % 64, now, recipients, OsEntropy()) for cell in range(600)]
        assert await _upload(session, processes.urls["leader"], task, reports) == b""
        assert (await _collect(client, task, now)).reports == 600


async def test_logs_hold_no_address_and_no_secret_and_files_are_their_owners(processes: AggregatorProcesses) -> None:
    """Of a whole batch, with a stranger's bad token between: no address, no token, no key, no report in the logs."""
    task = _make_task(processes)
    config = read_collector_config(processes.folder / "collector" / "collector.json")
    async with _make_session() as session:
        client = CollectorClient(session, config)
        await client.announce(task)
        reports = _reports(task, await read_recipients(session, *processes.urls.values()))
        await _upload(session, processes.urls["leader"], task, reports)
        headers = {"Authorization": "Bearer stranger"}
        async with session.post(f"{processes.urls['leader']}/tasks/x/collection_jobs", headers=headers) as refused:
            assert refused.status == 401
        await _collect(client, task, reports[0].metadata.time)
    secrets = {"stranger", encode_id(task.task_id), reports[0].metadata.report_id.hex()}
    for path in processes.folder.rglob("*.json"):
        fields = json.loads(path.read_text())
        secrets |= {fields[name] for name in SECRETS if name in fields}
    assert len(secrets) == 3 + len(SECRETS) + 4  # an HPKE key of each party, and of each gateway
    for seat in ("leader", "helper"):
        assert processes.stop(seat) == 0
        log = (processes.folder / f"{seat}.log").read_text()
        assert "127.0.0.1" not in log.replace(processes.urls[seat], "")
        assert not [secret for secret in secrets if secret in log]
        for path in (processes.folder / seat).rglob("*"):
            if path.is_file():
                assert path.stat().st_mode & 0o077 == 0, path
