"""Attack: anonymous senders ask for all that they can, so that operators and devices get nothing.

Devices are answered by a process of their own, which is nicer to others than operators' is, holds the database for a
part of the time, and gives each address a share.  The floods are those of docs/robustness.md.
"""

import asyncio
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from alcove.platform.client import Arm
from alcove.platform.domain.errors import StoreBusyError
from alcove.platform.ingress import reports
from alcove.platform.ingress.reports import ReportCollector
from alcove.platform.store import Store
from alcove.platform.store.reports import add_counts
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.floods import HTTP_KINDS, command
from alcove.platform.testing.ingress import record, run_experiment
from alcove.runtime.clock import SYSTEM_CLOCK
from sqlalchemy import text

TEAMS = {"text": ("text_00",)}
FLOOD_S = 12.0
OPERATIONS = 20
MEMORY_MB = 300  # more of the devices' process than it has when nobody asks; places times what a place may hold


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerWorld, Served]]:
    """A server whose devices have limits by address, with two versions."""
    world = ServerWorld(tmp_path_factory.mktemp("flood") / "world", teams=TEAMS)
    served = world.start("--behind-proxy", "")
    with world.client(served, "team:text") as team:
        for version in ("1.0.0", "2.0.0"):
            world.publish(team, "text_00", version)
    yield world, served
    assert served.stop() == 0


def devices_pid(served: Served) -> int:
    """The process that answers devices."""
    tasks = Path(f"/proc/{served.pid}/task").iterdir()
    (child,) = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return child


def memory_mb(pid: int) -> float:
    """The most memory that a process has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024


def operate(world: ServerWorld, served: Served, count: int) -> None:
    """Change something, and read it, `count` times: each within the deadline that clients have."""
    with world.client(served, "operator") as operator:
        for _ in range(count):
            rollout = operator.create_rollout("app", "text_00", "1.0.0")
            assert operator.rollout(rollout.rollout_id).state == "draft"


def check_in(served: Served) -> None:
    """Ask what is new, as a device of another address does."""
    with urllib.request.urlopen(f"{served.http_url}/metadata/timestamp.json", timeout=30) as answer:
        assert answer.read()


def test_operators_do_not_need_the_devices_process(flooded: tuple[ServerWorld, Served]) -> None:
    """Stopped in the middle of anything, for good as far as they can tell: every change of theirs goes through."""
    world, served = flooded
    os.kill(devices_pid(served), signal.SIGSTOP)
    try:
        operate(world, served, 3)
    finally:
        os.kill(devices_pid(served), signal.SIGCONT)
    check_in(served)


async def test_reports_hold_the_database_a_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come and however long a transaction takes, PAUSE times as long belongs to others."""
    now_s, transactions = 0.0, 0
    slept: list[float] = []
    store = await Store.open(tmp_path / "alcove.db")
    task = await run_experiment(store)

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        slept.append(seconds)
        now_s += seconds
        await asyncio.sleep(0)

    collector = ReportCollector(store, SYSTEM_CLOCK, lambda: now_s, sleep)
    counted = add_counts

    async def slow(*arguments: object) -> None:
        nonlocal now_s, transactions
        now_s, transactions = now_s + 0.5, transactions + 1
        await counted(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(reports, "add_counts", slow)
    await asyncio.gather(*(collector.collect(record(task, cell=number % 4)) for number in range(reports.AT_ONCE * 3)))
    await collector.close()
    assert collector.counted == reports.AT_ONCE * 3
    assert transactions >= 3
    assert [pause for pause in slept if pause >= 0.5 * reports.PAUSE] == [0.5 * reports.PAUSE] * transactions
    await store.close()


async def test_what_waits_is_bounded_and_gives_way_to_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While an operator writes, a bounded number waits; more are refused at once, all after BUSY_S."""
    monkeypatch.setattr(reports, "BUSY_S", 0.2)
    monkeypatch.setattr(reports, "WAITING_MOST", 50)
    owner = await Store.open(tmp_path / "alcove.db")
    task = await run_experiment(owner)
    guest = await Store.join(tmp_path / "alcove.db")
    collector = ReportCollector(guest, SYSTEM_CLOCK)
    async with owner.write() as session:
        await session.execute(text("SELECT 1"))  # begins
        tried = await asyncio.gather(*(collector.collect(record(task)) for _ in range(200)), return_exceptions=True)
        assert all(isinstance(one, StoreBusyError) for one in tried)
    await collector.close()
    await asyncio.gather(*(collector.collect(record(task)) for _ in range(50)))
    assert collector.counted == 50
    await collector.close()
    await guest.close()
    await owner.close()


@pytest.mark.attack
@pytest.mark.parametrize("kind", HTTP_KINDS)
def test_operators_and_devices_are_served_during_a_flood(flooded: tuple[ServerWorld, Served], kind: str) -> None:
    """Of each kind, from eight addresses: every change goes through, check-ins are answered, memory is bounded."""
    world, served = flooded
    app = f"app-{kind.replace(' ', '-')}"
    with world.client(served, "team:text") as team:
        large = team.upload_blob(os.urandom(16 * 1024 * 1024))
    with world.client(served, "operator") as operator:
        arms = [Arm(name=name, version=f"{name}.0.0", share_basis_points=5000) for name in ("1", "2")]
        draft = operator.create_experiment(app, "text_00", arms, epsilon="2")
        operator.start_experiment(draft.experiment_id)
    policy = world.tree.policy(app)
    assert policy is not None
    (experiment,) = policy.features["text_00"].experiments
    before_mb = memory_mb(devices_pid(served))
    environment = os.environ | {"FLOOD_BLOB": large, "FLOOD_REPORT": record(experiment.tasks[0]).hex()}
    flood = command(kind, served.http_url, served.grpc_address, FLOOD_S)
    with subprocess.Popen(flood, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for _ in range(OPERATIONS):
            operate(world, served, 1)
            check_in(served)
        output, _ = process.communicate(timeout=120)
    assert output.startswith("{")
    assert memory_mb(devices_pid(served)) - before_mb < MEMORY_MB
    assert "internal error" not in served.log.read_text()
    check_in(served)
