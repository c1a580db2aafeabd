"""The noise of an aggregator has exactly the distribution that its epsilon needs, and wrong samplers are caught."""

import math
import random
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats.aggregator_noise import SENSITIVITY, cell_variance
from alcove.privacy import noise
from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import ParameterError
from alcove.privacy.limits import MAX_NOISE_SCALE, MAX_NOISE_TERM, MIN_NOISE_SCALE
from alcove.privacy.noise import DiscreteLaplace, draw_bernoulli_exp
from scipy.stats import chi2

Distribution = dict[int, Fraction]

SCALES = [Fraction(2), Fraction(1), Fraction(1, 8), Fraction(3, 2), Fraction(8, 3), Fraction(5), Fraction(7, 16)]
FALSE_ALARM = 1e-9
"""Of the chi-square test; with a seeded source the outcome never changes."""


class SeededEntropy:
    """Repeatable bytes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return the next bytes."""
        return self.random.randbytes(size_bytes)


class DepthExceededError(Exception):
    """A path has more choices than are to be enumerated."""


class Path:
    """One way through a program whose random choices are enumerated: the choices made, and its probability."""

    def __init__(self, choices: list[int], depth: int) -> None:
        self.choices = choices
        self.depth = depth
        self.counts: list[int] = []
        self.probability = Fraction(1)

    def choose(self, *weights: Fraction) -> int:
        """Return the number of the branch to take among those with these probabilities."""
        place = len(self.counts)
        if place == self.depth:
            raise DepthExceededError
        if place == len(self.choices):
            self.choices.append(0)
        self.counts.append(len(weights))
        self.probability *= weights[self.choices[place]]
        return self.choices[place]


def enumerate_paths(depth: int) -> Iterator[Path]:
    """Give every path of at most `depth` choices, depth first; each must be walked before the next is asked for."""
    choices: list[int] = []
    while True:
        path = Path(choices, depth)
        yield path
        choices = path.choices
        while choices and choices[-1] == path.counts[len(choices) - 1] - 1:
            choices.pop()
        if not choices:
            return
        choices[-1] += 1


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


def exact_distribution(scale: Fraction, root: Fraction, depth: int, patch: pytest.MonkeyPatch) -> Distribution:
    """Return the exact probabilities of a sample, up to one factor, by walking all paths through one round.

    `root` stands for exp(-1 / numerator of the scale), which is not rational: draws with probability
    exp(-a / numerator) have root ** a instead. What the sampler does is a polynomial of it, so what holds for
    rational ones holds for all.
    Values whose paths are longer than `depth` choices are missing.
    """
    distribution: Distribution = {}
    sampler = DiscreteLaplace(scale, SeededEntropy(0))
    for path in enumerate_paths(depth):

        def choose_below(bound: int, entropy: Entropy, path: Path = path) -> int:
            return path.choose(*[Fraction(1, bound)] * bound)

        def choose_exp(numerator: int, denominator: int, entropy: Entropy, path: Path = path) -> bool:
            chance = root ** (numerator * scale.numerator // denominator)
            return path.choose(chance, 1 - chance) == 0

        patch.setattr(noise, "uniform_below", choose_below)
        patch.setattr(noise, "draw_bernoulli_exp", choose_exp)
        try:
            value = sampler._propose()
        except DepthExceededError:
            continue
        if value is not None:
            distribution[value] = distribution.get(value, Fraction(0)) + path.probability
    return distribution


def largest_ratio(distribution: Distribution, reach: int) -> Fraction | float:
    """Return the largest ratio of an output's likelihoods under two counts that differ by one; infinite for a gap."""
    pairs = [(value, value + step) for value in range(-reach, reach + 1) for step in (-1, 1)]
    if any(not distribution.get(other) for pair in pairs for other in pair):
        return math.inf
    return max(distribution[one] / distribution[other] for one, other in pairs)


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
def test_sample_has_the_exact_distribution(scale: Fraction, root: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """P(x) is proportional to exp(-|x| / scale), an equation of rational numbers for every value that was reached."""
    distribution = exact_distribution(scale, root, 16, monkeypatch)
    step = root**scale.denominator  # exp(-1 / scale)
    reached = [value for value in distribution if abs(value) < 13 * scale.numerator // scale.denominator]
    assert len(reached) == 2 * math.ceil(13 * scale.numerator // scale.denominator) - 1
    for value in reached:
        assert distribution[value] == distribution[0] * step ** abs(value)


EPSILONS = [Fraction(1), Fraction(1, 4), Fraction(2), Fraction(3, 2), Fraction(5, 7)]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_likelihood_ratio_of_neighbours_is_at_most_epsilon(epsilon: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly, for one replaced one-hot report; no budget is given away, and sensitivity 1 is caught."""
    root = Fraction(7, 9)
    scale = SENSITIVITY / epsilon
    distribution = exact_distribution(scale, root, 18, monkeypatch)
    assert is_private(distribution, epsilon, root, scale)
    assert not is_private(distribution, epsilon - Fraction(1, scale.numerator), root, scale)
    wrong = 1 / epsilon
    assert not is_private(exact_distribution(wrong, root, 18, monkeypatch), epsilon, root, wrong, reach=3)


def test_support_of_a_float_sampler_has_gaps_and_is_caught() -> None:
    """A wrong sampler, a sign times floor(-scale log u) with a 53-bit u, never gives some values near its end."""
    scale = Fraction(16)

    def sample(numerator: int) -> int:
        return math.floor(-float(scale) * math.log(numerator / 2**53))

    def find_first(value: int) -> int:
        """Return the smallest u that gives at most this."""
        low, high = 1, 2**53
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if sample(middle) <= value else (middle + 1, high)
        return low

    firsts = [find_first(value) for value in range(-1, 601)]
    distribution = {value: Fraction(firsts[abs(value)] - firsts[abs(value) + 1]) for value in range(-600, 601)}
    assert math.isclose(largest_ratio(distribution, 100), math.exp(1 / scale), rel_tol=1e-6)
    assert largest_ratio(distribution, 580) == math.inf


@pytest.mark.parametrize("epsilon", [*EPSILONS, Fraction(16), Fraction(1, 10)])
def test_variance_is_that_of_the_statistics(epsilon: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals hold one aggregator's noise as `cell_variance` has it; here from the sampler's own probabilities."""
    scale = SENSITIVITY / epsilon
    root = Fraction(math.exp(-1 / scale.numerator))
    distribution = exact_distribution(scale, root, 20, monkeypatch)
    step = distribution[1] / distribution[0]
    variance = 2 * step / (1 - step) ** 2  # the sum of x ** 2 P(x) for P(x) proportional to step ** |x|
    assert math.isclose(variance, cell_variance(epsilon, aggregators=1), rel_tol=1e-9)


def chi_square(values: list[int], scale: Fraction) -> float:
    """Return how probable it is that the true distribution fits worse; values that are rare are one class each side."""
    step = math.exp(-1 / scale)
    edge = max(1, math.floor(math.log(50 * (1 + step) / len(values)) / math.log(step)))
    chances = {value: (1 - step) / (1 + step) * step ** abs(value) for value in range(-edge + 1, edge)}
    chances[-edge] = chances[edge] = (1 - sum(chances.values())) / 2
    found = Counter(max(-edge, min(edge, value)) for value in values)
    expected = {value: chance * len(values) for value, chance in chances.items()}
    statistic = sum((found[value] - mean) ** 2 / mean for value, mean in expected.items())
    return float(chi2.sf(statistic, len(expected) - 1))


@pytest.mark.parametrize("scale", [Fraction(2), Fraction(1, 2), Fraction(8), Fraction(200, 7)])
def test_samples_fit_the_distribution(scale: Fraction) -> None:
    """20,000 samples through the real source of bits, by chi-square; a scale that is 10 % off does not fit."""
    sampler = DiscreteLaplace(scale, SeededEntropy(3))
    values = [sampler.sample() for _ in range(20_000)]
    assert chi_square(values, scale) > FALSE_ALARM
    assert chi_square(values, scale * Fraction(9, 10)) < FALSE_ALARM


def test_float_sampler_that_rounds_does_not_fit() -> None:
    """The wrong sampler round(Laplace) gives zero too often."""
    generator = np.random.default_rng(5)
    values = [round(value) for value in generator.laplace(scale=2, size=20_000)]
    assert chi_square(values, Fraction(2)) < FALSE_ALARM


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
