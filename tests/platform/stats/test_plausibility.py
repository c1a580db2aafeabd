"""Counts that no devices can have sent are found; those that devices do send raise no alarm."""

from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    aggregate_from_noised_histogram,
    aggregate_from_randomized_response,
    find_impossible,
    pool,
)
from alcove.platform.stats.aggregator_noise import draw_noise
from alcove.platform.stats.limits import ALARM_ALPHA
from alcove.platform.stats.pre_period import split_pre_period
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout

ARMS, OUTCOMES, BINS = 2, 4, 2
CELLS = ARMS * OUTCOMES * BINS


def randomize(true: np.ndarray, epsilon: Fraction, rng: np.random.Generator) -> np.ndarray:
    """Counts of reported cells, given how many devices are in each cell."""
    keep = float(RandomizedResponse(len(true), epsilon).keep_probability)
    counts = np.zeros(len(true), np.int64)
    for cell, devices in enumerate(true.tolist()):
        kept = int(rng.binomial(devices, keep))
        counts[cell] += kept
        others = np.arange(len(true)) != cell
        counts[others] += rng.multinomial(devices - kept, np.full(len(true) - 1, 1 / (len(true) - 1)))
    return counts


def read(counts: np.ndarray, epsilon: Fraction) -> Aggregate:
    """The aggregate of reported cells."""
    return aggregate_from_randomized_response(counts.tolist(), HistogramLayout(ARMS, OUTCOMES, BINS), epsilon=epsilon)


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(2)])
def test_one_cell_sent_again_and_again_is_found_whichever_it_is(epsilon: Fraction) -> None:
    """As many forged reports as honest ones, all in one cell: every cell, every epsilon that a plan may have."""
    rng = np.random.default_rng(5)
    honest = np.zeros(CELLS, np.int64)
    honest[[0, 2, 8, 10]] = 2_000  # four cells that devices are in, twelve that none is in
    for cell in range(CELLS):
        counts = randomize(honest, epsilon, rng)
        counts[cell] += 8_000
        found = find_impossible(read(counts, epsilon), planned_reports=2_000)
        assert "and can have at" in found, cell


@pytest.mark.parametrize("epsilon", [Fraction(1, 4), Fraction(1), Fraction(4)])
def test_honest_reports_rarely_raise_an_alarm_within_many_analyses(epsilon: Fraction) -> None:
    """60 fleets of 12 analyses, most cells empty, which is the worst case: no more alarms than promised."""
    rng = np.random.default_rng(11)
    alarms = 0
    for _ in range(60):
        counts = np.zeros(CELLS, np.int64)
        true = np.zeros(CELLS, np.int64)
        true[rng.integers(CELLS, size=2)] = rng.integers(1, 400)
        is_alarmed = False
        for _ in range(12):
            counts = counts + randomize(true, epsilon, rng)
            is_alarmed |= bool(find_impossible(read(counts, epsilon), planned_reports=2_000))
        alarms += is_alarmed
    assert alarms <= 1  # of 60 at ALARM_ALPHA = 0.001: more than one by chance once in 600
    assert ALARM_ALPHA <= 0.001


def test_noised_histograms_rarely_raise_an_alarm() -> None:
    """The aggregators' noise has longer tails than the normal; one window is the worst case: 2,000 of them."""
    rng = np.random.default_rng(3)
    shape = (ARMS, OUTCOMES, BINS)
    true = np.zeros(shape, np.int64)
    true[:, 1, 0] = 300
    alarms = 0
    for _ in range(2_000):
        counts = true + draw_noise(rng, shape, Fraction(1))
        window = aggregate_from_noised_histogram(counts, reports=int(true.sum()), epsilon=Fraction(1))
        alarms += bool(find_impossible(window, planned_reports=2_000))
    assert alarms <= 8  # expected 2


def test_exact_counts_are_judged_to_the_last_one() -> None:
    """Without noise a count of minus one is impossible, and so is more than everybody."""
    counts = np.full((2, 2, 1), 10.0)
    assert find_impossible(Aggregate(counts, np.zeros((4, 4)), 40), planned_reports=100) == ""
    counts[0, 0, 0] = -1.0
    assert "-1 of 29" in find_impossible(Aggregate(counts, np.zeros((4, 4)), 29), planned_reports=100)
    counts[0, 0, 0] = 50.0
    assert "at most 29" in find_impossible(Aggregate(counts, np.zeros((4, 4)), 29), planned_reports=100)


def test_more_reports_than_devices_can_send_are_found() -> None:
    """Where it is known how many devices may take part, nothing else needs to be odd."""
    aggregate = Aggregate(np.full((2, 2, 1), 10.0), np.zeros((4, 4)), 40)
    assert find_impossible(aggregate, planned_reports=100, most_reports=40) == ""
    assert find_impossible(aggregate, planned_reports=100, most_reports=39).startswith("40 reports came")


def test_no_reports_are_nothing_impossible() -> None:
    """Before the first report there is no alarm."""
    assert find_impossible(Aggregate(np.zeros((2, 2, 1)), np.zeros((4, 4)), 0), planned_reports=100) == ""


def test_attestation_is_that_of_the_weakest_part() -> None:
    """A pool is attested if all of its windows are; another grouping of the cells keeps what is said."""
    counts = np.full((2, 2, 4), 10.0)
    attested, anonymous = (Aggregate(counts, np.zeros((16, 16)), 160, flag) for flag in (True, False))
    assert pool([attested, attested]).is_attested
    assert not pool([attested, anonymous]).is_attested
    for aggregate in (attested, anonymous):
        plain, _ = split_pre_period(aggregate, (0.5, 0.7))
        assert plain.is_attested is aggregate.is_attested
    rr = aggregate_from_randomized_response([5, 5, 5, 5], HistogramLayout(2, 2, 1), epsilon=Fraction(1))
    assert not rr.is_attested
