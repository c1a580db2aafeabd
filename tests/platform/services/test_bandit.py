"""A bandit moves the shares of an experiment's arms: once a day, within its bounds, from closed windows alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from alcove.api.experiment.v1 import experiment_pb2 as pb
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiment_records import BanditRecord, ExperimentPlan, MetricRecord
from alcove.platform.domain.experiments.bandit import NOTHING_TO_MOVE, closed_reports, is_due, validate_bandit
from alcove.platform.domain.experiments.machine import mark_started
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ArmRecord, Default, ExperimentRecord, ExperimentState, Page
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.server.experiment_convert import experiment_message, results_message
from alcove.platform.server.experiment_views import allocation_message
from alcove.platform.services.experiments import engine
from alcove.platform.services.experiments.allocator import due_bandits, move_all
from alcove.platform.services.experiments.monitor import PRINCIPAL
from alcove.platform.services.reports import read_windows
from alcove.platform.store import Store
from alcove.platform.store.audit import list_audit
from alcove.platform.store.defaults import set_default
from alcove.platform.store.experiments import add_experiment, get_experiment, save_experiment
from alcove.platform.store.publications import Publication, add_publication, last_publication
from alcove.platform.store.reports import add_counts
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import Halt, HaltedVersion, Outcome, VersionRef, policy_from_bytes

from tests.platform.cells import cells_of
from tests.platform.versions import add_released

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DAY = 86_400
START = 1_000_000
BOUNDS = BanditRecord(min_share_basis_points=1000, max_step_basis_points=1000)
CLOSED_AFTER = 4 * DAY  # of a window's start: its day, two more in which devices report it, and one besides
Fields = dict[str, Any]


def draft(*shares: int, **plan: Any) -> ExperimentRecord:
    """Arms of these shares, moved by a bandit."""
    return ExperimentRecord(
        sequence=0, experiment_id="ex-1", app="app", feature="f", salt="0" * 32,
        arms=tuple(ArmRecord(f"arm{i}", f"{i}.0.0", str(i) * 64, share) for i, share in enumerate(shares, 1)),
        state=ExperimentState.DRAFT, epsilon="2", latency_edges_ms=(), window_s=DAY, minimum_cohort=100,
        created_at_s=1, started_at_s=None, stopped_at_s=None, task_id=None, decision=None, policy_serial=0,
        plan=ExperimentPlan(**({"bandit": BOUNDS} | plan)),
    )  # fmt: skip


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """A database of one server: what is stored is compared with PostgreSQL elsewhere."""
    opened = await Store.open(tmp_path / "alcove.db")
    yield opened
    await opened.close()


@dataclass
class Life:
    """One running bandit in one store, and a clock."""

    store: Store
    now_s: int = START

    async def report(
        self, window: int, accepted: Sequence[float], *, reports: int = 100_000, crashed: float = 0.0,
        shares: Sequence[float] = (),
    ) -> None:  # fmt: skip
        """Count the reports of a window as devices with these accepted shares are expected to tell them, randomized."""
        record = await self.now()
        task = task_of(record)
        of_window = next(one for one in reversed(record.allocation.changes) if one.first_window <= window).shares
        parts = shares or [share / sum(of_window) for share in of_window]
        true = np.zeros((len(parts), 4))
        for arm, part in enumerate(parts):
            true[arm, :2] = part * (1.0 - accepted[arm]), part * accepted[arm]
            if task.layout.is_counted(Outcome.FALLBACK):
                lost = crashed if arm else 0.001
                true[arm] *= 1.0 - lost
                true[arm, Outcome.FALLBACK] = part * lost
        mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
        keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
        counts = [int(each) for each in reports * (other + (keep - other) * cells_of(task, true))]
        async with self.store.write() as session:
            await add_counts(session, {(record.task_id or "", window, cell): n for cell, n in enumerate(counts)})

    async def act(
        self, principal: str, work: "Callable[[UnitOfWork], Awaitable[ExperimentRecord]]"
    ) -> ExperimentRecord:
        """As `Mutations.act`."""
        async with self.store.write() as session:
            return await work(UnitOfWork(session, principal, self.now_s))

    async def tick(self, window: int, *, late_s: int = 60) -> ExperimentRecord:
        """What the server does soon after the beginning of a window."""
        self.now_s = task_of(await self.now()).first_window_start_s + window * DAY + late_s
        async with self.store.read() as session:
            due = await due_bandits(session, self.now_s)
        await move_all(due, self.act)
        return await self.now()

    async def now(self) -> ExperimentRecord:
        """The experiment as it is."""
        async with self.store.read() as session:
            return await get_experiment(session, "ex-1")

    async def audit_entries(self, action: str) -> list[Any]:
        """Entries of the audit log."""
        async with self.store.read() as session:
            return [entry for entry in await list_audit(session, Page(0, 100)) if entry.action == action]


async def begin(store: Store, record: ExperimentRecord) -> Life:
    """Start it, as an operator does."""
    async with store.write() as session:
        for arm in record.arms:
            await add_released(session, feature="f", version=arm.version, team="t", manifest_sha256=arm.manifest_sha256)
        await set_default(session, Default("app", "f", "1.0.0", "1" * 64))
        await add_experiment(session, record)
    life = Life(store)
    await life.act("operator/a", lambda uow: engine.start(uow, "ex-1"))
    return life


def shares_of(record: ExperimentRecord) -> list[int]:
    """Of the arms, now."""
    return [arm.share_basis_points for arm in record.arms]


async def test_shares_follow_the_better_arm_from_closed_windows_day_by_day(store: Store) -> None:
    """Not before the window is closed; then a step a day up to the bounds; each a policy of the server's own."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.70, 0.80))
    for window in (1, 2, 3):
        assert shares_of(await life.tick(window)) == [5000, 5000]
    seen = []
    for window in range(4, 10):
        record = await life.tick(window)
        assert await life.tick(window, late_s=120) == record  # once a day
        seen.append(shares_of(record)[1])
        await life.report(window - 3, (0.70, 0.80))
    assert seen == [6000, 7000, 8000, 9000, 9000, 9000]
    async with store.read() as session:
        published = await last_publication(session, "policy", "app")
    assert published is not None
    (one,) = policy_from_bytes(published.document).features["f"].experiments
    assert [arm.share_basis_points for arm in one.arms] == [1000, 9000]
    assert [(each.arm, each.buckets) for each in one.ranges] == [(1, range(9000)), (0, range(9000, 10_000))]
    assert record.policy_serial == published.serial == 5
    assert record.allocation.held == NOTHING_TO_MOVE
    entries = await life.audit_entries("move shares of experiment")
    assert [(entry.principal, entry.details["shares"], entry.details["before"]) for entry in entries[:2]] == [
        (PRINCIPAL, [4000, 6000], [5000, 5000]),
        (PRINCIPAL, [3000, 7000], [4000, 6000]),
    ]
    assert [change.first_window for change in record.allocation.changes] == [0, 4, 5, 6, 7]
    assert min(record.allocation.changes[-1].chances) < 1e-6


async def test_without_a_new_window_shares_stay(store: Store) -> None:
    """However often they are looked at, and however sure the reports are."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.70, 0.80))
    record = await life.tick(4)
    assert shares_of(record) == [4000, 6000]
    for window in (5, 6, 9):
        assert await life.tick(window) == record


async def test_a_look_that_is_late_waits_for_the_next_window(store: Store) -> None:
    """So that a window's reports are nearly all of one split."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.70, 0.80))
    assert shares_of(await life.tick(4, late_s=DAY // 2)) == [5000, 5000]
    assert shares_of(await life.tick(5)) == [4000, 6000]


async def test_servers_of_one_database_move_shares_once(store: Store) -> None:
    """The next one finds it done."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.70, 0.80))
    life.now_s = task_of(await life.now()).first_window_start_s + CLOSED_AFTER
    async with store.read() as session:
        due = await due_bandits(session, life.now_s)
    await asyncio.gather(*(move_all(due, life.act) for _ in range(3)))
    assert shares_of(await life.now()) == [4000, 6000]
    assert len(await life.audit_entries("move shares of experiment")) == 1


async def test_late_counts_of_open_windows_change_nothing(store: Store) -> None:
    """Only what is closed is read; the same counts give the same chances to the last digit."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.700, 0.702))
    await life.report(1, (0.9, 0.1))
    record = await life.tick(4)
    async with store.read() as session:
        closed = closed_reports(await read_windows(session, task_of(record)), life.now_s)
    assert [each.window for each in closed.by_window] == [0]
    assert shares_of(record)[1] > 5000


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reports": 150}, "devices of at least 100"),
        ({"shares": (0.6, 0.4)}, "should have a share of"),
    ],
)
async def test_reports_that_say_too_little_or_cannot_be_move_nothing(store: Store, fields: Fields, reason: str) -> None:
    """The shares stay, with the reason; nothing is decided or audited."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.70, 0.80), **fields)
    record = await life.tick(4)
    assert shares_of(record) == [5000, 5000]
    assert reason in record.allocation.held
    assert await life.audit_entries("move shares of experiment") == []


async def test_a_window_with_too_few_reports_moves_nothing(store: Store) -> None:
    """Of the shares of now nothing is known yet, however much is known of those before."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.70, 0.80))
    assert shares_of(await life.tick(4)) == [4000, 6000]
    await life.report(4, (0.70, 0.80), reports=60)
    record = await life.tick(8)
    assert shares_of(record) == [4000, 6000]
    assert record.allocation.held.startswith("too few reports with shares 40 %, 60 %")
    await life.report(5, (0.70, 0.80))
    assert shares_of(await life.tick(9)) == [3000, 7000]


async def test_shares_of_each_window_are_what_arms_are_held_to(store: Store) -> None:
    """Parts of the reports that follow the moved shares are right; in the window of a change either is."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.70, 0.80))
    for window in (1, 2, 3):
        await life.tick(window)
        await life.report(window, (0.70, 0.80), shares=(0.5, 0.5))
    await life.tick(4)
    await life.report(4, (0.70, 0.80), shares=(0.45, 0.55))  # half of the devices have not heard yet
    for window in range(5, 10):
        record = await life.tick(window)
        await life.report(window, (0.70, 0.80))
    assert shares_of(record) == [1000, 9000]
    async with store.read() as session:
        results = (await engine.read(session, "ex-1"))[1]
    assert results.comparison.sample_ratio.mismatched == ()
    await life.report(9, (0.70, 0.80), shares=(0.5, 0.5), reports=900_000)
    async with store.read() as session:
        results = (await engine.read(session, "ex-1"))[1]
    assert results.decision.code == "sample_ratio_mismatch"


async def test_a_halted_arm_stops_the_moving(store: Store) -> None:
    """Whoever halted it; the experiment keeps the reason."""
    life = await begin(store, draft(5000, 5000))
    await life.report(0, (0.70, 0.80))
    halt = Halt(
        app="app", serial=1,
        halted=(HaltedVersion(feature="f", version=VersionRef(version="2.0.0", manifest_sha256="2" * 64)),),
    )  # fmt: skip
    async with store.write() as session:
        await add_publication(session, Publication("halt", "app", 1, halt.to_bytes(), is_published=False))
    record = await life.tick(4)
    assert shares_of(record) == [5000, 5000]
    assert "arm may not run" in record.allocation.held


async def test_a_harmful_arm_ends_the_experiment(store: Store) -> None:
    """A guardrail's verdict takes the arms from devices, whatever the primary metric says."""
    guard = GuardrailRecord("crash_fallback", 0.005)
    life = await begin(store, draft(5000, 5000, guardrails=(guard,)))
    for window in range(3):
        await life.report(window, (0.70, 0.80), crashed=0.15)
    record = await life.tick(6)
    assert record.state is ExperimentState.STOPPED
    assert record.decision is not None
    assert shares_of(record) == [5000, 5000]
    (entry,) = await life.audit_entries("stop experiment")
    assert entry.principal == PRINCIPAL
    assert await life.tick(7) == record


async def test_results_show_the_shares_and_the_regret_and_no_winner(store: Store) -> None:
    """Chances by all epochs, the history, what was lost, and what a fixed split would have; messages say the same."""
    life = await begin(store, draft(2000, 2000, 2000))
    for window in range(4, 9):
        await life.report(window - 4, (0.70, 0.80, 0.75))
        record = await life.tick(window)
    async with store.read() as session:
        _, results, views = await engine.read(session, "ex-1")
    assert results.decision.code == "adaptive_allocation"
    assert results.decision.winner is None
    assert "arm 1 is the best one" in results.decision.reason
    assert views.bayesian.arms[1].chance_best > 0.99
    assert views.bayesian.differences[0].mean == pytest.approx(0.1, abs=0.01)
    assert [pair.interval for pair in results.comparison.primary_pairs] == [None] * 3
    assert results.comparison.primary_pairs[0].value == pytest.approx(0.1, abs=0.01)
    view = views.allocation
    assert view is not None
    assert sum(shares_of(record)) == 6000
    assert view.changes[-1].shares == tuple(shares_of(record)) == (600, 4800, 600)
    assert view.expected_regret is not None
    assert view.regret_so_far is not None
    assert view.fixed_regret_so_far is not None
    assert 0.0 < view.regret_so_far <= view.fixed_regret_so_far
    assert view.fixed_regret_so_far == pytest.approx(500_000 * 0.05, rel=0.1)
    message = allocation_message(view)
    assert [list(change.shares_basis_points) for change in message.changes] == [list(c.shares) for c in view.changes]
    assert results_message(record, results).decision.kind == pb.DECISION_KIND_INCONCLUSIVE
    assert experiment_message(record).bandit == pb.Bandit(min_share_basis_points=1000, max_step_basis_points=1000)


def test_only_bandits_have_a_look_that_is_due() -> None:
    """Not a draft, and no experiment of fixed shares."""
    fixed = mark_started(draft(5000, 5000, bandit=None), now_s=START)
    assert not is_due(fixed, START + 9 * DAY)
    assert not is_due(draft(5000, 5000), START)
    moving = mark_started(draft(5000, 5000), now_s=START)
    assert is_due(moving, START)
    hourly = replace(moving, window_s=3600, allocation=replace(moving.allocation, looked_window=10))
    start_s = task_of(hourly).first_window_start_s
    assert [is_due(hourly, start_s + window * 3600) for window in (11, 33, 34, 35)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"bandit": BanditRecord(5001, 1000)}, "bandit.min_share_basis_points"),
        ({"bandit": BanditRecord(99, 1000)}, "bandit.min_share_basis_points"),
        ({"bandit": BanditRecord(1000, 99)}, "bandit.max_step_basis_points"),
        ({"bandit": BanditRecord(1000, 5001)}, "bandit.max_step_basis_points"),
        ({"mde": 0.02}, "plan.mde"),
        ({"interim_analyses": 4, "horizon_reports": 1000}, "plan.interim_analyses"),
        ({"pre_edges": (0.5,)}, "pre_edges"),
        ({"secondary": (MetricRecord("latency_mean"),)}, "secondary"),
        ({"own_guardrails": (1,)}, "own_guardrails"),
        ({"primary": "latency_quantile", "quantile": 0.5}, "primary.kind"),
    ],
)
def test_nonsense_is_refused_by_name(fields: Fields, field: str) -> None:
    """Bounds that cannot be kept, and plans that only a fixed split's tests read."""
    with pytest.raises(InvalidFieldError) as error:
        validate_bandit(draft(5000, 5000, **fields))
    assert error.value.field == field


def test_least_shares_have_to_fit_all_arms() -> None:
    """Together at most all devices, and no arm begins below its own."""
    with pytest.raises(InvalidFieldError, match="100 to 3333"):
        validate_bandit(draft(3000, 3000, 3000, bandit=BanditRecord(3400, 1000)))
    with pytest.raises(InvalidFieldError, match=r"at least 10 % of the experiment's 1000"):
        validate_bandit(draft(950, 50))
    validate_bandit(draft(900, 100))
    validate_bandit(draft(950, 50, bandit=None))


async def test_starting_shares_are_kept_with_the_experiment(store: Store) -> None:
    """A server that restarts reads what another wrote."""
    life = await begin(store, draft(5000, 5000))
    record = await life.now()
    assert [change.shares for change in record.allocation.changes] == [(5000, 5000)]
    async with store.write() as session:
        assert replace(await save_experiment(session, record), revision=record.revision) == record
