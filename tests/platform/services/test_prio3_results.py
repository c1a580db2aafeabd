"""A server with two aggregators: what it asks devices for, and what it decides from the windows that are collected."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.platform.aggregator.provisioning import create_pair
from alcove.platform.client import (
    Arm,
    ExperimentPlan,
    FailedPreconditionError,
    FeatureRules,
    GuardrailPlan,
    Plan,
    PlatformClient,
    StagePlan,
)
from alcove.platform.domain.experiments.interim import analyze_interim, is_due
from alcove.platform.domain.records import Default
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.task import stage_tasks
from alcove.platform.server import serve
from alcove.platform.server.serve import Running, run
from alcove.platform.server.settings import Settings
from alcove.platform.services.rollouts import engine
from alcove.platform.services.rollouts.monitor import PRINCIPAL, analyze_rollout
from alcove.platform.services.rollouts.reports import StoredReports
from alcove.platform.services.validation import InThisProcess
from alcove.platform.stats.aggregator_noise import draw_noise
from alcove.platform.store import Store
from alcove.platform.store.collected_windows import add_collected_window
from alcove.platform.store.defaults import set_default
from alcove.platform.store.experiments import get_experiment
from alcove.platform.store.rollouts import get_rollout
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.testing import ServerWorld
from alcove.platform.testing.ingress import ask, post
from alcove.privacy.report import Report, report_to_bytes
from alcove.registry import program_verification
from alcove.registry.policy import Aggregation, TaskPolicy
from alcove.registry.testing import FakeVerifier
from numpy.typing import NDArray
from sqlalchemy.ext.asyncio import AsyncSession

from tests.platform.versions import add_released

AGGREGATION = Aggregation(
    leader_url="https://leader.example/dap", helper_url="https://helper.example", min_batch_size=100
)
ARMS = (
    Arm(name="control", version="1.0.0", share_basis_points=5000),
    Arm(name="larger", version="2.0.0", share_basis_points=5000),
)
FEATURE = "text_00"


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerWorld:
    """A world of its own, for a server in this process that takes pretended programs."""
    monkeypatch.setattr(program_verification, "RuntimeVerifier", FakeVerifier)
    monkeypatch.setattr(serve, "ChildChecks", InThisProcess)
    return ServerWorld(tmp_path / "fresh", teams={"text": (FEATURE,)})


async def add_noised(
    session: AsyncSession, task: TaskPolicy, window: int, cells: NDArray[np.int64], rng: np.random.Generator
) -> None:
    """Write a window's true counts with the noise of both aggregators, and half as many idle devices."""
    idle = int(cells.sum()) // 2
    true = np.append(cells.ravel(), idle)
    noised = true + draw_noise(rng, true.shape, task.epsilon_fraction)
    await add_collected_window(session, task, window, reports=int(true.sum()), counts=noised.tolist())


class Shared:
    """A server with aggregators, and an operator's client for it; calls run in a thread."""

    def __init__(self, world: ServerWorld, running: Running, store: Store, operator: PlatformClient) -> None:
        self.world, self.running, self.store, self.operator = world, running, store, operator

    async def call(self, method: str, *given: Any, **options: Any) -> Any:
        """Return what the operator's client answers."""
        return await asyncio.to_thread(getattr(self.operator, method), *given, **options)

    def task(self, app: str = "mail") -> TaskPolicy:
        """The task of an app's one experiment, as devices read it in the signed policy."""
        policy = self.world.tree.policy(app)
        assert policy is not None
        (experiment,) = policy.features[FEATURE].experiments
        return experiment.tasks[0]

    async def collect(self, task: TaskPolicy, window: int, cells: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Write a window's true counts with the noise of both aggregators, as the collector does."""
        async with self.store.write() as session:
            await add_noised(session, task, window, cells, rng)


@pytest.fixture
async def shared(fresh: ServerWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shared]:
    """Two published versions, and a server that has aggregators; it answers devices where a test asks for it."""
    file = create_pair(fresh.folder / "pair", AGGREGATION.leader_url, AGGREGATION.helper_url)["collector"]
    file.write_text(json.dumps(json.loads(file.read_text()) | AGGREGATION.model_dump(mode="json")))
    settings = Settings(
        data_dir=fresh.data_dir,
        online_keys=fresh.online_keys,
        grpc_port=0,
        http_port=0,
        only=getattr(request, "param", "grpc"),
        aggregators=file,
    )
    async with run(settings) as running:
        store = await Store.open(settings.database)
        team_token, token = [await asyncio.to_thread(fresh.token, role) for role in ("team:text", "operator")]
        with PlatformClient(running.grpc_address, team_token, timeout_s=60) as team:
            for version in ("1.0.0", "2.0.0"):
                await asyncio.to_thread(partial(fresh.publish, team, FEATURE, version, is_released=False))
        with PlatformClient(running.grpc_address, token, timeout_s=60) as operator:
            await asyncio.to_thread(operator.set_rules, FEATURE, FeatureRules(accepts_any_state=True))
            yield Shared(fresh, running, store, operator)
        await store.close()


async def test_collected_windows_decide_an_experiment(shared: Shared) -> None:
    """20,000 devices, two windows, ε = 1 by default: five points are found, which randomized response never would."""
    draft = await shared.call("create_experiment", "mail", FEATURE, ARMS, plan=ExperimentPlan(mde=0.05))
    assert (draft.mechanism, draft.epsilon) == ("prio3", "1")
    started = await shared.call("start_experiment", draft.experiment_id)
    task = shared.task()
    assert (task.task_id, task.aggregation) == (started.task_id, AGGREGATION)
    assert task.first_window_start_s % task.window_s == 0
    empty = (await shared.call("results", draft.experiment_id)).results
    assert (empty.report_count, empty.window_count, empty.decision.kind) == (0, 0, "inconclusive")
    rng = np.random.default_rng(11)
    for window in (0, 1):
        cells = np.array([[4000, 6000], [3500, 6500]])
        await shared.collect(task, window, cells, rng)
    found = (await shared.call("results", draft.experiment_id)).results
    assert found.report_count == pytest.approx(40_000, abs=200)  # 20,000 more had nothing to tell
    assert found.window_count == 2
    assert len(found.cell_counts) == task.cell_count
    assert (found.decision.kind, found.decision.winner) == ("winner", 1)
    assert found.arms[1].accepted.value == pytest.approx(0.65, abs=0.01)
    assert "neither leader.example nor helper.example reads a report" in found.promise
    assert "ε = 1 from 100 reports on" in found.promise
    stopped = await shared.call("stop_experiment", draft.experiment_id)
    assert stopped.decision.winner == 1


async def test_noise_is_part_of_what_collected_windows_say(shared: Shared) -> None:
    """A hundred devices of whom all of one arm accept: the same counts without noise would decide, these are held."""
    draft = await shared.call("create_experiment", "mail", FEATURE, ARMS, epsilon="0.1", minimum_cohort=50)
    await shared.call("start_experiment", draft.experiment_id)
    cells = np.array([[30, 70], [5, 95]])
    async with shared.store.write() as session:
        await add_collected_window(session, shared.task(), 0, reports=200, counts=[*cells.ravel().tolist(), 0])
    found = (await shared.call("results", draft.experiment_id)).results
    assert found.cell_counts == (30, 70, 5, 95)
    assert found.decision.kind == "inconclusive"
    difference = found.pairs[0].difference
    assert difference.value == pytest.approx(0.25, abs=0.01)
    assert difference.low is None or difference.low < 0


@pytest.mark.parametrize("shared", [pytest.param(None, id="devices too")], indirect=True)
async def test_randomized_report_for_a_task_by_prio3_is_refused(shared: Shared) -> None:
    """The ingress knows no such task: no randomized cell is counted beside shares.  One of the other task is taken."""
    statuses = {}
    port = int(shared.running.http_url.rpartition(":")[2])
    for app, mechanism in (("mail", "prio3"), ("post", "randomized_response")):
        draft = await shared.call("create_experiment", app, FEATURE, ARMS, mechanism=mechanism)
        await shared.call("start_experiment", draft.experiment_id)
        report = Report(bytes.fromhex(shared.task(app).task_id), 0, 0)
        statuses[mechanism], _ = await ask(port, post(report_to_bytes(report)))
    assert statuses == {"prio3": 400, "randomized_response": 204}


async def test_mechanism_is_asked_for_changed_and_kept(shared: Shared) -> None:
    """Randomized response on request; `mechanism` in the mask takes the other, and the plan is computed again."""
    options: dict[str, Any] = {"plan": ExperimentPlan(mde=0.05)}
    draft = await shared.call(
        "create_experiment", "mail", FEATURE, ARMS, mechanism="randomized_response", epsilon="1", **options
    )
    assert draft.mechanism == "randomized_response"
    other = await shared.call("update_experiment", draft.experiment_id, fields=("mechanism",), mechanism="prio3")
    assert (other.mechanism, other.epsilon) == ("prio3", "1")
    assert 0 < 10 * other.plan.devices_needed < draft.plan.devices_needed
    kept = await shared.call("update_experiment", draft.experiment_id, fields=("minimum_cohort",), minimum_cohort=500)
    assert kept.mechanism == "prio3"
    back = await shared.call(
        "update_experiment", draft.experiment_id, fields=("mechanism",), mechanism="randomized_response"
    )
    assert back.plan == draft.plan
    assert (await shared.call("experiment", draft.experiment_id)).mechanism == "randomized_response"


async def test_rollout_takes_the_servers_mechanism(shared: Shared) -> None:
    """As an experiment; the mechanism of one that has begun stays, and its promise is in its status."""
    first = await shared.call("create_rollout", "mail", FEATURE, "1.0.0")
    await shared.call("advance_rollout", first.rollout_id, 10_000, override_reason="the first")
    plan = Plan(
        stages=(StagePlan(share_basis_points=1000),), guardrails=(GuardrailPlan(metric="refused", margin=0.02),)
    )
    draft = await shared.call("create_rollout", "mail", FEATURE, "2.0.0", plan=plan)
    assert draft.plan.mechanism == "prio3"
    assert "neither leader.example nor helper.example" in draft.promise
    own = plan.model_copy(update={"mechanism": "randomized_response"})
    changed = await shared.call("update_rollout", draft.rollout_id, fields=("plan.mechanism",), plan=own)
    assert changed.plan.mechanism == "randomized_response"
    assert changed.promise.startswith("randomized response")
    assert (await shared.call("rollout", draft.rollout_id)).collection is None
    again = await shared.call("update_rollout", draft.rollout_id, fields=("plan",), plan=plan)
    assert again.plan == draft.plan
    assert (await shared.call("rollout", draft.rollout_id)).collection is None  # a draft has no task
    await shared.call("advance_rollout", draft.rollout_id)
    collection = (await shared.call("rollout", draft.rollout_id)).collection
    assert (collection.collected_count, collection.uncollected) == (0, ())
    assert collection.next_at_s > 0


def test_prio3_without_aggregators_is_refused(operator: PlatformClient, app: str, shared_feature: str) -> None:
    """FAILED_PRECONDITION, and the message says what to do; left open it is randomized response."""
    draft = operator.create_experiment(app, shared_feature, ARMS)
    assert (draft.mechanism, draft.epsilon) == ("randomized_response", "2")
    rollout = operator.create_rollout(app, shared_feature, "2.0.0")
    assert rollout.plan.mechanism == "randomized_response"
    plan = Plan(mechanism="prio3")
    calls: list[Callable[[], object]] = [
        lambda: operator.create_experiment(app, shared_feature, ARMS, mechanism="prio3"),
        lambda: operator.update_experiment(draft.experiment_id, fields=("mechanism",), mechanism="prio3"),
        lambda: operator.create_rollout(app, shared_feature, "2.0.0", plan=plan),
        lambda: operator.update_rollout(rollout.rollout_id, fields=("plan.mechanism",), plan=plan),
    ]
    for call in calls:
        with pytest.raises(FailedPreconditionError, match="this server has none: ask for randomized response"):
            call()


async def start_rollout(store: Store, aggregation: Aggregation) -> tuple[str, TaskPolicy]:
    """Write a rollout whose first stage is compared by Prio3; return its id and the stage's task."""
    async with store.write() as session:
        for version in ("1.0.0", "2.0.0"):
            await add_released(session, feature=FEATURE, version=version, team="text", manifest_sha256=version[0] * 64)
        await set_default(session, Default("mail", FEATURE, "1.0.0", "1" * 64))
    plan = RolloutPlan(
        stages=(Stage(1000, 0, 500),), guardrails=(GuardrailRecord("crash_fallback", 0.01),), aggregation=aggregation
    )
    async with store.write() as session:
        uow = UnitOfWork(session, "operator/a", 1_000_000)
        draft = await engine.create(uow, engine.RolloutSpec("mail", FEATURE, "2.0.0", plan))
        await engine.advance(uow, draft.rollout_id, share_basis_points=0, override_reason="")
        (task,) = stage_tasks(await get_rollout(session, draft.rollout_id))
    assert task.aggregation == aggregation
    return draft.rollout_id, task


async def analyze(store: Store, rollout_id: str) -> tuple[str, str, int]:
    """Analyze a rollout as the server does; return its state, the rule that decided, and the reports it read."""
    async with store.write() as session:
        seen = await analyze_rollout(UnitOfWork(session, PRINCIPAL, 1_000_060), rollout_id, StoredReports())
    assert seen.analysis is not None
    return seen.state.value, seen.analysis.code, seen.analysis.reports


@pytest.mark.parametrize(("issuer", "state"), [(None, "paused"), ("https://issuer.example/tokens", "halted")])
async def test_collected_windows_hold_and_stop_a_rollout(store: Store, issuer: str | None, state: str) -> None:
    """Held without windows; one in which the new version crashes pauses it, and halts it where reports had tokens."""
    rollout_id, task = await start_rollout(store, AGGREGATION.model_copy(update={"token_issuer": issuer}))
    assert await analyze(store, rollout_id) == ("running", "no_reports", 0)
    rng = np.random.default_rng(12)
    states = []
    for crashed in (20, 600):
        # Fallbacks, and all others, of control and treatment.
        cells = np.array([4980, 20, 5000 - crashed, crashed])
        async with store.write() as session:
            await add_noised(session, task, crashed, cells, rng)
        states.append(await analyze(store, rollout_id))
    assert [found[:2] for found in states] == [("running", "safe"), (state, "harmful_crash_fallback")]
    assert [found[2] for found in states] == pytest.approx([10_000, 20_000], abs=200)


async def test_windows_of_idle_devices_alone_decide_nothing(store: Store) -> None:
    """A thousand devices that never used the feature, twenty windows: noise alone is no harm and no alarm."""
    rollout_id, task = await start_rollout(store, AGGREGATION)
    rng = np.random.default_rng(13)
    for window in range(20):
        counts = draw_noise(rng, (task.cell_count + 1,), task.epsilon_fraction)
        counts[-1] += 1000
        async with store.write() as session:
            await add_collected_window(session, task, window, reports=1000, counts=counts.tolist())
        state, code, reports = await analyze(store, rollout_id)
        assert state == "running", code
        assert code not in ("safe", "impossible_reports"), window
        assert reports < 500


async def test_planned_analysis_by_prio3_counts_the_reports_of_its_windows(shared: Shared) -> None:
    """It is due by the number of reports that told something, as it is read from the windows."""
    plan = ExperimentPlan(interim_analyses=2, horizon_reports=20_000)
    draft = await shared.call("create_experiment", "mail", FEATURE, ARMS, plan=plan)
    await shared.call("start_experiment", draft.experiment_id)
    task = shared.task()
    async with shared.store.read() as session:
        record = await get_experiment(session, draft.experiment_id)
    counts = (2000, 3000, 1500, 3501)
    assert not is_due(record, 9_999)
    made = analyze_interim(record, Reports(task, counts, 10_000, 1), now_s=1)
    assert (made.reports, made.fraction, made.decision.winner) == (10_000, 0.5, 1)
    second = replace(record, interim_analyses=(made,))
    assert not is_due(second, 19_999)
