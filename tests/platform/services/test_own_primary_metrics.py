"""Experiments that a team's own metric decides, or that show one beside what decides."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from alcove.platform.domain.errors import InvalidFieldError, MetricDeprecatedError
from alcove.platform.domain.experiment_records import ExperimentPlan, MetricRecord
from alcove.platform.domain.experiments.task import task_of, tasks_of
from alcove.platform.domain.metric_definitions import MetricDefinition
from alcove.platform.domain.own_metrics import OwnMetric, OwnQuestion
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.services.experiments import engine
from alcove.platform.services.experiments.engine import ArmSpec, ExperimentSpec
from alcove.platform.services.experiments.monitor import analyze_experiment
from alcove.platform.services.metric_definitions import create_metric, deprecate_metric
from alcove.platform.store import Store
from alcove.platform.store.reports import add_counts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import TaskPolicy
from alcove.registry.policy.metric import MetricKind

from tests.platform.versions import add_released

EDITS = MetricDefinition(0, "f", "undone_edits", 0, MetricKind.COUNT, (3.0,), 0.0, False, "keyboard", "edits undone")
KEPT = replace(EDITS, name="kept", kind=MetricKind.SHARE, edges=(0.5,), more_is_better=True)
MINUTES = replace(EDITS, name="minutes", kind=MetricKind.VALUE, edges=(5.0,), more_is_better=True)
ASKED_EDITS, ASKED_KEPT, ASKED_MINUTES = (OwnMetric(each.name, 0) for each in (EDITS, KEPT, MINUTES))
FEW, MANY, NONE = (0.8, 0.15, 0.05), (0.5, 0.3, 0.2), (1.0, 0.0, 0.0)
HALF = (0.4, 0.3, 0.3)
BY_EDITS = ExperimentPlan(primary="metric", own_primary=ASKED_EDITS)


def spec(plan: ExperimentPlan, *, arms: int = 2) -> ExperimentSpec:
    """Equal arms, the first the control."""
    share = 10_000 // arms
    return ExperimentSpec(
        "app", "f", tuple(ArmSpec(f"arm-{n}", f"{n + 1}.0.0", share) for n in range(arms)), "2", (), 86_400, 100, plan
    )  # fmt: skip


@pytest.fixture
async def defined(store: Store) -> Store:
    """Three versions of a feature, and three metrics."""
    async with store.write() as session:
        for version in ("1.0.0", "2.0.0", "3.0.0"):
            await add_released(session, feature="f", version=version, team="t", manifest_sha256=version[0] * 64)
        for metric in (EDITS, KEPT, MINUTES):
            await create_metric(UnitOfWork(session, "team/t", 1), metric)
    return store


async def start(store: Store, plan: ExperimentPlan, *, arms: int = 2) -> ExperimentRecord:
    """Create and start an experiment."""
    async with store.write() as session:
        made = await engine.create(UnitOfWork(session, "operator/a", 1000), spec(plan, arms=arms))
        return await engine.start(UnitOfWork(session, "operator/a", 1000), made.experiment_id)


def counts_of(task: TaskPolicy, arms: Sequence[Sequence[float]], devices: int) -> tuple[int, ...]:
    """What devices of each arm are expected to say, by randomized response."""
    mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    true = [devices * share for arm in arms for share in arm]
    return tuple(round(number * keep + (sum(true) - number) * other) for number in true)


async def test_planned_analyses_decide_by_the_metric_and_keep_their_differences(defined: Store) -> None:
    """At half of the horizon and at its end; the secondary metric of another task is read at the end, once."""
    plan = replace(
        BY_EDITS, interim_analyses=2, horizon_reports=100_000,
        own_questions=(OwnQuestion(ASKED_MINUTES, 2000),),
        secondary=(MetricRecord("metric", own=ASKED_MINUTES),),
    )  # fmt: skip
    record = await start(defined, plan)
    edits, minutes = tasks_of(record)
    for number in (1, 2):
        async with defined.write() as session:
            for task, shares in ((edits, (FEW, FEW)), (minutes, (FEW, MANY))):
                part = 25_500 * task.share_basis_points // edits.share_basis_points
                counts = counts_of(task, shares, part)
                await add_counts(session, {(task.task_id, number, cell): count for cell, count in enumerate(counts)})
            record = await analyze_experiment(UnitOfWork(session, "server", 2000 + number), record.experiment_id)
    early, last = record.interim_analyses
    assert early.pairs[0].value == pytest.approx(0.0, abs=0.02)
    assert early.secondary == ()
    assert last.fraction == 1.0
    ((metric, p),) = ((each.metric, each.p) for each in last.secondary)
    assert metric == 0
    assert p is not None
    assert p < 0.001


async def test_a_metric_that_changes_or_is_deprecated_under_way_changes_nothing_of_what_runs(defined: Store) -> None:
    """Task and bins stay; an update of a draft keeps the version; a new experiment gets the next one, or an error."""
    record = await start(defined, BY_EDITS)
    async with defined.write() as session:
        work = UnitOfWork(session, "operator/a", 5)
        draft = await engine.create(work, spec(BY_EDITS))
        await create_metric(work, replace(EDITS, edges=(3.0, 9.0)))
        draft = await engine.update(work, draft.experiment_id, lambda asked: replace(asked, minimum_cohort=200))
        later = await engine.create(work, spec(BY_EDITS))
        both = replace(BY_EDITS, secondary=(MetricRecord("metric", own=OwnMetric("undone_edits", 1)),))
        both = replace(both, own_primary=OwnMetric("undone_edits", 2))
        with pytest.raises(InvalidFieldError, match="one version of undone_edits"):
            await engine.create(work, spec(both))
        await deprecate_metric(work, feature="f", name="undone_edits", reason="unclear", successor="")
        with pytest.raises(MetricDeprecatedError, match="unclear"):
            await engine.create(work, spec(BY_EDITS))
        stored, *_ = await engine.read(session, record.experiment_id)
    assert task_of(stored) == task_of(record)
    assert draft.plan.own_primary is not None
    assert (draft.plan.own_primary.version, task_of(later).cell_count) == (1, 8)
