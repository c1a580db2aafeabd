"""Pooled reports are taken for no more than one device can have sent."""

import itertools
from dataclasses import replace

import pytest
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.analysis import evaluate
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.records import ExperimentState
from alcove.platform.domain.reports import Reports, reports_per_device

from tests.platform.domain.test_experiment_plans import record

DAYS_OF_A_DEVICE = 4  # reports at epsilon 2 that 30 days pay for


def test_standard_error_never_grows_by_new_installs() -> None:
    """20,000 devices report on four days, then 60 new ones a day: more data never widens an interval.

    From the 30th day on a device of the first day may have reported again; the worst case then counts five reports.
    """
    running = replace(record(ExperimentPlan(), edges_ms=()), state=ExperimentState.RUNNING, started_at_s=1_000_000)
    task = task_of(running)
    cells = 4
    assert task.cell_count == cells
    errors, devices = [], []
    reports = 0
    for day in range(30):
        reports += 20_000 if day < DAYS_OF_A_DEVICE else 60
        pooled = Reports.of_cells(task, (reports // cells,) * cells, windows=day + 1)  # half are accepted, exactly
        arms = evaluate(running, pooled).comparison.arms
        errors.append(arms[0].accuracy_standard_error or 0.0)
        devices.append([arm.devices for arm in arms])
    assert all(later < before for before, later in itertools.pairwise(errors[:29]))
    assert errors[28] < 0.0083
    assert errors[29] / errors[28] < (5 / 4) ** 0.5
    assert devices[3] == pytest.approx([10_000, 10_000])
    assert devices[28] == pytest.approx([10_187.5, 10_187.5])


def test_reports_of_a_device_are_bounded_by_windows_span_and_budget() -> None:
    """Windows that an outsider adds widen nothing beyond what the ledger pays for; gaps between them count."""
    running = replace(record(ExperimentPlan(), edges_ms=()), state=ExperimentState.RUNNING, started_at_s=1_000_000)
    task = task_of(running)
    assert [reports_per_device(task, windows) for windows in (0, 1, 3, 4, 29, 30)] == [1, 1, 3, 4, 4, 5]
    assert reports_per_device(task, 5, span=40) == 5
    assert reports_per_device(task, 5, span=5) == 4
    assert Reports(task, (0,) * 4, 0, 5, span=40).per_device == 5
    assert Reports.of_cells(task, (1, 0, 0, 0), 1).per_device == 1
