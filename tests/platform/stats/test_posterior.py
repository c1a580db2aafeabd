"""Posteriors on a line agree with closed forms, whatever their shapes and however unlike their scales."""

import math
from statistics import NormalDist

import pytest
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.posterior import Posterior, chances_best, difference_interval, expected_losses
from scipy import stats as peer

COUNTS = (((0, 3), (0, 5)), ((12, 88), (20, 80)), ((4_000, 6_000), (4_150, 5_850)), ((3, 40_000), (9, 40_000)))
"""Successes and failures of two arms."""
WIDE = {"low": -1e3, "high": 1e3}


def log_beta(a: float, b: float) -> float:
    """Logarithm of the Beta function."""
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def chance_of_second(one: tuple[int, int], other: tuple[int, int]) -> float:
    """Closed form of the chance that the second of two uniform priors' posteriors is larger (Miller 2015)."""
    (a, b), (c, d) = ((1 + successes, 1 + failures) for successes, failures in (one, other))
    terms = (math.exp(log_beta(a + i, b + d) - math.log(d + i) - log_beta(1 + i, d) - log_beta(a, b)) for i in range(c))
    return math.fsum(terms)


def beta(counts: tuple[int, int]) -> Posterior:
    """Posterior of exact counts."""
    return Posterior(alpha=1.0 + counts[0], beta=1.0 + counts[1])


@pytest.mark.parametrize(("one", "other"), COUNTS)
def test_chance_of_two_exact_shares_is_the_closed_form(one: tuple[int, int], other: tuple[int, int]) -> None:
    """Nothing seen, few, many and rare."""
    chances = chances_best((beta(one), beta(other)))
    assert chances[1] == pytest.approx(chance_of_second(one, other), abs=1e-9)
    assert sum(chances) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(("one", "other"), COUNTS)
def test_expected_loss_of_two_exact_shares_is_the_closed_form(one: tuple[int, int], other: tuple[int, int]) -> None:
    """Two chances of shifted Betas, each times its mean (Stucchio 2015)."""
    raised = [
        ((successes + 1, failures), (1 + successes) / (2 + successes + failures))
        for successes, failures in (one, other)
    ]
    closed = raised[1][1] * chance_of_second(one, raised[1][0]) - raised[0][1] * chance_of_second(raised[0][0], other)
    assert expected_losses((beta(one), beta(other)))[0] == pytest.approx(closed, abs=1e-10)


@pytest.mark.parametrize("counts", [counts for pair in COUNTS for counts in pair])
def test_moments_and_interval_of_an_exact_share_are_betas(counts: tuple[int, int]) -> None:
    """Also where the density is largest at the end of the interval."""
    a, b = 1 + counts[0], 1 + counts[1]
    mean, deviation = beta(counts).moments()
    assert mean == pytest.approx(a / (a + b), rel=1e-12)
    assert deviation == pytest.approx(peer.beta.std(a, b), rel=1e-9)
    assert beta(counts).interval(0.95) == pytest.approx(peer.beta.ppf([0.025, 0.975], a, b), rel=1e-8)


@pytest.mark.parametrize("spread", [1e-6, 0.5, 300.0])
def test_two_normal_posteriors_far_from_the_bounds_are_the_closed_forms(spread: float) -> None:
    """Scales that differ by up to six orders of magnitude are integrated on one line."""
    one, other = (
        Posterior(estimate=0.4, standard_error=spread / 300.0, **WIDE),
        Posterior(estimate=0.1, standard_error=0.2, **WIDE),
    )
    difference = NormalDist(0.3, math.hypot(spread / 300.0, 0.2))
    standard = NormalDist()
    chance = difference.cdf(0.0)
    z = difference.mean / difference.stdev
    assert chances_best((one, other))[1] == pytest.approx(chance, abs=1e-12)
    assert expected_losses((one, other))[0] == pytest.approx(
        difference.stdev * standard.pdf(z) - difference.mean * chance, abs=1e-12
    )
    interval = difference_interval(one, other, 0.9)
    assert interval == pytest.approx((difference.inv_cdf(0.05), difference.inv_cdf(0.95)), abs=1e-7)


def test_bounds_cut_the_normal_density_off() -> None:
    """An estimate below zero, as noise makes it, has all of its mass above."""
    cut = peer.truncnorm((0.0 + 0.02) / 0.01, (1.0 + 0.02) / 0.01, loc=-0.02, scale=0.01)
    posterior = Posterior(estimate=-0.02, standard_error=0.01)
    assert posterior.moments() == pytest.approx((cut.mean(), cut.std()), rel=1e-6)
    assert posterior.interval(0.95) == pytest.approx(cut.ppf([0.025, 0.975]), rel=1e-6)


@pytest.mark.parametrize("arms", [2, 3, 8])
def test_equal_arms_have_equal_chances_and_losses(arms: int) -> None:
    """One in the number of arms, and the expected maximum of normal draws (order statistics) as the loss."""
    posteriors = [Posterior(estimate=0.2, standard_error=0.1, **WIDE)] * arms
    assert chances_best(posteriors) == pytest.approx([1.0 / arms] * arms, abs=1e-12)
    largest = {2: 1.0 / math.sqrt(math.pi), 3: 1.5 / math.sqrt(math.pi), 8: 1.4236003060}[arms]
    assert expected_losses(posteriors) == pytest.approx([0.1 * largest] * arms, abs=1e-9)


def test_the_mirror_of_three_arms_ranks_them_the_other_way_round() -> None:
    """The chance to be smallest is one less the chances to be in front of somebody."""
    three = (beta((10, 90)), Posterior(estimate=0.12, standard_error=0.03), beta((140, 860)))
    smallest = chances_best([each.mirror() for each in three])
    assert sum(smallest) == pytest.approx(1.0, abs=1e-12)
    pair = chances_best([each.mirror() for each in three[:2]])[0]
    assert pair == pytest.approx(chances_best(three[:2])[1], abs=1e-12)
    assert three[0].mirror().mirror() == three[0]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("alpha", {"alpha": 0.0}),
        ("beta", {"beta": math.inf}),
        ("standard_error", {"standard_error": 0.0}),
        ("estimate", {"estimate": math.nan}),
        ("low, high", {"low": 1.0}),
    ],
)
def test_fields_out_of_bounds_are_refused(name: str, fields: dict[str, float]) -> None:
    """With the name and the value."""
    with pytest.raises(ArgumentError, match=name):
        Posterior(**fields)


def test_a_mass_that_is_no_probability_is_refused() -> None:
    """Of one posterior and of a difference."""
    with pytest.raises(ArgumentError, match="mass"):
        Posterior().interval(1.0)
    with pytest.raises(ArgumentError, match="mass"):
        difference_interval(Posterior(), Posterior(), 0.0)
