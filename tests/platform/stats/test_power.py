"""In simulation a plan finds its effect as often as planned, and it agrees with the design for randomized response."""

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from alcove.platform.stats import ArgumentError, Design
from alcove.platform.stats.aggregator_noise import aggregate_from_noised_histogram, cell_variance, draw_noise
from alcove.platform.stats.power import Mechanism, PowerModel, mean_model, share_model

from tests.platform.stats.comparing import compare

if TYPE_CHECKING:
    from collections.abc import Callable

HALVES = (0.5, 0.5)


def test_plan_under_randomised_response_is_the_designs() -> None:
    """At no effect both write the same variance; devices needed differ by the effect's own variance only."""
    for epsilon, bins in ((Fraction(1), 2), (Fraction(2), 4)):
        design = Design(epsilon, 0.8, bins=bins)
        model = PowerModel(share_model(0.8, bins=bins), HALVES, Mechanism.RANDOMISED_RESPONSE, epsilon)
        for devices in (1_000, 50_000):
            assert model.standard_error(devices) == pytest.approx(design.standard_error(devices), rel=1e-9)
        for effect in (0.01, 0.05):
            assert model.devices_needed(effect) == pytest.approx(design.devices_needed(effect), rel=0.05)


def test_two_aggregators_find_the_planned_effect_as_often_as_planned() -> None:
    """400 draws with the noise of two aggregators: about 80 % are decided for the better arm."""
    rng = np.random.default_rng(20_270_201)
    epsilon, rate, effect = Fraction(1, 2), 0.6, 0.05
    model = PowerModel(share_model(rate + effect / 2, bins=4), HALVES, Mechanism.TWO_AGGREGATORS, epsilon)
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
            (Mechanism.TWO_AGGREGATORS, Fraction(1)),
            (Mechanism.TWO_AGGREGATORS, Fraction(1, 10)),
            (Mechanism.RANDOMISED_RESPONSE, Fraction(2)),
            (Mechanism.RANDOMISED_RESPONSE, Fraction(1)),
        )
    ]
    known = [need for need in needs if need is not None]
    assert len(known) == 5
    assert known == sorted(known)
    private = PowerModel(share_model(0.5, bins=4), HALVES, Mechanism.RANDOMISED_RESPONSE, Fraction(1))
    three = PowerModel(share_model(0.5, bins=4), (0.5, 0.25, 0.25), Mechanism.RANDOMISED_RESPONSE, Fraction(1))
    assert (private.devices_needed(0.02) or 0) < (private.devices_needed(0.01) or 0)
    assert (private.devices_needed(0.02) or 0) < (three.devices_needed(0.02) or 0)
    needed = private.windows_needed(0.02, 150_000, most=60)
    assert needed is not None
    assert private.detectable(150_000, needed) <= 0.02 < private.detectable(150_000, needed - 1)
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
        "epsilon": lambda: PowerModel(model, HALVES, Mechanism.TWO_AGGREGATORS, Fraction(0)),
        "mde": lambda: good.devices_needed(0.0),
        "devices * windows": lambda: good.detectable(0),
    }
    for name, make in wrong.items():
        with pytest.raises(ArgumentError) as raised:
            make()
        assert raised.value.name == name


def test_noise_of_two_aggregators_has_the_stated_variance_and_is_symmetric() -> None:
    """A quarter of a million draws; another epsilon is told apart."""
    rng = np.random.default_rng(20_270_202)
    for epsilon in (Fraction(1, 2), Fraction(1), Fraction(4)):
        drawn = draw_noise(rng, (250_000,), epsilon).astype(np.float64)
        assert drawn.var() == pytest.approx(cell_variance(epsilon), rel=0.02)
        assert abs(drawn.mean()) < 4.0 * drawn.std() / 500.0
    assert cell_variance(Fraction(1)) ** 0.5 == pytest.approx(3.959, abs=1e-3)
    assert cell_variance(Fraction(1), sensitivity=1) ** 0.5 == pytest.approx(1.919, abs=1e-3)
