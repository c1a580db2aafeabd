"""Pooled reports are taken for no more than one device can have sent."""

import itertools
from dataclasses import replace

import pytest
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.analysis import evaluate
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentRecord, ExperimentState
from alcove.platform.domain.reports import Reports, reports_per_device
from alcove.registry.policy import TaskPolicy, make_task

from tests.platform.domain.test_experiment_plans import record

EPSILON_2_MONTH = {False: 3, True: 4}  # reports at epsilon 2 that 30 days pay for: of an experiment, of a rollout


def make_running() -> ExperimentRecord:
    """An experiment of two arms and two outcomes, at epsilon 2."""
    return replace(record(ExperimentPlan(), edges_ms=()), state=ExperimentState.RUNNING, started_at_s=1_000_000)


def task_of_kind(running: ExperimentRecord, *, is_guardrail: bool) -> TaskPolicy:
    """The task of its reports, or the same that may use the reserve."""
    return make_task(**task_of(running).model_dump(exclude={"task_id", "is_guardrail"}), is_guardrail=is_guardrail)


@pytest.mark.parametrize("is_guardrail", [False, True])
def test_standard_error_never_grows_by_new_installs(is_guardrail: bool) -> None:
    """20,000 devices report as often as they may, then 60 new ones a day: more data never widens an interval.

    From the 30th day on a device of the first day may have reported again; the worst case then counts one report more.
    """
    running = make_running()
    task = task_of_kind(running, is_guardrail=is_guardrail)
    full_days = EPSILON_2_MONTH[is_guardrail]
    cells = 4
    assert task.cell_count == cells
    errors, devices = [], []
    reports = 0
    for day in range(30):
        reports += 20_000 if day < full_days else 60
        pooled = Reports.of_cells(task, (reports // cells,) * cells, windows=day + 1)  # half are accepted, exactly
        arms = evaluate(running, pooled).comparison.arms
        errors.append(arms[0].accepted_standard_error or 0.0)
        devices.append([arm.devices for arm in arms])
    assert all(later < before for before, later in itertools.pairwise(errors[:29]))
    assert errors[28] < (0.0083 if is_guardrail else 0.0092)
    assert errors[29] / errors[28] < ((full_days + 1) / full_days) ** 0.5
    assert devices[full_days - 1] == pytest.approx([10_000, 10_000])
    assert devices[28] == pytest.approx([10_000, 10_000], rel=0.03)


def test_reports_of_a_device_are_bounded_by_windows_span_and_budget() -> None:
    """Windows that an outsider adds widen nothing beyond what the ledger pays for; gaps between them count."""
    running = make_running()
    rollout, experiment = (task_of_kind(running, is_guardrail=is_guardrail) for is_guardrail in (True, False))
    assert [reports_per_device(rollout, windows) for windows in (0, 1, 3, 4, 29, 30)] == [1, 1, 3, 4, 4, 5]
    assert [reports_per_device(experiment, windows) for windows in (0, 1, 2, 3, 29, 30)] == [1, 1, 2, 3, 3, 4]
    assert reports_per_device(rollout, 5, span=40) == 5
    assert reports_per_device(rollout, 5, span=5) == 4
    assert Reports(rollout, (0,) * 4, 0, 5, span=40).per_device == 5
    assert Reports.of_cells(rollout, (1, 0, 0, 0), 1).per_device == 1
