"""Read-outs of a holdout from their start to the one analysis, and what ends them before it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.platform.domain.errors import (
    IllegalTransitionError,
    InvalidFieldError,
    PlatformError,
    ReadoutRunningError,
    ResourceNotFoundError,
    StaleEtagError,
)
from alcove.platform.domain.own_metrics import OwnMetric
from alcove.platform.domain.readout_records import ReadoutMetric, ReadoutPlan, ReadoutRecord
from alcove.platform.domain.readouts.plan import fill_plan
from alcove.platform.domain.readouts.task import least_days, schedule_of, task_of
from alcove.platform.domain.records import Default, Page
from alcove.platform.server.readout_convert import readout_message
from alcove.platform.services.collection import collected_tasks
from alcove.platform.services.experiments.layers import set_holdout
from alcove.platform.services.policy.decide import decide_policy
from alcove.platform.services.readouts import engine
from alcove.platform.services.readouts.monitor import PRINCIPAL, end_all
from alcove.platform.store import Store
from alcove.platform.store.audit import list_audit
from alcove.platform.store.defaults import set_default
from alcove.platform.store.publications import Publication, add_publication, last_publication
from alcove.platform.store.readouts import get_readout, list_readouts
from alcove.platform.store.reports import add_counts
from alcove.platform.store.running_tasks import running_tasks
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import (
    Aggregation,
    Halt,
    HaltedVersion,
    Outcome,
    Policy,
    VersionRef,
    policy_from_bytes,
)
from alcove.registry.policy.metric import MetricKind

from tests.platform.versions import add_released

DAY = 86_400
START = 1_800_000_000
QUARTER = START + 120 * DAY
AGGREGATORS = Aggregation(leader_url="https://a.example", helper_url="https://b.example", min_batch_size=100)


@dataclass
class Life:
    """An app in one store, and a clock."""

    store: Store
    now_s: int = START

    async def act(
        self, principal: str, work: "Callable[[UnitOfWork], Awaitable[Any]]", min_versions: dict[str, str] | None = None
    ) -> Any:
        """As `Mutations.act`."""
        async with self.store.write() as session:
            return await work(UnitOfWork(session, principal, self.now_s, min_versions or {}))

    async def hold_out(self, share: int) -> None:
        """Set the holdout."""
        await self.act("operator/a", lambda uow: set_holdout(uow, app="app", share_basis_points=share, etag=""))

    async def start(self, *features: str, until_s: int = QUARTER, **plan: Any) -> ReadoutRecord:
        """Start a read-out, as an operator."""
        spec = engine.ReadoutSpec("app", features or ("f", "g"), ReadoutPlan(**{"epsilon": "", **plan}), until_s)
        found: ReadoutRecord = await self.act("operator/a", lambda uow: engine.start(uow, spec))
        return found

    async def tick(self, readout_id: str) -> ReadoutRecord:
        """What the server does every minute."""
        await end_all([readout_id], self.act)
        return await self.now(readout_id)

    async def now(self, readout_id: str) -> ReadoutRecord:
        """The read-out as it is."""
        async with self.store.read() as session:
            return await get_readout(session, readout_id)

    async def policy(self) -> Policy:
        """The newest policy."""
        async with self.store.read() as session:
            found = await last_publication(session, "policy", "app")
        assert found is not None
        return policy_from_bytes(found.document)

    async def ship(self, feature: str, version: str, min_versions: dict[str, str] | None = None) -> None:
        """Make a version the default."""

        async def work(uow: UnitOfWork) -> int:
            await set_default(uow.session, Default("app", feature, version, version[0] * 64))
            return await decide_policy(uow, "app")

        await self.act("operator/a", work, min_versions)

    async def report(self, record: ReadoutRecord, window: int, accepted: Sequence[float], devices: int) -> None:
        """Count what so many devices of each group are expected to tell in a window."""
        task = task_of(record)
        mechanism = RandomizedResponse(task.cell_count, task.epsilon_fraction)
        keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
        true = np.array([[1.0 - share, share] for share in accepted]).ravel() * devices
        counts = (other * 2 * devices + (keep - other) * true).round().astype(int)
        async with self.store.write() as session:
            await add_counts(session, {(task.task_id, window, cell): int(n) for cell, n in enumerate(counts)})


@pytest.fixture
async def life(tmp_path: Path) -> AsyncIterator[Life]:
    """An app with two features and a holdout of a tenth."""
    store = await Store.open(tmp_path / "alcove.db")
    async with store.write() as session:
        for feature in ("f", "g"):
            for version in ("1.0.0", "2.0.0"):
                await add_released(session, feature=feature, version=version, team="t", manifest_sha256=version[0] * 64)
            await set_default(session, Default("app", feature, "1.0.0", "1" * 64))
    life = Life(store)
    await life.hold_out(1000)
    yield life
    await store.close()


async def test_policy_keeps_the_first_days_versions_whatever_is_shipped_later(life: Life) -> None:
    """Of each feature that is named; its task is running, and the holdout stays as it is."""
    record = await life.start()
    await life.ship("f", "2.0.0")
    policy = await life.policy()
    assert policy.features["f"].default.version == "2.0.0"
    assert policy.holdout is not None
    readout = policy.holdout.readout
    assert readout is not None
    assert {name: ref.version for name, ref in readout.kept.items()} == {"f": "1.0.0", "g": "1.0.0"}
    assert (readout.feature, readout.until_s, readout.task) == ("f", QUARTER, task_of(record))
    async with life.store.read() as session:
        assert readout.task.task_id in await running_tasks(session)
        assert [one.readout_id for one in await list_readouts(session, Page(0, 10), app="app")] == [record.readout_id]
    for share in (500, 2000):
        with pytest.raises(ReadoutRunningError, match=record.readout_id):
            await life.hold_out(share)
    with pytest.raises(ReadoutRunningError, match="stop it, or wait for its end"):
        await life.start()


async def test_one_analysis_is_made_when_the_last_day_is_over(life: Life) -> None:
    """Nothing before it decides; only measured windows are read; it is kept, audited, and frees the devices."""
    record = await life.start()
    assert (record.plan.months, record.plan.window_s, record.plan.epsilon) == (3, 10 * DAY, "2")
    for window in range(9):
        await life.report(record, window, (0.70, 0.72), 40_000)
    await life.report(record, 9, (0.9, 0.1), 10**6)
    for now_s in (START + DAY, QUARTER - 1):
        life.now_s = now_s
        assert await life.tick(record.readout_id) == record
    message = readout_message(record)
    assert message.summary.startswith("There is no result yet: f is measured from 2027-02-14")
    assert "analyzed once, at 2027-05-15 08:00 UTC; nothing before that decides" in message.summary
    assert not message.HasField("result")
    life.now_s = QUARTER
    for _ in range(2):
        done = await life.tick(record.readout_id)
    assert (done.state, done.ended_at_s, done.policy_serial) == ("finished", QUARTER, 3)
    result = done.result
    assert result is not None
    assert (result.code, result.months, result.reports) == ("better", 3, 9 * 80_000)
    assert result.held_out == pytest.approx(0.70, abs=1e-3)
    assert result.difference == pytest.approx(0.02, abs=1e-3)
    assert result.lift == pytest.approx(0.02 / 0.7, abs=2e-3)
    assert result.summary.startswith(
        "What was shipped is better. The accepted share of rated answers of devices with everything that was shipped"
        " since 2027-01-15, less that of devices that kept the versions of that day, is +2.00 points: +"
    )
    assert readout_message(done).summary == result.summary
    holdout = (await life.policy()).holdout
    assert holdout is not None
    assert holdout.readout is None
    async with life.store.read() as session:
        assert not await running_tasks(session)
        entries = [entry for entry in await list_audit(session, Page(0, 100)) if "read-out" in entry.action]
    assert [(entry.principal, entry.action) for entry in entries] == [
        ("operator/a", "start read-out"), (PRINCIPAL, "finish read-out"),
    ]  # fmt: skip
    assert (await life.start(until_s=QUARTER + 90 * DAY)).state == "running", "another may follow"


async def test_groups_of_other_sizes_have_no_result(life: Life) -> None:
    """The mirror group sent a tenth less: the sentence says so, and no number is given."""
    record = await life.start(months=1)
    task = task_of(record)
    async with life.store.write() as session:
        counts = {(task.task_id, 0, cell): n for cell, n in enumerate((20_000, 60_000, 17_000, 52_000))}
        await add_counts(session, counts)
    life.now_s = QUARTER
    result = (await life.tick(record.readout_id)).result
    assert result is not None
    assert (result.code, result.difference) == ("sample_ratio_mismatch", None)
    assert result.summary.startswith("Nothing can be said of the accepted share of rated answers: the holdout sent")


async def test_read_out_without_reports_ends_all_the_same(life: Life) -> None:
    """With a sentence; months that nobody reported in are left out of one that has some."""
    record = await life.start()
    await life.report(record, 4, (0.7, 0.7), 40_000)
    life.now_s = QUARTER
    result = (await life.tick(record.readout_id)).result
    assert result is not None
    assert (result.code, result.months) == ("interval_includes_zero", 1)
    assert result.summary.startswith("No difference was found.")
    life.now_s = QUARTER
    empty = await life.start(until_s=QUARTER + 90 * DAY)
    life.now_s = QUARTER + 90 * DAY
    result = (await life.tick(empty.readout_id)).result
    assert result is not None
    assert (result.code, result.summary.endswith("there are no reports.")) == ("no_reports", True)


async def halt(life: Life, feature: str, version: str) -> None:
    """Forbid a version in the app."""
    ref = VersionRef(version=version, manifest_sha256=version[0] * 64)
    document = Halt(app="app", serial=1, halted=(HaltedVersion(feature=feature, version=ref),))

    async def work(uow: UnitOfWork) -> None:
        await add_publication(uow.session, Publication("halt", "app", 1, document.to_bytes(), is_published=False))

    await life.act("halt", work)


async def test_halt_of_the_measured_version_stops_it(life: Life) -> None:
    """At the next look, with the reason; the policy names it no more."""
    record = await life.start()
    await life.ship("f", "2.0.0")
    await life.ship("g", "2.0.0")
    await halt(life, "f", "1.0.0")
    done = await life.tick(record.readout_id)
    assert (done.state, done.result) == ("stopped", None)
    assert done.end_reason == "f 1.0.0 may not run any more: there is nothing to compare with"
    assert readout_message(done).summary == f"It was stopped without a result: {done.end_reason}."
    holdout = (await life.policy()).holdout
    assert holdout is not None
    assert holdout.readout is None


async def test_minimum_version_lets_go_of_what_it_forbids(life: Life) -> None:
    """Of another feature than the measured one alone that one; of the measured one all, and the read-out is stopped."""
    record = await life.start()
    await life.ship("g", "2.0.0", {"g": "1.5.0"})
    holdout = (await life.policy()).holdout
    assert holdout is not None
    assert holdout.readout is not None
    assert set(holdout.readout.kept) == {"f"}
    await life.ship("f", "2.0.0", {"f": "1.5.0"})
    holdout = (await life.policy()).holdout
    assert holdout is not None
    assert holdout.readout is None

    async def act(principal: str, work: Callable[[UnitOfWork], Awaitable[Any]]) -> Any:
        return await life.act(principal, work, {"f": "1.5.0"})

    await end_all([record.readout_id], act)
    assert (await life.now(record.readout_id)).state == "stopped"


async def test_stopping_frees_the_devices_and_gives_no_result(life: Life) -> None:
    """With a reason and an etag; what has ended stays so."""
    record = await life.start()

    def stop(etag: str = "", reason: str = "wrong feature") -> Any:
        return life.act("operator/a", lambda uow: engine.stop(uow, record.readout_id, reason=reason, etag=etag))

    with pytest.raises(StaleEtagError):
        await stop("777")
    with pytest.raises(InvalidFieldError, match="reason"):
        await stop(reason=" ")
    done = await stop(str(record.revision))
    assert (done.state, done.end_reason, done.result) == ("stopped", "wrong feature", None)
    holdout = (await life.policy()).holdout
    assert holdout is not None
    assert holdout.readout is None
    with pytest.raises(IllegalTransitionError, match="stopped"):
        await stop()
    life.now_s = QUARTER
    assert await life.tick(record.readout_id) == done


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"features": ("f", "f")}, InvalidFieldError, "each feature once"),
        ({"features": ("nothing",)}, ResourceNotFoundError, "no default version named 'app/nothing'"),
        ({"until_s": START + 59 * DAY}, InvalidFieldError, "at least 60 days from now"),
        ({"months": 4}, InvalidFieldError, "at least 150 days from now"),
        ({"until_s": START + 401 * DAY}, InvalidFieldError, "at most 400 days"),
        ({"window_s": DAY}, InvalidFieldError, "30 reports of a device in 30 days"),
        ({"metric": ReadoutMetric.LATENCY_MEAN}, InvalidFieldError, "latency_edges_ms"),
        (
            {"metric": ReadoutMetric.LATENCY_SHARE, "latency_edges_ms": (100.0,), "edge_ms": 50.0},
            InvalidFieldError,
            "one of the latency edges 100",
        ),
        ({"metric": ReadoutMetric.OWN, "own": OwnMetric("undo", 0)}, ResourceNotFoundError, "undo"),
    ],
)
async def test_what_cannot_be_read_out_is_refused(
    life: Life, options: dict[str, Any], error: type[PlatformError], words: str
) -> None:
    """Each with the bound; nothing is kept."""
    asked = {"features": ("f",), **options}
    with pytest.raises(error, match=words):
        await life.start(*asked.pop("features"), **asked)
    async with life.store.read() as session:
        assert not await list_readouts(session, Page(0, 10), app="app")


@pytest.mark.parametrize("share", [0, 5001])
async def test_app_without_a_holdout_that_leaves_a_mirror_group_is_refused(life: Life, share: int) -> None:
    """None, or more than half."""
    await life.hold_out(share)
    with pytest.raises(InvalidFieldError, match=f"which holds out {share}"):
        await life.start()


@pytest.mark.parametrize(
    ("plan", "outcomes", "lag_days"),
    [
        (ReadoutPlan(), ((Outcome.REFUSED,), (Outcome.ACCEPTED,)), 0),
        (ReadoutPlan(ReadoutMetric.LATENCY_MEAN, latency_edges_ms=(10.0,)), "one", 10),
        (ReadoutPlan(ReadoutMetric.OWN, own=OwnMetric("undo", 1, MetricKind.COUNT, (2.0,), 5.0)), (), 10),
        (ReadoutPlan(aggregation=AGGREGATORS), ((Outcome.REFUSED,), (Outcome.ACCEPTED,)), 12),
    ],
)
async def test_last_windows_reports_are_in_on_the_last_day(plan: ReadoutPlan, outcomes: Any, lag_days: int) -> None:
    """What is told when a window is over leaves in the next one; aggregators add it up in two days more."""
    plan = replace(fill_plan(replace(plan, epsilon="1")), months=2)
    schedule = schedule_of(plan, QUARTER)
    record = ReadoutRecord(0, "hr-1", "app", (), plan, 1000, "running", START, QUARTER)  # type: ignore[arg-type]
    task = task_of(record)
    if outcomes != "one":
        assert task.outcome_groups == outcomes
    else:
        assert len(task.outcome_groups) == 1
    spare = plan.window_s if plan.aggregation else 0
    assert QUARTER - lag_days * DAY - spare <= schedule.end_s <= QUARTER - lag_days * DAY
    assert schedule.end_s - schedule.first_window_start_s == 60 * DAY
    assert [schedule.windows_of(month) for month in (0, 1)] == [range(3), range(3, 6)]
    assert least_days(plan) == 90 + lag_days + spare // DAY


async def test_windows_of_aggregators_are_collected_as_far_as_they_are_measured(life: Life) -> None:
    """None after the last one."""
    record = await life.start(aggregation=AGGREGATORS, epsilon="2")
    async with life.store.read() as session:
        (found,) = await collected_tasks(session, life.now_s)
    assert found.task == task_of(record)
    assert len(found.windows(QUARTER + 100 * DAY)) == record.plan.months * 3
    assert found.collects_at_s(record.plan.months * 3 - 1) <= record.until_s - 2 * DAY
