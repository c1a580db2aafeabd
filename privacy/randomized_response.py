"""Randomizes one cell under local differential privacy, and estimates the true cells from the randomized ones.

k-ary randomized response: with probability p a device tells its true cell, else one of the k - 1 others, each with
probability q = (1 - p) / (k - 1).  Any two true cells then give any reported cell with likelihoods whose ratio is at
most p / q, and epsilon = ln(p / q) is the privacy loss of the report, whatever the servers do with it.

p is an integer threshold out of 2 ** 64, rounded so that p / q never exceeds e ** epsilon: the stated epsilon is a
bound, exactly, not up to rounding.  The sampler computes with integers alone.

Source: Kairouz, Oh, Viswanath, "Extremal Mechanisms for Local Differential Privacy", section 4.2.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from alcove.privacy.entropy import Entropy, random_word, uniform_below
from alcove.privacy.errors import ParameterError
from alcove.privacy.limits import MAX_CELLS, MAX_EPSILON, MIN_CELLS, MIN_EPSILON
from numpy.typing import NDArray

WORD: Final = 1 << 64
"""Thresholds are out of this."""

_PRECISION: Final = Fraction(1, 1 << 96)
"""Terms of the series below this share of the sum are left out; 2 ** -32 of the threshold's own step."""

Counts = Sequence[int] | NDArray[np.int64] | NDArray[np.float64]


class RandomizedResponse:
    """The mechanism for one number of cells and one epsilon; immutable.

    Attributes:
        cell_count: number of cells, k.
        epsilon: the stated bound of the privacy loss, exact.
        keep_threshold: the true cell is reported when a uniform 64-bit word is below this.

    Raises:
        ParameterError: a parameter is out of its bound.
    """

    def __init__(self, cell_count: int, epsilon: Fraction) -> None:
        if not MIN_CELLS <= cell_count <= MAX_CELLS:
            raise ParameterError(name="cell_count", bound=f"in [{MIN_CELLS}, {MAX_CELLS}]", value=cell_count)
        if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
            raise ParameterError(name="epsilon", bound=f"in [{MIN_EPSILON}, {MAX_EPSILON}]", value=epsilon)
        self.cell_count = cell_count
        self.epsilon = Fraction(epsilon)
        largest_ratio = exp_lower_bound(self.epsilon)
        self.keep_threshold = int(WORD * largest_ratio // (largest_ratio + cell_count - 1))

    @property
    def keep_probability(self) -> Fraction:
        """The probability p that the true cell is reported, exact."""
        return Fraction(self.keep_threshold, WORD)

    @property
    def other_probability(self) -> Fraction:
        """The probability q of each other cell, exact."""
        return (1 - self.keep_probability) / (self.cell_count - 1)

    def randomize(self, cell: int, entropy: Entropy) -> int:
        """Return the cell to tell in place of the true `cell`.

        Both numbers are drawn every time, so that the time taken does not say whether the true cell was kept.

        Args:
            cell: the true cell, in [0, cell_count).
            entropy: source of unpredictable bytes; never seeded outside tests.

        Raises:
            ParameterError: `cell` is out of its bound.
        """
        if not 0 <= cell < self.cell_count:
            raise ParameterError(name="cell", bound=f"in [0, {self.cell_count})", value=cell)
        word = random_word(entropy)
        other = uniform_below(self.cell_count - 1, entropy)
        if word < self.keep_threshold:
            return cell
        return other if other < cell else other + 1

    def estimate(self, counts: Counts) -> NDArray[np.float64]:
        """Return unbiased estimates of how many devices were truly in each cell.

        Args:
            counts: how often each cell was reported, shape (cell_count,), each >= 0.

        Returns:
            Shape (cell_count,); sums to the number of reports; single values may be negative.

        Raises:
            ParameterError: `counts` has another shape or a negative number.
        """
        observed = self._check_cells(counts)
        other = float(self.other_probability)
        estimates: NDArray[np.float64] = (observed - observed.sum() * other) / (float(self.keep_probability) - other)
        return estimates

    def covariance(self, counts: Counts) -> NDArray[np.float64]:
        """Return the covariance of `estimate(counts)` that the randomization adds, the true cells held fixed.

        With t the true counts and P_x the distribution reported for cell x, Cov(counts) = sum_x t_x (diag(P_x) - P_x
        P_x^T). It is linear in t; the estimates stand in for t, moved to the nearest non-negative scale (negative ones
        set to 0, the rest rescaled to the number of reports), so the matrix is always positive semi-definite.

        Args:
            counts: how often each cell was reported, shape (cell_count,), each >= 0.

        Returns:
            Shape (cell_count, cell_count); rows sum to 0, because the number of reports is known.

        Raises:
            ParameterError: `counts` has another shape or a negative number.
        """
        observed = self._check_cells(counts)
        total = float(observed.sum())
        true = np.maximum(self.estimate(counts), 0.0)
        if total:
            true *= total / true.sum()
        other = float(self.other_probability)
        gap = float(self.keep_probability) - other
        expected = total * other + gap * true
        mixed = other * gap * true
        spread = np.diag(expected - gap * gap * true) - (total * other * other + mixed[:, None] + mixed[None, :])
        result: NDArray[np.float64] = spread / (gap * gap)
        return result

    def _check_cells(self, counts: Counts) -> NDArray[np.float64]:
        observed = np.asarray(counts, dtype=np.float64)
        if observed.shape != (self.cell_count,):
            raise ParameterError(name="counts", bound=f"of shape ({self.cell_count},)", value=observed.shape)
        if not np.all(observed >= 0):
            raise ParameterError(name="counts", bound="at least 0 in every cell", value=float(observed.min()))
        return observed


def exp_lower_bound(exponent: Fraction) -> Fraction:
    """Return a number just below e ** exponent: its power series cut off, all terms of which are positive.

    Args:
        exponent: > 0; the number of terms grows with it.
    """
    total = term = Fraction(1)
    index = 0
    while term > total * _PRECISION or index < exponent:
        index += 1
        term = term * exponent / index
        total += term
    return total
