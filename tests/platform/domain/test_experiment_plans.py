"""Experiments that are planned, guarded and changed as drafts: what is asked is checked, what is needed is reported."""

import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alcove.platform.client import (
    Arm,
    DeadlineError,
    Experiment,
    ExperimentPlan,
    GuardrailPlan,
    InvalidRequestError,
    PlatformClient,
    Primary,
)
from alcove.platform.domain import experiment_records as core
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiments.analysis import evaluate
from alcove.platform.domain.experiments.plan import make_plan
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.limits import GUARDRAILS_MAX
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState
from alcove.platform.domain.reports import Reports
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.testing import ServerWorld
from alcove.registry.policy import Outcome

from tests.platform.cells import cells_of

ARMS = (
    Arm(name="control", version="1.0.0", share_basis_points=5000),
    Arm(name="larger", version="2.0.0", share_basis_points=5000),
)
CRASHES = GuardrailPlan(metric="crash_fallback", margin=0.01)
EDGES_MS = (5.0, 20.0)
FINE_MS = (5.0, 7.0, 9.0, 11.0, 13.0)
MEDIAN = Primary(kind="latency_quantile", quantile=0.5)
SLOW_SHARE = Primary(kind="latency_share", edge_ms=20.0)
PER_ANSWER = Primary(kind="ratio", numerator=("accepted",), denominator=("accepted", "refused"))
ERRORS_OF_ANSWERED = Primary(kind="ratio", numerator=("error",), denominator=("accepted", "error"), less_is_better=True)


def record(plan: core.ExperimentPlan, edges_ms: tuple[float, ...] = EDGES_MS, epsilon: str = "2") -> ExperimentRecord:
    """A draft of two equal arms."""
    return ExperimentRecord(
        sequence=0, experiment_id="ex-1", app="app", feature="f", salt="salt",
        arms=tuple(ArmRecord(arm.name, arm.version, "0" * 64, arm.share_basis_points) for arm in ARMS),
        state=ExperimentState.DRAFT, epsilon=epsilon, latency_edges_ms=edges_ms, window_s=86_400, minimum_cohort=100,
        created_at_s=1, started_at_s=None, stopped_at_s=None, task_id=None, decision=None, policy_serial=0, plan=plan,
    )  # fmt: skip


def randomize(
    rng: np.random.Generator, experiment: ExperimentRecord, cells: list[list[list[float]]], reports: int
) -> list[int]:
    """Return counts of randomized answers of arms with these shares per outcome and bin."""
    flat = cells_of(task_of(replace(experiment, started_at_s=1)), cells)
    flat /= flat.sum()
    keep = 1.0 / (1.0 + (len(flat) - 1) * math.exp(-float(experiment.epsilon)))
    other = (1.0 - keep) / (len(flat) - 1)
    drawn = rng.multinomial(reports, other + (keep - other) * flat)
    return [int(count) for count in drawn]


def test_the_plan_at_creation_says_what_it_takes_and_update_plans_again(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Devices and days; smaller differences need more; a draft without a question has no plan."""
    world.publish(team, feature, "1.0.0")
    world.publish(team, feature, "2.0.0")
    bare = operator.create_experiment(app, feature, ARMS)
    assert (bare.plan, bare.primary, bare.guardrails, bare.etag) == (ExperimentPlan(), Primary(), (), "1")
    draft = operator.create_experiment(
        app,
        feature,
        ARMS,
        plan=ExperimentPlan(mde=0.05, base_rate=0.8, expected_devices=400_000),
        guardrails=(CRASHES,),
        primary=Primary(kind="accepted"),
    )
    assert draft.plan.devices_needed > 10_000
    assert 1 <= draft.plan.days_needed <= 30
    assert 0.0 < draft.plan.detectable < 0.05
    assert draft.plan.planned_reports == 400_000 * draft.plan.days_needed
    assert draft.guardrails == (CRASHES,)
    finer = operator.update_experiment(
        draft.experiment_id, fields=("plan.mde",), plan=ExperimentPlan(mde=0.01), etag=draft.etag
    )
    assert finer.plan.devices_needed > 10 * draft.plan.devices_needed
    assert (finer.plan.base_rate, finer.plan.expected_devices, finer.etag) == (0.8, 400_000, "2")
    assert finer == operator.experiment(draft.experiment_id)
    assert [e.experiment_id for e in operator.experiments(app)] == [bare.experiment_id, draft.experiment_id]


def replace_share(arm: Arm, share_basis_points: int) -> Arm:
    """The arm with another share."""
    return arm.model_copy(update={"share_basis_points": share_basis_points})


def test_all_terms_of_a_draft_may_change_and_tried_changes_leave_nothing(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """With `validate_only` the answer is the same and nothing is kept, at creation too."""
    world.publish(team, feature, "1.0.0")
    world.publish(team, feature, "2.0.0")
    tried = operator.create_experiment(app, feature, ARMS, plan=ExperimentPlan(mde=0.1), validate_only=True)
    assert tried.plan.devices_needed > 0
    assert operator.experiments(app) == []
    draft = operator.create_experiment(app, feature, ARMS)
    change: dict[str, Any] = {
        "fields": (
            "arms",
            "epsilon",
            "latency_edges_ms",
            "window_s",
            "minimum_cohort",
            "primary",
            "guardrails",
            "plan",
        ),
        "arms": (replace_share(ARMS[0], 1000), replace_share(ARMS[1], 3000)),
        "epsilon": "1.5",
        "latency_edges_ms": FINE_MS,
        "window_s": 43_200,
        "minimum_cohort": 300,
        "primary": Primary(kind="latency_quantile", quantile=0.5),
        "guardrails": (
            CRASHES,
            GuardrailPlan(metric="latency", margin=3.0),
            GuardrailPlan(metric="latency", margin=0.01, edge_ms=9.0),
        ),
        "plan": ExperimentPlan(mde=2.0, expected_devices=10_000_000),
    }
    tried = operator.update_experiment(draft.experiment_id, validate_only=True, **change)
    assert operator.experiment(draft.experiment_id) == draft
    changed = operator.update_experiment(draft.experiment_id, **change)
    assert changed == tried == operator.experiment(draft.experiment_id)
    assert [arm.share_basis_points for arm in changed.arms] == [1000, 3000]
    assert (changed.epsilon, changed.window_s, changed.minimum_cohort) == ("1.5", 43_200, 300)
    assert (changed.primary.kind, changed.primary.quantile) == ("latency_quantile", 0.5)
    assert changed.guardrails[1] == GuardrailPlan(metric="latency", margin=3.0, quantile=0.95)
    assert changed.guardrails[2] == GuardrailPlan(metric="latency", margin=0.01, edge_ms=9.0)
    running = operator.start_experiment(draft.experiment_id, etag=changed.etag)
    policy = world.tree.policy(app)
    assert policy is not None
    found = policy.features[feature]
    assert '"outcome_groups":[[0,1,4],[2],[3]]' in found.model_dump_json()
    assert running.state == "running"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"plan": ExperimentPlan(mde=-0.1)}, "mde"),
        ({"plan": ExperimentPlan(mde=1.0)}, "mde"),
        ({"plan": ExperimentPlan(mde=math.nan)}, "mde"),
        ({"plan": ExperimentPlan(base_rate=1.0)}, "base_rate"),
        ({"plan": ExperimentPlan(expected_devices=10**11)}, "expected_devices"),
        ({"primary": Primary(kind="latency_mean")}, "latency_edges_ms"),
        ({"primary": Primary(kind="latency_quantile")}, "primary.quantile"),
        ({"primary": Primary(kind="latency_mean"), "latency_edges_ms": EDGES_MS, "pre_edges": (0.5,)}, "pre_edges"),
        ({"primary": Primary(kind="ratio", numerator=("accepted",), denominator=("accepted", "refused")),
          "pre_edges": (0.5,)}, "pre_edges"),
        ({"pre_edges": (0.8, 0.5)}, "pre_edges"),
        ({"pre_edges": (0.5, 0.5)}, "pre_edges"),
        ({"pre_edges": (0.5, 1.0)}, "pre_edges"),
        ({"pre_edges": tuple(place / 10 for place in range(1, 9))}, "pre_edges"),
        ({"pre_edges": (0.2, 0.4, 0.6, 0.8), "latency_edges_ms": tuple(range(1, 12))}, "cells"),
        ({"primary": Primary(kind="accepted", quantile=0.5)}, "primary.quantile"),
        ({"primary": Primary(kind="latency_mean"), "latency_edges_ms": EDGES_MS,
          "plan": ExperimentPlan(base_rate=0.5)}, "base_rate"),
        ({"guardrails": (CRASHES,) * (GUARDRAILS_MAX + 1)}, "guardrails"),
        ({"guardrails": (GuardrailPlan(metric="error", margin=1.5),)}, "guardrails.margin"),
        ({"guardrails": (GuardrailPlan(metric="error", margin=0.1, quantile=0.5),)}, "guardrails"),
        ({"guardrails": (GuardrailPlan(metric="latency", margin=2.0),)}, "latency_edges_ms"),
        ({"guardrails": (GuardrailPlan(metric="latency", margin=2.0, quantile=1.5),), "latency_edges_ms": EDGES_MS},
         "guardrails.quantile"),
        ({"guardrails": (GuardrailPlan(metric="latency", margin=2.0),), "latency_edges_ms": EDGES_MS},
         "latency_edges_ms"),
        ({"guardrails": (GuardrailPlan(metric="latency", margin=0.1, edge_ms=6.0),), "latency_edges_ms": EDGES_MS},
         "guardrails.edge_ms"),
        ({"guardrails": (GuardrailPlan(metric="error", margin=0.1, edge_ms=5.0),)}, "guardrails"),
        ({"primary": MEDIAN, "latency_edges_ms": EDGES_MS, "plan": ExperimentPlan(mde=2.0)}, "latency_edges_ms"),
        ({"primary": SLOW_SHARE, "latency_edges_ms": FINE_MS}, "primary.edge_ms"),
        ({"primary": SLOW_SHARE, "latency_edges_ms": EDGES_MS, "plan": ExperimentPlan(mde=2.0)}, "mde"),
        ({"primary": Primary(kind="latency_share"), "latency_edges_ms": EDGES_MS}, "primary.edge_ms"),
        ({"primary": SLOW_SHARE}, "latency_edges_ms"),
        ({"primary": MEDIAN.model_copy(update={"edge_ms": 5.0}), "latency_edges_ms": EDGES_MS}, "primary.edge_ms"),
        ({"primary": Primary(kind="ratio")}, "primary.numerator"),
        ({"primary": PER_ANSWER.model_copy(update={"denominator": ()})}, "primary.denominator"),
        ({"primary": PER_ANSWER.model_copy(update={"numerator": ("refused", "accepted")})}, "primary.numerator"),
        ({"primary": PER_ANSWER.model_copy(update={"numerator": ("error",)})}, "primary.numerator"),
        ({"primary": PER_ANSWER.model_copy(update={"denominator": ("accepted",) * 2})}, "primary.denominator"),
        ({"primary": PER_ANSWER.model_copy(update={"quantile": 0.5})}, "primary.quantile"),
        ({"primary": PER_ANSWER.model_copy(update={"kind": "accepted"})}, "primary.numerator"),
        ({"primary": Primary(less_is_better=True)}, "primary.less_is_better"),
        ({"primary": PER_ANSWER, "plan": ExperimentPlan(denominator_share=0.5)}, "denominator_share"),
        ({"primary": ERRORS_OF_ANSWERED, "plan": ExperimentPlan(mde=0.05)}, "denominator_share"),
        ({"primary": ERRORS_OF_ANSWERED, "plan": ExperimentPlan(expected_devices=5000)}, "denominator_share"),
        ({"plan": ExperimentPlan(denominator_share=0.5)}, "denominator_share"),
        ({"plan": ExperimentPlan(interim_analyses=21, horizon_reports=1000)}, "interim_analyses"),
        ({"plan": ExperimentPlan(interim_analyses=5)}, "horizon_reports"),
        ({"plan": ExperimentPlan(interim_analyses=5, mde=0.00001)}, "horizon_reports"),
        ({"plan": ExperimentPlan(horizon_reports=10**12 + 1)}, "horizon_reports"),
        ({"primary": MEDIAN, "latency_edges_ms": EDGES_MS, "plan": ExperimentPlan(interim_analyses=5,
         horizon_reports=1000)}, "interim_analyses"),
    ],
)  # fmt: skip
def test_a_plan_that_means_nothing_is_named_at_creation_and_update(
    operator: PlatformClient, app: str, shared_feature: str, change: dict[str, Any], field: str
) -> None:
    """Nothing of it is kept."""
    with pytest.raises(InvalidRequestError, match=field):
        operator.create_experiment(app, shared_feature, ARMS, **change)
    assert operator.experiments(app) == []
    draft = operator.create_experiment(app, shared_feature, ARMS)
    with pytest.raises(InvalidRequestError, match=field):
        operator.update_experiment(draft.experiment_id, fields=tuple(change), **change)
    assert operator.experiment(draft.experiment_id) == draft


@pytest.mark.parametrize("fields", [(), ("state",), ("plan.days_needed",), ("epsilon", "no_such_field")])
def test_a_mask_that_names_nothing_or_something_else_is_refused(
    operator: PlatformClient, app: str, shared_feature: str, fields: tuple[str, ...]
) -> None:
    """What is the server's to say cannot be set."""
    draft = operator.create_experiment(app, shared_feature, ARMS)
    with pytest.raises(InvalidRequestError, match="update_mask"):
        operator.update_experiment(draft.experiment_id, fields=fields, epsilon="1")
    assert operator.experiment(draft.experiment_id) == draft


def test_a_watcher_sees_each_change_until_the_stop(
    world: ServerWorld, team: PlatformClient, operator: PlatformClient, app: str, feature: str
) -> None:
    """Draft, running, stopped, in order; the stream of one that continues ends at its deadline."""
    world.publish(team, feature, "1.0.0")
    world.publish(team, feature, "2.0.0")
    draft = operator.create_experiment(app, feature, ARMS)
    seen_so_far: list[Experiment] = []
    with pytest.raises(DeadlineError):
        seen_so_far.extend(operator.watch_experiment(draft.experiment_id, timeout_s=0.8))
    assert seen_so_far in ([], [draft])  # a slow machine may not even get the first within the deadline
    states = []
    may_go_on = threading.Semaphore(0)

    def operate() -> None:
        may_go_on.acquire()
        operator.start_experiment(draft.experiment_id)
        may_go_on.acquire()
        operator.stop_experiment(draft.experiment_id)

    actor = threading.Thread(target=operate)
    actor.start()
    for seen in operator.watch_experiment(draft.experiment_id, timeout_s=30.0):
        states.append(seen.state)
        may_go_on.release()
    actor.join()
    assert states == ["draft", "running", "stopped"]


def test_reports_tell_apart_only_the_outcomes_that_are_read() -> None:
    """Each outcome costs precision, so errors and fallbacks are counted where a guardrail asks for them."""
    noted = ((Outcome.REFUSED,), (Outcome.ACCEPTED,))
    error, fallback, answered = Outcome.ERROR, Outcome.FALLBACK, Outcome.ANSWERED
    for metric, groups in (
        ("crash_fallback", (*noted, (error, answered), (fallback,))),
        ("error", (*noted, (error,), (fallback, answered))),
        ("refused", noted),
        ("latency", (*noted, (answered,))),
    ):
        quantile = 0.5 if metric == "latency" else None
        guarded = record(core.ExperimentPlan(guardrails=(GuardrailRecord(metric, 0.1, quantile),)))
        assert task_of(replace(guarded, started_at_s=1)).outcome_groups == groups
    median = record(core.ExperimentPlan("latency_quantile", 0.5))
    assert task_of(replace(median, started_at_s=1)).outcome_groups == ((Outcome.REFUSED, Outcome.ACCEPTED, answered),)


def test_a_winner_that_crashes_more_is_held_by_its_guardrail() -> None:
    """The same answers win without the guardrail, and with one whose margin is wide enough."""
    rng = np.random.default_rng(20_270_301)
    better = [[[0.10], [0.80], [0.0], [0.10]], [[0.05], [0.90], [0.0], [0.05]]]
    crashing = [[[0.30], [0.69], [0.0], [0.01]], [[0.05], [0.85], [0.0], [0.10]]]
    for cells, margin, code, winner in (
        (better, 0.01, "better", 1),
        (crashing, 0.02, "guardrail", None),
        (crashing, 0.5, "better", 1),
    ):
        plan = core.ExperimentPlan(guardrails=(GuardrailRecord("crash_fallback", margin),))
        running = replace(record(plan, ()), started_at_s=1)
        found = evaluate(running, Reports.of_cells(task_of(running), randomize(rng, running, cells, 400_000), 1))
        assert (found.decision.code, found.decision.winner) == (code, winner)
        assert len(found.verdicts) == 1
    assert "harm" not in found.decision.reason


def test_the_faster_arm_wins_where_latency_decides() -> None:
    """By mean and by quantile, whichever index it has; equal accuracies."""
    rng = np.random.default_rng(20_270_302)
    fast, slow = [[0.15, 0.04, 0.01], [0.6, 0.15, 0.05]], [[0.01, 0.04, 0.15], [0.05, 0.15, 0.6]]
    for primary in (
        core.ExperimentPlan("latency_mean"),
        core.ExperimentPlan("latency_quantile", 0.5),
        core.ExperimentPlan("latency_share", edge_ms=20.0),
    ):
        for cells, winner in (([slow, fast], 1), ([fast, slow], 0), ([fast, fast], None)):
            running = replace(record(primary), started_at_s=1)
            found = evaluate(running, Reports.of_cells(task_of(running), randomize(rng, running, cells, 300_000), 1))
            assert found.decision.winner == winner, (primary, winner)
            (pair,) = found.comparison.primary_pairs
            assert pair.interval is not None
            if winner is not None:
                assert "faster" in found.decision.reason
                assert ("ms" in found.decision.reason) is (primary.edge_ms is None)
                assert (pair.interval.high <= 0.0) is (winner == 1)


def test_plans_in_milliseconds_and_of_what_cannot_be_found() -> None:
    """A mean needs more devices for a smaller difference; a tiny fleet gets what it can find instead."""

    def make(plan: core.ExperimentPlan, edges_ms: tuple[float, ...] = EDGES_MS) -> core.ExperimentPlan:
        asked = record(plan, edges_ms)
        return make_plan(asked, task_of(replace(asked, started_at_s=1)))

    for kind, quantile, edges_ms, differences in (
        ("latency_mean", None, EDGES_MS, (4.0, 1.0)),
        ("latency_quantile", 0.5, FINE_MS, (10.0, 2.5)),
    ):
        needs = [make(core.ExperimentPlan(kind, quantile, mde=mde), edges_ms).devices_needed for mde in differences]
        assert 0 < 10 * needs[0] < needs[1]
    slower = core.ExperimentPlan("latency_share", edge_ms=9.0, mde=0.02, base_rate=0.05)
    assert 0 < make(slower, FINE_MS).devices_needed < 2 * 10**6
    hidden = make(core.ExperimentPlan("latency_quantile", 0.5, mde=2.0), FINE_MS)
    assert hidden.devices_needed == 0  # a shift of one bin is not seen wherever the quantile lies in it
    small = make(core.ExperimentPlan(mde=0.01, expected_devices=2_000))
    assert small.days_needed == 0
    assert small.detectable > 0.01
    assert small.devices_needed > 2_000
    with pytest.raises(InvalidFieldError, match=r"primary\.kind"):
        make(core.ExperimentPlan("mood"))


def test_ratio_and_analyses_are_kept_planned_and_changed(
    operator: PlatformClient, app: str, shared_feature: str
) -> None:
    """Both at once: what was asked is repeated; fewer analyses than any number need fewer devices."""
    asked: dict[str, Any] = {
        "primary": PER_ANSWER,
        "plan": ExperimentPlan(mde=0.02, base_rate=0.8, expected_devices=5_000_000, interim_analyses=5),
    }
    draft = operator.create_experiment(app, shared_feature, ARMS, **asked)
    assert (draft.primary, draft.plan.interim_analyses, draft.interim_analyses) == (PER_ANSWER, 5, ())
    assert draft.plan.planned_reports == 5_000_000 * draft.plan.days_needed
    at_will = operator.update_experiment(draft.experiment_id, fields=("plan.interim_analyses",))
    assert at_will.plan.interim_analyses == 0
    assert at_will.plan.devices_needed > 1.5 * draft.plan.devices_needed > 0
    given = operator.update_experiment(
        draft.experiment_id,
        fields=("plan",),
        plan=ExperimentPlan(interim_analyses=20, horizon_reports=70_000),
    )
    assert (given.plan.planned_reports, given.plan.interim_analyses) == (70_000, 20)
    assert given.primary == PER_ANSWER
    partial = operator.update_experiment(
        draft.experiment_id,
        fields=("primary", "plan.denominator_share", "plan.mde"),
        primary=ERRORS_OF_ANSWERED,
        plan=ExperimentPlan(mde=0.05, denominator_share=0.9),
    )
    assert partial.primary == ERRORS_OF_ANSWERED
    assert (partial.plan.denominator_share, partial.plan.planned_reports) == (0.9, 70_000)
    assert partial.plan.devices_needed > 0
    assert partial == operator.experiment(draft.experiment_id)


def test_a_ratio_of_errors_tells_all_outcomes_apart_and_decides() -> None:
    """The better arm has fewer errors per answered question, though as many are accepted."""
    rng = np.random.default_rng(20_270_303)
    plan = core.ExperimentPlan("ratio", numerator=("error",), denominator=("accepted", "error"), less_is_better=True)
    running = replace(record(plan, ()), started_at_s=1)
    task = task_of(running)
    assert task.outcome_groups == (
        (Outcome.REFUSED, Outcome.FALLBACK),
        (Outcome.ACCEPTED,),
        (Outcome.ERROR,),
    )
    cells = [[[0.2], [0.5], [0.3], [0.0]], [[0.4], [0.5], [0.1], [0.0]]]
    found = evaluate(running, Reports.of_cells(task, randomize(rng, running, cells, 400_000), 1))
    assert found.decision.winner == 1
    assert "better in error / (accepted + error)" in found.decision.reason
    (pair,) = found.comparison.primary_pairs
    assert pair.value == pytest.approx(1 / 6 - 3 / 8, abs=0.05)


def test_a_ratio_of_outcomes_that_are_counted_as_one_can_decide() -> None:
    """Refused, errors and crashes are one group where the share of accepted among all four is asked for."""
    plan = core.ExperimentPlan(
        primary="ratio", numerator=("accepted",), denominator=("refused", "accepted", "error", "fallback")
    )
    experiment = replace(record(plan, edges_ms=()), started_at_s=1)
    task = task_of(experiment)
    assert task.cell_count == 4
    found = evaluate(experiment, Reports.of_cells(task, [5000, 5000, 4000, 6000], 1)).comparison
    assert found.primary_pairs[0].value == pytest.approx(0.1 / (math.expm1(2) / (math.e**2 + 3)), rel=0.05)
