"""Measures how often 95 % intervals of each kind of metric cover the truth, under each privacy mechanism."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from alcove.platform.stats import (
    Aggregate,
    Mechanism,
    aggregate_from_noised_histogram,
    aggregate_from_randomized_response,
    cuped_difference,
    ratio_difference,
)
from alcove.platform.stats._ratio import Interval
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.aggregator_noise import draw_noise
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout

from benchmarks.statistics.rates import Z_TWO_SIDED

SIDE = 4
PRE = np.arange(float(SIDE))
POST = np.array([0.0, 1.0, 2.5, 4.0])
DEVICES = 60_000


def arm_cells(shift: float) -> FloatArray:
    """Return probabilities [pre, post] of an arm whose devices correlate by about 0.6, moved up by `shift` of a bin."""
    table = np.exp(-0.5 * (PRE[:, None] - np.arange(float(SIDE))[None, :] + shift) ** 2)
    cells: FloatArray = table / table.sum(axis=1, keepdims=True) / SIDE
    return cells


def metric_coverage(
    rng: np.random.Generator, mechanism: Mechanism, epsilon: Fraction, *, runs: int
) -> dict[str, float]:
    """Return for each metric how often its interval covers, over `runs` joint histograms of two arms."""
    arms = np.stack([arm_cells(0.0), arm_cells(-0.1)])
    truth = {
        "share": float(arms[1, :, 0].sum() - arms[0, :, 0].sum()),
        "ratio": _ratio(arms[1]) - _ratio(arms[0]),
        "mean, CUPED": float((arms[1] * POST).sum() - (arms[0] * POST).sum()),
    }
    covered = dict.fromkeys(truth, 0)
    read = _readers()
    for cells in rng.multinomial(DEVICES, arms.ravel() / 2.0, size=runs):
        aggregate = _aggregate(rng, cells, mechanism, epsilon)
        for name, value in truth.items():
            low, high = read[name](aggregate)
            covered[name] += low <= value <= high
    return {name: count / runs for name, count in covered.items()}


def _ratio(cells: FloatArray) -> float:
    return float((cells * POST[None, :]).sum() / (cells * (PRE[:, None] + 1.0)).sum())


def _readers() -> dict[str, Callable[[Aggregate], Interval]]:
    ones = np.ones((SIDE, SIDE))
    first = np.zeros((SIDE, SIDE))
    first[:, 0] = 1.0
    post, pre = np.tile(POST, (SIDE, 1)), np.tile(PRE[:, None] + 1.0, (1, SIDE))

    def ratio(aggregate: Aggregate, above: FloatArray, below: FloatArray) -> Interval:
        found = ratio_difference(aggregate, above, below, arm=1, versus=0, critical_value=Z_TWO_SIDED)
        assert found is not None
        return found.interval

    def cuped_interval(aggregate: Aggregate) -> Interval:
        found = cuped_difference(aggregate, PRE, POST, arm=1, versus=0, critical_value=Z_TWO_SIDED)
        assert found is not None
        return found.interval

    return {
        "share": lambda aggregate: ratio(aggregate, first, ones),
        "ratio": lambda aggregate: ratio(aggregate, post, pre),
        "mean, CUPED": cuped_interval,
    }


def _aggregate(
    rng: np.random.Generator,
    cells: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]",
    mechanism: Mechanism,
    epsilon: Fraction,
) -> Aggregate:
    shape = (2, SIDE, SIDE)
    if mechanism is Mechanism.EXACT:
        return Aggregate(cells.reshape(shape).astype(float), np.zeros((cells.size, cells.size)), int(cells.sum()))
    if mechanism is Mechanism.PRIO3:
        noised = cells.reshape(shape) + draw_noise(rng, shape, epsilon)
        return aggregate_from_noised_histogram(noised, reports=int(cells.sum()), epsilon=epsilon)
    response = RandomizedResponse(cells.size, epsilon)
    answers = np.full((cells.size, cells.size), float(response.other_probability))
    np.fill_diagonal(answers, float(response.keep_probability))
    reports = sum(rng.multinomial(count, row / row.sum()) for count, row in zip(cells, answers, strict=True))
    return aggregate_from_randomized_response(
        [int(count) for count in np.asarray(reports)], HistogramLayout(2, SIDE, SIDE), epsilon=epsilon
    )
