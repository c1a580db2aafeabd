"""The always-valid interval matches its paper and its martingale, and keeps its error rate over many analyses."""

import math

import numpy as np
import pytest
from alcove.platform.stats import ArgumentError
from alcove.platform.stats.confidence_sequence import critical_value, normal_quantile, rho_squared


def published_half_width(reports: int, deviation: float, rho: float, alpha: float) -> float:
    """Half-width as printed in arXiv 2103.06476."""
    t = reports
    return deviation * math.sqrt(2 * (t * rho**2 + 1) / (t**2 * rho**2) * math.log(math.sqrt(t * rho**2 + 1) / alpha))


def test_critical_value_times_standard_error_equals_the_published_half_width() -> None:
    """Our form, standard errors times a critical value, is the paper's formula."""
    for alpha in (0.2, 0.05, 0.001):
        for planned in (10, 5_000, 10**9):
            rho = math.sqrt(rho_squared(alpha=alpha, planned_reports=planned))
            for reports in (1, 77, 5_000, 10**7):
                ours = critical_value(reports=reports, alpha=alpha, planned_reports=planned) * 3.0 / math.sqrt(reports)
                assert ours == pytest.approx(published_half_width(reports, 3.0, rho, alpha), rel=1e-12)


def test_critical_value_at_the_plan_equals_the_value_by_hand() -> None:
    """At the planned reports and alpha 0.05 it is 3.0352.

    -2 ln 0.05 = 5.991465, m = 5.991465 + ln 6.991465 = 7.936155, (1 + 1/m)(ln(1 + m) + 5.991465) = 1.126006 * 8.181571.
    """
    assert critical_value(reports=20_000, alpha=0.05, planned_reports=20_000) == pytest.approx(
        math.sqrt(1.126006 * 8.181571), abs=1e-5
    )


def test_mixture_martingale_equals_one_over_alpha_on_the_boundary() -> None:
    """The boundary is where Robbins' normal mixture, integrated numerically, reaches 1 / alpha (Ville's inequality)."""
    alpha, planned = 0.05, 1_000
    rho = math.sqrt(rho_squared(alpha=alpha, planned_reports=planned))
    for reports in (10, 1_000, 50_000):
        boundary = critical_value(reports=reports, alpha=alpha, planned_reports=planned) * math.sqrt(reports)
        slopes, step = np.linspace(-12 * rho, 12 * rho, 400_001, retstep=True)
        density = np.exp(-(slopes**2) / (2 * rho**2)) / (rho * math.sqrt(2 * math.pi))
        wealth = float(np.sum(np.exp(slopes * boundary - slopes**2 * reports / 2) * density) * step)
        assert wealth == pytest.approx(1 / alpha, rel=1e-6)


def test_interval_is_nearly_the_tightest_at_its_plan() -> None:
    """No other plan gives an interval more than 0.2 % tighter at the planned reports."""
    for alpha in (0.2, 0.05, 0.001):
        here = critical_value(reports=4_000, alpha=alpha, planned_reports=4_000)
        others = [critical_value(reports=4_000, alpha=alpha, planned_reports=plan) for plan in range(400, 40_000, 100)]
        assert here <= 1.002 * min(others)


def test_interval_ten_times_off_its_plan_is_at_most_a_third_wider() -> None:
    """The default plan serves experiments of very different sizes."""
    best = critical_value(reports=10_000, alpha=0.05, planned_reports=10_000)
    for reports in (1_000, 100_000):
        assert critical_value(reports=reports, alpha=0.05, planned_reports=10_000) <= best * 4 / 3


def test_random_walks_leave_the_boundary_rarely_although_they_are_watched_all_the_time() -> None:
    """Over 300 analyses fewer than alpha of the walks cross; a fixed-sample interval is crossed by most."""
    rng = np.random.default_rng(20_260_101)
    reports = np.unique(np.geomspace(20, 200_000, 300).astype(np.int64))
    steps = rng.standard_normal((4_000, len(reports))) * np.sqrt(np.diff(reports, prepend=0))
    scores = np.abs(np.cumsum(steps, axis=1)) / np.sqrt(reports)
    bounds = [critical_value(reports=int(n), alpha=0.05, planned_reports=10_000) for n in reports]
    crossed = float((scores > np.array(bounds)).any(axis=1).mean())
    assert 0.005 < crossed < 0.05
    assert float((scores > normal_quantile(0.975)).any(axis=1).mean()) > 0.4


def test_no_reports_give_an_infinite_interval() -> None:
    """Without data nothing is excluded."""
    assert critical_value(reports=0, alpha=0.05, planned_reports=10) == math.inf


def test_arguments_out_of_bounds_are_named() -> None:
    """Each refused argument is reported with its bound and value."""
    for arguments in (
        {"reports": -1},
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"alpha": math.nan},
        {"planned_reports": 0},
        {"planned_reports": 10**13},
    ):
        (name, value), *_ = arguments.items()
        with pytest.raises(ArgumentError) as caught:
            critical_value(
                reports=int(arguments.get("reports", 5)),
                alpha=float(arguments.get("alpha", 0.05)),
                planned_reports=int(arguments.get("planned_reports", 5)),
            )
        assert (caught.value.name, caught.value.value) == (name, str(value))
    for probability in (0.0, 1.0, math.nan):
        with pytest.raises(ArgumentError, match="probability"):
            normal_quantile(probability)
