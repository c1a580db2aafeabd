"""The cells of an experiment's reports as a table: places, edges, weights and noise, by each mechanism."""

from dataclasses import replace

import numpy as np
import pytest
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.cell_table import tabulate_cells
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.registry.policy import Aggregation

from tests.platform.domain.test_experiment_plans import EDGES_MS, record

PAIR = Aggregation(leader_url="https://leader.example/dap", helper_url="https://helper.example", min_batch_size=100)


def test_noised_sums_of_aggregators_are_counts_with_equal_noise() -> None:
    """They may be negative; estimates are they themselves, and the noise of each cell is its own."""
    experiment = replace(record(ExperimentPlan(aggregation=PAIR), EDGES_MS, "1"), started_at_s=1)
    task = task_of(experiment)
    counts = tuple(100 * cell - 5 for cell in range(task.cell_count))
    reports = Reports(task, counts, sum(counts), 1, idle=50, released=sum(counts) + 50)
    table = tabulate_cells(experiment, reports)
    assert tuple(row.count for row in table.rows) == counts
    assert [row.estimate for row in table.rows] == pytest.approx(counts)
    assert len({row.noise_standard_error for row in table.rows}) == 1
    lower = np.array(table.noise_covariance)
    full = np.zeros((task.cell_count, task.cell_count))
    full[np.tril_indices(task.cell_count)] = lower
    assert np.count_nonzero(full) == task.cell_count
    assert np.diagonal(full) == pytest.approx([row.noise_standard_error**2 for row in table.rows])


def test_rows_have_the_edges_of_their_bins_and_the_weights_of_the_metric() -> None:
    """Mean latency: a bin's middle in the numerator, one in the denominator; the last bin is open."""
    experiment = replace(record(ExperimentPlan(primary="latency_mean"), EDGES_MS), started_at_s=1)
    task = task_of(experiment)
    reports = Reports.of_cells(task, [task.subset_size * 100] * task.cell_count, 1)
    first = [row for row in tabulate_cells(experiment, reports).rows if row.arm == 0]
    assert [(row.latency_from_ms, row.latency_below_ms) for row in first] == [(0.0, 5.0), (5.0, 20.0), (20.0, None)]
    assert [row.denominator_weight for row in first] == [1.0] * 3
    assert [row.numerator_weight for row in first] == [2.5, 12.5, 27.5]


def test_bins_of_the_earlier_share_are_apart_and_a_quantile_has_no_weights() -> None:
    """CUPED's cells in the order of the counts."""
    cuped = replace(record(ExperimentPlan(pre_edges=(0.5,)), ()), started_at_s=1)
    task = task_of(cuped)
    reports = Reports.of_cells(task, [task.subset_size * 90] * task.cell_count, 1)
    rows = tabulate_cells(cuped, reports).rows
    assert [row.earlier_share_bin for row in rows[:3]] == [0, 1, 2]
    assert {row.numerator_weight for row in rows if row.outcomes == ("accepted",)} == {1.0}
    assert sum(row.estimate for row in rows) == pytest.approx(aggregate_of(reports).estimates.sum())
    median = replace(record(ExperimentPlan(primary="latency_quantile", quantile=0.5), EDGES_MS), started_at_s=1)
    task = task_of(median)
    rows = tabulate_cells(median, Reports.of_cells(task, [task.subset_size * 90] * task.cell_count, 1)).rows
    assert {row.numerator_weight for row in rows} == {None}
