"""What a task's mechanism is, what it promises, and what a plan by it needs."""

from dataclasses import replace
from fractions import Fraction

import pytest
from alcove.platform.domain.errors import AggregatorsMissingError, InvalidFieldError
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.plan import make_plan
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.mechanism import (
    choose_aggregation,
    choose_subset,
    largest_epsilon,
    mechanism_of,
    promise_of,
)
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState
from alcove.platform.domain.rollout_records import RolloutPlan
from alcove.platform.domain.rollouts.task import task_of as rollout_task_of
from alcove.platform.stats import Mechanism
from alcove.privacy.subset_selection import best_subset_size
from alcove.registry.policy import Aggregation, in_stratum, make_task
from hypothesis import given
from hypothesis import strategies as st

AGGREGATION = Aggregation(
    leader_url="https://leader.example/dap", helper_url="https://helper.example:8443", min_batch_size=500
)
FLOOR = Aggregation(**(AGGREGATION.model_dump() | {"local_epsilon": "3"}))


def record(plan: ExperimentPlan, epsilon: str = "1") -> ExperimentRecord:
    """An experiment of two equal arms that started."""
    return ExperimentRecord(
        sequence=0, experiment_id="ex-1", app="app", feature="f", salt="0" * 32,
        arms=tuple(ArmRecord(name, f"{i}.0.0", str(i) * 64, 5000) for i, name in enumerate(("control", "larger"), 1)),
        state=ExperimentState.RUNNING, epsilon=epsilon, latency_edges_ms=(), window_s=86_400, minimum_cohort=100,
        created_at_s=1, started_at_s=1_000_000_000, stopped_at_s=None, task_id=None, decision=None, policy_serial=0,
        plan=plan,
    )  # fmt: skip


def plan_of(plan: ExperimentPlan) -> ExperimentPlan:
    """The plan as the server computes it."""
    experiment = record(plan)
    return make_plan(experiment, task_of(experiment))


@pytest.mark.parametrize(
    ("asked", "aggregators", "expected"),
    [
        (None, None, None),
        (None, AGGREGATION, AGGREGATION),
        (Mechanism.RANDOMIZED_RESPONSE, None, None),
        (Mechanism.RANDOMIZED_RESPONSE, AGGREGATION, None),
        (Mechanism.PRIO3, AGGREGATION, AGGREGATION),
    ],
)
def test_open_mechanism_is_prio3_where_the_server_has_aggregators(
    asked: Mechanism | None, aggregators: Aggregation | None, expected: Aggregation | None
) -> None:
    """Every pair of what is asked and what there is."""
    chosen = choose_aggregation(asked, aggregators)
    assert chosen is expected
    assert mechanism_of(chosen) is (Mechanism.RANDOMIZED_RESPONSE if expected is None else Mechanism.PRIO3)


def test_prio3_without_aggregators_is_refused_with_what_to_do() -> None:
    """The error names the way out."""
    with pytest.raises(AggregatorsMissingError, match="ask for randomized response"):
        choose_aggregation(Mechanism.PRIO3, None)


def test_promise_names_who_could_read_a_report() -> None:
    """One sentence each; epsilon, aggregators and the smallest batch are in it."""
    alone, together, floored = promise_of("2", None), promise_of("1", AGGREGATION), promise_of("1", FLOOR)
    assert alone == "randomized response: each report hides arm and outcome up to ε = 2, from this server too"
    assert "only devices of apps that allow such reports" in promise_of("2.5", None)
    assert "neither leader.example nor helper.example:8443 reads a report" in together
    assert "ε = 1 from 500 reports on; they could read every report together" in together
    assert "together they could read a report up to ε = 3" in floored


def test_report_costs_a_day_or_where_it_is_alone_what_30_days_leave_it() -> None:
    """An experiment's leaves the reserve; aggregators release windows within a day's cap."""
    found = {
        (aggregation is None, is_guardrail): largest_epsilon(aggregation, is_guardrail=is_guardrail)
        for aggregation in (None, AGGREGATION)
        for is_guardrail in (False, True)
    }
    assert found == {(True, False): 6, (True, True): 8, (False, False): 2, (False, True): 2}


def test_plan_by_prio3_needs_fewer_devices_than_randomized_response() -> None:
    """The same difference and epsilon; a floor needs more than none, and less than randomized response alone."""
    by_response, by_prio3, by_floor = (
        plan_of(ExperimentPlan(mde=0.05, aggregation=aggregation)).devices_needed
        for aggregation in (None, AGGREGATION, FLOOR)
    )
    assert 0 < by_prio3 < by_floor < by_response
    found = [
        plan_of(ExperimentPlan(expected_devices=20_000, aggregation=aggregation)).detectable
        for aggregation in (AGGREGATION, FLOOR, None)
    ]
    assert found == sorted(found)
    assert found[0] > 0


def test_no_plan_by_prio3_is_below_the_smallest_batch() -> None:
    """Aggregators release no smaller window: as many devices are needed, and fewer are refused by the field's name."""
    large = AGGREGATION.model_copy(update={"min_batch_size": 1_000_000})
    assert plan_of(ExperimentPlan(mde=0.05, aggregation=large)).devices_needed == 1_000_000
    with pytest.raises(InvalidFieldError, match="expected_devices: expected at least 500"):
        plan_of(ExperimentPlan(mde=0.05, expected_devices=499, aggregation=AGGREGATION))
    assert plan_of(ExperimentPlan(mde=0.05, expected_devices=500, aggregation=AGGREGATION)).detectable > 0
    assert plan_of(ExperimentPlan(mde=0.05, expected_devices=499)).detectable > 0


def test_forecast_of_cuped_is_that_of_the_mechanism() -> None:
    """Earlier answers widen intervals under randomized response, and narrow them with aggregators."""
    plan = ExperimentPlan(expected_devices=100_000, pre_edges=(0.5, 0.8))
    assert plan_of(plan).cuped_error_ratio > 1
    assert 0 < plan_of(replace(plan, aggregation=AGGREGATION)).cuped_error_ratio < 1


@given(st.integers(0, 2**33), st.integers(3600, 31 * 86_400))
def test_windows_of_prio3_begin_at_multiples_and_hold_the_start(started_at_s: int, window_s: int) -> None:
    """Of experiments and of rollouts' stages: the window under way at the start is number 0, also for a late clock."""
    late_s = max(0, started_at_s - 300)
    experiment = replace(record(ExperimentPlan(aggregation=AGGREGATION)), started_at_s=started_at_s, window_s=window_s)
    plan = RolloutPlan(window_s=window_s, aggregation=AGGREGATION)
    for task in (task_of(experiment), rollout_task_of("ro-1", plan, started_at_s)):
        assert task.aggregation == AGGREGATION
        assert task.first_window_start_s % window_s == 0
        assert task.window_at(late_s) == 0
    without = task_of(replace(experiment, plan=ExperimentPlan()))
    assert without.first_window_start_s == late_s


def test_tasks_of_many_cells_name_sets_of_them_whatever_their_stratum() -> None:
    """Thirty-two cells at epsilon 1: nine a report; of all devices, and of one value of a dimension."""
    for stratum in (None, 2):
        task = make_task(
            experiment_id="ex-1", epsilon="1", arm_count=2, latency_edges_ms=(1.0,), window_s=86_400,
            first_window_start_s=0, pre_edges=(0.2, 0.4, 0.6, 0.8),
        )  # fmt: skip
        found = choose_subset(in_stratum(task, stratum))
        assert (found.stratum, found.subset_size) == (stratum, best_subset_size(task.cell_count, Fraction(1)))
        assert found.subset_size > 1
