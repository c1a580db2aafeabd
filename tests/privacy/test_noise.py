"""The noise of an aggregator has exactly the distribution that its epsilon needs, and wrong samplers are caught."""

import math
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats.aggregator_noise import SENSITIVITY, cell_variance
from alcove.privacy import noise
from alcove.privacy.errors import ParameterError
from alcove.privacy.limits import MAX_NOISE_SCALE, MAX_NOISE_TERM, MIN_NOISE_SCALE
from alcove.privacy.noise import DiscreteLaplace, draw_bernoulli_exp

from benchmarks.privacy.builds import FLOAT_STEPS, SeededEntropy, compute_magnitude
from benchmarks.privacy.enumeration import (
    DepthExceededError,
    Distribution,
    Path,
    enumerate_paths,
    exact_distribution,
    fit_probability,
    float_distribution,
    largest_ratio,
)

SCALES = [Fraction(2), Fraction(1), Fraction(1, 8), Fraction(3, 2), Fraction(8, 3), Fraction(5), Fraction(7, 16)]
FALSE_ALARM = 1e-9
"""Of the chi-square test; with a seeded source the outcome never changes."""


class Below:
    """A uniform number of which only the order is asked: two branches."""

    def __init__(self, bound: int, path: Path) -> None:
        self.bound = bound
        self.path = path

    def __lt__(self, limit: int) -> bool:
        """Whether it is below the limit."""
        chance = Fraction(limit, self.bound)
        return self.path.choose(chance, 1 - chance) == 0


def exact_exponential(numerator: int, denominator: int, depth: int, patch: pytest.MonkeyPatch) -> list[Fraction]:
    """Return the probabilities of True, of False and of more than `depth` draws, all exact."""
    chances = [Fraction(0)] * 3
    for path in enumerate_paths(depth):
        patch.setattr(noise, "uniform_below", lambda bound, entropy, path=path: Below(bound, path))
        try:
            outcome = 0 if draw_bernoulli_exp(numerator, denominator, SeededEntropy(0)) else 1
        except DepthExceededError:
            outcome = 2
        chances[outcome] += path.probability
    return chances


def is_private(distribution: Distribution, epsilon: Fraction, root: Fraction, scale: Fraction, reach: int = 6) -> bool:
    """Whether replacing a device's one-hot report costs at most epsilon.

    It changes two cells by one, each with noise of its own. With root = exp(-1 / numerator), exp(-epsilon) is
    root ** (epsilon * numerator).
    """
    exponent = epsilon * scale.numerator
    assert exponent.denominator == 1
    return largest_ratio(distribution, reach) ** 2 <= 1 / root**exponent.numerator


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 1), (1, 2), (2, 3), (6, 7), (1, 1000)])
def test_exponential_draw_has_the_exact_probability(
    numerator: int, denominator: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enumerated to 24 draws the probability is the series of exp(-x), whose next term is all that is left."""
    true, false, residual = exact_exponential(numerator, denominator, 24, monkeypatch)
    x = Fraction(numerator, denominator)
    terms = [(-x) ** k / math.factorial(k) for k in range(25)]
    assert true + false + residual == 1
    assert residual == abs(terms[24])
    assert true == sum(terms[:24])
    assert math.isclose(true, math.exp(-x), rel_tol=1e-15)


@pytest.mark.parametrize("root", [Fraction(1, 2), Fraction(7, 9), Fraction(99, 100)])
@pytest.mark.parametrize("scale", SCALES)
def test_sample_has_the_exact_distribution(scale: Fraction, root: Fraction) -> None:
    """P(x) is proportional to exp(-|x| / scale), an equation of rational numbers for every value that was reached."""
    distribution = exact_distribution(scale, root, 16)
    step = root**scale.denominator  # exp(-1 / scale)
    reached = [value for value in distribution if abs(value) < 13 * scale.numerator // scale.denominator]
    assert len(reached) == 2 * math.ceil(13 * scale.numerator // scale.denominator) - 1
    for value in reached:
        assert distribution[value] == distribution[0] * step ** abs(value)


EPSILONS = [Fraction(1), Fraction(1, 4), Fraction(2), Fraction(3, 2), Fraction(5, 7)]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_likelihood_ratio_of_neighbours_is_at_most_epsilon(epsilon: Fraction) -> None:
    """Exactly, for one replaced one-hot report; no budget is given away, and sensitivity 1 is caught."""
    root = Fraction(7, 9)
    scale = SENSITIVITY / epsilon
    distribution = exact_distribution(scale, root, 18)
    assert is_private(distribution, epsilon, root, scale)
    assert not is_private(distribution, epsilon - Fraction(1, scale.numerator), root, scale)
    wrong = 1 / epsilon
    assert not is_private(exact_distribution(wrong, root, 18), epsilon, root, wrong, reach=3)


def test_support_of_a_float_sampler_has_gaps_and_is_caught() -> None:
    """A wrong sampler, a sign times floor(-scale log u) with a 53-bit u, never gives some values near its end."""
    scale = Fraction(16)
    distribution = float_distribution(lambda step: compute_magnitude(scale, step), FLOAT_STEPS, 600)
    tail = {value: chance for value, chance in distribution.items() if value}
    assert all(math.isclose(tail[k] / tail[k + 1], math.exp(1 / scale), rel_tol=1e-6) for k in range(1, 100))
    assert math.isclose(largest_ratio(distribution, 100), 2 * math.exp(1 / scale), rel_tol=1e-6)  # of zero, twice there
    assert largest_ratio(distribution, 580) == math.inf


@pytest.mark.parametrize("epsilon", [*EPSILONS, Fraction(16), Fraction(1, 10)])
def test_variance_is_that_of_the_statistics(epsilon: Fraction) -> None:
    """Intervals hold one aggregator's noise as `cell_variance` has it; here from the sampler's own probabilities."""
    scale = SENSITIVITY / epsilon
    root = Fraction(math.exp(-1 / scale.numerator))
    distribution = exact_distribution(scale, root, 20)
    step = distribution[1] / distribution[0]
    variance = 2 * step / (1 - step) ** 2  # the sum of x ** 2 P(x) for P(x) proportional to step ** |x|
    assert math.isclose(variance, cell_variance(epsilon, aggregators=1), rel_tol=1e-9)


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(1, 2), Fraction(8), Fraction(200, 7)])
def test_samples_fit_the_distribution(scale: Fraction) -> None:
    """20,000 samples through the real source of bits, by chi-square; a scale that is 10 % off does not fit."""
    sampler = DiscreteLaplace(scale, SeededEntropy(3))
    values = [sampler.sample() for _ in range(20_000)]
    assert fit_probability(values, scale) > FALSE_ALARM
    assert fit_probability(values, scale * Fraction(9, 10)) < FALSE_ALARM


def test_float_sampler_that_rounds_does_not_fit() -> None:
    """The wrong sampler round(Laplace) gives zero too often."""
    generator = np.random.default_rng(5)
    values = [round(value) for value in generator.laplace(scale=2, size=20_000)]
    assert fit_probability(values, Fraction(2)) < FALSE_ALARM


def test_noise_of_the_system_differs_each_time() -> None:
    """Without a source of its own a sampler draws from the OS: two never agree on 200 values of a wide scale."""
    one, other = DiscreteLaplace(MAX_NOISE_SCALE), DiscreteLaplace(MAX_NOISE_SCALE)
    assert [one.sample() for _ in range(200)] != [other.sample() for _ in range(200)]


@pytest.mark.parametrize("scale", [MIN_NOISE_SCALE, MAX_NOISE_SCALE, Fraction(MAX_NOISE_TERM, MAX_NOISE_TERM - 1)])
def test_every_scale_within_the_bounds_gives_samples(scale: Fraction) -> None:
    """At the ends the mean magnitude is within four standard errors of its own scale's."""
    sampler = DiscreteLaplace(scale, SeededEntropy(1))
    magnitudes = [abs(sampler.sample()) for _ in range(2_000)]
    step = math.exp(-1 / scale)
    mean = 2 * step / (1 - step**2)
    variance = 2 * step / (1 - step) ** 2 - mean**2
    assert abs(sum(magnitudes) / 2_000 - mean) <= 4 * math.sqrt(variance / 2_000)


@pytest.mark.parametrize(
    "scale",
    [
        Fraction(0),
        -Fraction(1),
        MIN_NOISE_SCALE - Fraction(1, 10**9),
        MAX_NOISE_SCALE + 1,
        Fraction(MAX_NOISE_TERM + 1, MAX_NOISE_TERM),
    ],
)
def test_scale_out_of_bound_is_refused(scale: Fraction) -> None:
    """The error names the bound and the value."""
    with pytest.raises(ParameterError, match="scale must be"):
        DiscreteLaplace(scale)
