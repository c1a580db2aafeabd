"""Draws discrete Laplace noise exactly: integers and rational numbers alone, no float, randomness of the OS.

An aggregator adds one variable to each cell of its share, P(X = x) proportional to exp(-|x| / scale). With scale =
sensitivity / epsilon, two inputs that differ by at most `sensitivity` (L1) give any output with likelihoods whose ratio
is at most e ** epsilon. A sampler of floats breaks that promise: its support has gaps, and a gap shows the input.

How long a sample takes depends on its value, so the time of a single sample must not be seen from outside: an
aggregator draws the noise of all cells of a release in one go.

Source: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), algorithms 1 and 2.
"""

from fractions import Fraction

from alcove.privacy.entropy import Entropy, OsEntropy, uniform_below
from alcove.privacy.errors import ParameterError
from alcove.privacy.limits import MAX_NOISE_SCALE, MAX_NOISE_TERM, MIN_NOISE_SCALE


def draw_bernoulli_exp(numerator: int, denominator: int, entropy: Entropy) -> bool:
    """Return True with probability exp(-numerator / denominator), exactly (algorithm 1).

    Args:
        numerator: in [0, denominator].
        denominator: in [1, MAX_NOISE_TERM].
        entropy: source of unpredictable bytes; never seeded outside tests.
    """
    draws = 1
    while uniform_below(draws * denominator, entropy) < numerator:
        draws += 1
    return draws % 2 == 1


class DiscreteLaplace:
    """The distribution of one scale, to be sampled; immutable.

    Attributes:
        scale: sensitivity / epsilon, exact.

    Args:
        entropy: source of unpredictable bytes, the operating system's unless given; never seeded outside tests.

    Raises:
        ParameterError: the scale, or a term of its fraction, is out of its bound.
    """

    def __init__(self, scale: Fraction, entropy: Entropy | None = None) -> None:
        if not MIN_NOISE_SCALE <= scale <= MAX_NOISE_SCALE:
            raise ParameterError(name="scale", bound=f"in [{MIN_NOISE_SCALE}, {MAX_NOISE_SCALE}]", value=scale)
        self.scale = Fraction(scale)
        if (term := max(self.scale.numerator, self.scale.denominator)) > MAX_NOISE_TERM:
            raise ParameterError(name="term of the scale", bound=f"at most {MAX_NOISE_TERM}", value=term)
        self._entropy = entropy or OsEntropy()

    def sample(self) -> int:
        """Return one value, independent of all others."""
        while (value := self._propose()) is None:
            pass
        return value

    def _propose(self) -> int | None:
        """Return a value, or None if it is to be drawn again: one round of algorithm 2."""
        entropy, scale = self._entropy, self.scale
        # remainder + numerator * quotient is geometric with ratio exp(-1 / numerator), if the remainder is kept.
        remainder = uniform_below(scale.numerator, entropy)
        if not draw_bernoulli_exp(remainder, scale.numerator, entropy):
            return None
        quotient = 0
        while draw_bernoulli_exp(1, 1, entropy):
            quotient += 1
        # Divided by the denominator it is geometric with ratio exp(-1 / scale).
        magnitude = (remainder + scale.numerator * quotient) // scale.denominator
        if not uniform_below(2, entropy):
            return magnitude
        return -magnitude if magnitude else None  # else zero would be drawn twice as often
