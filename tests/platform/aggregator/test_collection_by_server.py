"""`alcove serve` collects from two aggregator processes what devices sent, and decides from it."""

import asyncio
import time
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from alcove.platform.aggregator.collector import read_recipients
from alcove.platform.aggregator.problems import encode_id
from alcove.platform.client import Arm, ExperimentPlan, PlatformClient
from alcove.platform.server import serve
from alcove.platform.server.serve import run
from alcove.platform.server.settings import Settings
from alcove.platform.services.validation import InThisProcess
from alcove.platform.testing import ServerWorld
from alcove.platform.testing.aggregators import PATIENCE_S, AggregatorProcesses
from alcove.privacy.dap.messages import MEDIA_TYPE, UploadRequest
from alcove.privacy.dap.reports import make_report
from alcove.privacy.entropy import OsEntropy
from alcove.registry import program_validation, program_verification
from alcove.registry.policy import TaskPolicy
from alcove.registry.policy.dap import dap_time, idle_cell, make_dap_task
from alcove.registry.testing import FakeValidator, FakeVerifier
from alcove.runtime.testing_seams import ManualClock

FEATURE = "text_00"
ARMS = (
    Arm(name="control", version="1.0.0", share_basis_points=5000),
    Arm(name="larger", version="2.0.0", share_basis_points=5000),
)
COUNTS = (60, 20, 20, 60)
IDLE = 30


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerWorld:
    """A world for a server in this process, which takes pretended programs."""
    monkeypatch.setattr(program_verification, "RuntimeVerifier", FakeVerifier)
    monkeypatch.setattr(program_validation, "RuntimeValidator", FakeValidator)
    monkeypatch.setattr(serve, "ChildChecks", InThisProcess)
    return ServerWorld(tmp_path / "world", teams={"text": (FEATURE,)})


async def upload(task: TaskPolicy, urls: dict[str, str], clock: ManualClock) -> None:
    """Upload a device's report for each of `COUNTS` and of those with nothing to tell, as soon as the leader knows."""
    dap, time_of_task = make_dap_task(task), dap_time(task, 0)
    url = f"{urls['leader']}/tasks/{encode_id(dap.task_id)}/reports"
    headers = {"Content-Type": f"{MEDIA_TYPE};message=upload-req"}
    cells = [cell for cell, count in enumerate(COUNTS) for _ in range(count)] + [idle_cell(task)] * IDLE
    async with aiohttp.ClientSession() as session:
        recipients = await read_recipients(session, *urls.values())
        reports = tuple(make_report(dap, cell, time_of_task, recipients, OsEntropy()) for cell in cells)
        until_s, status = time.monotonic() + PATIENCE_S, 404
        while status == 404 and time.monotonic() < until_s:
            async with session.post(url, data=UploadRequest(reports).to_bytes(), headers=headers) as answer:
                status, refused = answer.status, await answer.read()
            await asyncio.sleep(0.1)
            clock.time_s += 1
    assert (status, refused) == (200, b"")


async def test_server_collects_what_devices_sent(world: ServerWorld, processes: AggregatorProcesses) -> None:
    """The window and the next one end: the results are the devices'; the window in which none reported waits."""
    clock = ManualClock(int(time.time()))
    settings = Settings(
        data_dir=world.data_dir,
        online_keys=world.online_keys,
        grpc_port=0,
        only="grpc",
        aggregators=processes.folder / "collector" / "collector.json",
        analysis_interval_s=0.1,
        metrics_port=0,
    )
    async with run(settings, clock) as running:
        team_token, token = [await asyncio.to_thread(world.token, role) for role in ("team:text", "operator")]
        with PlatformClient(running.grpc_address, team_token, timeout_s=60) as team:
            for version in ("1.0.0", "2.0.0"):
                await asyncio.to_thread(world.publish, team, FEATURE, version)
        with PlatformClient(running.grpc_address, token, timeout_s=60) as operator:

            async def call(method: str, *given: Any, **options: Any) -> Any:
                return await asyncio.to_thread(getattr(operator, method), *given, **options)

            plan = ExperimentPlan(mde=0.2)
            draft = await call("create_experiment", "mail", FEATURE, ARMS, window_s=3600, minimum_cohort=50, plan=plan)
            await call("start_experiment", draft.experiment_id)
            policy = world.tree.policy("mail")
            assert policy is not None
            await upload(policy.features[FEATURE].experiments[0].tasks[0], processes.urls, clock)
            clock.time_s += 3 * 3600
            until_s = time.monotonic() + PATIENCE_S
            reasons = {""}
            while reasons != {"invalidBatchSize: fewer than 100 reports"}:
                assert time.monotonic() < until_s, reasons
                await asyncio.sleep(0.1)
                clock.time_s += 1
                found = (await call("results", draft.experiment_id)).results
                reasons = {window.reason for window in found.collection.uncollected}
        collection = found.collection
        assert (collection.collected_count, collection.missing_count, collection.problem) == (1, 0, "")
        assert collection.waiting_count == len(collection.uncollected)
        assert running.metrics_url is not None
        async with aiohttp.ClientSession() as session, session.get(running.metrics_url) as answer:
            page = await answer.text()
        assert 'alcove_windows{state="collected"} 1.0' in page
        assert "alcove_leader_away 0.0" in page
        # Noise of both, scale 2 each: beyond 100 with a probability below 1e-20.
        assert np.abs(np.array(found.cell_counts) - COUNTS).max() < 100
        assert abs(found.report_count - sum(COUNTS)) < 100
    assert [processes.stop(seat) for seat in ("leader", "helper")] == [0, 0]
