"""Subset selection keeps its epsilon in exact arithmetic; its best size, estimates and covariance are the theory's."""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from alcove.privacy import Entropy, ParameterError, RandomizedResponse
from alcove.privacy.subset_selection import SubsetSelection, best_subset_size

from tests.privacy.test_randomized_response import ScriptedEntropy, SeededEntropy, is_within
from tests.selection import quick_among

EPSILONS = [Fraction(1, 100), Fraction(1, 4), Fraction(1), Fraction(2), Fraction(7, 3), Fraction(8)]
SIZES = [(2, 1), (3, 2), (12, 3), (32, 8), (64, 17), (256, 1), (256, 69), (256, 128)]


class RoundedUp(SubsetSelection):
    """A wrong implementation: the threshold is rounded to the wrong side."""

    def __init__(self, cell_count: int, epsilon: Fraction, subset_size: int) -> None:
        super().__init__(cell_count, epsilon, subset_size)
        self.keep_threshold += 1


class TrueCellBesides(SubsetSelection):
    """A wrong implementation: the set may hold the true cell also where it was not kept."""

    def randomize(self, cell: int, entropy: Entropy) -> tuple[int, ...]:
        """Return a set that was drawn without a look at the true cell, or with it in it."""
        drawn = super().randomize(0 if cell else 1, entropy)
        return drawn if cell in drawn or entropy.random_bytes(1)[0] % 2 else (*drawn[1:], cell)


def exact_distribution(mechanism: SubsetSelection, cell: int) -> dict[tuple[int, ...], Fraction]:
    """The exact chance of each set, found by asking the sampler for each of its draws; the threshold is its own."""
    size, others = mechanism.subset_size, mechanism.cell_count - 1
    keep = Fraction(mechanism.keep_threshold, 1 << 64)
    chances: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    draws = list(itertools.product(*(range(others - place) for place in range(size))))
    for word, chance in ((0, keep), ((1 << 64) - 1, 1 - keep)):
        for drawn in draws:
            chances[mechanism.randomize(cell, ScriptedEntropy(word, *drawn))] += chance / len(draws)
    return chances


def is_private(mechanism: SubsetSelection) -> bool:
    """Whether any two true cells give any set with likelihoods within e ** epsilon of each other."""
    rows = [exact_distribution(mechanism, cell) for cell in range(mechanism.cell_count)]
    sets = {each for row in rows for each in row}
    return all(
        is_within(max(row[each] for row in rows) / min(row[each] for row in rows), mechanism.epsilon)
        if all(row[each] for row in rows)
        else False
        for each in sets
    )


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("cells", "size"), [(3, 1), (3, 2), (5, 2), (6, 3)])
def test_likelihood_ratio_of_any_two_cells_by_any_set_is_within_epsilon(
    cells: int, size: int, epsilon: Fraction
) -> None:
    """The stated epsilon is a bound in exact arithmetic, measured through the sampler; every set has its chance."""
    mechanism = SubsetSelection(cells, epsilon, size)
    assert is_private(mechanism)
    row = exact_distribution(mechanism, 1)
    assert sum(row.values()) == 1
    assert len(row) == math.comb(cells, size)
    assert sum(chance for each, chance in row.items() if 1 in each) == mechanism.keep_probability
    assert sum(chance for each, chance in row.items() if 0 in each) == mechanism.other_probability
    with_true, pairs = mechanism.pair_probabilities
    assert sum(chance for each, chance in row.items() if {0, 1} <= set(each)) == with_true
    assert sum(chance for each, chance in row.items() if {0, 2} <= set(each)) == pairs


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("cells", "size"), SIZES)
def test_ratio_of_sets_is_within_epsilon_by_rationals(cells: int, size: int, epsilon: Fraction) -> None:
    """It is p / C(k-1, d-1) over (1 - p) / C(k-1, d), and not a step of the threshold below what epsilon allows."""
    mechanism = SubsetSelection(cells, epsilon, size)
    inside = mechanism.keep_probability / math.comb(cells - 1, size - 1)
    outside = (1 - mechanism.keep_probability) / math.comb(cells - 1, size)
    assert is_within(inside / outside, epsilon)
    assert is_within(outside / inside, epsilon)
    wrong = RoundedUp(cells, epsilon, size)
    inside = wrong.keep_probability / math.comb(cells - 1, size - 1)
    outside = (1 - wrong.keep_probability) / math.comb(cells - 1, size)
    assert not is_within(inside / outside, epsilon)


@pytest.mark.parametrize("wrong", [RoundedUp, TrueCellBesides])
def test_wrong_implementation_is_caught(wrong: type[SubsetSelection]) -> None:
    """The check above sees a threshold one step too high and a set that shows its cell too often."""
    if wrong is RoundedUp:
        assert not is_private(wrong(3, Fraction(2), 2))
        return
    mechanism, entropy = wrong(12, Fraction(1), 3), SeededEntropy(1)
    kept = sum(5 in mechanism.randomize(5, entropy) for _ in range(4000)) / 4000
    assert abs(kept - float(mechanism.keep_probability)) > 0.1


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cells", quick_among([2, 12, 256, 65_536], [2, 12]))
def test_sets_of_one_cell_are_randomized_response(cells: int, epsilon: Fraction) -> None:
    """The same threshold, estimates and covariance."""
    one, other = SubsetSelection(cells, epsilon, 1), RandomizedResponse(cells, epsilon)
    assert (one.keep_threshold, one.other_probability) == (other.keep_threshold, other.other_probability)
    if cells > 256:
        return
    counts = np.arange(cells) * 7 % 31
    assert one.estimate(counts) == pytest.approx(other.estimate(counts))
    assert one.covariance(counts) == pytest.approx(other.covariance(counts), rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(
    ("cells", "epsilon", "size", "gain"),
    [(64, "1", 17, 6.3), (64, "2", 8, 2.7), (32, "1", 9, 3.4), (32, "2", 4, 1.6), (12, "1", 3, 1.57), (8, "1", 2, 1.24),
     (12, "2", 1, 1.0), (12, "3", 1, 1.0), (4, "1", 1, 1.0)],
)  # fmt: skip
def test_best_size_gains_what_the_theory_says(cells: int, epsilon: str, size: int, gain: float) -> None:
    """Variance of a cell's estimate, cells being equally likely, over that of randomized response; rows of an audit."""

    def variance(mechanism: SubsetSelection) -> float:
        share = Fraction(mechanism.subset_size, cells)
        return float(share * (1 - share) / (mechanism.keep_probability - mechanism.other_probability) ** 2)

    best = best_subset_size(cells, Fraction(epsilon))
    assert best == size
    found = variance(SubsetSelection(cells, Fraction(epsilon), 1)) / variance(
        SubsetSelection(cells, Fraction(epsilon), best)
    )
    assert found == pytest.approx(gain, rel=0.02)


def test_covariance_is_that_of_all_sets_exactly() -> None:
    """Estimates and their covariance, from the chance of each set, for true cells that are known."""
    mechanism, true = SubsetSelection(5, Fraction(1), 2), [40, 0, 7, 3, 50]
    mean, second = np.zeros(5), np.zeros((5, 5))
    for cell, devices in enumerate(true):
        moments = np.zeros((5, 5))
        own = np.zeros(5)
        for each, chance in exact_distribution(mechanism, cell).items():
            member = np.isin(np.arange(5), each).astype(float)
            own += float(chance) * member
            moments += float(chance) * np.outer(member, member)
        mean += devices * own
        second += devices * (moments - np.outer(own, own))
    gap = float(mechanism.keep_probability - mechanism.other_probability)
    assert mechanism.estimate(mean) == pytest.approx(true)
    assert mechanism.covariance(mean) == pytest.approx(second / gap**2)
    assert mechanism.covariance(mean).sum(axis=0) == pytest.approx(0, abs=1e-9)
    assert float(mechanism.variance) * 100 == pytest.approx(np.trace(second) / gap**2)


def test_spread_of_randomized_devices_is_the_stated_one() -> None:
    """400 fleets of 300 devices: estimates are unbiased, and spread as their covariance says."""
    mechanism, entropy = SubsetSelection(6, Fraction(1), 2), SeededEntropy(7)
    cells = np.repeat(np.arange(6), [150, 0, 90, 30, 30, 0])
    found, stated = [], []
    for _ in range(400):
        counts = np.bincount([each for cell in cells for each in mechanism.randomize(int(cell), entropy)], minlength=6)
        found.append(mechanism.estimate(counts))
        stated.append(np.diag(mechanism.covariance(counts)))
    spread = np.array(found).std(axis=0)
    assert np.mean(found, axis=0) == pytest.approx(np.bincount(cells, minlength=6), abs=5 * spread.max() / 20)
    assert spread == pytest.approx(np.sqrt(np.mean(stated, axis=0)), rel=0.2)


@pytest.mark.parametrize(
    ("cells", "epsilon", "size", "name"),
    [(1, 1, 1, "cell_count"), (257, 1, 2, "cell_count"), (4, 0, 1, "epsilon"), (4, 17, 1, "epsilon"),
     (4, 1, 0, "subset_size"), (4, 1, 4, "subset_size")],
)  # fmt: skip
def test_parameter_out_of_bound_is_refused(cells: int, epsilon: int, size: int, name: str) -> None:
    """Nothing is randomized by terms that mean nothing."""
    with pytest.raises(ParameterError, match=name):
        SubsetSelection(cells, Fraction(epsilon), size)


@pytest.mark.parametrize("counts", [[1, 1, 1], [1, 1, 1, -1], [4, 0, 0, 0]])
def test_counts_that_no_reports_have_are_refused(counts: list[int]) -> None:
    """Another number of cells, a negative one, or more in a cell than there are reports."""
    with pytest.raises(ParameterError, match="counts"):
        SubsetSelection(4, Fraction(1), 2).estimate(counts)
    with pytest.raises(ParameterError, match="cell must be"):
        SubsetSelection(4, Fraction(1), 2).randomize(4, SeededEntropy(1))
