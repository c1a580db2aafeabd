"""Experiments with interim analyses: made once and in time, by any caller, and what was found is kept."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.domain.experiment_records import ExperimentPlan, InterimAnalysis, MetricRecord
from alcove.platform.domain.experiments.analysis import ExperimentResults, evaluate
from alcove.platform.domain.experiments.interim import analyze_interim, is_due
from alcove.platform.domain.experiments.machine import mark_started
from alcove.platform.domain.experiments.schedule import next_analysis_reports
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.experiments.views import ExperimentViews
from alcove.platform.domain.records import (
    ArmRecord,
    Default,
    ExperimentRecord,
    ExperimentState,
    Page,
)
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.domain.snapshots import experiment as actions
from alcove.platform.server.experiment_convert import experiment_message, results_message
from alcove.platform.server.experiment_views import secondary_view_message
from alcove.platform.services.experiments import engine
from alcove.platform.services.experiments.monitor import PRINCIPAL, analyze_all, analyze_experiment, due_experiments
from alcove.platform.stats import ArgumentError, ReasonCode
from alcove.platform.stats.group_sequential import boundaries
from alcove.platform.store import Store
from alcove.platform.store.audit import list_audit
from alcove.platform.store.defaults import set_default
from alcove.platform.store.experiments import add_experiment, get_experiment, save_experiment
from alcove.platform.store.reports import add_counts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import Outcome

from tests.platform.cells import cells_of
from tests.platform.versions import add_released

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HORIZON = 100_000
ANALYSES = 5
EVEN, BETTER, WORSE = (0.7, 0.7), (0.7, 0.8), (0.8, 0.7)


def draft(plan: ExperimentPlan | None = None) -> ExperimentRecord:
    """Two equal arms, five analyses."""
    return ExperimentRecord(
        sequence=0, experiment_id="ex-1", app="app", feature="f", salt="0" * 32,
        arms=tuple(ArmRecord(name, f"{i}.0.0", str(i) * 64, 5000) for i, name in enumerate(("control", "larger"), 1)),
        state=ExperimentState.DRAFT, epsilon="2", latency_edges_ms=(), window_s=86_400, minimum_cohort=100,
        created_at_s=1, started_at_s=None, stopped_at_s=None, task_id=None, decision=None, policy_serial=0,
        plan=plan or ExperimentPlan(interim_analyses=ANALYSES, horizon_reports=HORIZON, planned_reports=HORIZON),
    )  # fmt: skip


def randomize(record: ExperimentRecord, reports: int, accepted: Sequence[float], crashed: Sequence[float]) -> list[int]:
    """Counts of exactly as many reports as devices with these shares are expected to tell, randomized."""
    task = task_of(record)
    true = np.zeros((2, 4))
    for arm in (0, 1):
        true[arm, :2] = 1.0 - accepted[arm], accepted[arm]
        if task.layout.is_counted(Outcome.FALLBACK):
            true[arm] *= 1.0 - crashed[arm]
            true[arm, Outcome.FALLBACK] = crashed[arm]
    mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    expected = reports * (other + (keep - other) * cells_of(task, true) / 2.0)
    counts = [int(count) for count in expected]
    counts[0] += reports - sum(counts)
    return counts


@dataclass
class Life:
    """One running experiment in one store, and a clock."""

    store: Store
    now_s: int = 100_000

    async def report(
        self, reports: int, accepted: Sequence[float] = EVEN, crashed: Sequence[float] = (0.01, 0.01)
    ) -> None:
        """Count so many more reports."""
        record = await self.now()
        counts = randomize(record, reports, accepted, crashed)
        async with self.store.write() as session:
            await add_counts(session, {(record.task_id or "", 0, cell): n for cell, n in enumerate(counts)})

    async def act(
        self, principal: str, work: "Callable[[UnitOfWork], Awaitable[ExperimentRecord]]"
    ) -> ExperimentRecord:
        """As `Mutations.act`."""
        self.now_s += 60
        async with self.store.write() as session:
            return await work(UnitOfWork(session, principal, self.now_s))

    async def tick(self) -> ExperimentRecord:
        """What the server does every minute."""
        async with self.store.read() as session:
            due = await due_experiments(session)
        await analyze_all(due, self.act)
        return await self.now()

    async def now(self) -> ExperimentRecord:
        """The experiment as it is."""
        async with self.store.read() as session:
            return await get_experiment(session, "ex-1")

    async def results(self) -> ExperimentResults:
        """What a reader gets."""
        async with self.store.read() as session:
            return (await engine.read(session, "ex-1"))[1]

    async def views(self) -> ExperimentViews:
        """What a reader gets beside it."""
        async with self.store.read() as session:
            return (await engine.read(session, "ex-1"))[2]

    async def stop(self) -> ExperimentRecord:
        """Stop it, as an operator."""
        return await self.act("operator/a", lambda uow: engine.stop(uow, "ex-1"))


async def begin(store: Store, plan: ExperimentPlan | None = None) -> Life:
    """Start it."""
    async with store.write() as session:
        for version in ("1.0.0", "2.0.0"):
            await add_released(session, feature="f", version=version, team="t", manifest_sha256=version[0] * 64)
        await set_default(session, Default("app", "f", "1.0.0", "1" * 64))
        await save_experiment(session, mark_started(await add_experiment(session, draft(plan)), now_s=1000))
    return Life(store)


@pytest.fixture
async def life(store: Store) -> Life:
    """One with five analyses."""
    return await begin(store)


async def test_each_analysis_is_made_once_when_its_reports_are_in(life: Life) -> None:
    """At every fifth, not before; ticks in between find nothing to do; all is spent at the last, and audited."""
    for step in range(1, ANALYSES + 1):
        await life.report(HORIZON // ANALYSES - 1)
        assert len((await life.tick()).interim_analyses) == step - 1
        await life.report(1)
        for _ in range(2):
            record = await life.tick()
        assert len(record.interim_analyses) == step
        assert record.interim_analyses[-1].reports == step * HORIZON // ANALYSES
    fractions = tuple(each.fraction for each in record.interim_analyses)
    assert fractions == pytest.approx((0.2, 0.4, 0.6, 0.8, 1.0))
    assert [each.boundary for each in record.interim_analyses] == pytest.approx(boundaries(fractions, 0.05))
    assert {each.decision.kind for each in record.interim_analyses} == {"inconclusive"}
    await life.report(HORIZON)
    assert await life.tick() == record
    assert next_analysis_reports(record) is None
    async with life.store.read() as session:
        entries = [entry for entry in await list_audit(session, Page(0, 100)) if entry.action == "analyze experiment"]
    assert [(entry.principal, entry.details["interim_analysis"]) for entry in entries] == [
        (PRINCIPAL, analysis) for analysis in range(1, ANALYSES + 1)
    ]


async def test_several_analyses_due_at_once_are_one_analysis_of_what_is_there(life: Life) -> None:
    """At the actual fraction; the next one is half a step away at least; a late last analysis spends all."""
    await life.report(39 * HORIZON // 50)
    record = await life.tick()
    assert [each.fraction for each in record.interim_analyses] == [0.78]
    assert next_analysis_reports(record) == HORIZON * 88 // 100
    await life.report(HORIZON)
    record = await life.tick()
    assert [each.fraction for each in record.interim_analyses] == [0.78, 1.0]
    assert record.interim_analyses[-1].reports == HORIZON * 178 // 100
    assert [each.boundary for each in record.interim_analyses] == pytest.approx(boundaries((0.78, 1.78), 0.05))


async def test_what_comes_after_an_analysis_changes_nothing_of_it(life: Life) -> None:
    """Between analyses readers see what the last one said and when the next is due, whatever reports say now."""
    await life.report(100)
    before = await life.results()
    assert (before.decision.code, before.next_analysis_reports) == (
        ReasonCode.BEFORE_FIRST_ANALYSIS,
        HORIZON // ANALYSES,
    )
    assert "due at 20000 reports" in before.decision.reason
    await life.report(HORIZON // ANALYSES - 100)
    interim_analyses = (await life.tick()).interim_analyses
    await life.report(HORIZON // ANALYSES - 1, accepted=(0.2, 0.95))
    record = await life.tick()
    found = await life.results()
    assert record.interim_analyses == interim_analyses
    assert (
        found.comparison.decision.winner == 1
    )  # by the sequence that may be read at any time, and decides nothing here
    assert (found.decision.kind, found.decision.winner) == ("inconclusive", None)
    assert "interim analysis 1, at 20% of 100000 reports" in found.decision.reason
    assert found.next_analysis_reports == 2 * HORIZON // ANALYSES


async def test_a_winner_stays_and_ends_the_analyses(life: Life) -> None:
    """Though later reports say the opposite; what is stopped keeps it."""
    await life.report(3 * HORIZON // ANALYSES, accepted=BETTER)
    record = await life.tick()
    assert (record.interim_analyses[-1].decision.kind, record.interim_analyses[-1].decision.winner) == ("winner", 1)
    (pair,) = record.interim_analyses[-1].pairs
    assert pair.p_value is not None
    assert pair.p_value < 0.05
    assert pair.low is not None
    assert pair.low > 0.0
    await life.report(HORIZON, accepted=WORSE)
    assert (await life.tick()).interim_analyses == record.interim_analyses
    assert (await life.results()).decision.winner == 1
    stopped = await life.stop()
    assert stopped.decision is not None
    assert (stopped.decision.winner, stopped.interim_analyses) == (1, record.interim_analyses)
    assert stopped.decision.reason.startswith("interim analysis 1, at 60% of 100000 reports: arm 1 is more accurate")


async def test_guardrails_are_asked_at_any_time(store: Store) -> None:
    """A winner that turns out to harm after the last analysis is held; the analysis itself stays as it was."""
    plan = ExperimentPlan(
        interim_analyses=2,
        planned_reports=HORIZON,
        guardrails=(GuardrailRecord("crash_fallback", 0.02),),
    )
    life = await begin(store, plan)
    await life.report(HORIZON, accepted=(0.6, 0.9))
    record = await life.tick()
    assert record.interim_analyses[-1].decision.winner == 1
    assert (await life.results()).decision.winner == 1
    await life.report(HORIZON, crashed=(0.0, 0.5))
    held = await life.results()
    assert (held.decision.winner, held.decision.code) == (None, ReasonCode.GUARDRAIL)
    assert (await life.tick()).interim_analyses == record.interim_analyses


async def test_groups_of_wrong_sizes_hold_whatever_was_found(life: Life) -> None:
    """A sample-ratio mismatch that shows later puts what was found before in doubt."""
    await life.report(3 * HORIZON // ANALYSES, accepted=BETTER)
    assert (await life.tick()).interim_analyses[-1].decision.winner == 1
    record = await life.now()
    async with life.store.write() as session:
        await add_counts(session, {(record.task_id or "", 0, cell): 5_000 for cell in (0, 1)})
    held = await life.results()
    assert (held.decision.winner, held.decision.code) == (None, ReasonCode.SAMPLE_RATIO_MISMATCH)


async def test_a_stop_makes_the_analysis_that_is_due_first(life: Life) -> None:
    """So that what is kept does not depend on the minute; without one due it keeps the last analysis's."""
    await life.report(HORIZON, accepted=BETTER)
    stopped = await life.stop()
    assert [each.reports for each in stopped.interim_analyses] == [HORIZON]
    assert stopped.decision is not None
    assert stopped.decision.winner == 1
    assert await life.tick() == stopped
    assert (await life.results()).decision == stopped.decision


async def test_servers_that_come_at_once_make_one_analysis(life: Life) -> None:
    """Each finds it due, one takes it."""
    await life.report(HORIZON // 2)
    async with life.store.read() as session:
        due = await due_experiments(session)
    assert due == ["ex-1"]
    await asyncio.gather(*(analyze_all(due, life.act) for _ in range(4)))
    assert len((await life.now()).interim_analyses) == 1


async def test_an_experiment_without_interim_analyses_is_decided_at_any_time(store: Store) -> None:
    """As ever: nothing is due, nothing is kept, and what is read is what the reports say."""
    life = await begin(store, ExperimentPlan())
    await life.report(HORIZON, accepted=BETTER)
    record = await life.tick()
    assert (record.interim_analyses, next_analysis_reports(record)) == ((), None)
    found = await life.results()
    assert (found.decision.winner, found.next_analysis_reports) == (1, None)
    assert await life.act("operator/a", lambda uow: analyze_experiment(uow, "ex-1")) == record


async def test_analyses_are_all_on_the_wire(life: Life) -> None:
    """The experiment carries the analyses, the results the pairs and the next analysis that is due."""
    await life.report(HORIZON // ANALYSES)
    record = await life.tick()
    message = experiment_message(record)
    results = results_message(record, await life.results())
    (seen,) = message.interim_analyses
    (kept,) = record.interim_analyses
    assert (seen.report_count, seen.fraction, seen.boundary) == (kept.reports, kept.fraction, kept.boundary)
    assert (seen.analyzed_at_s, seen.decision.reason) == (life.now_s, kept.decision.reason)
    assert seen.pairs[0].p_value == kept.pairs[0].p_value
    assert results.next_analysis_reports == 2 * HORIZON // ANALYSES
    assert (results.pairs[0].arm, results.pairs[0].versus) == (1, 0)
    assert results.pairs[0].HasField("p_value")


async def test_the_last_analysis_keeps_the_secondary_metrics_by_a_test_that_is_read_once(store: Store) -> None:
    """Always valid until then, kept from then on, whatever is reported later; the same on the wire."""
    refused = MetricRecord("ratio", numerator=("refused",), denominator=("refused", "accepted"), less_is_better=True)
    plan = ExperimentPlan(interim_analyses=2, horizon_reports=HORIZON, planned_reports=HORIZON, secondary=(refused,))
    life = await begin(store, plan)
    await life.report(HORIZON // 2)
    before = await life.tick()
    assert before.interim_analyses[-1].secondary == ()
    assert not (await life.views()).is_at_horizon
    await life.report(HORIZON // 2)
    after = await life.tick()
    (kept,) = after.interim_analyses[-1].secondary
    assert kept.p is not None
    assert kept.p == kept.adjusted_p
    await life.report(HORIZON, accepted=WORSE)
    views = await life.views()
    assert (views.secondary, views.is_at_horizon) == ((kept,), True)
    (seen,) = experiment_message(after).interim_analyses[-1].secondary
    assert (seen.arm, seen.versus, seen.difference.value, seen.p) == (1, 0, kept.value, kept.p)
    message = secondary_view_message(views)
    assert message.is_at_horizon
    assert list(message.differences) == [seen]
    (metric,) = experiment_message(after).secondary
    assert (metric.kind, metric.less_is_better) == (pb.PRIMARY_KIND_RATIO, True)


async def test_reports_that_statistics_refuse_hold_up_no_other_and_no_stop(
    life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analysis is not made and tried again; a stop meanwhile keeps what held before."""
    await life.report(HORIZON // ANALYSES)

    def refuse(*_: object, **__: object) -> None:
        raise ArgumentError("reports", "fewer", "more")

    monkeypatch.setattr(actions, "analyze_interim", refuse)
    assert (await life.tick()).interim_analyses == ()
    stopped = await life.stop()
    assert stopped.decision is not None
    assert (stopped.interim_analyses, stopped.decision.code) == ((), ReasonCode.BEFORE_FIRST_ANALYSIS)


def test_analyses_are_never_too_many_nor_too_near_whenever_somebody_comes() -> None:
    """Any number of analyses, any horizon and times: at most as many as planned, the last with all reports in."""
    rng = np.random.default_rng(20_270_601)
    for _ in range(50):
        interim_analyses, horizon = int(rng.integers(2, 21)), int(rng.integers(50, 5000))
        record = draft(ExperimentPlan(interim_analyses=interim_analyses, planned_reports=horizon))
        reports, last = 0, 0
        for _ in range(400):
            reports += int(rng.integers(0, max(2, horizon // int(rng.integers(1, 60)))))
            if is_due(record, reports):
                assert 2 * interim_analyses * (reports - last) >= horizon
                kept = replace(_any_analysis(reports), fraction=min(1.0, reports / horizon))
                record, last = replace(record, interim_analyses=(*record.interim_analyses, kept)), reports
        assert reports >= horizon
        assert 1 <= len(record.interim_analyses) <= interim_analyses
        assert (record.interim_analyses[-1].fraction, next_analysis_reports(record)) == (1.0, None)


def test_an_analysis_that_is_not_due_is_not_made() -> None:
    """A caller that comes too early learns when it is due."""
    record = mark_started(draft(), now_s=1000)
    task = task_of(record)
    with pytest.raises(ArgumentError, match="at least 20000"):
        analyze_interim(record, Reports.of_cells(task, randomize(record, 19_999, EVEN, (0, 0)), 1), now_s=1)
    nothing = Reports.of_cells(task, [0] * task.cell_count, 0)
    assert evaluate(record, nothing).decision.code == ReasonCode.BEFORE_FIRST_ANALYSIS


def test_so_early_an_analysis_that_nothing_can_be_called_has_no_boundary() -> None:
    """Twenty analyses: at the first the boundary is infinite, so it is absent, and the pair's interval too."""
    plan = ExperimentPlan(interim_analyses=20, planned_reports=HORIZON)
    record = mark_started(draft(plan), now_s=1000)
    found = analyze_interim(
        record, Reports.of_cells(task_of(record), randomize(record, HORIZON // 20, (0.1, 0.9), (0, 0)), 1), now_s=1
    )
    assert (found.boundary, found.decision.kind) == (None, "inconclusive")
    assert (found.pairs[0].low, found.pairs[0].high, found.pairs[0].p_value) == (None, None, None)


def _any_analysis(reports: int) -> InterimAnalysis:
    record = mark_started(draft(ExperimentPlan(interim_analyses=2, planned_reports=2)), now_s=1000)
    found = analyze_interim(record, Reports.of_cells(task_of(record), randomize(record, 2, EVEN, (0, 0)), 1), now_s=1)
    return replace(found, reports=reports)
