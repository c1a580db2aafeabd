"""The collector stores each window once, whatever fails and whoever is away, and says why one is missing."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.aggregator.problems import DapProblem, ProblemType
from alcove.platform.domain import limits
from alcove.platform.domain.collection import CollectedTask, CollectionStatus
from alcove.platform.domain.errors import PeerUnavailableError, ServerError, StoreFullError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState
from alcove.platform.server.collector import Collector
from alcove.platform.services.collection import collected_tasks, read_progress
from alcove.platform.services.reports import read_reports
from alcove.platform.store import Store
from alcove.platform.store.collected_windows import collected_windows
from alcove.platform.store.experiments import add_experiment, get_experiment, save_experiment
from alcove.platform.store.window_requests import window_requests
from alcove.privacy.dap.release import Release
from alcove.privacy.dap.task import DapTask
from alcove.registry.policy import Aggregation, TaskPolicy
from alcove.runtime.testing_seams import ManualClock
from sqlalchemy.ext.asyncio import AsyncSession

from tests.platform.versions import add_released

AGGREGATION = Aggregation(leader_url="https://leader.example", helper_url="https://helper.example", min_batch_size=100)
START_S = 1_800_000_000
WINDOW_S = 3600
COUNTS = (30, 20, 25, 25, 10)  # the last one idle
NOTHING = lambda _call, _when: None  # noqa: E731


@dataclass
class Leader:
    """A leader in memory: a window is under way when it is first asked for, and has `COUNTS` times its number + 1.

    Attributes:
        fault: called with the number of the call, "before" and "after" it; what it raises is what the collector sees.
        small: windows, by their time, that have too few reports.
        asked: how often each window was asked for.
        announced: how often each task was announced.
        most_at_once: most windows that were asked for at the same time.
    """

    fault: Callable[[int, str], None] = NOTHING
    small: set[int] = field(default_factory=set)
    asked: Counter[int] = field(default_factory=Counter)
    announced: Counter[bytes] = field(default_factory=Counter)
    calls: int = 0
    at_once: int = 0
    most_at_once: int = 0
    change: Callable[[Release], Release] = lambda release: release

    async def announce(self, task: DapTask) -> None:
        """Take part in a task."""
        self._begin("before")
        self.announced[task.task_id] += 1
        self.fault(self.calls, "after")

    async def collect(self, task: DapTask, start: int, duration: int) -> Release | None:
        """Answer as the leader does."""
        self._begin("before")
        if not self.announced[task.task_id]:
            raise DapProblem(ProblemType.UNRECOGNIZED_TASK, "it was never announced")
        assert duration == 1
        self.asked[start] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0)
        self.at_once -= 1
        self.fault(self.calls, "after")
        if start in self.small:
            raise DapProblem(ProblemType.INVALID_BATCH_SIZE, "57 reports, fewer than 100\x1b[2J")
        if self.asked[start] == 1:
            return None
        factor = start - START_S // WINDOW_S + 1
        sums = tuple(count * factor for count in COUNTS)
        return self.change(Release(sum(sums), start, 1, sums))

    def _begin(self, when: str) -> None:
        self.calls += 1
        self.fault(self.calls, when)


async def start_experiment(store: Store, **changes: Any) -> TaskPolicy:
    """Write an experiment that runs since `START_S`; return its task."""
    record = ExperimentRecord(
        sequence=0, experiment_id="ex-1", app="mail", feature="text", salt="0" * 32,
        arms=tuple(ArmRecord(name, "1.0.0", "1" * 64, 5000) for name in ("control", "larger")),
        state=ExperimentState.DRAFT, epsilon="1", latency_edges_ms=(), window_s=WINDOW_S, minimum_cohort=50,
        created_at_s=START_S, started_at_s=None, stopped_at_s=None, task_id=None, decision=None, policy_serial=1,
        plan=ExperimentPlan(aggregation=AGGREGATION),
    )  # fmt: skip
    record = replace(record, **changes)
    async with store.write() as session:
        await add_released(session, feature="text", version="1.0.0", team="text", manifest_sha256="1" * 64)
        added = await add_experiment(session, record)
        started_at_s = START_S + limits.WINDOW_LATE_S
        await save_experiment(session, replace(added, state=ExperimentState.RUNNING, started_at_s=started_at_s))
    async with store.read() as session:
        (of,) = await collected_tasks(session, START_S)
    return of.task


async def status_of(store: Store, now_s: int) -> CollectionStatus:
    """Return what became of the windows of the one task."""
    async with store.read() as session:
        (of,) = await collected_tasks(session, now_s)
        return (await read_progress(session, of)).status(now_s)


async def stop_experiment(store: Store, now_s: int) -> None:
    """Write that it was stopped."""
    async with store.write() as session:
        record = await get_experiment(session, "ex-1")
        await save_experiment(session, replace(record, state=ExperimentState.STOPPED, stopped_at_s=now_s))


@pytest.fixture
def leader() -> Leader:
    """A leader that answers."""
    return Leader()


@pytest.fixture
def clock() -> ManualClock:
    """Stands where the experiment has begun."""
    return ManualClock(START_S + 600)


async def test_window_is_asked_for_when_the_next_one_is_over(store: Store, leader: Leader, clock: ManualClock) -> None:
    """Not a second before; then the task's results have its reports, and nothing is asked twice."""
    task = await start_experiment(store)
    collector = Collector(store, leader, AGGREGATION, clock)
    clock.time_s = START_S + 2 * WINDOW_S - 1
    await collector.run()
    assert (list(leader.announced.values()), leader.asked) == ([1], {})
    assert (await status_of(store, clock.time_s)).next_at_s == START_S + 2 * WINDOW_S
    clock.time_s += 1
    for _ in range(4):
        await collector.run()
        clock.time_s += 60
    assert leader.asked == {START_S // WINDOW_S: 2}
    async with store.read() as session:
        reports = await read_reports(session, task)
        assert await window_requests(session, task.task_id) == {}
    assert (reports.counts, reports.reports, reports.released, reports.windows) == (COUNTS[:-1], 100, 110, 1)
    assert await status_of(store, clock.time_s) == CollectionStatus(1, (), START_S + 3 * WINDOW_S, "")


async def test_windows_of_a_stopped_experiment_are_collected_to_the_last(
    store: Store, leader: Leader, clock: ManualClock
) -> None:
    """The one in which it was stopped is the last one."""
    task = await start_experiment(store)
    clock.time_s = START_S + 3 * WINDOW_S + 5
    await stop_experiment(store, clock.time_s)
    clock.time_s = START_S + 9 * WINDOW_S
    collector = Collector(store, leader, AGGREGATION, clock)
    for _ in range(2):
        await collector.run()
    async with store.read() as session:
        assert await collected_windows(session, task.task_id) == {0, 1, 2, 3}
    assert await status_of(store, clock.time_s) == CollectionStatus(4, (), None, "")


async def test_batch_that_is_too_small_is_asked_for_again_and_given_up(
    store: Store, leader: Leader, clock: ManualClock
) -> None:
    """Ever more rarely for two weeks, with the leader's reason in printable words; a later window waits for nothing."""
    await start_experiment(store)
    time = START_S // WINDOW_S
    leader.small = {time}
    collector = Collector(store, leader, AGGREGATION, clock)
    clock.time_s = START_S + 3 * WINDOW_S
    for _ in range(3):
        await collector.run()
        clock.time_s += 1
    waits = await status_of(store, clock.time_s)
    assert (waits.collected, waits.waiting, waits.missing) == (1, 1, 0)
    assert waits.uncollected[0].reason == "invalidBatchSize: 57 reports, fewer than 100?[2J"
    await stop_experiment(store, clock.time_s)
    for _ in range(15 * 4):
        await collector.run()
        clock.time_s += 6 * 3600
    assert 14 * 4 - 4 < leader.asked[time] < 14 * 4 + 4
    given_up = await status_of(store, clock.time_s)
    assert [(one.window, one.is_missing) for one in given_up.uncollected] == [(0, True)]
    assert "fewer than 100" in given_up.uncollected[0].reason
    leader.small.clear()
    asked = leader.asked[time]
    await collector.run()
    assert leader.asked[time] == asked


async def test_batch_that_grows_is_collected_late(store: Store, leader: Leader, clock: ManualClock) -> None:
    """The store has it as if it had been in time."""
    task = await start_experiment(store)
    leader.small = {START_S // WINDOW_S}
    collector = Collector(store, leader, AGGREGATION, clock)
    clock.time_s = START_S + 2 * WINDOW_S
    await collector.run()
    leader.small.clear()
    clock.time_s += limits.COLLECT_AGAIN_S[1]
    await stop_experiment(store, START_S + 1000)
    for _ in range(2):
        await collector.run()
    async with store.read() as session:
        assert (await read_reports(session, task)).counts == COUNTS[:-1]


async def test_leader_that_is_away_is_left_alone_longer_and_longer(
    files_store: Store, leader: Leader, clock: ManualClock
) -> None:
    """For six hours: seventy calls, not one for each pass; the reason is shown; then all windows come."""
    task = await start_experiment(files_store)

    def be_away(_call: int, _when: str) -> None:
        raise PeerUnavailableError(AGGREGATION.leader_url, "no answer: ClientConnectorError")

    collector = Collector(files_store, leader, AGGREGATION, clock)
    await collector.run()
    leader.fault, leader.calls = be_away, 0
    for _ in range(6 * 60):
        await collector.run()
        clock.time_s += 60
    assert 6 * 10 < leader.calls < 6 * 13  # one each five minutes
    flags = [collector.is_leader_away]
    away = await status_of(files_store, clock.time_s)
    assert (away.collected, away.waiting) == (0, 5)
    assert {one.reason for one in away.uncollected} == {"https://leader.example: no answer: ClientConnectorError"}
    leader.fault = NOTHING
    for _ in range(10):
        clock.time_s += 300
        await collector.run()
    assert [*flags, collector.is_leader_away] == [True, False]
    async with files_store.read() as session:
        found = await collected_windows(session, task.task_id)
    assert found >= set(CollectedTask(task).windows(clock.time_s - 600))


async def test_leader_that_refuses_the_task_is_asked_for_no_window(
    store: Store, leader: Leader, clock: ManualClock
) -> None:
    """Its reason is in the status before the first window is over; when its rules have changed, all goes on."""
    await start_experiment(store)

    def refuse(_call: int, _when: str) -> None:
        raise DapProblem(ProblemType.INVALID_TASK, "epsilon 1 is more than 1/2")

    leader.fault = refuse
    collector = Collector(store, leader, AGGREGATION, clock)
    for _ in range(10):
        await collector.run()
        clock.time_s += 60
    assert leader.calls == 1
    assert (await status_of(store, clock.time_s)).problem == "invalidTask: epsilon 1 is more than 1/2"
    leader.fault = NOTHING
    clock.time_s = START_S + 2 * WINDOW_S
    for _ in range(2):
        await collector.run()
    assert await status_of(store, clock.time_s) == CollectionStatus(1, (), START_S + 3 * WINDOW_S, "")


async def test_task_of_other_aggregators_is_not_asked_for(store: Store, leader: Leader, clock: ManualClock) -> None:
    """This collector's token goes to its own leader alone; the status names both pairs."""
    other = AGGREGATION.model_copy(update={"leader_url": "https://other.example"})
    await start_experiment(store, plan=ExperimentPlan(aggregation=other))
    clock.time_s = START_S + 5 * WINDOW_S
    await Collector(store, leader, AGGREGATION, clock).run()
    assert leader.calls == 0
    found = await status_of(store, clock.time_s)
    assert found.waiting == 4
    assert "other.example and https://helper.example, this server's https://leader.example" in found.problem
    assert {one.reason for one in found.uncollected} == {found.problem}


async def test_leader_that_has_lost_its_rows_gets_the_task_again(
    store: Store, leader: Leader, clock: ManualClock
) -> None:
    """At the next pass, not after an hour."""
    task = await start_experiment(store)
    collector = Collector(store, leader, AGGREGATION, clock)
    await collector.run()
    leader.announced.clear()
    clock.time_s = START_S + 2 * WINDOW_S
    for _ in range(3):
        await collector.run()
        clock.time_s += limits.COLLECT_AGAIN_S[0]
    async with store.read() as session:
        assert await collected_windows(session, task.task_id) == {0}


@pytest.mark.parametrize(
    "change",
    [
        lambda release: replace(release, start=release.start + 1),
        lambda release: replace(release, duration=2),
        lambda release: replace(release, reports=99),
        lambda release: replace(release, sums=release.sums[1:]),
        lambda release: replace(release, sums=(10**13, *release.sums[1:])),
    ],
)
async def test_release_that_is_none_is_not_stored(
    files_store: Store, leader: Leader, clock: ManualClock, change: Callable[[Release], Release]
) -> None:
    """Of another window, of too few reports, of other cells, out of bounds: it waits, and the reason is shown."""
    await start_experiment(files_store)
    leader.change = change
    clock.time_s = START_S + 2 * WINDOW_S
    collector = Collector(files_store, leader, AGGREGATION, clock)
    for _ in range(2):
        await collector.run()
    found = await status_of(files_store, clock.time_s)
    assert (found.collected, found.waiting) == (0, 1)
    assert "release" in found.uncollected[0].reason


@pytest.fixture
async def files_store(tmp_path: Path) -> AsyncIterator[Store]:
    """A database in a file: for what the kind of database does not change."""
    opened = await Store.open(tmp_path / "files.db")
    yield opened
    await opened.close()


@pytest.mark.thorough
async def test_clock_that_was_ahead_leaves_no_window_for_later(
    files_store: Store, leader: Leader, clock: ManualClock
) -> None:
    """What was put off by a clock that was wrong is done when the clock is right again."""
    task = await start_experiment(files_store)
    clock.time_s = START_S + 2 * WINDOW_S
    leader.small = {START_S // WINDOW_S}
    ahead = ManualClock(clock.time_s + 13 * 86_400)
    for _ in range(2):
        await Collector(files_store, leader, AGGREGATION, ahead).run()
        ahead.time_s += 1
    leader.small.clear()
    collector = Collector(files_store, leader, AGGREGATION, clock)
    for _ in range(2):
        await collector.run()
    assert leader.announced[next(iter(leader.announced))] == 2
    async with files_store.read() as session:
        assert 0 in await collected_windows(session, task.task_id)


async def test_two_servers_of_one_database_ask_for_each_window_in_turn(
    store: Store, leader: Leader, clock: ManualClock
) -> None:
    """Passes at the same time: of ten windows each is asked for once a round, and all are stored once."""
    task = await start_experiment(store)
    clock.time_s = START_S + 11 * WINDOW_S
    collectors = [Collector(store, leader, AGGREGATION, clock) for _ in range(3)]
    await collectors[0].run()
    assert set(leader.asked.values()) == {1}
    assert leader.most_at_once == limits.COLLECT_CALLS < 10
    clock.time_s += 60
    await asyncio.gather(*(collector.run() for collector in collectors))
    assert set(leader.asked.values()) == {2}
    async with store.read() as session:
        assert await collected_windows(session, task.task_id) == set(range(10))


async def test_server_that_stops_leaves_a_slow_leader_at_once(
    files_store: Store, leader: Leader, clock: ManualClock
) -> None:
    """The call ends, the window is free for the next server, and nothing is said of a leader that is away."""
    await start_experiment(files_store)
    collector = Collector(files_store, leader, AGGREGATION, clock)
    await collector.run()
    never = asyncio.Event()
    reached = asyncio.Event()

    async def hang(task: DapTask, start: int, duration: int) -> Release | None:
        reached.set()
        await never.wait()
        return None

    answer, leader.collect = leader.collect, hang  # type: ignore[method-assign]
    clock.time_s = START_S + 2 * WINDOW_S
    running = asyncio.create_task(collector.run())
    await reached.wait()
    await collector.stop()
    await running
    await collector.run()
    assert (await status_of(files_store, clock.time_s)).uncollected[0].reason == "it was not asked for yet"
    leader.collect = answer  # type: ignore[method-assign]
    following = Collector(files_store, leader, AGGREGATION, clock)
    for _ in range(2):
        await following.run()
        clock.time_s += 1
    assert (await status_of(files_store, clock.time_s)).collected == 1


class KilledError(Exception):
    """The process is killed here."""


@dataclass
class FaultyStore(Store):
    """A store whose nth call fails: as it begins, as it commits, or after it has committed."""

    inner: Store
    fails_at: int
    when: str
    calls: int = 0

    @asynccontextmanager
    async def read(self, *, is_long: bool = False) -> AsyncIterator[AsyncSession]:
        """Give a session, unless it is this call's turn to fail."""
        self.calls += 1
        if self.calls == self.fails_at:
            raise StoreFullError("the disk", "is full")
        async with self.inner.read(is_long=is_long) as session:
            yield session

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Give a session, unless it is this call's turn to fail."""
        self.calls += 1
        is_turn = self.calls == self.fails_at
        if is_turn and self.when == "begins":
            raise StoreFullError("the disk", "is full")
        async with self.inner.write() as session:
            yield session
            if is_turn and self.when == "commits":
                raise StoreFullError("the disk", "is full")
        if is_turn:
            raise StoreFullError("the disk", "is full")


async def _collect_all(store: Store, leader: Leader, clock: ManualClock) -> None:
    """Run passes; after each that fails everything in memory is lost, and the leases of the killed server end."""
    collector = Collector(store, leader, AGGREGATION, clock)
    for _ in range(6):
        try:
            await collector.run()
        except (ServerError, KilledError):
            collector = Collector(store, leader, AGGREGATION, clock)
            clock.time_s += limits.COLLECT_LEASE_S
        clock.time_s += 60


@pytest.mark.parametrize("when", ["begins", "commits", "has committed", "before", "after"])
async def test_failure_at_every_call_stores_each_window_once(tmp_path: Path, when: str) -> None:
    """The nth call of the database or of the leader fails, for every n until none is left; the sums are the same."""
    template = tmp_path / "template.db"
    made = await Store.open(template)
    task = await start_experiment(made)
    await stop_experiment(made, START_S + WINDOW_S + 1)
    await made.close()
    at = 0
    while True:
        at += 1
        place = tmp_path / f"{at}.db"
        shutil.copy(template, place)
        inner = await Store.open(place)
        is_leaders = when in ("before", "after")
        store = FaultyStore(inner, 0 if is_leaders else at, when)

        def fail(call: int, now: str, at: int = at) -> None:
            if (call, now) == (at, when):
                raise KilledError

        leader, clock = Leader(fault=fail), ManualClock(START_S + 5 * WINDOW_S)
        await _collect_all(store, leader, clock)
        async with inner.read() as session:
            reports = await read_reports(session, task)
            assert await window_requests(session, task.task_id) == {}
        await inner.close()
        assert (reports.counts, reports.windows) == (tuple(3 * count for count in COUNTS[:-1]), 2), at
        if (leader.calls if is_leaders else store.calls) < at:
            break
    assert at > 5
