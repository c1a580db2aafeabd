"""Apps that note no outcome: what a heartbeat lets guardrails see, by exact counts."""

import numpy as np
import pytest
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.task import task_of
from alcove.platform.simulation.scenario import Behavior
from alcove.platform.stats import (
    Aggregate,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    GuardVerdict,
    Stratum,
    evaluate_guardrail,
)

DEVICES = 100_000
EDGES_MS = (10.0, 20.0, 40.0, 80.0)


def judge(
    metric: str, margin: float, control: Behavior, treatment: Behavior, edge_ms: float | None = None
) -> GuardVerdict:
    """The verdict of one guardrail over exact counts of as many devices a group."""
    quantile = 0.95 if metric == "latency" else None
    plan = RolloutPlan(
        (Stage(5000, 0, 100),),
        (GuardrailRecord(metric, margin, quantile),),
        latency_edges_ms=EDGES_MS if metric == "latency" else (),
    )
    task = task_of("ro-1", plan, 100_000)
    counts = np.concatenate([np.rint(DEVICES * np.array(each.cells(task))) for each in (control, treatment)])
    full = task.layout.expand(counts)
    full = full.reshape(*full.shape[:2], -1)
    aggregate = Aggregate(full, np.zeros((full.size, full.size)), int(full.sum()))
    return evaluate_guardrail(
        [Stratum(aggregate)],
        Guardrail(GuardMetric(metric), margin, None if edge_ms else quantile, edge_ms),
        control=0,
        treatment=1,
        tests=GuardTests.at_will(0.05, reports=aggregate.reports, planned_reports=2 * DEVICES),
        edges_ms=task.latency_edges_ms,
    )


@pytest.mark.parametrize("feedback", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("metric", ["error", "crash_fallback"])
def test_failures_are_seen_whatever_apps_note(metric: str, feedback: float) -> None:
    """One device in a hundred against ten: harm, with the true difference; the same in both: safe.

    Without a heartbeat every report of an app that notes nothing was a failure, in both groups alike.
    """
    sound = Behavior(feedback=feedback).model_copy(update={metric: 0.01})
    failing = Behavior(feedback=feedback).model_copy(update={metric: 0.10})
    found = judge(metric, 0.005, sound, failing)
    assert found.kind is GuardKind.HARMFUL
    assert found.difference == pytest.approx(0.09, abs=1e-4)
    assert judge(metric, 0.005, sound, sound).kind is GuardKind.SAFE


@pytest.mark.parametrize("feedback", [0.0, 1.0])
def test_latency_is_read_from_answers_that_nobody_rated(feedback: float) -> None:
    """Slow answers are a share of all answers, rated or not."""
    usual, slow = (Behavior(feedback=feedback, latency_ms=ms) for ms in (15.0, 40.0))
    assert judge("latency", 0.05, usual, slow, edge_ms=40.0).kind is GuardKind.HARMFUL
    assert judge("latency", 0.05, usual, usual, edge_ms=40.0).kind is GuardKind.SAFE


def test_refusals_stay_a_share_of_rated_answers() -> None:
    """A group whose apps rate less often is compared on what it rated."""
    often, seldom = Behavior(refused=0.2), Behavior(refused=0.2, feedback=0.3)
    found = judge("refused", 0.02, often, seldom)
    assert found.kind is GuardKind.SAFE
    assert found.difference == pytest.approx(0.0, abs=1e-3)
    assert judge("refused", 0.02, often, Behavior(refused=0.3, feedback=0.3)).kind is GuardKind.HARMFUL
