"""Compares the exact distribution of the sampler of noise with its formula, and finds its largest loss."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from benchmarks.privacy.builds import FLOAT_STEPS, compute_magnitude
from benchmarks.privacy.enumeration import exact_distribution, float_distribution, largest_ratio

EPSILONS: Final = (Fraction(1), Fraction(1, 4), Fraction(2), Fraction(3, 2), Fraction(5, 7))
SENSITIVITY: Final = 2
ROOT: Final = Fraction(7, 9)
"""Stands for exp(-1 / numerator of the scale)."""

DEPTH: Final = 18
REACH: Final = 6
TAIL: Final = 40
"""Scales by which a sampler of floats has ended: its smallest uniform number is 2 ** -53, exp(-36.7)."""


@dataclass(frozen=True)
class Exactness:
    """What the enumeration of one scale found.

    Attributes:
        epsilon: of the task.
        scale: of the noise.
        values: how many values were reached.
        is_exact: whether each has the probability of the formula, as an equation of rational numbers.
        loss: largest loss of a replaced report, as a multiple of epsilon.
    """

    epsilon: Fraction
    scale: Fraction
    values: int
    is_exact: bool
    loss: float


def check_sampler(epsilon: Fraction) -> Exactness:
    """Return what the enumeration of the product's sampler finds."""
    scale = SENSITIVITY / epsilon
    distribution = exact_distribution(scale, ROOT, DEPTH)
    step = ROOT**scale.denominator  # stands for exp(-1 / scale)
    reach = math.ceil((DEPTH - 3) * scale)
    values = [value for value in distribution if abs(value) < reach]
    is_exact = len(values) == 2 * reach - 1 and all(
        distribution[value] == distribution[0] * step ** abs(value) for value in values
    )
    # Each of two cells changes by one; exp(-epsilon) is ROOT ** (epsilon * numerator).
    ratio, allowed = (
        largest_ratio(distribution, REACH) ** SENSITIVITY,
        1 / ROOT ** (epsilon * scale.numerator).numerator,
    )
    loss = 1.0 if ratio == allowed else math.log(ratio) / math.log(allowed)
    return Exactness(epsilon, scale, len(values), is_exact, loss)


def check_floats(epsilon: Fraction) -> Exactness:
    """Return the same of the sampler of floats among the wrong builds: its support ends, so an output can be proof."""
    scale = SENSITIVITY / epsilon
    reach = math.ceil(TAIL * scale)
    distribution = float_distribution(lambda step: compute_magnitude(scale, step), FLOAT_STEPS, reach)
    step = Fraction(math.exp(-1 / scale))
    values = [value for value, weight in distribution.items() if weight]
    is_exact = all(distribution[value] == distribution[0] * step ** abs(value) for value in values)
    loss = math.log(largest_ratio(distribution, reach - 1)) * SENSITIVITY / float(epsilon)
    return Exactness(epsilon, scale, len(values), is_exact, loss)
