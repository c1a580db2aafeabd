"""Plans of latency quantiles find safety and harm as often as they promise, by the verdicts of simulated stages."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.domain.behavior import Behavior
from alcove.platform.domain.mechanism import report_model_of
from alcove.platform.domain.planning.guardrails import guardrail_of
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.task import task_of
from alcove.platform.stats import (
    AlwaysValidBound,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    HarmBound,
    Look,
    PlannedBound,
    Stratum,
    aggregate_from_randomized_response,
    evaluate_guardrail,
)
from alcove.platform.stats.guardrail_power import HarmTest, SafeTest, devices_for
from alcove.platform.stats.quantile_power import QuantileModel
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import TaskPolicy

EDGES_MS = (30.0, 40.0, 50.0, 60.0, 70.0)
MARGIN_MS, WINDOWS, POWER, TWO = 10.0, 2, 0.8, Fraction(2)
SAFE, HARM = SafeTest.each_window(0.05, WINDOWS), HarmTest(0.05, WINDOWS)


def model_of(edges_ms: tuple[float, ...] = EDGES_MS) -> tuple[QuantileModel, TaskPolicy]:
    """The 95th percentile of a latency with a median of 20 ms, by k-ary randomized response."""
    record = GuardrailRecord("latency", MARGIN_MS, 0.95)
    plan = RolloutPlan((Stage(1000, 0, 1000),), (record,), epsilon="2", latency_edges_ms=edges_ms)
    task = task_of("ro-0", plan, 0)
    reports = replace(report_model_of(task), subset_size=1)
    planned = guardrail_of(record, task, Behavior(), (0.5, 0.5), reports)
    assert planned is not None
    assert isinstance(planned.model, QuantileModel)
    return planned.model, task


def find(
    model: QuantileModel, task: TaskPolicy, devices: int, *, difference: float, kind: GuardKind, runs: int
) -> float:
    """Part of simulated stages with the verdict at the end of some window."""
    rng = np.random.default_rng(20_271_211)
    cells = np.concatenate([0.5 * model.cells(1.0), 0.5 * model.cells(1.0 + difference / model.control_ms)])
    mechanism = RandomizedResponse(task.cell_count, TWO)
    other = float(mechanism.other_probability)
    answers = np.full((cells.size,) * 2, other) + np.eye(cells.size) * (float(mechanism.keep_probability) - other)
    answers /= answers.sum(axis=1, keepdims=True)
    guardrail, found = Guardrail(GuardMetric.LATENCY, MARGIN_MS, 0.95), 0
    for _ in range(runs):
        true, total = rng.multinomial(devices, cells / cells.sum()), np.zeros(cells.size, np.int64)
        for window in range(1, WINDOWS + 1):
            total = total + rng.multinomial(true, answers).sum(axis=0)
            aggregate = aggregate_from_randomized_response(total.tolist(), task.layout, epsilon=TWO)
            looks = tuple(Look(each, devices * each) for each in range(1, window + 1))
            harm = HarmBound(AlwaysValidBound(0.05, devices * window, devices * WINDOWS))
            tests = GuardTests(harm, PlannedBound(0.05, looks, WINDOWS))
            strata = [Stratum(aggregate, reports_per_device=window)]
            verdict = evaluate_guardrail(strata, guardrail, control=0, treatment=1, tests=tests, edges_ms=EDGES_MS)
            if verdict.kind is kind:
                found += 1
                break
    return found / runs


@pytest.mark.thorough
def test_plans_of_a_quantile_find_what_they_promise() -> None:
    """Safety of an equal version and harm of one 40 ms slower, 4,000 stages each: 80 % within three points."""
    model, task = model_of()
    devices = devices_for(lambda number: model.safe_power(number, WINDOWS, SAFE), POWER) or 0
    assert abs(find(model, task, devices, difference=0.0, kind=GuardKind.SAFE, runs=4_000) - POWER) <= 0.03
    devices = devices_for(lambda number: model.harm_power(40.0, number, WINDOWS, HARM), POWER) or 0
    assert abs(find(model, task, devices, difference=40.0, kind=GuardKind.HARMFUL, runs=4_000) - POWER) <= 0.03


def test_power_rises_with_devices_and_differences_and_is_the_same_again() -> None:
    """Also what is detectable; where the control's quantile lies in the open last bin nothing is found safe."""
    model, _ = model_of()
    safe = [model.safe_power(devices, WINDOWS, SAFE) for devices in (20_000, 90_000, 400_000)]
    assert safe == sorted(safe)
    assert safe[0] < 0.2
    assert safe[2] > 0.95
    assert model.safe_power(90_000, WINDOWS, SAFE) == safe[1]
    harm = [model.harm_power(difference, 25_000, WINDOWS, HARM) for difference in (5.0, 30.0, 60.0)]
    assert harm == sorted(harm)
    assert harm[0] == 0.0
    found = model.detectable(100_000, WINDOWS, HARM, power=POWER)
    assert found is not None
    assert MARGIN_MS < found < 40.0
    assert model.harm_power(found, 100_000, WINDOWS, HARM) == pytest.approx(POWER, abs=0.03)
    coarse, _ = model_of((5.0, 10.0, 15.0, 20.0, 25.0))
    assert coarse.safe_power(10_000_000, WINDOWS, SAFE) == 0.0
