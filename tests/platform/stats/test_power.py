"""In simulation a plan finds its effect as often as planned; its errors are those of comparisons and textbooks."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from alcove.platform.stats import ArgumentError
from alcove.platform.stats.aggregator_noise import aggregate_from_noised_histogram, cell_variance, draw_noise
from alcove.platform.stats.mechanism import Mechanism
from alcove.platform.stats.power import PowerModel, mean_model, share_model

from tests.platform.stats.comparing import compare

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.platform.stats.conftest import Fleet

HALVES = (0.5, 0.5)


def under_randomized_response(rate: float, bins: int, epsilon: Fraction) -> PowerModel:
    """Return the plan of two equal arms with `rate` of successes."""
    return PowerModel(share_model(rate, bins=bins), HALVES, Mechanism.RANDOMIZED_RESPONSE, epsilon)


def test_standard_error_without_noise_is_the_textbook_one() -> None:
    """At the largest epsilon two arms of 5 000 differ by sqrt(2 p (1 - p) / 5 000)."""
    error = under_randomized_response(0.8, 1, Fraction(16)).standard_error(10_000)
    assert error == pytest.approx(math.sqrt(2 * 0.8 * 0.2 / 5_000), rel=1e-3)


def test_standard_error_equals_a_value_by_hand() -> None:
    """Two arms, two outcomes, one bin, e^epsilon = 3 (nearly), base rate 1/2, 600 devices.

    p = 3 / 6, q = 1 / 6, p - q = 1 / 3; squares 2 * (1/4 + 1/4) / (1/4) = 4; own part 2 * (1/4) / (1/2) = 1; so
    s^2 = (4 / 6 + 1 / 3) * 9 = 9 and the standard error 3 / sqrt(600) = 0.122474.
    """
    epsilon = Fraction(math.log(3)).limit_denominator(10**9)
    assert under_randomized_response(0.5, 1, epsilon).standard_error(600) == pytest.approx(0.122474, rel=1e-5)


def test_standard_error_equals_that_of_a_comparison_of_expected_counts(fleet: "type[Fleet]") -> None:
    """The comparison's residuals and covariance matrices, fed with what is expected, give the plan's."""
    for epsilon in (Fraction(1), Fraction(2), Fraction(5)):
        for rate in (0.3, 0.5, 0.8):
            for bins in (1, 2, 4):
                world = fleet((rate, rate), latencies=(1.0 / bins,) * bins, epsilon=epsilon)
                devices = 10**8
                aggregate = world.aggregate(np.rint(world.response_probabilities() * devices).astype(np.int64))
                for windows in (1, 5):
                    (difference,) = compare(
                        aggregate, bin_values_ms=world.bin_values_ms, reports_per_device=windows
                    ).differences
                    planned = under_randomized_response(rate, bins, epsilon).standard_error(devices / windows, windows)
                    assert difference.standard_error == pytest.approx(planned, rel=1e-4)


def test_two_aggregators_find_the_planned_effect_as_often_as_planned() -> None:
    """400 draws with the noise of two aggregators: about 80 % are decided for the better arm."""
    rng = np.random.default_rng(20_270_201)
    epsilon, rate, effect = Fraction(1, 2), 0.6, 0.05
    model = PowerModel(share_model(rate + effect / 2, bins=4), HALVES, Mechanism.PRIO3, epsilon)
    devices = model.devices_needed(effect)
    assert devices is not None
    won = 0
    for _ in range(400):
        cells = np.concatenate([np.repeat([(1 - p) / 8, p / 8], 4) for p in (rate, rate + effect)])
        counts = rng.multinomial(devices, cells).reshape(2, 2, 4) + draw_noise(rng, (2, 2, 4), epsilon)
        aggregate = aggregate_from_noised_histogram(counts, reports=devices, epsilon=epsilon)
        found = compare(aggregate, bin_values_ms=(1, 2, 3, 4), planned_reports=devices, minimum_cohort=0)
        won += found.decision.winner == 1
    assert 0.73 < won / 400 < 0.87


def test_more_noise_more_arms_and_smaller_effects_need_more_devices() -> None:
    """And windows help against noise only: a plan that sampling forbids is none."""
    needs = [
        PowerModel(share_model(0.5, bins=8), HALVES, mechanism, epsilon).devices_needed(0.02)
        for mechanism, epsilon in (
            (Mechanism.EXACT, Fraction(1)),
            (Mechanism.PRIO3, Fraction(1)),
            (Mechanism.PRIO3, Fraction(1, 10)),
            (Mechanism.RANDOMIZED_RESPONSE, Fraction(2)),
            (Mechanism.RANDOMIZED_RESPONSE, Fraction(1)),
        )
    ]
    known = [need for need in needs if need is not None]
    assert len(known) == 5
    assert known == sorted(known)
    private = PowerModel(share_model(0.5, bins=4), HALVES, Mechanism.RANDOMIZED_RESPONSE, Fraction(1))
    three = PowerModel(share_model(0.5, bins=4), (0.5, 0.25, 0.25), Mechanism.RANDOMIZED_RESPONSE, Fraction(1))
    assert (private.devices_needed(0.02) or 0) < (private.devices_needed(0.01) or 0)
    assert (private.devices_needed(0.02) or 0) < (three.devices_needed(0.02) or 0)
    needed = private.windows_needed(0.02, 150_000, most=60)
    assert needed is not None
    assert (private.detectable(150_000, needed) or 1.0) <= 0.02 < (private.detectable(150_000, needed - 1) or 1.0)
    assert private.windows_needed(0.02, 1_000, most=30) is None
    assert private.devices_needed(1e-12) is None


def test_mean_of_bins_is_planned_in_its_own_unit() -> None:
    """Exact counts: the variance of evenly spread bins over the devices of each arm."""
    values = (0.5, 1.5, 2.5, 3.5)
    model = PowerModel(mean_model(values), HALVES, Mechanism.EXACT, Fraction(1))
    assert model.standard_error(10_000) == pytest.approx(np.std(values) * np.sqrt(4 / 10_000))


def test_wrong_use_names_the_argument() -> None:
    """Bounds of a plan."""
    model = share_model(0.5)
    good = PowerModel(model, HALVES, Mechanism.EXACT, Fraction(1))
    wrong: dict[str, Callable[[], object]] = {
        "base_rate": lambda: share_model(1.0),
        "outcome": lambda: share_model(0.5, outcome=2),
        "shares": lambda: PowerModel(model, (0.5, 0.4), Mechanism.EXACT, Fraction(1)),
        "alpha": lambda: PowerModel(model, HALVES, Mechanism.EXACT, Fraction(1), alpha=0.0),
        "power": lambda: PowerModel(model, HALVES, Mechanism.EXACT, Fraction(1), power=0.2),
        "epsilon": lambda: PowerModel(model, HALVES, Mechanism.PRIO3, Fraction(0)),
        "mde": lambda: good.devices_needed(0.0),
        "devices * windows": lambda: good.detectable(0),
    }
    for name, make in wrong.items():
        with pytest.raises(ArgumentError) as raised:
            make()
        assert raised.value.name == name


def test_noise_of_two_aggregators_has_the_stated_variance_and_is_symmetric() -> None:
    """A quarter of a million draws; another epsilon is distinguished."""
    rng = np.random.default_rng(20_270_202)
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(4)):
        drawn = draw_noise(rng, (250_000,), epsilon).astype(np.float64)
        assert drawn.var() == pytest.approx(cell_variance(epsilon), rel=0.02)
        assert abs(drawn.mean()) < 4.0 * drawn.std() / 500.0
    assert cell_variance(Fraction(1)) ** 0.5 == pytest.approx(3.959, abs=1e-3)
    assert cell_variance(Fraction(1), sensitivity=1) ** 0.5 == pytest.approx(1.919, abs=1e-3)
