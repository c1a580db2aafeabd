"""Tasks tell apart what is read: the fewest cells, and by closed form how many devices that saves."""

from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.domain.cells import group_outcomes
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.domain.rollouts.task import task_of
from alcove.platform.stats import Aggregate, aggregate_from_randomized_response
from alcove.platform.stats._shares import share_difference, share_sums
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.subset_selection import SubsetSelection
from alcove.registry import policy
from alcove.registry.policy import HistogramLayout, Outcome, TaskPolicy

from tests.platform.cells import cells_of

R, A, E, F, N = Outcome.REFUSED, Outcome.ACCEPTED, Outcome.ERROR, Outcome.FALLBACK, Outcome.ANSWERED
EDGES_MS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
REPORTS = 10**9  # sampling and pseudo-counts are then nothing beside the noise, as in the audit's formulas


def make_task(*metrics: str, edges_ms: tuple[float, ...] = (), epsilon: str = "1") -> TaskPolicy:
    """The task of a rollout with these guardrails."""
    guardrails = tuple(GuardrailRecord(each, 0.01, 0.95 if each == "latency" else None) for each in metrics)
    plan = RolloutPlan((Stage(100, 0, 100),), guardrails, epsilon=epsilon, latency_edges_ms=edges_ms)
    return task_of("ro-1", plan, 100_000)


@pytest.mark.parametrize(
    ("metrics", "groups", "cells"),
    [
        (("crash_fallback",), ((R, A, E, N), (F,)), 4),
        (("crash_fallback", "error"), ((R, A, N), (E,), (F,)), 6),
        (("refused",), ((R,), (A,), (E, F, N)), 6),
        (("crash_fallback", "refused"), ((R,), (A,), (E, N), (F,)), 8),
        (("latency",), ((R, A, N), (E, F)), 18),
        (("crash_fallback", "error", "latency"), ((R, A, N), (E,), (F,)), 20),
        (("crash_fallback", "error", "refused", "latency"), ((R,), (A,), (E,), (F,), (N,)), 52),
    ],
)
def test_a_rollouts_cells_are_those_that_its_guardrails_read(
    metrics: tuple[str, ...], groups: tuple[tuple[Outcome, ...], ...], cells: int
) -> None:
    """Every outcome is in one group, and bins are there for latency alone."""
    task = make_task(*metrics, edges_ms=EDGES_MS if "latency" in metrics else ())
    assert (task.outcome_groups, task.cell_count) == (groups, cells)
    assert sorted(outcome for group in groups for outcome in group) == sorted(Outcome)


def test_outcomes_that_nobody_counts_are_in_no_group() -> None:
    """Of what is counted, alike is alike to every set that is read."""
    assert group_outcomes([]) == (tuple(Outcome),)
    assert group_outcomes([{A}], {R, A}) == ((R,), (A,))
    assert group_outcomes([{E}, {A, E}]) == ((R, F, N), (A,), (E,))


def crash_variance(aggregate: Aggregate) -> float:
    """The variance of the difference of crash shares as the product computes it."""
    events = np.zeros((aggregate.outcomes, aggregate.bins))
    events[F] = 1.0
    shares = share_sums(aggregate, events, np.ones(events.shape), treatment=1, control=0)
    return float(share_difference(shares).standard_error) ** 2


def exact_reports(task: TaskPolicy, shares: list[float]) -> Reports:
    """As many reports of each randomized cell as devices with these shares by outcome are expected to send."""
    bins = len(task.latency_edges_ms) + 1
    true = np.zeros((2, 4, bins))
    true[:, :2] = np.array(shares[:2])[None, :, None] / bins
    true[:, 2:, 0] = shares[2:]
    mechanism = SubsetSelection(task.cell_count, task.epsilon_fraction, task.subset_size)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    counts = np.rint(REPORTS * (other + (keep - other) * cells_of(task, true) / 2.0)).astype(int)
    counts[0] += -counts.sum() % task.subset_size
    return Reports.of_cells(task, counts.tolist(), 1)


@pytest.mark.parametrize(("epsilon", "saved_bins", "saved_alone"), [("1", 13.8, 91), ("2", 12.9, 53)])
def test_crashes_without_impossible_cells_need_a_thirteenth_of_the_devices(
    epsilon: str, saved_bins: float, saved_alone: float
) -> None:
    """The audit's table of section 5, eight bins: 36 cells instead of 64, and crashes asked for alone (4 cells).

    Before, all 64 cells of two arms, four outcomes and eight bins could be named, and a crash share added the noise of
    eight bins of which seven were always empty.
    """
    shares = [0.195, 0.79, 0.005, 0.01]
    full = HistogramLayout(2, 4, 8)
    true = np.zeros(full.shape)
    true[:, :2, :, 0] = np.array(shares[:2])[None, :, None] / 8
    true[:, 2:, 0, 0] = shares[2:]
    mechanism = RandomizedResponse(full.cell_count, Fraction(epsilon))
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    counts = np.rint(REPORTS * (other + (keep - other) * true.ravel() / 2.0)).astype(int).tolist()
    before = crash_variance(aggregate_from_randomized_response(counts, full, epsilon=Fraction(epsilon)))
    every = policy.make_task(
        experiment_id="ro-1",
        epsilon=epsilon,
        arm_count=2,
        outcome_groups=((R,), (A,), (E,), (F,)),
        latency_edges_ms=EDGES_MS,
        window_s=86_400,
        first_window_start_s=0,
    )
    after = crash_variance(aggregate_of(exact_reports(every, shares)))
    alone = crash_variance(aggregate_of(exact_reports(make_task("crash_fallback", epsilon=epsilon), shares)))
    assert before / after == pytest.approx(saved_bins, rel=0.03)
    assert before / alone == pytest.approx(saved_alone, rel=0.06)


@pytest.mark.parametrize("epsilon", ["1", "2"])
def test_cells_that_cannot_occur_hold_no_estimate_and_no_noise(epsilon: str) -> None:
    """Errors and fallbacks are in their one bin; the crash share's noise is that of one cell of an arm."""
    task = make_task("crash_fallback", "error", "latency", edges_ms=EDGES_MS, epsilon=epsilon)
    aggregate = aggregate_of(exact_reports(task, [0.2, 0.78, 0.01, 0.01]))
    assert aggregate.estimates.shape == (2, 5, 8)
    estimated = aggregate.estimates.sum(axis=0)
    assert estimated[A].tolist() == [0.0] * 8, "refused stands for both answers"
    assert estimated[N].tolist() == [0.0] * 8, "and for those that nobody rated"
    assert estimated[E:N, 1:].tolist() == [[0.0] * 7] * 2
    assert estimated[E:N, 0] == pytest.approx([0.01 * REPORTS] * 2, rel=1e-4)
    noise = aggregate.noise_covariance.reshape(2, 5, 8, 2, 5, 8)
    assert not noise[:, E:N, 1:].any()
    assert not noise[:, N].any()
    assert not noise[:, A].any()
    assert noise[0, F, 0, 0, F, 0] > 0
