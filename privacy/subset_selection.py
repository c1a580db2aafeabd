"""Randomizes one cell to a set of cells under local differential privacy, and estimates the true cells from the sets.

Subset selection: with probability p a device tells a uniform set of d cells that holds its own, else a uniform set of d
of the k - 1 others.  A set has the likelihood p / C(k-1, d-1) from each of its cells and (1 - p) / C(k-1, d) from any
other, so that p (k - d) / ((1 - p) d) <= e ** epsilon bounds the privacy loss.  With d = 1 it is k-ary randomized
response; with more cells, or a smaller epsilon, a larger set tells more: d is best near k / (e ** epsilon + 1).

p is an integer threshold out of 2 ** 64, rounded down as that of randomized response.  The sampler computes with
integers alone.

Source: Ye and Barg, "Optimal Schemes for Discrete Distribution Estimation under Locally Differential Privacy", IEEE
Transactions on Information Theory 64 (2018), section III; Wang and others, "Mutual Information Optimally Local Private
Discrete Distribution Estimation", arXiv 1607.08025.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from alcove.privacy.entropy import Entropy, random_word, uniform_below
from alcove.privacy.errors import ParameterError
from alcove.privacy.limits import MAX_CELLS, MAX_EPSILON, MAX_SUBSET_CELLS, MIN_CELLS, MIN_EPSILON
from alcove.privacy.randomized_response import WORD, Counts, exp_lower_bound
from numpy.typing import NDArray

__all__ = ["SubsetSelection", "best_subset_size"]

_WORTH: Final = Fraction(19, 20)
"""Part of the variance of reports of one cell below which those of a set are worth their size."""


class SubsetSelection:
    """The mechanism for one number of cells, one size of sets and one epsilon; immutable.

    Attributes:
        cell_count: number of cells, k.
        epsilon: the stated bound of the privacy loss, exact.
        subset_size: cells of a report, d.
        keep_threshold: the set holds the true cell when a uniform 64-bit word is below this.

    Raises:
        ParameterError: a parameter is out of its bound.
    """

    def __init__(self, cell_count: int, epsilon: Fraction, subset_size: int) -> None:
        most = MAX_CELLS if subset_size == 1 else MAX_SUBSET_CELLS
        if not MIN_CELLS <= cell_count <= most:
            raise ParameterError(name="cell_count", bound=f"in [{MIN_CELLS}, {most}]", value=cell_count)
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise ParameterError(name="epsilon", bound=f"in [{MIN_EPSILON}, {MAX_EPSILON}]", value=epsilon)
        if not 1 <= subset_size < cell_count:
            raise ParameterError(name="subset_size", bound=f"in [1, {cell_count})", value=subset_size)
        self.cell_count = cell_count
        self.epsilon = Fraction(epsilon)
        self.subset_size = subset_size
        weight = subset_size * exp_lower_bound(self.epsilon)
        self.keep_threshold = int(WORD * weight // (weight + cell_count - subset_size))

    @property
    def keep_probability(self) -> Fraction:
        """The probability p that the true cell is in the set, exact."""
        return Fraction(self.keep_threshold, WORD)

    @property
    def other_probability(self) -> Fraction:
        """The probability q that each other cell is, exact."""
        return (self.subset_size - self.keep_probability) / (self.cell_count - 1)

    @property
    def pair_probabilities(self) -> tuple[Fraction, Fraction]:
        """The probabilities that two cells are both in the set, exact: the true one and another; two others."""
        size, others = self.subset_size, self.cell_count - 1
        keep = self.keep_probability
        with_true = keep * Fraction(size - 1, others)
        if others == 1:
            return with_true, Fraction(0)
        pairs = keep * (size - 1) * (size - 2) + (1 - keep) * size * (size - 1)
        return with_true, pairs / (others * (others - 1))

    @property
    def variance(self) -> Fraction:
        """The variance of all estimates together that one report adds, exact; the same whatever the true cell is."""
        keep, other = self.keep_probability, self.other_probability
        spread = keep * (1 - keep) + (self.cell_count - 1) * other * (1 - other)
        return spread / (keep - other) ** 2

    def randomize(self, cell: int, entropy: Entropy) -> tuple[int, ...]:
        """Return the cells to tell in place of the true `cell`, rising.

        A word and `subset_size` other cells are drawn every time, so that the number of draws does not say whether the
        true cell was kept.

        Args:
            cell: the true cell, in [0, cell_count).
            entropy: source of unpredictable bytes; never seeded outside tests.

        Raises:
            ParameterError: `cell` is out of its bound.
        """
        if not 0 <= cell < self.cell_count:
            raise ParameterError(name="cell", bound=f"in [0, {self.cell_count})", value=cell)
        word = random_word(entropy)
        others = [other for other in range(self.cell_count) if other != cell]
        for place in range(self.subset_size):  # Fisher and Yates; each beginning of the list is a uniform set
            drawn = place + uniform_below(len(others) - place, entropy)
            others[place], others[drawn] = others[drawn], others[place]
        if word < self.keep_threshold:
            others[self.subset_size - 1] = cell
        return tuple(sorted(others[: self.subset_size]))

    def estimate(self, counts: Counts) -> NDArray[np.float64]:
        """Return unbiased estimates of how many devices were truly in each cell.

        Args:
            counts: in how many reports each cell was, shape (cell_count,), each >= 0; together `subset_size` times the
                reports.

        Returns:
            Shape (cell_count,); sums to the number of reports; single values may be negative.

        Raises:
            ParameterError: `counts` has another shape, a negative number, or a sum that no reports have.
        """
        observed, reports = self._check_cells(counts)
        other = float(self.other_probability)
        estimates: NDArray[np.float64] = (observed - reports * other) / (float(self.keep_probability) - other)
        return estimates

    def covariance(self, counts: Counts) -> NDArray[np.float64]:
        """Return the covariance of `estimate(counts)` that the randomization adds, the true cells held fixed.

        With t the true counts, a and b `pair_probabilities`, n the reports:

            Cov(counts)_jj = t_j p (1 - p) + (n - t_j) q (1 - q)
            Cov(counts)_jl = (t_j + t_l) (a - p q) + (n - t_j - t_l) (b - q ** 2)

        It is linear in t; the estimates stand in for t, moved to the nearest non-negative scale.

        Args:
            counts: as `estimate`.

        Returns:
            Shape (cell_count, cell_count); rows sum to 0, because the number of reports is known.

        Raises:
            ParameterError: as `estimate`.
        """
        _, reports = self._check_cells(counts)
        true = np.maximum(self.estimate(counts), 0.0)
        if reports:
            true *= reports / true.sum()
        keep, other = float(self.keep_probability), float(self.other_probability)
        with_true, pairs = map(float, self.pair_probabilities)
        both = true[:, None] + true[None, :]
        spread = both * (with_true - keep * other) + (reports - both) * (pairs - other * other)
        np.fill_diagonal(spread, true * keep * (1.0 - keep) + (reports - true) * other * (1.0 - other))
        result: NDArray[np.float64] = spread / (keep - other) ** 2
        return result

    def _check_cells(self, counts: Counts) -> tuple[NDArray[np.float64], float]:
        observed = np.asarray(counts, dtype=np.float64)
        if observed.shape != (self.cell_count,):
            raise ParameterError(name="counts", bound=f"of shape ({self.cell_count},)", value=observed.shape)
        if not np.all(observed >= 0):
            raise ParameterError(name="counts", bound="at least 0 in every cell", value=float(observed.min()))
        reports = float(observed.sum()) / self.subset_size
        if observed.max(initial=0.0) > reports:
            raise ParameterError(name="counts", bound=f"at most {reports:g} in a cell", value=float(observed.max()))
        return observed, reports


@lru_cache(maxsize=256)
def best_subset_size(cell_count: int, epsilon: Fraction) -> int:
    """Return the size of sets whose reports tell most, by the exact variance of all estimates together.

    One cell where no set has less than `_WORTH` of its variance: its report is smaller.

    Raises:
        ParameterError: an argument is out of its bound.
    """
    one = SubsetSelection(cell_count, epsilon, 1)
    if cell_count > MAX_SUBSET_CELLS:
        return 1
    best = min((SubsetSelection(cell_count, epsilon, size) for size in range(1, cell_count // 2 + 1)), key=_variance)
    return best.subset_size if best.variance < _WORTH * one.variance else 1


def _variance(mechanism: SubsetSelection) -> Fraction:
    return mechanism.variance
