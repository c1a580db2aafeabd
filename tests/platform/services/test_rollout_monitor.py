"""What the server does by itself: days pass in milliseconds, for the clock is a number and the reports are given."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from alcove.platform.domain.catalog_records import FeatureRules
from alcove.platform.domain.errors import (
    ApprovalRequiredError,
    OverrideRequiredError,
    OwnApprovalError,
    ResourceNotFoundError,
)
from alcove.platform.domain.records import Default, Page, RolloutRecord, RolloutState
from alcove.platform.domain.rollout_records import (
    GuardrailRecord,
    KeptAnalysis,
    PlanAction,
    RolloutPlan,
    Stage,
    StageDecisionKind,
)
from alcove.platform.domain.rollouts.analysis import StageCounts
from alcove.platform.domain.rollouts.history import KEPT_NEWEST
from alcove.platform.domain.rollouts.task import stage_tasks, task_of
from alcove.platform.services.rollouts import engine
from alcove.platform.services.rollouts.engine import RolloutSpec
from alcove.platform.services.rollouts.monitor import PRINCIPAL, analyze_all, analyze_rollout
from alcove.platform.stats import Aggregate
from alcove.platform.store import Store
from alcove.platform.store.audit import AuditEntry, list_audit
from alcove.platform.store.catalog import add_rules
from alcove.platform.store.defaults import set_default
from alcove.platform.store.publications import last_publication
from alcove.platform.store.rollouts import get_rollout, watched_rollouts
from alcove.platform.store.stage_analyses import list_analyses
from alcove.platform.store.unit_of_work import UnitOfWork
from alcove.platform.store.usage import count_alarms
from alcove.registry.errors import StorageError
from alcove.registry.policy import Halt, Outcome, Policy, TaskPolicy, halt_from_bytes, policy_from_bytes
from sqlalchemy.ext.asyncio import AsyncSession

from tests.platform.versions import add_released
from tests.selection import quick_every

DAY = 86_400
HORIZON_DAYS = 4  # what a device's budget of 30 days pays for at the default epsilon
PLAN = RolloutPlan(
    stages=(Stage(100, DAY, 500), Stage(2000, DAY, 500), Stage(8000, DAY, 500)),
    guardrails=(GuardrailRecord("crash_fallback", 0.01), GuardrailRecord("refused", 0.05)),
    timeout_s=10 * DAY,
)


@dataclass
class Given:
    """Exact counts: devices of each group, and the share of them that crash; the same in every stage."""

    devices: tuple[int, int] = (5000, 5000)
    crashed: tuple[float, float] = (0.001, 0.001)
    refused: float = 0.2
    is_attested: bool = False
    asked: list[TaskPolicy] = field(default_factory=list)

    async def read(self, session: AsyncSession, task: TaskPolicy) -> StageCounts:
        """As ReportSource."""
        self.asked.append(task)
        estimates = np.zeros(task.layout.shape[:3])
        for arm, (devices, crashed) in enumerate(zip(self.devices, self.crashed, strict=True)):
            estimates[arm, Outcome.FALLBACK, 0] = round(devices * crashed)
            estimates[arm, Outcome.REFUSED, 0] = round(devices * self.refused)
            estimates[arm, Outcome.ACCEPTED, 0] = devices - estimates[arm].sum()
        noise = np.zeros((estimates.size, estimates.size))
        return StageCounts(Aggregate(estimates, noise, int(estimates.sum()), self.is_attested), 1)


@dataclass
class Life:
    """One rollout from 1.0.0 to 2.0.0 in one store, and a clock."""

    store: Store
    now_s: int = 1_000_000
    rollout_id: str = ""

    async def change(
        self, work: Callable[[UnitOfWork], Awaitable[RolloutRecord]], who: str = "operator/a"
    ) -> RolloutRecord:
        """Make a change, as somebody."""
        async with self.store.write() as session:
            return await work(UnitOfWork(session, who, self.now_s))

    async def begin(self, plan: RolloutPlan = PLAN, audience: str = "") -> RolloutRecord:
        """Create it, and put the first stage on devices."""
        spec = RolloutSpec("app", "f", "2.0.0", plan, audience)
        self.rollout_id = (await self.change(lambda uow: engine.create(uow, spec))).rollout_id
        return await self.advance()

    async def advance(self, reason: str = "", who: str = "operator/a") -> RolloutRecord:
        """Take the next stage."""
        return await self.change(
            lambda uow: engine.advance(uow, self.rollout_id, share_basis_points=0, override_reason=reason), who
        )

    async def analyze(self, source: Given, after_s: int = DAY) -> RolloutRecord:
        """Look after some time; return the rollout as the store has it then."""
        self.now_s += after_s
        returned = await self.change(lambda uow: analyze_rollout(uow, self.rollout_id, source), PRINCIPAL)
        kept = await self.now()
        assert replace(returned, revision=kept.revision, policy_serial=kept.policy_serial) == kept
        return kept

    async def now(self) -> RolloutRecord:
        """The rollout as it is."""
        async with self.store.read() as session:
            return await get_rollout(session, self.rollout_id)

    async def audit(self) -> list[AuditEntry]:
        """What is written about it."""
        async with self.store.read() as session:
            entries = await list_audit(session, Page(0, 1000))
        return [entry for entry in entries if entry.subject == self.rollout_id]

    async def last_details(self) -> dict[str, Any]:
        """The details of the last entry about it."""
        return dict((await self.audit())[-1].details)

    async def documents(self) -> tuple[Policy, Halt | None]:
        """What devices would read."""
        async with self.store.read() as session:
            policy = await last_publication(session, "policy", "app")
            halt = await last_publication(session, "halt", "app")
        assert policy is not None
        return policy_from_bytes(policy.document), None if halt is None else halt_from_bytes(halt.document)


@pytest.fixture
async def life(store: Store) -> Life:
    """Two versions, of which 1.0.0 is the default."""
    async with store.write() as session:
        for version in ("1.0.0", "2.0.0"):
            await add_released(session, feature="f", version=version, team="t", manifest_sha256=version[0] * 64)
        await set_default(session, Default("app", "f", "1.0.0", "1" * 64))
    return Life(store)


async def test_an_update_that_changes_nothing_makes_earlier_etags_stale(life: Life) -> None:
    """Each update is a change, even one to what there is, in the same second; so is each advance."""
    draft = await life.begin()
    updated = await life.change(lambda uow: engine.update(uow, life.rollout_id, lambda spec: spec))
    again = await life.change(lambda uow: engine.update(uow, life.rollout_id, lambda spec: spec))
    assert [draft.revision + 1, draft.revision + 2] == [updated.revision, again.revision]
    assert (await life.now()).revision == again.revision


async def test_devices_learn_of_the_control_group_and_of_a_task_for_each_stage(life: Life) -> None:
    """Treatment from bucket 0 up, as many from the top down; above half the control is what is left; no task twice."""
    seen = []
    record = await life.begin()
    for share, control in ((100, 100), (2000, 2000), (8000, 2000)):
        policy, _ = await life.documents()
        rollout = policy.features["f"].rollout
        assert rollout is not None
        assert (rollout.share_basis_points, rollout.control_basis_points) == (share, control)
        assert rollout.tasks == stage_tasks(record) != ()
        seen.append(rollout.tasks[0].task_id)
        life.now_s += DAY
        record = await life.advance("onward")
    assert len(set(seen)) == 3
    assert record.state is RolloutState.COMPLETED
    policy, _ = await life.documents()
    assert (policy.features["f"].rollout, policy.features["f"].default.version) == (None, "2.0.0")


async def test_harm_halts_by_itself_and_the_evidence_is_kept(life: Life) -> None:
    """Attested reports: the version is forbidden, the default serves, and the audit log says who, why and what for."""
    await life.begin()
    record = await life.analyze(Given(crashed=(0.001, 0.10), is_attested=True), 60)
    assert record.state is RolloutState.HALTED
    policy, halt = await life.documents()
    assert (policy.features["f"].rollout, policy.features["f"].default.version) == (None, "1.0.0")
    assert halt is not None
    assert halt.digests == {"2" * 64}
    entry, details = (await life.audit())[-1], await life.last_details()
    assert (entry.principal, entry.action) == (PRINCIPAL, "halt rollout")
    assert details["analysis"]["code"] == "harmful_crash_fallback"
    assert details["analysis"]["verdicts"][0]["kind"] == "harmful"
    assert details["reason"] == details["analysis"]["reason"]
    assert await life.analyze(Given(), 60) == record  # there is nothing to look at any more


@pytest.mark.parametrize(
    ("action", "state"),
    [(PlanAction.PAUSE, RolloutState.PAUSED), (PlanAction.ROLL_BACK, RolloutState.ROLLED_BACK)],
)
async def test_harm_does_what_the_plan_says(life: Life, action: PlanAction, state: RolloutState) -> None:
    """Pausing or rolling back in the place of a halt, on attested reports: nothing is forbidden."""
    await life.begin(replace(PLAN, on_harm=action))
    assert (await life.analyze(Given(crashed=(0.0, 0.10), is_attested=True))).state is state
    assert (await life.documents())[1] is None


@pytest.mark.parametrize("action", [PlanAction.PAUSE, PlanAction.ROLL_BACK, PlanAction.HALT])
async def test_harm_that_anybody_can_have_reported_pauses_and_does_no_more(life: Life, action: PlanAction) -> None:
    """Reports are not attested: the policy stays, no version is forbidden, and the log says what the plan asked for."""
    await life.begin(replace(PLAN, on_harm=action))
    before, _ = await life.documents()
    record = await life.analyze(Given(crashed=(0.0, 0.10)))
    assert record.state is RolloutState.PAUSED
    after, halt = await life.documents()
    assert (after.features, halt) == (before.features, None)
    details = await life.last_details()
    assert details["analysis"]["is_attested"] is False
    assert details.get("planned") == (None if action is PlanAction.PAUSE else action)
    resumed = await life.change(lambda uow: engine.resume(uow, life.rollout_id))
    assert resumed.state is RolloutState.RUNNING  # a person who does not believe it continues


async def test_impossible_reports_hold_and_raise_an_alarm_once(life: Life) -> None:
    """A share below zero: nothing is acted on, whatever the plan says; honest reports do not hide it later."""
    await life.begin(replace(PLAN, auto_advance_reason="no money is at stake", on_timeout=PlanAction.ROLL_BACK))
    for source in (Given(crashed=(-0.01, 0.5), is_attested=True), Given(crashed=(-0.01, 0.5)), Given(), Given()):
        held = await life.analyze(source, 4 * DAY)
        assert held.analysis is not None
        assert (held.state, held.stage) == (RolloutState.RUNNING, 1)
        assert (held.analysis.decision, held.analysis.code) == (StageDecisionKind.ALARM, "impossible_reports")
        assert "can have at least 0" in held.analysis.reason
    assert [entry.action for entry in await life.audit()].count("raise alarm") == 1
    async with life.store.read() as session:
        assert await count_alarms(session) == 1
    with pytest.raises(OverrideRequiredError):
        await life.advance()
    assert (await life.advance("asked the teams: a test device ran wild")).stage == 2
    after = await life.analyze(Given())
    assert after.stage == 3  # a new stage has reports of its own, and its auto-advance reason counts
    async with life.store.read() as session:
        assert await count_alarms(session) == 0


async def test_a_safe_stage_waits_for_a_person(life: Life) -> None:
    """Ready is shown, nothing happens; the person's advance needs no reason, and names the evidence."""
    await life.begin()
    early = await life.analyze(Given(), 60)
    assert early.analysis is not None
    assert (early.analysis.decision, early.analysis.code) == (StageDecisionKind.WAIT, "minimum_time")
    with pytest.raises(OverrideRequiredError):
        await life.advance()
    ready = await life.analyze(Given())
    assert ready.analysis is not None
    assert (ready.state, ready.stage, ready.analysis.decision) == (RolloutState.RUNNING, 1, StageDecisionKind.READY)
    assert ready.revision == early.revision  # an analysis is no change: an etag that was read stays good
    assert (await life.advance()).stage == 2
    assert (await life.last_details())["analysis"]["decision"] == "ready"
    assert (await life.now()).analysis is None  # of the new stage nothing is known


async def test_stages_are_read_together_and_looks_are_kept(life: Life) -> None:
    """Of a second stage both tasks are read; looks are of the present one, and are there after a restart."""
    await life.begin()
    first = await life.analyze(Given())
    assert [look.windows for look in first.evidence.looks] == [1]
    await life.advance()
    source = Given()
    early = await life.analyze(source, 60)
    assert early.analysis is not None
    assert [task.task_id for task in source.asked] == [
        task_of(early.rollout_id, early.plan, stage.started_at_s).task_id for stage in early.evidence.stages
    ]
    assert len(set(source.asked)) == 2
    assert (early.evidence.looks, early.analysis.looks) == ((), 0)
    assert (early.analysis.stages, early.analysis.reports, early.analysis.pooled_reports) == (2, 10_000, 20_000)
    second = await life.analyze(source)
    assert second.evidence.looks[0].reports == 20_000.0
    assert second.evidence.looks[0].verdicts[0].kind == "safe"


async def test_with_an_auto_advance_reason_it_goes_up_by_itself(life: Life) -> None:
    """Three analyses, a day apart, and everybody has it; each step is audited as the server's own."""
    await life.begin(replace(PLAN, auto_advance_reason="no money is at stake"))
    equal, above_half = (5000, 5000), (20_000, 80_000)
    shares = [(await life.analyze(Given(devices))).share_basis_points for devices in (equal, equal, above_half)]
    assert shares == [2000, 8000, 10_000]
    assert (await life.now()).state is RolloutState.COMPLETED
    assert [entry.principal for entry in await life.audit()] == ["operator/a"] * 2 + [PRINCIPAL] * 3


HELD = {
    "no reports": (Given(devices=(0, 0)), "no_reports"),
    "too few devices": (Given(devices=(120, 130)), "below_minimum_cohort"),
    "one group reports much less": (Given(devices=(9000, 3000)), "sample_ratio_mismatch"),
    "it may be harmful": (Given(devices=(520, 520), crashed=(0.01, 0.02)), "inconclusive_crash_fallback"),
}


@pytest.mark.parametrize("is_attested", [True, False])
@pytest.mark.parametrize("name", quick_every(HELD, 2))
async def test_what_does_not_tell_holds_and_then_times_out(life: Life, name: str, is_attested: bool) -> None:
    """Held for ten days, whatever the plan allows; then the plan's action, or a pause where anybody can have held."""
    given, code = HELD[name]
    source = replace(given, is_attested=is_attested)
    await life.begin(replace(PLAN, auto_advance_reason="no money is at stake", on_timeout=PlanAction.ROLL_BACK))
    for day in range(1, 11):
        held = await life.analyze(source)
        assert held.analysis is not None
        if code.startswith("inconclusive") and day == HORIZON_DAYS:
            code = "past_horizon"
        assert (held.state, held.analysis.decision, held.analysis.code) == (
            "running",
            StageDecisionKind.HOLD,
            code,
        )
    late = await life.analyze(source)
    assert late.state is (RolloutState.ROLLED_BACK if source.is_attested else RolloutState.PAUSED)
    details = await life.last_details()
    assert ((await life.audit())[-1].principal, details["analysis"]["code"]) == (PRINCIPAL, code)
    assert "not found safe in 864000 s" in details["reason"]


async def test_by_default_a_time_out_only_says_so(life: Life) -> None:
    """The share stays; the person sees that time is up."""
    await life.begin()
    late = await life.analyze(Given(devices=(0, 0)), 11 * DAY)
    assert late.analysis is not None
    assert (late.state, late.analysis.decision) == (RolloutState.RUNNING, StageDecisionKind.TIMEOUT)


async def test_a_paused_rollout_is_left_alone(life: Life) -> None:
    """The person who paused it decides; not even harm moves it, and nothing is read."""
    await life.begin()
    await life.change(lambda uow: engine.pause(uow, life.rollout_id))
    source = Given(crashed=(0.0, 0.5))
    assert (await life.analyze(source)).state is RolloutState.PAUSED
    assert source.asked == []


async def test_a_second_person_makes_the_advance(life: Life) -> None:
    """Where the rules ask for it: the proposer cannot approve, the server's own advance is a proposal too."""
    async with life.store.write() as session:
        await add_rules(session, "f", FeatureRules(must_approve_rollouts=True, set_by="operator/x", set_at_s=1))
    proposed = await life.begin(replace(PLAN, auto_advance_reason="no money is at stake"))
    assert proposed.proposal is not None
    assert (proposed.state, proposed.proposal.share_basis_points) == (RolloutState.DRAFT, 100)
    with pytest.raises(OwnApprovalError):
        await life.change(lambda uow: engine.approve(uow, life.rollout_id))
    running = await life.change(lambda uow: engine.approve(uow, life.rollout_id), "operator/b")
    assert (running.state, running.share_basis_points, running.proposal) == (RolloutState.RUNNING, 100, None)
    entry = (await life.audit())[-1]
    assert (entry.principal, entry.details["approved_by"]) == ("operator/a", "operator/b")
    waiting = await life.analyze(Given())
    assert waiting.proposal is not None
    assert (waiting.share_basis_points, waiting.proposal.proposed_by) == (100, PRINCIPAL)
    await life.analyze(Given())
    assert [entry.action for entry in await life.audit()].count("propose advance") == 2  # not once an analysis
    approved = await life.change(lambda uow: engine.approve(uow, life.rollout_id), "operator/a")
    assert approved.share_basis_points == 2000


async def test_nobody_widens_an_approved_audience_alone(life: Life) -> None:
    """Where the rules ask for a second person: the audience of a begun rollout stays, its plan may change."""
    async with life.store.write() as session:
        await add_rules(session, "f", FeatureRules(must_approve_rollouts=True, set_by="operator/x", set_at_s=1))
    await life.begin(audience="os == ios")
    running = await life.change(lambda uow: engine.approve(uow, life.rollout_id), "operator/b")
    assert running.audience
    with pytest.raises(ApprovalRequiredError, match="must_approve_rollouts"):
        await life.change(lambda uow: engine.update(uow, life.rollout_id, lambda spec: replace(spec, audience="")))
    plan = replace(PLAN, auto_advance_reason="no money is at stake")
    changed = await life.change(lambda uow: engine.update(uow, life.rollout_id, lambda spec: replace(spec, plan=plan)))
    assert (changed.state, changed.audience) == (RolloutState.RUNNING, running.audience)


async def test_a_rollout_that_cannot_be_analyzed_holds_up_no_other(life: Life) -> None:
    """Whatever its analysis raises, typed or not: the next one is still judged."""
    await life.begin()

    async def act(principal: str, work: Callable[[UnitOfWork], Awaitable[RolloutRecord]]) -> RolloutRecord:
        if not failures:
            return await life.change(work, principal)
        raise failures.pop()

    failures: list[Exception] = [
        ZeroDivisionError(),
        ResourceNotFoundError("rollout", "ro-1"),
        StorageError("tree", "full"),
    ]
    watched = ["ro-1", "ro-2", "ro-3", life.rollout_id]
    (seen,) = await analyze_all(watched, act, Given(crashed=(0.0, 0.2), is_attested=True))
    assert seen.rollout_id == life.rollout_id


async def test_a_restart_forgets_nothing_and_two_servers_act_once(life: Life) -> None:
    """All is in the database: another store on it continues, and a second look finds what the first has done."""
    await life.begin()
    await life.analyze(Given(), 60)
    again = Life(life.store, life.now_s, life.rollout_id)
    acted = []

    async def act(principal: str, work: Callable[[UnitOfWork], Awaitable[RolloutRecord]]) -> RolloutRecord:
        acted.append(principal)
        return await again.change(work, principal)

    async with life.store.read() as session:
        watched = await watched_rollouts(session)
    assert watched == [life.rollout_id]
    for _ in range(2):  # both servers have read the list before either acted
        await analyze_all(watched, act, Given(crashed=(0.0, 0.2), is_attested=True))
    assert acted == [PRINCIPAL] * 2
    assert [entry.action for entry in await life.audit()].count("halt rollout") == 1
    async with life.store.read() as session:
        assert await watched_rollouts(session) == []


async def kept_of(life: Life, size: int = 1000) -> list[KeptAnalysis]:
    """The analyses of the rollout that the store keeps."""
    async with life.store.read() as session:
        return await list_analyses(session, await get_rollout(session, life.rollout_id), Page(0, size))


async def test_analyses_that_found_something_new_are_kept_with_their_stage(life: Life) -> None:
    """One that found what was known is not; the one that led to an action is of the stage before it."""
    await life.begin(replace(PLAN, auto_advance_reason="a canary of our own"))
    given = Given()
    while (await life.now()).stage == 1:
        await life.analyze(given)
    first = await kept_of(life)
    assert (first[-1].stage, first[-1].share_basis_points) == (1, 100)
    assert first[-1].analysis.decision is StageDecisionKind.READY
    await life.analyze(given, 60)
    await life.analyze(given, 60)
    kept = await kept_of(life)
    assert len(kept) == len(first) + 1
    assert (kept[-1].stage, kept[-1].share_basis_points) == (2, 2000)
    last = (await life.now()).analysis
    assert last is not None
    assert replace(kept[-1].analysis, analyzed_at_s=0, reason="") == replace(last, analyzed_at_s=0, reason="")
    assert [each.sequence for each in kept] == sorted(each.sequence for each in kept)


async def test_the_number_of_kept_analyses_is_bounded(life: Life) -> None:
    """However often reports come."""
    await life.begin()
    for number in range(KEPT_NEWEST + 20):
        await life.analyze(Given(devices=(5000 + number, 5000)), 60)
    kept = await kept_of(life)
    assert len(kept) <= KEPT_NEWEST + 2
    assert [each.analysis.analyzed_at_s for each in kept][-KEPT_NEWEST:] == [
        life.now_s - 60 * number for number in reversed(range(KEPT_NEWEST))
    ]


async def test_an_action_that_fails_leaves_no_analysis_behind(life: Life) -> None:
    """It is written in the transaction of the action."""
    await life.begin(replace(PLAN, on_harm=PlanAction.HALT))

    async def work(uow: UnitOfWork) -> RolloutRecord:
        await analyze_rollout(uow, life.rollout_id, Given())
        raise StorageError("tree", "full")

    with pytest.raises(StorageError):
        await life.change(work)
    assert await kept_of(life) == []
