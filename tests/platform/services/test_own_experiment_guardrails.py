"""Experiments whose winner must not make a team's own metric worse: each metric is asked of a part of the devices."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from alcove.platform.domain.errors import InvalidFieldError, MetricDeprecatedError, ResourceNotFoundError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.task import tasks_of
from alcove.platform.domain.metric_definitions import MetricDefinition
from alcove.platform.domain.own_metrics import OwnGuardrail, OwnMetric
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.server.experiment_convert import results_message
from alcove.platform.services.experiments import engine
from alcove.platform.services.experiments.engine import ArmSpec, ExperimentSpec
from alcove.platform.services.metric_definitions import create_metric, deprecate_metric
from alcove.platform.stats import GuardKind
from alcove.platform.store import Store
from alcove.platform.store.publications import last_publication
from alcove.platform.store.reports import add_counts
from alcove.platform.store.running_tasks import running_tasks
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import TaskPolicy, policy_from_bytes
from alcove.registry.policy.metric import MetricKind

from tests.platform.versions import add_released

EDITS = MetricDefinition(0, "f", "undone_edits", 0, MetricKind.COUNT, (3.0,), 0.0, False, "keyboard", "edits undone")
KEPT = replace(EDITS, name="kept", kind=MetricKind.SHARE, edges=(0.5,), more_is_better=True)
WATCHED = (OwnGuardrail(OwnMetric("undone_edits", 0), 0.2), OwnGuardrail(OwnMetric("kept", 0), 0.1))
FEW, MANY, HALF = (0.8, 0.15, 0.05), (0.5, 0.3, 0.2), (0.4, 0.3, 0.3)
GOOD, BAD = (0.2, 0.8), (0.6, 0.4)


def spec(**changes: Any) -> ExperimentSpec:
    """Two arms, guarded by both metrics."""
    plan = replace(ExperimentPlan(guardrails=(), own_guardrails=WATCHED), **changes)
    arms = (ArmSpec("old", "1.0.0", 5000), ArmSpec("new", "2.0.0", 5000))
    return ExperimentSpec("app", "f", arms, "2", (), 86_400, 100, plan)


@pytest.fixture
async def defined(store: Store) -> Store:
    """Two versions of a feature, and two metrics."""
    async with store.write() as session:
        for version in ("1.0.0", "2.0.0"):
            await add_released(session, feature="f", version=version, team="t", manifest_sha256=version[0] * 64)
        for metric in (EDITS, KEPT):
            await create_metric(UnitOfWork(session, "team/t", 1), metric)
    return store


async def start(store: Store, asked: ExperimentSpec) -> ExperimentRecord:
    """Create and start an experiment."""
    async with store.write() as session:
        made = await engine.create(UnitOfWork(session, "operator/a", 1000), asked)
        return await engine.start(UnitOfWork(session, "operator/a", 1000), made.experiment_id)


async def report(store: Store, task: TaskPolicy, old: Sequence[float], new: Sequence[float], devices: int) -> None:
    """Count what devices of both arms are expected to say, by randomized response."""
    mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    true = [devices * share for arm in (old, new) for share in arm]
    counts = [round(number * keep + (sum(true) - number) * other) for number in true]
    async with store.write() as session:
        await add_counts(session, {(task.task_id, 0, cell): count for cell, count in enumerate(counts)})


async def test_each_metric_is_a_task_of_its_own_part_of_the_devices(defined: Store) -> None:
    """The policy has all tasks, and the server takes the reports of each."""
    record = await start(defined, spec())
    async with defined.read() as session:
        published = await last_publication(session, "policy", "app")
        running = await running_tasks(session)
    assert published is not None
    (experiment,) = policy_from_bytes(published.document).features["f"].experiments
    assert experiment.tasks == tasks_of(record)
    assert running == {task.task_id: task for task in experiment.tasks}
    assert [task.metric and task.metric.name for task in experiment.tasks] == [None, "undone_edits", "kept"]
    assert [task.share_basis_points for task in experiment.tasks] == [3334, 3333, 3333]


async def test_a_winner_that_makes_an_own_metric_worse_is_held_back(defined: Store) -> None:
    """It wins by what decides; the verdicts come after those of the other guardrails, in the plan's order."""
    record = await start(defined, spec())
    decides, edits, kept = tasks_of(record)
    await report(defined, decides, BAD, GOOD, 100_000)
    await report(defined, edits, FEW, FEW, 100_000)
    await report(defined, kept, HALF, HALF, 100_000)
    async with defined.read() as session:
        record, results, _ = await engine.read(session, record.experiment_id)
    assert results.verdict.winner == 1
    assert [verdict.kind for verdict in results.verdicts[0]] == [GuardKind.SAFE, GuardKind.SAFE]
    await report(defined, edits, FEW, (0.3, 0.3, 0.4), 200_000)
    async with defined.read() as session:
        record, results, _ = await engine.read(session, record.experiment_id)
    assert results.verdict.winner is None
    assert "undone_edits: treatment minus control is at least" in results.verdict.reason
    assert [each.guardrail for each in results_message(record, results).verdicts] == [0, 1]
    async with defined.write() as session:
        stopped = await engine.stop(UnitOfWork(session, "operator/a", 2000), record.experiment_id)
    assert stopped.decision is not None
    assert stopped.decision.winner is None


async def test_what_devices_are_planned_for_is_the_part_that_decides(defined: Store) -> None:
    """Three questions need three times the devices of one."""
    async with defined.write() as session:
        work = UnitOfWork(session, "operator/a", 1000)
        alone = await engine.create(work, spec(own_guardrails=(), mde=0.02))
        asked = await engine.create(work, spec(mde=0.02))
    assert asked.plan.devices_needed == pytest.approx(3 * alone.plan.devices_needed, rel=0.001)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"own_guardrails": (OwnGuardrail(OwnMetric("nowhere", 0), 0.1),)}, ResourceNotFoundError, "nowhere"),
        ({"own_guardrails": (replace(WATCHED[0], margin=3.5),)}, InvalidFieldError, r"in \[0, 3.5\)"),
        ({"own_guardrails": (WATCHED[0],) * 2}, InvalidFieldError, "each metric once"),
        ({"own_guardrails": (WATCHED[0],) * 4}, InvalidFieldError, "at most 3 metrics"),
        ({"guardrails": (GuardrailRecord("error", 0.01),) * 7}, InvalidFieldError, "guardrails of both kinds"),
    ],
)
async def test_guardrails_that_reports_cannot_answer_are_refused(
    defined: Store, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    """More questions than a device can be drawn to, margins beyond the bins, metrics that are not there."""
    with pytest.raises(error, match=words):
        await start(defined, spec(**changes))


async def test_a_deprecated_metric_is_refused_and_a_running_experiment_keeps_it(defined: Store) -> None:
    """As in rollouts."""
    record = await start(defined, spec())
    async with defined.write() as session:
        await deprecate_metric(
            UnitOfWork(session, "team/t", 5), feature="f", name="kept", reason="unclear", successor=""
        )
    async with defined.read() as session:
        assert set(await running_tasks(session)) == {task.task_id for task in tasks_of(record)}
    async with defined.write() as session:
        with pytest.raises(MetricDeprecatedError, match="unclear"):
            await engine.create(UnitOfWork(session, "operator/a", 9), spec())
