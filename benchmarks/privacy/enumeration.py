"""Computes the exact distribution of the sampler of noise, by walking every path of random choices through its code.

What the sampler draws is replaced by branches of known probability, all of them rational numbers; exp(-1 / numerator)
is not rational, so a rational number stands for it: what the sampler does is a polynomial of it, so what holds for
rational ones holds for all.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from unittest import mock

from alcove.privacy import noise
from alcove.privacy.entropy import Entropy, OsEntropy
from alcove.privacy.noise import DiscreteLaplace
from scipy.stats import chi2

Distribution = dict[int, Fraction]


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


def exact_distribution(scale: Fraction, root: Fraction, depth: int) -> Distribution:
    """Return the exact probabilities of a sample, up to one factor, by walking all paths through one round.

    Args:
        scale: of the noise.
        root: stands for exp(-1 / numerator of the scale): draws with probability exp(-a / numerator) have
            root ** a instead.
        depth: values whose paths are longer than so many choices are missing.
    """
    distribution: Distribution = {}
    sampler = DiscreteLaplace(scale, OsEntropy())
    for path in enumerate_paths(depth):

        def choose_below(bound: int, _entropy: Entropy, path: Path = path) -> int:
            return path.choose(*[Fraction(1, bound)] * bound)

        def choose_exp(numerator: int, denominator: int, _entropy: Entropy, path: Path = path) -> bool:
            chance = root ** (numerator * scale.numerator // denominator)
            return path.choose(chance, 1 - chance) == 0

        with (
            mock.patch.object(noise, "uniform_below", choose_below),
            mock.patch.object(noise, "draw_bernoulli_exp", choose_exp),
        ):
            try:
                value = sampler._propose()  # noqa: SLF001 - one round: a walk of several has no end
            except DepthExceededError:
                continue
        if value is not None:
            distribution[value] = distribution.get(value, Fraction(0)) + path.probability
    return distribution


def float_distribution(magnitude: Callable[[int], int], steps: int, reach: int) -> Distribution:
    """Return the exact probabilities, up to one factor, of a sign times what `magnitude` makes of a uniform step.

    Args:
        magnitude: of a step in [1, steps]; falls as the step rises.
        steps: how many steps there are.
        reach: largest value that is asked for.
    """

    def find_first(value: int) -> int:
        """Return the smallest step that gives at most this."""
        low, high = 1, steps
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if magnitude(middle) <= value else (middle + 1, high)
        return low

    firsts = [steps + 1, *(find_first(value) for value in range(reach + 1))]
    weights = [Fraction(one - other) for one, other in pairwise(firsts)]
    # Both signs of zero are the same zero.
    return {value: weights[abs(value)] * (1 if value else 2) for value in range(-reach, reach + 1)}


def largest_ratio(distribution: Distribution, reach: int) -> Fraction | float:
    """Return the largest ratio of an output's likelihoods under two counts that differ by one; infinite for a gap."""
    pairs = [(value, value + step) for value in range(-reach, reach + 1) for step in (-1, 1)]
    if any(not distribution.get(other) for pair in pairs for other in pair):
        return math.inf
    return max(distribution[one] / distribution[other] for one, other in pairs)


def fit_probability(values: Sequence[int], scale: Fraction) -> float:
    """Return how probable it is that samples of the true distribution fit it worse, by chi-square.

    Values that are rare are one class on each side.
    """
    step = math.exp(-1 / scale)
    edge = max(1, math.floor(math.log(50 * (1 + step) / len(values)) / math.log(step)))
    chances = {value: (1 - step) / (1 + step) * step ** abs(value) for value in range(-edge + 1, edge)}
    chances[-edge] = chances[edge] = (1 - sum(chances.values())) / 2
    found = Counter(max(-edge, min(edge, value)) for value in values)
    expected = {value: chance * len(values) for value, chance in chances.items()}
    statistic = sum((found[value] - mean) ** 2 / mean for value, mean in expected.items())
    return float(chi2.sf(statistic, len(expected) - 1))
