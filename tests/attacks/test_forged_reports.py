"""Attack: one anonymous sender tells the server, over its public port, that a sound version harms its devices.

The sender needs the task, which the public policy names, and no more.  Three forgers are tried: one that sends the most
harmful cell as it is, one that floods every cell of the treatment, and one that randomizes each report as a device
does, which nothing can tell from as many devices.  None of them may do more than pause, whatever the plan asks for.
"""

import functools
import http.client
import random
import struct
import urllib.parse
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from alcove.platform.client import DeadlineError, GuardrailPlan, PlatformClient, StagePlan
from alcove.platform.client import Plan as WirePlan
from alcove.platform.domain.records import Default, Page, RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import GuardrailRecord, PlanAction, RolloutPlan, Stage, StageDecisionKind
from alcove.platform.domain.rollouts.task import stage_tasks
from alcove.platform.domain.snapshots.rollout import NOT_ATTESTED
from alcove.platform.services.rollouts import engine
from alcove.platform.services.rollouts.engine import RolloutSpec
from alcove.platform.services.rollouts.monitor import PRINCIPAL, analyze_rollout
from alcove.platform.services.rollouts.reports import StoredReports
from alcove.platform.store import Store
from alcove.platform.store.audit import list_audit
from alcove.platform.store.defaults import set_default
from alcove.platform.store.publications import last_publication
from alcove.platform.store.reports import add_counts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.testing import Served, ServerWorld
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import Outcome, TaskPolicy

from tests.platform.versions import add_released
from tests.selection import quick_among

FORGED = 6 * 1024  # what six bodies of 38 912 bytes held
HONEST = 2_000
TREATMENT, CONTROL = 1, 0


def _plain(task: TaskPolicy, _: int) -> int:
    """The most harmful cell, as it is."""
    return task.cell_index(TREATMENT, Outcome.FALLBACK, 0.0)


def _spread(task: TaskPolicy, number: int) -> int:
    """Every harmful cell of the treatment, and the control's best one."""
    outcomes = (Outcome.FALLBACK, Outcome.ERROR, Outcome.REFUSED)
    if number % 2:
        return task.cell_index(CONTROL, Outcome.ACCEPTED, 0.0)
    return task.cell_index(TREATMENT, outcomes[number // 2 % 3], 0.0)


def _like_devices(task: TaskPolicy, number: int) -> int:
    """As many devices would: half of them in the control and content, half treated and crashed; randomized."""
    cell = _plain(task, number) if number % 2 else task.cell_index(CONTROL, Outcome.ACCEPTED, 0.0)
    return _mechanism(task.cell_count, task.epsilon_fraction).randomize(cell, OsEntropy())


@functools.cache
def _mechanism(cell_count: int, epsilon: Fraction) -> RandomizedResponse:
    return RandomizedResponse(cell_count, epsilon)


FORGERS = {"plain": _plain, "spread": _spread, "like devices": _like_devices}


@dataclass
class Attacked:
    """A sound rollout at its first stage, and honest reports of it."""

    store: Store
    rollout: RolloutRecord
    now_s: int

    @property
    def task(self) -> TaskPolicy:
        """What reports are forged for; the policy names it to everybody."""
        (task,) = stage_tasks(self.rollout)
        return task

    async def report(self, cells: Counter[int]) -> None:
        """Count what the ingress would have counted."""
        async with self.store.write() as session:
            await add_counts(session, {(self.task.task_id, 0, cell): count for cell, count in cells.items()})

    async def analysis(self) -> RolloutRecord:
        """What the server does every minute."""
        self.now_s += 60
        async with self.store.write() as session:
            return await analyze_rollout(
                UnitOfWork(session, PRINCIPAL, self.now_s), self.rollout.rollout_id, StoredReports()
            )

    async def halt_document(self) -> object:
        """What withdraws versions; None: nothing was."""
        async with self.store.read() as session:
            return await last_publication(session, "halt", "app")

    async def policy_document(self) -> bytes:
        """What devices run."""
        async with self.store.read() as session:
            publication = await last_publication(session, "policy", "app")
        assert publication is not None
        return publication.document

    async def list_own_audit(self) -> list[tuple[str, dict[str, object]]]:
        """Actions and details of the server's own entries."""
        async with self.store.read() as session:
            entries = await list_audit(session, Page(0, 1000))
        return [(entry.action, dict(entry.details)) for entry in entries if entry.principal == PRINCIPAL]


Begin = Callable[[PlanAction], Awaitable[Attacked]]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A fresh database."""
    opened = await Store.open(tmp_path / "alcove.db")
    yield opened
    await opened.close()


@pytest.fixture
def begin(store: Store) -> Begin:
    """Makes the rollout under attack."""

    async def start(action: PlanAction) -> Attacked:
        plan = RolloutPlan(
            stages=(Stage(2_000, 0, 200), Stage(8_000, 0, 200)),
            guardrails=(GuardrailRecord("crash_fallback", 0.01),),
            on_harm=action,
            on_timeout=PlanAction.HOLD if action is PlanAction.HALT else action,
            timeout_s=30,
            auto_advance_reason="no money is at stake",
            epsilon="2",
        )
        async with store.write() as session:
            for version in ("1.0.0", "2.0.0"):
                await add_released(session, feature="f", version=version, team="t", manifest_sha256=version[0] * 64)
            await set_default(session, Default("app", "f", "1.0.0", "1" * 64))
            uow = UnitOfWork(session, "operator/a", 1_000_000)
            rollout = await engine.create(uow, RolloutSpec("app", "f", "2.0.0", plan, ""))
            rollout = await engine.advance(uow, rollout.rollout_id, share_basis_points=0, override_reason="")
        return Attacked(store, rollout, 1_000_000)

    return start


def _honest(task: TaskPolicy) -> Counter[int]:
    """Two equal groups in which all is well."""
    mechanism, entropy = _mechanism(task.cell_count, task.epsilon_fraction), OsEntropy()
    cells = [task.cell_index(number % 2, Outcome.ACCEPTED, 0.0) for number in range(HONEST)]
    return Counter(mechanism.randomize(cell, entropy) for cell in cells)


@pytest.mark.parametrize(
    "action", quick_among([PlanAction.PAUSE, PlanAction.ROLL_BACK, PlanAction.HALT], {PlanAction.HALT})
)
@pytest.mark.parametrize("forger", FORGERS)
async def test_forged_reports_pause_at_most_whatever_plan_and_forger(
    begin: Begin, forger: str, action: PlanAction
) -> None:
    """Nothing is withdrawn, the policy of the devices stays, and a person can continue where the server stopped."""
    attacked = await begin(action)
    before = await attacked.policy_document()
    for cells in (_honest(attacked.task), Counter(FORGERS[forger](attacked.task, n) for n in range(FORGED))):
        await attacked.report(cells)
    for _ in range(3):
        seen = await attacked.analysis()
        assert seen.state in (RolloutState.RUNNING, RolloutState.PAUSED)
        assert seen.stage == 1  # the plan advances nothing either
    assert await attacked.halt_document() is None
    assert b'"2.0.0"' in await attacked.policy_document()
    assert (await attacked.policy_document()).count(b"share_permyriad") == before.count(b"share_permyriad")
    found = seen.analysis
    assert found is not None
    actions = [action for action, _ in await attacked.list_own_audit()]
    if forger == "like devices":  # nothing tells it from devices: it harms, as far as anybody can know
        assert (seen.state, found.decision, found.is_attested) == (RolloutState.PAUSED, StageDecisionKind.HARM, False)
        details = (await attacked.list_own_audit())[-1][1]
        assert details.get("planned") == (None if action is PlanAction.PAUSE else action)
        assert details.get("because") == (None if action is PlanAction.PAUSE else NOT_ATTESTED)
        assert actions == ["pause rollout"]
    else:
        assert (seen.state, found.decision) == (RolloutState.RUNNING, StageDecisionKind.ALARM)
        assert actions == ["raise alarm"]


@pytest.mark.thorough
async def test_drop_by_drop_forgery_never_halts(begin: Begin) -> None:
    """However few at a time and whatever was found before: 20 analyses on growing floods of all forgers mixed."""
    attacked = await begin(PlanAction.HALT)
    await attacked.report(_honest(attacked.task))
    dice = random.Random(18)
    for number in range(20):
        forge = FORGERS[dice.choice(list(FORGERS))]
        await attacked.report(Counter(forge(attacked.task, n) for n in range(dice.randrange(1, 40 * (number + 1)))))
        assert (await attacked.analysis()).state in (RolloutState.RUNNING, RolloutState.PAUSED)
    assert await attacked.halt_document() is None


@pytest.mark.attack
def test_forged_reports_over_the_wire_pause_at_most(tmp_path: Path) -> None:
    """The real server on loopback, one report a request, with analyses twice a second: paused, nothing halted."""
    world = ServerWorld(tmp_path / "world")
    served = world.start("--analysis-interval-s", "0.5")
    try:
        with world.client(served, "team:text") as team, world.client(served, "operator") as operator:
            _attack_over_the_wire(world, served, team, operator)
    finally:
        served.stop()


def _attack_over_the_wire(world: ServerWorld, served: Served, team: PlatformClient, operator: PlatformClient) -> None:
    for version in ("1.0.0", "2.0.0"):
        world.publish(team, "text_00", version)
    first = operator.create_rollout("app", "text_00", "1.0.0")
    operator.advance_rollout(first.rollout_id, 10_000, override_reason="first version")
    plan = WirePlan(
        stages=(StagePlan(share_basis_points=2_000, minimum_cohort=100), StagePlan(share_basis_points=5_000)),
        guardrails=(GuardrailPlan(metric="crash_fallback", margin=0.01),),
        on_harm="halt",
        epsilon="2",
    )
    rollout = operator.create_rollout("app", "text_00", "2.0.0", plan=plan)
    operator.advance_rollout(rollout.rollout_id)
    policy = world.tree.policy("app")
    assert policy is not None
    announced = policy.features["text_00"].rollout
    assert announced is not None
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(served.http_url).netloc, timeout=30)
    window = announced.tasks[0].window_at(rollout.created_at_s) or 0
    for number in range(1_500):
        cell = _like_devices(announced.tasks[0], number)
        body = struct.pack("<32sIH", bytes.fromhex(announced.tasks[0].task_id), window, cell)
        connection.request("POST", "/reports", body, {"Content-Type": "application/octet-stream"})
        answer = connection.getresponse()
        answer.read()
        if operator.rollout(rollout.rollout_id).state != "running" if number % 100 == 99 else answer.status == 400:
            break
    connection.close()
    try:
        for seen in operator.watch_rollout(rollout.rollout_id, timeout_s=60):
            if seen.state != "running":
                break
    except DeadlineError:
        pytest.fail("the flood was not even noticed")
    assert seen.state == "paused"
    assert seen.analysis is not None
    assert seen.analysis.decision == "harm"
    halt = world.tree.halt("app")
    assert halt is None or not halt.halted
    assert operator.halt_rollout(rollout.rollout_id, "a person agrees").state == "halted"
