"""What needs somebody: the database finds the rollouts and experiments, counts all and gives a page of them."""

from dataclasses import replace
from typing import Any, Final

import pytest
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.search import parse_query as parse_experiments
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState, RolloutState, StoredDecision
from alcove.platform.domain.rollout_records import AnalysisRecord, Proposal, StageDecisionKind
from alcove.platform.domain.rollouts.search import HALT_NEEDS_S, RolloutNeed, RolloutOrder, parse_query
from alcove.platform.store import Store
from alcove.platform.store.experiments import add_experiment, count_experiments, list_experiments, save_experiment
from alcove.platform.store.rollouts import add_rollout, count_rollouts, search_rollouts

from tests.platform.alerts.receivers import make_rollout
from tests.platform.versions import add_released

NOW_S: Final = 1_800_000_000
DAY_S: Final = 86_400


def analysis(decision: StageDecisionKind) -> AnalysisRecord:
    """An analysis whose reason names every other decision, as people's texts may."""
    return AnalysisRecord(1, decision, "harm", '"decision":"harm" or "alarm"', 100, (50.0, 50.0), ())


@pytest.fixture
async def feature(store: Store) -> str:
    """A feature with a version."""
    async with store.write() as session:
        await add_released(session, feature="text", version="1.2.0", team="t", manifest_sha256="0" * 64)
    return "text"


async def add_rollouts(store: Store, feature: str, several: dict[str, dict[str, Any]]) -> None:
    """Write rollouts by their ids."""
    async with store.write() as session:
        for name, fields in several.items():
            await add_rollout(session, make_rollout(name, app=name, feature=feature, **fields))


async def test_rollouts_that_need_somebody_are_found_and_counted_whatever_the_page(store: Store, feature: str) -> None:
    """Paused, halted this week, or running against their analysis; neither those that run well nor old halts."""
    proposal = Proposal("operator/ab", 1, 5000, "")
    recent, old = NOW_S - HALT_NEEDS_S + 61, NOW_S - HALT_NEEDS_S - 61
    await add_rollouts(
        store,
        feature,
        {
            "ro-runs": {},
            "ro-well": {"analysis": analysis(StageDecisionKind.READY)},
            "ro-harm": {"analysis": analysis(StageDecisionKind.HARM), "proposal": proposal},
            "ro-alarm": {"analysis": analysis(StageDecisionKind.ALARM)},
            "ro-late": {"analysis": analysis(StageDecisionKind.TIMEOUT)},
            "ro-ended": {"analysis": analysis(StageDecisionKind.HARM), "state": RolloutState.ROLLED_BACK},
            "ro-draft": {"state": RolloutState.DRAFT, "proposal": proposal},
            "ro-paused": {"state": RolloutState.PAUSED},
            "ro-halted": {"state": RolloutState.HALTED, "updated_at_s": recent, "proposal": proposal},
            "ro-forgotten": {"state": RolloutState.HALTED, "updated_at_s": old},
        },
    )
    newest = RolloutOrder.NEWEST
    action = parse_query(need=RolloutNeed.ACTION, now_s=NOW_S, order=newest, page_size=2)
    approval = parse_query(need=RolloutNeed.APPROVAL, now_s=NOW_S, order=newest)
    async with store.read() as session:
        found, has_more = await search_rollouts(session, action)
        assert ([one.rollout_id for one in found], has_more) == (["ro-halted", "ro-paused"], True)
        assert await count_rollouts(session, action) == 5
        rest, _ = await search_rollouts(session, replace(action, page=replace(action.page, after=found[-1].sequence)))
        assert [one.rollout_id for one in rest] == ["ro-late", "ro-alarm"]
        found, _ = await search_rollouts(session, approval)
        assert [one.rollout_id for one in found] == ["ro-draft", "ro-harm"]
        assert await count_rollouts(session, replace(approval, app="other")) == 0


async def test_experiments_to_decide_have_a_winner_or_are_past_their_days(store: Store, feature: str) -> None:
    """A plan without days is never over, and what was stopped is decided."""
    arms = tuple(ArmRecord(name, "1.2.0", "0" * 64, 5000) for name in ("a", "b"))
    plain = ExperimentRecord(
        sequence=0, experiment_id="", app="mail", feature=feature, salt="00", arms=arms,
        state=ExperimentState.RUNNING, epsilon="2", latency_edges_ms=(), window_s=DAY_S, minimum_cohort=1,
        created_at_s=1, started_at_s=NOW_S - 10 * DAY_S, stopped_at_s=None, task_id=None, decision=None,
        policy_serial=1, plan=ExperimentPlan(days_needed=11),
    )  # fmt: skip
    winner = StoredDecision("winner", 0, "winner", "a is better")
    several: dict[str, dict[str, Any]] = {
        "ex-runs": {},
        "ex-over": {"plan": ExperimentPlan(days_needed=10)},
        "ex-endless": {"plan": ExperimentPlan()},
        "ex-winner": {"decision": winner},
        "ex-open": {"decision": replace(winner, kind="inconclusive", winner=None)},
        "ex-stopped": {"decision": winner, "state": ExperimentState.STOPPED, "stopped_at_s": NOW_S},
        "ex-draft": {"state": ExperimentState.DRAFT, "started_at_s": None, "plan": ExperimentPlan(days_needed=1)},
    }
    async with store.write() as session:
        for name, fields in several.items():
            added = await add_experiment(session, replace(plain, experiment_id=name, **fields))
            await save_experiment(session, replace(plain, experiment_id=name, sequence=added.sequence, **fields))
    query = parse_experiments(needs_decision_at_s=NOW_S, page_size=1)
    async with store.read() as session:
        found, has_more = await list_experiments(session, query)
        assert ([one.experiment_id for one in found], has_more) == (["ex-over"], True)
        rest, _ = await list_experiments(session, replace(query, after=found[0].sequence))
        assert [one.experiment_id for one in rest] == ["ex-winner"]
        assert await count_experiments(session, query) == 2
        assert await count_experiments(session, replace(query, needs_decision_at_s=NOW_S - 1)) == 1
