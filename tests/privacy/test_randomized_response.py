"""Randomized response keeps its epsilon in exact arithmetic, and its estimates and covariance match the theory."""

import random
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from alcove.privacy import Entropy, OsEntropy, ParameterError, RandomizedResponse
from alcove.privacy.entropy import uniform_below
from alcove.privacy.randomized_response import exp_lower_bound
from hypothesis import given, settings
from hypothesis import strategies as st

EPSILONS = [Fraction(1, 100), Fraction(1, 4), Fraction(1), Fraction(2), Fraction(7, 3), Fraction(8), Fraction(16)]
CELLS = [2, 3, 12, 80, 256, 65536]


class ScriptedEntropy:
    """Gives the words that it was made with."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return the next word."""
        return self.words.pop(0).to_bytes(size_bytes, "little")


class SeededEntropy:
    """Repeatable bytes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return the next bytes."""
        return self.random.randbytes(size_bytes)


class NoNoise(RandomizedResponse):
    """A wrong implementation: tells the truth."""

    def randomize(self, cell: int, entropy: Entropy) -> int:
        """Return the true cell."""
        return cell


class RoundedUp(RandomizedResponse):
    """A wrong implementation: the threshold is rounded to the wrong side."""

    def __init__(self, cell_count: int, epsilon: Fraction) -> None:
        super().__init__(cell_count, epsilon)
        self.keep_threshold += 1


class UniformOverAll(RandomizedResponse):
    """A wrong implementation: the other cell may be the true one, so it is kept too often."""

    def randomize(self, cell: int, entropy: Entropy) -> int:
        """Return the cell, or any of all."""
        word = int.from_bytes(entropy.random_bytes(8), "little")
        other = uniform_below(self.cell_count, entropy)
        return cell if word < self.keep_threshold else other


def exact_distribution(mechanism: RandomizedResponse, cell: int) -> list[Fraction]:
    """Return the exact probabilities of the reported cells, found by asking the sampler, not its attributes.

    The threshold is found by bisection over the first word; above it every other word's residue is tried.
    """
    size = mechanism.cell_count
    others = range(size)  # residues beyond the mechanism's own bound repeat its answers

    def randomize_word(word: int, other: int) -> int:
        return mechanism.randomize(cell, ScriptedEntropy(word, other))

    def answers(word: int) -> list[int]:
        return [randomize_word(word, other) for other in others]

    low, high = 0, 1 << 64
    kept = [cell] * size
    while low < high:
        middle = (low + high) // 2
        if middle < 1 << 64 and answers(middle) == kept:
            low = middle + 1
        else:
            high = middle
    chances = [Fraction(0)] * size
    chances[cell] += Fraction(low, 1 << 64)
    if low < 1 << 64:
        period = size - 1 if randomize_word((1 << 64) - 1, size - 1) == randomize_word((1 << 64) - 1, 0) else size
        for other in range(period):
            chances[randomize_word((1 << 64) - 1, other)] += (1 - Fraction(low, 1 << 64)) / period
    return chances


def is_within(ratio: Fraction, epsilon: Fraction) -> bool:
    """Whether ratio <= e ** epsilon, decided with 80 digits: more than two 64-bit fractions can need."""
    with localcontext() as context:
        context.prec = 80
        bound = (Decimal(epsilon.numerator) / Decimal(epsilon.denominator)).exp()
        return Decimal(ratio.numerator) / Decimal(ratio.denominator) <= bound


def is_private(mechanism: RandomizedResponse) -> bool:
    """Whether any two true cells give any reported cell with likelihoods within e ** epsilon of each other."""
    rows = [exact_distribution(mechanism, cell) for cell in range(mechanism.cell_count)]
    columns = list(zip(*rows, strict=True))
    if any(min(column) == 0 for column in columns):
        return False
    return all(is_within(max(column) / min(column), mechanism.epsilon) for column in columns)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cells", [2, 3, 12])
def test_likelihood_ratio_of_any_two_cells_is_within_epsilon(cells: int, epsilon: Fraction) -> None:
    """The stated epsilon is a bound in exact arithmetic, measured through the sampler."""
    mechanism = RandomizedResponse(cells, epsilon)
    assert is_private(mechanism)
    for cell in range(cells):
        row = exact_distribution(mechanism, cell)
        assert sum(row) == 1
        assert row[cell] == mechanism.keep_probability
        assert all(row[other] == mechanism.other_probability for other in range(cells) if other != cell)


@pytest.mark.parametrize("wrong", [NoNoise, RoundedUp, UniformOverAll])
def test_wrong_implementation_is_caught(wrong: type[RandomizedResponse]) -> None:
    """The check above sees missing noise, a threshold one step too high, and a cell kept too often."""
    assert not is_private(wrong(3, Fraction(2)))


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("cells", CELLS)
def test_threshold_is_the_largest_within_epsilon(cells: int, epsilon: Fraction) -> None:
    """No budget is given away: one step more would break the bound, in either direction the ratio is within it."""
    mechanism = RandomizedResponse(cells, epsilon)
    ratio = mechanism.keep_probability / mechanism.other_probability
    assert is_within(ratio, epsilon)
    assert is_within(1 / ratio, epsilon)
    next_keep = Fraction(mechanism.keep_threshold + 1, 1 << 64)
    assert not is_within(next_keep * (cells - 1) / (1 - next_keep), epsilon)


@given(st.fractions(min_value=Fraction(1, 100), max_value=16, max_denominator=10**6))
def test_series_is_below_the_exponential_and_close(exponent: Fraction) -> None:
    """The bound that the threshold is made from is below e ** x by less than one part in 2 ** 80."""
    bound = exp_lower_bound(exponent)
    assert is_within(bound, exponent)
    assert not is_within(bound * (1 + Fraction(1, 1 << 80)), exponent)


def test_estimates_are_unbiased_and_intervals_cover() -> None:
    """Over repeated surveys through the real sampler the mean error is within its own standard error."""
    mechanism = RandomizedResponse(6, Fraction(2))
    true = np.array([400, 100, 0, 250, 50, 0])
    entropy = SeededEntropy(11)
    runs = []
    for _ in range(150):
        counts = np.zeros(6, dtype=np.int64)
        for cell, devices in enumerate(true):
            for _ in range(devices):
                counts[mechanism.randomize(cell, entropy)] += 1
        runs.append((mechanism.estimate(counts), mechanism.covariance(counts)))
    estimates = np.array([estimate for estimate, _ in runs])
    spread = np.array([covariance for _, covariance in runs]).mean(axis=0)
    standard_error = np.sqrt(np.diag(spread) / len(runs))
    assert np.all(np.abs(estimates.mean(axis=0) - true) < 4 * standard_error)
    assert np.allclose(estimates.sum(axis=1), true.sum())
    assert np.allclose(np.cov(estimates.T), spread, atol=0.45 * spread.max())
    inside = np.abs(estimates - true) < 1.96 * np.sqrt([np.diag(covariance) for _, covariance in runs])
    assert 0.92 < inside.mean() < 0.98


def test_covariance_matches_simulation() -> None:
    """Against 200 000 simulated surveys the matrix agrees in every entry to 2 % of its largest."""
    mechanism = RandomizedResponse(5, Fraction(3, 2))
    true = np.array([900, 0, 40, 300, 7])
    generator = np.random.default_rng(5)
    other = float(mechanism.other_probability)
    randomize_word = np.zeros((200_000, 5), dtype=np.int64)
    for cell, devices in enumerate(true):
        row = np.full(5, other)
        row[cell] = 1 - other * 4
        randomize_word += generator.multinomial(devices, row, size=len(randomize_word))
    gap = float(mechanism.keep_probability) - other
    simulated = np.cov(((randomize_word - true.sum() * other) / gap).T)
    expected = np.mean([mechanism.covariance(counts) for counts in randomize_word[:2000]], axis=0)
    assert np.abs(simulated - expected).max() < 0.02 * expected.max()
    assert np.allclose(
        np.mean([mechanism.estimate(counts) for counts in randomize_word[:20_000]], axis=0), true, atol=2
    )


@settings(max_examples=60)
@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=20), st.sampled_from(EPSILONS))
def test_covariance_is_symmetric_and_never_negative(counts: list[int], epsilon: Fraction) -> None:
    """For every report: symmetric, positive semi-definite, rows that sum to zero."""
    mechanism = RandomizedResponse(len(counts), epsilon)
    matrix = mechanism.covariance(counts)
    scale = max(float(np.abs(matrix).max()), 1.0)
    assert np.allclose(matrix, matrix.T)
    assert np.abs(matrix.sum(axis=0)).max() < 1e-6 * scale
    assert np.linalg.eigvalsh(matrix).min() > -1e-9 * scale
    assert np.isclose(mechanism.estimate(counts).sum(), sum(counts), rtol=1e-6, atol=1e-6)


def test_sampler_draws_as_often_when_it_keeps() -> None:
    """The number of draws does not say whether the true cell was reported."""
    mechanism = RandomizedResponse(4, Fraction(2))
    for word in (0, (1 << 64) - 1):
        entropy = ScriptedEntropy(word, 1)
        mechanism.randomize(2, entropy)
        assert entropy.words == []


def test_uniform_number_has_no_modulo_bias() -> None:
    """Words above the last full multiple are drawn again."""
    last = (1 << 64) - 1
    assert uniform_below(3, ScriptedEntropy(last, last, 4)) == 1
    assert uniform_below(1, ScriptedEntropy(last)) == 0
    assert uniform_below(1 << 64, ScriptedEntropy(last)) == last


def test_system_entropy_is_the_default_kind() -> None:
    """The OS source gives what is asked, different each time."""
    source = OsEntropy()
    assert len(source.random_bytes(33)) == 33
    assert source.random_bytes(32) != source.random_bytes(32)
    assert RandomizedResponse(2, Fraction(1)).randomize(1, source) in (0, 1)


@pytest.mark.parametrize(
    ("cells", "epsilon"),
    [(1, Fraction(1)), (65537, Fraction(1)), (2, Fraction(0)), (2, Fraction(17)), (2, -Fraction(1))],
)
def test_parameter_out_of_bound_is_refused(cells: int, epsilon: Fraction) -> None:
    """The error names the parameter, the bound and the value."""
    with pytest.raises(ParameterError, match=r"must be in \["):
        RandomizedResponse(cells, epsilon)


def test_wrong_use_is_refused() -> None:
    """Cells and counts out of bounds give typed errors."""
    mechanism = RandomizedResponse(3, Fraction(1))
    for cell in (-1, 3):
        with pytest.raises(ParameterError, match="cell must be in"):
            mechanism.randomize(cell, OsEntropy())
    for counts in ([1, 2], [1, 2, -1]):
        with pytest.raises(ParameterError, match="counts must be"):
            mechanism.estimate(counts)
    with pytest.raises(ParameterError, match="bound must be"):
        uniform_below(0, OsEntropy())
