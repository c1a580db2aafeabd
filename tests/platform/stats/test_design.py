"""A design's closed-form errors and device counts agree with the comparison that the design plans for."""

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from alcove.platform.stats import Aggregate, ArgumentError, Design
from alcove.privacy.randomised_response import RandomisedResponse
from hypothesis import given
from hypothesis import strategies as st

from tests.platform.stats.comparing import compare

if TYPE_CHECKING:
    from tests.platform.stats.conftest import Fleet

designs = st.builds(
    Design,
    epsilon=st.fractions(Fraction(1, 2), 10, max_denominator=20),
    base_rate=st.floats(0.02, 0.98),
    arms=st.integers(2, 4),
    outcomes=st.integers(2, 3),
    bins=st.integers(1, 6),
    windows=st.integers(1, 5),
    alpha=st.floats(0.001, 0.3),
    power=st.floats(0.5, 0.99),
)


def test_keep_probability_is_that_of_the_mechanism() -> None:
    """The devices answer with the probability that the design plans with."""
    for bins in (1, 2, 4):
        for epsilon in (Fraction(1, 2), Fraction(2), Fraction(4)):
            design = Design(epsilon, 0.8, bins=bins)
            mechanism = RandomisedResponse(design.cells, epsilon)
            assert design.keep_probability == pytest.approx(float(mechanism.keep_probability), rel=1e-12)


def test_standard_error_without_noise_is_the_textbook_one() -> None:
    """At the largest epsilon two arms of 5 000 differ by sqrt(2 p (1 - p) / 5 000)."""
    error = Design(Fraction(16), 0.8, bins=1).standard_error(10_000)
    assert error == pytest.approx(math.sqrt(2 * 0.8 * 0.2 / 5_000), rel=1e-3)


def test_standard_error_equals_a_value_by_hand() -> None:
    """Two arms, two outcomes, one bin, e^epsilon = 3 (nearly), base rate 1/2, 600 devices.

    p = 3 / 6, q = 1 / 6, p - q = 1 / 3; squares 2 * (1/4 + 1/4) / (1/4) = 4; own part 2 * (1/4) / (1/2) = 1; so
    s^2 = (4 / 6 + 1 / 3) * 9 = 9 and the standard error 3 / sqrt(600) = 0.122474.
    """
    design = Design(Fraction(math.log(3)).limit_denominator(10**9), 0.5, bins=1)
    assert design.standard_error(600) == pytest.approx(0.122474, rel=1e-5)


def test_standard_error_equals_that_of_a_comparison_of_expected_counts(fleet: "type[Fleet]") -> None:
    """The comparison's residuals and covariance matrices, fed with what is expected, give the closed form."""
    for epsilon in (Fraction(1), Fraction(2), Fraction(5)):
        for accuracies in ((0.8, 0.9), (0.5, 0.5), (0.3, 0.9)):
            for latencies in ((1.0,), (0.6, 0.4), (0.1, 0.2, 0.3, 0.4)):
                world = fleet(accuracies, latencies=latencies, epsilon=epsilon)
                assert world.mechanism is not None
                devices = 10**8
                counts = np.rint(world.told_probabilities() * devices).astype(np.int64)
                aggregate = Aggregate(
                    world.mechanism.estimate(counts).reshape(world.shape),
                    world.mechanism.covariance(counts),
                    devices,
                )
                for windows in (1, 5):
                    (difference,) = compare(
                        aggregate, bin_values_ms=world.bin_values_ms, reports_per_device=windows
                    ).differences
                    design = Design(epsilon, accuracies[0], bins=len(latencies), windows=windows)
                    planned = design.standard_error(devices // windows, accuracies[1] - accuracies[0])
                    assert difference.standard_error == pytest.approx(planned, rel=1e-4)


@given(design=designs, devices=st.integers(10, 10**7))
def test_devices_needed_for_the_detectable_difference_are_the_devices(design: Design, devices: int) -> None:
    """The two questions are each other's inverse, and the answer is found with exactly the stated power."""
    effect = design.detectable_difference(devices)
    if effect is None:
        return
    assert 0.0 < effect <= 1.0 - design.base_rate
    assert design.devices_needed(effect) == pytest.approx(devices, rel=1e-6, abs=1.01)


@given(design=designs)
def test_more_devices_find_smaller_differences(design: Design) -> None:
    """The detectable difference falls, and once there is one there always is."""
    found = [design.detectable_difference(10**exponent) for exponent in range(1, 11)]
    known = [effect for effect in found if effect is not None]
    assert found == [None] * (len(found) - len(known)) + known
    assert known == sorted(known, reverse=True)


def test_less_privacy_fewer_bins_and_more_windows_find_smaller_differences() -> None:
    """The levers of a design point the way one would expect."""

    def found(**changes: Any) -> float:
        fields: dict[str, Any] = {"epsilon": Fraction(2), "base_rate": 0.7} | changes
        effect = Design(**fields).detectable_difference(20_000)
        assert effect is not None
        return effect

    assert found(epsilon=Fraction(3)) < found()
    assert found(bins=2) < found(bins=3) < found()
    assert found() / 2 < found(windows=4) < found() / 1.8
    assert found(windows=4, epsilon=Fraction(16), bins=1) == pytest.approx(
        found(epsilon=Fraction(16), bins=1), rel=1e-3
    )
    assert found(power=0.9) > found() > found(alpha=0.2)


def test_design_out_of_bounds_is_refused_by_name() -> None:
    """Each wrong field or argument is a typed error with its name."""
    sound: dict[str, Any] = {"epsilon": Fraction(2), "base_rate": 0.8}
    for name, value in (
        ("epsilon", Fraction(0)),
        ("epsilon", Fraction(17)),
        ("base_rate", 0.0),
        ("base_rate", 1.0),
        ("base_rate", math.nan),
        ("arms", 1),
        ("outcomes", 1),
        ("bins", 0),
        ("windows", 0),
        ("alpha", 0.0),
        ("power", 0.4),
        ("power", 1.0),
    ):
        with pytest.raises(ArgumentError) as caught:
            Design(**(sound | {name: value}))
        assert caught.value.name == name
    design = Design(**sound)
    for devices in (0, -1, 10**12 + 1):
        with pytest.raises(ArgumentError, match="devices"):
            design.detectable_difference(devices)
    for effect in (0.0, -0.1, 0.3, math.nan):
        with pytest.raises(ArgumentError, match="effect"):
            design.devices_needed(effect)
