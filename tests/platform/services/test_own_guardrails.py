"""Rollouts that are watched by a team's own metric: what devices are asked, what follows, and what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from alcove.platform.domain.errors import InvalidFieldError, MetricDeprecatedError, ResourceNotFoundError
from alcove.platform.domain.metric_definitions import MetricDefinition
from alcove.platform.domain.own_metrics import OwnGuardrail, OwnMetric
from alcove.platform.domain.records import Default, RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.task import stage_tasks
from alcove.platform.services.metric_definitions import create_metric, deprecate_metric
from alcove.platform.services.rollouts import engine
from alcove.platform.services.rollouts.engine import RolloutSpec
from alcove.platform.services.rollouts.reports import StoredReports
from alcove.platform.store import Store
from alcove.platform.store.defaults import set_default
from alcove.platform.store.reports import add_counts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy.metric import MetricKind
from sqlalchemy.ext.asyncio import AsyncSession

from tests.platform.services.test_rollout_monitor import DAY, Life
from tests.platform.versions import add_released

EDITS = MetricDefinition(0, "f", "undone_edits", 0, MetricKind.COUNT, (3.0,), 0.0, False, "keyboard", "edits undone")
WATCHED = OwnGuardrail(OwnMetric("undone_edits", 0), 0.2)
PLAN = RolloutPlan(stages=(Stage(1000, DAY, 500), Stage(5000, DAY, 500)), own_guardrails=(WATCHED,), epsilon="2")
FEW, MANY, NONE = (0.8, 0.15, 0.05), (0.5, 0.3, 0.2), (1.0, 0.0, 0.0)


@pytest.fixture
async def life(store: Store) -> Life:
    """Two versions, of which 1.0.0 is the default, and a metric."""
    async with store.write() as session:
        for version in ("1.0.0", "2.0.0"):
            await add_released(session, feature="f", version=version, team="t", manifest_sha256=version[0] * 64)
        await set_default(session, Default("app", "f", "1.0.0", "1" * 64))
    made = Life(store)
    await define(made)
    return made


async def define(life: Life, **changes: Any) -> MetricDefinition:
    """Define the metric, or its next version."""
    async with life.store.write() as session:
        return await create_metric(work_of(life, session), replace(EDITS, **changes))


def work_of(life: Life, session: AsyncSession) -> UnitOfWork:
    """A unit of work of the team."""
    return UnitOfWork(session, "team/t", life.now_s)


async def report(life: Life, control: Sequence[float], treatment: Sequence[float], devices: int) -> None:
    """Count what devices of both groups are expected to say, by randomized response."""
    rollout = await life.now()
    *_, task = stage_tasks(rollout)
    mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    true = [devices * share for arm in (control, treatment) for share in arm]
    counts = {
        (task.task_id, 0, cell): round(number * keep + (sum(true) - number) * other)
        for cell, number in enumerate(true)
    }  # fmt: skip
    async with life.store.write() as session:
        await add_counts(session, counts)


async def look(life: Life) -> RolloutRecord:
    """Let a day pass, and let the server analyze what it has."""
    return await life.analyze(StoredReports())  # type: ignore[arg-type]  # the real source in the place of a given one


async def test_devices_are_asked_for_the_metric_and_for_nothing_else(life: Life) -> None:
    """The policy's task has the newest version's terms in the place of outcomes."""
    await define(life, edges=(3.0, 8.0))
    rollout = await life.begin(PLAN)
    assert rollout.plan.own_guardrails[0].metric.version == 2
    policy, _ = await life.documents()
    found = policy.features["f"].rollout
    assert found is not None
    (task,) = found.tasks
    assert task.metric is not None
    assert (task.metric.name, task.metric.version, task.metric.edges) == ("undone_edits", 2, (3, 8))
    assert task.outcome_groups == ()
    assert task.cell_count == 2 * 4


async def test_guardrails_beside_a_metric_are_asked_of_other_devices(life: Life) -> None:
    """Half of the devices report outcomes, half the metric, and each question is read from its own reports."""
    crash = GuardrailRecord("crash_fallback", 0.01)
    rollout = await life.begin(replace(PLAN, guardrails=(crash,)))
    outcomes, metric = stage_tasks(rollout)
    assert [question.metrics for question in rollout.plan.questions] == [("crash_fallback",), ("metric:undone_edits",)]
    assert (outcomes.metric, outcomes.share_basis_points) == (None, 5000)
    assert (metric.outcome_groups, metric.share_basis_points) == ((), 5000)
    await report(life, FEW, MANY, 50_000)
    rollout = await look(life)
    assert rollout.analysis is not None
    assert rollout.analysis.code == "harmful_metric:undone_edits"
    assert [verdict.kind for verdict in rollout.analysis.verdicts] == ["inconclusive", "harmful"]


async def test_harm_pauses_and_says_which_metric(life: Life) -> None:
    """By randomized responses of both groups."""
    await life.begin(PLAN)
    await report(life, FEW, MANY, 50_000)
    rollout = await look(life)
    assert rollout.state is RolloutState.PAUSED
    assert rollout.analysis is not None
    assert rollout.analysis.code == "harmful_metric:undone_edits"
    (verdict,) = rollout.analysis.verdicts
    assert (verdict.metric, verdict.kind) == ("metric:undone_edits", "harmful")
    assert verdict.difference == pytest.approx((0.3 * 1.5 + 0.2 * 3.5) - (0.15 * 1.5 + 0.05 * 3.5), abs=0.01)


async def test_equal_groups_are_found_safe(life: Life) -> None:
    """And a person may advance."""
    await life.begin(PLAN)
    await report(life, FEW, FEW, 200_000)
    rollout = await look(life)
    assert rollout.analysis is not None
    assert (rollout.analysis.code, rollout.analysis.verdicts[0].kind) == ("safe", "safe")


async def test_what_nobody_records_holds_however_many_devices_report(life: Life) -> None:
    """An app that was renamed its metric under way, or never records it, makes no version look safe."""
    await life.begin(PLAN)
    await report(life, NONE, NONE, 1_000_000)
    rollout = await look(life)
    assert rollout.analysis is not None
    assert rollout.analysis.code == "inconclusive_metric:undone_edits"
    assert "is it recorded under this name?" in rollout.analysis.reason
    assert rollout.state is RolloutState.RUNNING


async def test_what_runs_keeps_its_version_and_a_deprecated_metric(life: Life) -> None:
    """A later version or a deprecation changes no plan that began; a new plan gets the newest, or is refused."""
    before = await life.begin(PLAN)
    await define(life, edges=())

    async def change(guardrail: OwnGuardrail) -> RolloutRecord:
        def ask(spec: RolloutSpec) -> RolloutSpec:
            return replace(spec, plan=replace(spec.plan, own_guardrails=(guardrail,), timeout_s=9))

        return await life.change(lambda uow: engine.update(uow, life.rollout_id, ask))

    assert (await change(WATCHED)).plan.own_guardrails == before.plan.own_guardrails
    with pytest.raises(InvalidFieldError, match="unchanged once the rollout has begun"):
        await change(replace(WATCHED, metric=OwnMetric("undone_edits", 2)))
    async with life.store.write() as session:
        await create_metric(work_of(life, session), replace(EDITS, name="undone_words"))
        await deprecate_metric(
            work_of(life, session), feature="f", name="undone_edits", reason="counts twice", successor="undone_words"
        )
    await report(life, FEW, MANY, 50_000)
    assert (await look(life)).state is RolloutState.PAUSED
    with pytest.raises(MetricDeprecatedError, match="use 'undone_words'"):
        await life.begin(PLAN)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"own_guardrails": (OwnGuardrail(OwnMetric("nowhere", 0), 0.1),)}, ResourceNotFoundError, "nowhere"),
        ({"own_guardrails": (OwnGuardrail(OwnMetric("undone_edits", 7), 0.1),)}, ResourceNotFoundError, "version 7"),
        ({"own_guardrails": (replace(WATCHED, margin=3.5),)}, InvalidFieldError, r"in \[0, 3.5\)"),
        ({"own_guardrails": (replace(WATCHED, margin=float("nan")),)}, InvalidFieldError, "margin"),
        ({"stages": ()}, InvalidFieldError, "none without stages"),
        ({"own_guardrails": (WATCHED, WATCHED)}, InvalidFieldError, "each metric once"),
        ({"own_guardrails": (WATCHED,) * 5}, InvalidFieldError, "at most 4 metrics"),
        (
            {"guardrails": (GuardrailRecord("error", 0.01),), "own_guardrails": (WATCHED,) * 4},
            InvalidFieldError,
            "at most 3 metrics",
        ),
    ],
)
async def test_a_plan_that_reports_cannot_answer_is_refused(
    life: Life, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Unknown metrics and versions, margins beyond the bins, more questions than there are devices for."""
    with pytest.raises(error, match=words):
        await life.begin(replace(PLAN, **changes))
