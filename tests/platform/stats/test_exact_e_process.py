"""The exact test of rare counts: evidence and bounds are right, false calls rare, at small counts and any analysis."""

import itertools
import math

import numpy as np
import pytest
from alcove.platform.stats.exact_e_process import log_evidence, log_share_evidence, lower_bound, upper_bound


def test_mean_evidence_is_at_most_one_under_each_null_hypothesis() -> None:
    """Summed over all outcomes of small arms, on the border of the hypothesis and inside it: an e-value."""
    sizes = (7, 5)
    outcomes = np.array(list(itertools.product(*(range(size + 1) for size in sizes))), dtype=np.float64)
    largest = 0.0
    for difference, control in itertools.product((-0.2, 0.0, 0.1), (0.0, 0.02, 0.3, 0.7)):
        for treatment in (control + difference, control + difference - 0.05):
            if not (0.0 <= treatment <= 1.0):
                continue
            chances = np.array(
                [
                    math.prod(
                        math.comb(size, int(count)) * rate**count * (1.0 - rate) ** (size - count)
                        for size, count, rate in zip(sizes, counts, (treatment, control), strict=True)
                    )
                    for counts in outcomes
                ]
            )
            evidence = log_evidence(outcomes[:, 0], np.array(sizes[0]), outcomes[:, 1], np.array(sizes[1]), difference)
            largest = max(largest, float(chances @ np.exp(evidence)))
    assert 0.05 < largest <= 1.0


def test_null_likelihood_is_the_supremum_over_its_border() -> None:
    """Bisection of the nuisance rate against a fine grid."""
    rates = np.linspace(0.0, 1.0, 200_001)
    for (kt, nt), (kc, nc), difference in (
        ((9.0, 40.0), (2.0, 50.0), 0.05),
        ((3.0, 3.0), (0.0, 4.0), 0.5),
        ((1.0, 1000.0), (0.0, 1000.0), 0.0),
        ((5.0, 10.0), (1.0, 10.0), -0.3),
    ):
        with np.errstate(divide="ignore", invalid="ignore"):
            shifted = np.clip(rates + difference, 0.0, 1.0)
            parts = [
                np.where(count > 0.0, count * np.log(rate), 0.0)
                for count, rate in ((kt, shifted), (nt - kt, 1.0 - shifted), (kc, rates), (nc - kc, 1.0 - rates))
            ]
            total = np.where((rates + difference >= 0.0) & (rates + difference <= 1.0), sum(parts), -np.inf)
        mixture = sum(
            math.lgamma(k + 0.5) + math.lgamma(n - k + 0.5) - math.lgamma(n + 1.0) - math.log(math.pi)
            for k, n in ((kt, nt), (kc, nc))
        )
        sums = (np.asarray(kt), np.asarray(nt), np.asarray(kc), np.asarray(nc))
        assert float(log_evidence(*sums, difference)) == pytest.approx(mixture - total.max(), abs=1e-6)


def difference_bounds(
    treatment: tuple[float, float], control: tuple[float, float], *, alpha: float
) -> tuple[float, float]:
    """Return both bounds of one stage."""
    stage = [(*treatment, *control)]
    return lower_bound(stage, alpha=alpha), upper_bound(stage, alpha=alpha)


def test_bounds_are_where_the_evidence_reaches_the_error() -> None:
    """Inverted to 1e-6, mirrored when the arms change places, trivial without devices."""
    for treatment, control in (
        ((40.0, 2_000.0), (10.0, 2_000.0)),
        ((6.0, 30.0), (0.0, 30.0)),
        ((0.0, 9.0), (0.0, 9.0)),
    ):
        low, high = difference_bounds(treatment, control, alpha=0.05)
        kt, nt, kc, nc = (np.asarray(value) for value in (*treatment, *control))
        if low > -1.0:
            assert float(log_evidence(kt, nt, kc, nc, low)) >= -math.log(0.05) - 1e-9
        assert float(log_evidence(kt, nt, kc, nc, low + 1e-5)) < -math.log(0.05)
        assert low <= treatment[0] / treatment[1] - control[0] / control[1] <= high
        mirrored = difference_bounds(control, treatment, alpha=0.05)
        assert mirrored == pytest.approx((-high, -low))
    assert difference_bounds((0.0, 0.0), (0.0, 0.0), alpha=0.05) == (-1.0, 1.0)


def test_one_arms_share_is_exceeded_at_any_analysis_no_more_often_than_promised() -> None:
    """A rare share, looked at after each of 400 devices; the plain score test repeated is caught."""
    rng = np.random.default_rng(20_270_101)
    share, devices, runs = 0.02, 400, 3_000
    counts = np.cumsum(rng.random((runs, devices)) < share, axis=1).astype(np.float64)
    sizes = np.arange(1, devices + 1, dtype=np.float64)
    evidence = log_share_evidence(counts, np.broadcast_to(sizes, counts.shape), share)
    called = (evidence >= math.log(20.0)).any(axis=1)
    assert called.mean() <= 0.05
    naive = (counts / sizes - share) / np.sqrt(share * (1.0 - share) / sizes) > 1.645
    assert naive.any(axis=1).mean() > 0.2
