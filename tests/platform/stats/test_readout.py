"""Groups of a read-out are compared once, over months: known answers, error rates, power, and what holds it back."""

from fractions import Fraction

import numpy as np
import pytest
from alcove.platform.stats import Aggregate, ArgumentError, Mechanism, PowerModel, ReasonCode, Stratum, share_model
from alcove.platform.stats.randomized_response import aggregate_from_randomized_response
from alcove.platform.stats.readout import GroupDifference, compare_groups
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout

LAYOUT = HistogramLayout.of_groups(2, [(0,), (1,)])
ACCEPTED = np.array([[0.0], [1.0]])
ANSWERS = np.ones((2, 1))
EPSILON = Fraction(2)
WINDOWS = 3  # of a month


def month(held_out: tuple[float, float], mirror: tuple[float, float], *, deviation: float = 0.0) -> Aggregate:
    """A month in which so many of a group's reports were refused and accepted."""
    counts = np.array([held_out, mirror])[:, :, None]
    return Aggregate(counts, np.eye(4) * deviation**2, round(float(counts.sum())))


def compare(*months: Aggregate, per_device: int = 1, alpha: float = 0.05) -> GroupDifference:
    """The accepted share of both groups."""
    return compare_groups([Stratum(one, 0.5, per_device) for one in months], ACCEPTED, ANSWERS, alpha=alpha)


def test_exact_counts_of_one_month_give_the_known_answer() -> None:
    """80 against 84 % of 10,000 devices each: a z of 7.37 by the textbook's unpooled standard error."""
    found = compare(month((2000, 8000), (1600, 8400)))
    error = (0.8 * 0.2 / 10_000 + 0.84 * 0.16 / 10_000) ** 0.5
    assert found.code is ReasonCode.BETTER
    assert found.held_out == pytest.approx(0.8)
    assert found.value == pytest.approx(0.04)
    assert found.standard_error == pytest.approx(error, rel=1e-3)
    assert found.interval == pytest.approx((0.04 - 1.95996 * error, 0.04 + 1.95996 * error), rel=1e-3)
    assert found.p_value == pytest.approx(1.7e-13, rel=0.1)
    assert found.lift == pytest.approx(0.05)
    assert found.lift_interval is not None
    assert found.lift_interval == pytest.approx((0.0364, 0.0638), abs=2e-4)
    assert found.noise_percent == pytest.approx(0.0, abs=1e-6)


def test_repeated_months_of_the_same_devices_say_nothing_new() -> None:
    """Without noise three equal months have the standard error of one; with noise alone that of three."""
    one = month((2000, 8000), (1900, 8100))
    assert compare(one, one, one).standard_error == pytest.approx(compare(one).standard_error, rel=1e-6)
    noisy = month((2000, 8000), (1900, 8100), deviation=300.0)
    single, triple = compare(noisy), compare(noisy, noisy, noisy)
    assert single.standard_error is not None
    assert triple.standard_error is not None
    assert triple.standard_error < 0.65 * single.standard_error
    assert (single.strata, triple.strata) == (1, 3)


def test_months_of_other_levels_show_no_difference_where_none_is() -> None:
    """70 % in one month and 90 % in the next, in both groups; of unequal months too."""
    found = compare(month((3000, 7000), (3000, 7000)), month((400, 3600), (400, 3600)))
    assert found.value == pytest.approx(0.0, abs=1e-12)
    assert found.code is ReasonCode.INTERVAL_INCLUDES_ZERO
    assert found.p_value == pytest.approx(1.0)


def test_lift_excludes_zero_where_the_difference_does() -> None:
    """At every level of the error, by the same numbers."""
    seen = set()
    for alpha in (0.5, 0.2, 0.1, 0.05, 0.01, 0.001):
        found = compare(month((2000, 8000), (1890, 8110), deviation=50.0), alpha=alpha)
        assert found.lift_interval is not None
        assert found.interval is not None
        assert (found.lift_interval.low > 0.0) == (found.interval.low > 0.0)
        seen.add(found.code)
    assert seen == {ReasonCode.BETTER, ReasonCode.INTERVAL_INCLUDES_ZERO}


def test_group_that_reports_less_holds_the_result_back() -> None:
    """Of 20,000 reports 9,600 in the mirror group; with three reports of a device that is no mismatch."""
    found = compare(month((2080, 8320), (1920, 7680)))
    assert found.code is ReasonCode.SAMPLE_RATIO_MISMATCH
    assert "about 10400 reports and the mirror group 9600" in found.reason
    assert found.value is None
    assert compare(month((2020, 8080), (1980, 7920)), per_device=3).code is ReasonCode.INTERVAL_INCLUDES_ZERO


def test_what_cannot_be_said_is_said_so() -> None:
    """No reports; noise that hides a group's size; a metric that nobody reported."""
    assert compare(month((0, 0), (0, 0))).code is ReasonCode.NO_REPORTS
    hidden = compare(month((200, 800), (200, 800), deviation=100.0))
    assert hidden.code is ReasonCode.PRIVACY_NOISE
    assert "14% in each month, of at most 10%" in hidden.reason
    clear = month((2000, 8000), (2000, 8000))
    mixed = compare(month((200, 800), (200, 800), deviation=100.0), clear)
    assert (mixed.code, mixed.strata) == (ReasonCode.INTERVAL_INCLUDES_ZERO, 1)
    nothing = compare_groups([Stratum(clear)], ACCEPTED, np.zeros((2, 1)), alpha=0.05)
    assert nothing.code is ReasonCode.BELOW_MINIMUM_COHORT
    with pytest.raises(ArgumentError, match="strata"):
        compare_groups([], ACCEPTED, ANSWERS, alpha=0.05)
    with pytest.raises(ArgumentError, match="alpha"):
        compare(clear, alpha=1.0)


def simulate(runs: int, effect: float, *, devices: int = 40_000, months: int = 2, seed: int = 1) -> list[float]:
    """P-values of read-outs by randomized response whose devices say the same in each window, the worst case."""
    rng = np.random.default_rng(seed)
    mechanism = RandomizedResponse(4, EPSILON)
    keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    flow = np.full((4, 4), other) + np.eye(4) * (keep - other)
    p_values = []
    for _ in range(runs):
        group = rng.binomial(devices, 0.5)
        kept = rng.binomial((devices - group, group), (0.8, 0.8 + effect))
        truth = (devices - group - kept[0], kept[0], group - kept[1], kept[1])
        strata = []
        for _ in range(months):
            window_counts = [
                rng.multinomial(size, flow[cell] / flow[cell].sum(), WINDOWS).sum(axis=0)
                for cell, size in enumerate(truth)
            ]
            seen = np.sum(window_counts, axis=0)
            counts = [int(count) for count in seen]
            strata.append(Stratum(aggregate_from_randomized_response(counts, LAYOUT, epsilon=EPSILON), 0.5, WINDOWS))
        found = compare_groups(strata, ACCEPTED, ANSWERS, alpha=0.05)
        p_values.append(1.0 if found.p_value is None else found.p_value)
    return p_values


def planned_effect(devices: int, months: int) -> float:
    """The difference that the plan finds with 80 %."""
    model = PowerModel(
        share_model(0.8).at_cells(LAYOUT), (0.5, 0.5), Mechanism.RANDOMIZED_RESPONSE, EPSILON, analyses=1
    )
    found = model.detectable(devices, months * WINDOWS)
    assert found is not None
    return found


def test_equal_groups_differ_as_rarely_as_stated_and_planned_ones_as_often() -> None:
    """Thirty of each, of fixed seeds; the thorough test has a thousand."""
    assert np.mean(np.array(simulate(30, 0.0)) < 0.05) <= 0.2
    effect = planned_effect(40_000, 2)
    assert np.mean(np.array(simulate(30, effect, seed=2)) < 0.05) >= 0.6


@pytest.mark.thorough
def test_error_is_at_most_nominal_and_power_is_as_planned() -> None:
    """A thousand of each: at most 5 %, and 80 %, within four standard errors."""
    for devices, months in ((20_000, 1), (40_000, 2), (200_000, 3)):
        false = np.mean(np.array(simulate(1000, 0.0, devices=devices, months=months)) < 0.05)
        assert false <= 0.05 + 4 * 0.0069
        effect = planned_effect(devices, months)
        power = np.mean(np.array(simulate(1000, effect, devices=devices, months=months, seed=3)) < 0.05)
        assert abs(power - 0.8) <= 0.05
