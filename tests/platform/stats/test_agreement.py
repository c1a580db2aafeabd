"""The statistics agree with gbstats, spotify-confidence and statsmodels wherever these compute the same quantity.

Their answers are vectors, written by `vectors/generate.py` in environments of their own. Meant differences: our
variances divide by n where theirs divide by n - 1, and imagine one more report per arm and outcome (Agresti, Coull).
"""

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.platform.stats import Aggregate
from alcove.platform.stats.always_valid_p import always_valid_p
from alcove.platform.stats.confidence_sequence import critical_value
from alcove.platform.stats.group_sequential import spending_boundaries
from alcove.platform.stats.mechanism import Mechanism
from alcove.platform.stats.metrics import cuped_difference, ratio_difference
from alcove.platform.stats.power import PowerModel, share_model
from numpy.typing import NDArray

from tests.platform.stats.comparing import compare

Exact = Callable[[NDArray[np.int64]], Aggregate]

VECTORS = Path(__file__).parent / "vectors"
PLANNED = 5_000


def vectors(package: str) -> dict[str, Any]:
    """Return what a package said."""
    said: dict[str, Any] = json.loads((VECTORS / f"{package}.json").read_text(encoding="utf-8"))
    return said


def sequence_critical_value(reports: int) -> float:
    """Return the critical value at the packages' settings."""
    return critical_value(reports=reports, alpha=0.05, planned_reports=PLANNED)


def test_cuped_is_gbstats(exact: Exact) -> None:
    """Slope, difference, error and always-valid interval from joint histograms; correction narrows it."""
    said = vectors("gbstats")
    for case in said["cuped"]:
        aggregate = exact(np.array(case["tables"]))
        found = cuped_difference(
            aggregate,
            np.array(said["pre"]),
            np.array(said["post"]),
            arm=1,
            versus=0,
            critical_value=sequence_critical_value(aggregate.reports),
        )
        assert found is not None
        assert found.theta == pytest.approx(case["theta"], rel=1e-4)
        assert found.value == pytest.approx(case["value"], rel=1e-4)
        assert found.standard_error == pytest.approx(case["standard_error"], rel=2e-3)
        assert found.interval == pytest.approx((case["low"], case["high"]), abs=1e-3 * (case["high"] - case["low"]))
        assert found.standard_error < 0.9 * found.unadjusted.standard_error


def test_ratio_metric_is_gbstats(exact: Exact) -> None:
    """Milliseconds of `post` per unit of `pre`."""
    said = vectors("gbstats")
    for case in said["ratio"]:
        aggregate = exact(np.array(case["tables"]))
        pre = np.repeat(np.array(said["pre"])[:, None], len(said["post"]), axis=1)
        post = np.repeat(np.array(said["post"])[None, :], len(said["pre"]), axis=0)
        found = ratio_difference(
            aggregate, post, pre, arm=1, versus=0, critical_value=sequence_critical_value(aggregate.reports)
        )
        assert found is not None
        assert found.value == pytest.approx(case["value"], rel=1e-9)
        assert found.standard_error == pytest.approx(case["standard_error"], rel=2e-3)
        assert found.interval == pytest.approx((case["low"], case["high"]), abs=2e-3 * (case["high"] - case["low"]))


def test_always_valid_intervals_and_p_values_are_gbstats(exact: Exact) -> None:
    """Of two proportions, with the difference the other way round as theirs is relative to the control."""
    for case in vectors("gbstats")["sequential"]:
        counts = np.array([[[n - k], [k]] for n, k in (case["a"], case["b"])])
        aggregate = exact(counts)
        shares = [n / aggregate.reports for n, _ in (case["a"], case["b"])]
        (pair,) = compare(aggregate, bin_values_ms=(1.0,), planned_reports=PLANNED, expected_shares=shares).differences
        assert pair.value == pytest.approx(case["value"], rel=1e-9)
        assert pair.interval == pytest.approx((case["low"], case["high"]), abs=1e-3 * (case["high"] - case["low"]))
        assert pair.value is not None
        assert pair.standard_error is not None
        p = always_valid_p(pair.value, pair.standard_error, reports=aggregate.reports, planned_reports=PLANNED)
        assert p == pytest.approx(case["p"], rel=0.02)


@pytest.mark.parametrize("package", ["gbstats", "confidence"])
def test_sample_ratio_alarms_where_others_are_sure_and_not_where_they_see_nothing(package: str, exact: Exact) -> None:
    """Ours is valid at every analysis, so it needs more than their p-value of 0.01 at one analysis."""
    seen = set()
    for case in vectors(package)["srm"]:
        counts = np.array([[[n // 2], [n - n // 2]] for n in case["users"]])
        mismatched = compare(
            exact(counts), bin_values_ms=(1.0,), expected_shares=case["weights"]
        ).sample_ratio.mismatched
        assert bool(mismatched) is (case["p"] < 1e-5)
        assert bool(mismatched) or case["p"] > 1e-3
        seen.add(bool(mismatched))
    assert seen == {True, False}


def test_interval_of_two_proportions_is_statsmodels(exact: Exact) -> None:
    """Wald's interval is ours at the critical value of a single analysis, but for the skewness that he leaves out."""
    for case in vectors("statsmodels")["proportions"]:
        counts = np.array([[[n - k], [k]] for k, n in (case["other"], case["one"])])
        events = np.array([[0.0], [1.0]])
        found = ratio_difference(
            exact(counts), events, np.ones((2, 1)), arm=1, versus=0, critical_value=1.959963984540054
        )
        assert found is not None
        assert found.interval == pytest.approx((case["low"], case["high"]), abs=5e-3 * (case["high"] - case["low"]))


def test_devices_needed_are_spotify_confidences_at_the_effects_own_variance() -> None:
    """Exact counts: theirs, which take the base rate for both arms, times what is read at will and what the rates are.

    For three arms theirs find one pair; an arm that beats both others needs more.
    """
    for case in vectors("confidence")["binomial"]:
        arms, base, mde = case["arms"], case["base"], case["mde"]
        model = PowerModel(share_model(base), (1.0 / arms,) * arms, Mechanism.EXACT, Fraction(1), power=case["power"])
        needed = model.devices_needed(mde)
        assert needed is not None
        pairs = arms * (arms - 1) // 2
        z_power = {0.8: 0.8416212335729143, 0.9: 1.2815515655446004}[case["power"]]
        z_alpha = {1: 1.959963984540054, 3: 2.3939797998185104}[pairs]
        always = critical_value(reports=1, alpha=0.05, planned_reports=1)  # no correction for pairs
        price = ((always + z_power) / (z_alpha + z_power)) ** 2
        better = base + mde
        own = (base * (1.0 - base) + better * (1.0 - better)) / (2.0 * base * (1.0 - base))
        if arms == 2:
            assert needed == pytest.approx(price * own * case["devices"], rel=1e-3)
        else:
            assert 1.1 * price * own * case["devices"] < needed < 1.5 * price * own * case["devices"]
        assert 1.4 < price < 2.5


def test_boundaries_of_interim_analyses_are_spotify_confidences() -> None:
    """Even and uneven analyses that spend alpha t**rho, as theirs do; their trapezoids are good to 4e-4."""
    for case in vectors("confidence")["bounds"]:
        analyses = tuple(case["looks"])
        found = spending_boundaries(analyses, tuple(case["alpha"] * part ** case["rho"] for part in analyses))
        assert found == pytest.approx(case["bounds"], abs=5e-4)


def test_always_valid_p_is_below_alpha_exactly_where_the_interval_leaves_zero_out() -> None:
    """The p-value inverts the interval, at many analyses."""
    for reports in (100, 5_000, 1_000_000):
        edge = sequence_critical_value(reports)
        for score, is_below in ((edge * 1.0001, True), (edge * 0.9999, False)):
            assert (always_valid_p(score, 1.0, reports=reports, planned_reports=PLANNED) < 0.05) is is_below
    assert always_valid_p(0.0, 1.0, reports=0, planned_reports=PLANNED) == 1.0
    assert math.isclose(always_valid_p(0.0, 1.0, reports=10, planned_reports=PLANNED), 1.0)
