"""Prints reference vectors from other statistics packages, each run in an environment of its own.

    python -m venv A && A/bin/pip install gbstats==0.8.0
    A/bin/python generate.py gbstats > gbstats.json
    python -m venv B && B/bin/pip install spotify-confidence==4.1.0
    B/bin/python generate.py confidence > confidence.json && B/bin/python generate.py statsmodels > statsmodels.json

gbstats pins a numpy that does not fit ours, and spotify-confidence brings a notebook's worth of packages (statsmodels
0.15.0 among them), so neither is a dependency of ours. The inputs are drawn by the standard library with a fixed seed.
"""

import json
import random
import sys
from importlib import import_module
from typing import Any


def histograms(seed: int, bins: tuple[int, int], size: int) -> list[list[list[int]]]:
    """Return two arms' joint histograms [arms, rows, columns] of correlated bins."""
    rng = random.Random(seed)
    arms = []
    for shift in (0.0, 0.15):
        table = [[0] * bins[1] for _ in range(bins[0])]
        for _ in range(size):
            common = rng.gauss(0.0, 1.0)
            row = (common + rng.gauss(0.0, 0.7)) / 4.0 + 0.5
            column = (common + shift + rng.gauss(0.0, 0.7)) / 4.0 + 0.5
            table[min(max(int(row * bins[0]), 0), bins[0] - 1)][min(max(int(column * bins[1]), 0), bins[1] - 1)] += 1
        arms.append(table)
    return arms


PRE = [0.0, 1.0, 2.0, 3.0]
POST = [0.0, 1.0, 2.5, 4.0, 7.0]


def sums(table: list[list[int]]) -> dict[str, float]:
    """Return the moments of a joint histogram."""
    cells = [(PRE[i], POST[j], count) for i, row in enumerate(table) for j, count in enumerate(row)]
    return {
        "n": sum(c for _, _, c in cells),
        "x": sum(c * x for x, _, c in cells),
        "xx": sum(c * x * x for x, _, c in cells),
        "y": sum(c * y for _, y, c in cells),
        "yy": sum(c * y * y for _, y, c in cells),
        "xy": sum(c * x * y for x, y, c in cells),
    }


def from_gbstats() -> dict[str, Any]:
    """CUPED, ratios, sequential intervals and p-values, Bayesian results of a flat prior, sample ratios."""
    tests, models = import_module("gbstats.frequentist.tests"), import_module("gbstats.models.statistics")
    bayesian = import_module("gbstats.bayesian.tests")
    check_srm = import_module("gbstats.utils").check_srm

    out: dict[str, Any] = {
        "pre": PRE,
        "post": POST,
        "cuped": [],
        "ratio": [],
        "sequential": [],
        "bayesian": [],
        "srm": [],
    }
    config = tests.SequentialConfig(difference_type="absolute", sequential_tuning_parameter=5000.0)
    for seed in range(4):
        tables = histograms(seed, (len(PRE), len(POST)), 20_000)
        adjusted, ratios = [], []
        for table in tables:
            s = sums(table)
            pre = models.SampleMeanStatistic(n=s["n"], sum=s["x"], sum_squares=s["xx"])
            post = models.SampleMeanStatistic(n=s["n"], sum=s["y"], sum_squares=s["yy"])
            adjusted.append(
                models.RegressionAdjustedStatistic(
                    n=s["n"], post_statistic=post, pre_statistic=pre, post_pre_sum_of_products=s["xy"], theta=0.0
                )
            )
            ratios.append(
                models.RatioStatistic(n=s["n"], m_statistic=post, d_statistic=pre, m_d_sum_of_products=s["xy"])
            )
        for name, pair in (("cuped", adjusted), ("ratio", ratios)):
            test = tests.SequentialTwoSidedTTest(pair[0], pair[1], config)
            low, high = test.confidence_interval
            out[name].append(
                {
                    "tables": tables,
                    "theta": getattr(test.stat_a, "theta", None),
                    "value": test.point_estimate,
                    "standard_error": test.variance**0.5,
                    "low": low,
                    "high": high,
                    "p": test.p_value,
                }
            )
    for a, b in (
        ((5_000, 600), (5_100, 650)),
        ((200_000, 4_000), (200_000, 4_400)),
        ((50_000, 25_000), (50_000, 25_010)),
    ):
        test = tests.SequentialTwoSidedTTest(
            models.ProportionStatistic(n=a[0], sum=a[1]), models.ProportionStatistic(n=b[0], sum=b[1]), config
        )
        low, high = test.confidence_interval
        out["sequential"].append(
            {"a": a, "b": b, "value": test.point_estimate, "low": low, "high": high, "p": test.p_value}
        )
    settings = bayesian.EffectBayesianConfig(difference_type="absolute", prior_type="absolute")
    for a, b in (
        ((100_000, 50_000), (100_000, 50_300)),
        ((200_000, 4_000), (190_000, 3_900)),
        ((60_000, 600), (60_000, 500)),
    ):
        found = bayesian.EffectBayesianABTest(
            models.ProportionStatistic(n=a[0], sum=a[1]), models.ProportionStatistic(n=b[0], sum=b[1]), settings
        ).compute_result()
        (low, high), (control, treatment) = found.ci, found.risk
        out["bayesian"].append(
            {
                "a": a,
                "b": b,
                "chance_to_win": float(found.chance_to_win),
                "low": low,
                "high": high,
                "risk_of_control": control,
                "risk_of_treatment": treatment,
            }
        )
    for users, weights in (([5_000, 5_000], [0.5, 0.5]), ([5_300, 4_700], [0.5, 0.5]), ([30_000, 71_500], [0.3, 0.7])):
        out["srm"].append({"users": users, "weights": weights, "p": check_srm(users, weights)})
    return out


def from_confidence() -> dict[str, Any]:
    """Sample sizes of spotify-confidence, its sample-ratio test, and two-sided boundaries that spend alpha t**rho."""
    frames = import_module("pandas")
    sizes = import_module("spotify_confidence.samplesize.sample_size_calculator").SampleSize
    test = import_module("spotify_confidence.analysis.frequentist.sample_ratio_test").sample_ratio_test

    bounds = import_module("spotify_confidence.analysis.frequentist.sequential_bound_solver").bounds
    array = import_module("numpy").array

    out: dict[str, Any] = {"binomial": [], "srm": [], "bounds": []}
    for analyses in ([0.2, 0.4, 0.6, 0.8, 1.0], [0.1, 0.35, 0.4, 0.9], [0.5, 0.55, 1.0]):
        for alpha, rho in ((0.05, 3.0), (0.05, 1.0), (0.01, 2.0)):
            found = bounds(t=array(analyses), alpha=alpha, rho=rho, ztrun=8.0, sides=2, max_nints=2000)
            out["bounds"].append(
                {"looks": analyses, "alpha": alpha, "rho": rho, "bounds": [float(bound) for bound in found.bounds]}
            )
    for mde, base, power, arms in (
        (0.01, 0.1, 0.8, 2),
        (0.002, 0.02, 0.9, 2),
        (0.05, 0.5, 0.8, 2),
        (0.01, 0.3, 0.8, 3),
    ):
        total = sizes.binomial(
            absolute_percentage_mde=mde,
            baseline_proportion=base,
            alpha=0.05,
            power=power,
            treatments=arms,
            comparisons="all_vs_all",
            treatment_allocations=[1.0 / arms] * arms,
            bonferroni_correction=True,
        )[0]
        out["binomial"].append({"mde": mde, "base": base, "power": power, "arms": arms, "devices": int(total)})
    for users, weights in (([5_000, 5_000], [0.5, 0.5]), ([5_300, 4_700], [0.5, 0.5]), ([30_000, 71_500], [0.3, 0.7])):
        frame = frames.DataFrame({"arm": ["a", "b"], "users": users})
        p, _ = test(frame, ["arm"], "users", dict(zip(["a", "b"], weights, strict=True)))
        out["srm"].append({"users": users, "weights": weights, "p": float(p)})
    return out


def from_statsmodels() -> dict[str, Any]:
    """Adjusted p-values, and differences of two proportions with Wald's interval."""
    multipletests = import_module("statsmodels.stats.multitest").multipletests
    interval = import_module("statsmodels.stats.proportion").confint_proportions_2indep

    rng = random.Random(7)
    out: dict[str, Any] = {"corrections": [], "proportions": []}
    for size in (1, 2, 5, 12):
        p_values = [rng.random() ** 3 for _ in range(size)]
        p_values[-1] = p_values[0]
        out["corrections"].append(
            {
                "p": p_values,
                "benjamini_hochberg": [float(p) for p in multipletests(p_values, method="fdr_bh")[1]],
            }
        )
    for one, other in (
        ((40_000, 200_000), (41_000, 200_000)),
        ((900, 30_000), (700, 30_000)),
        ((500, 1_000), (600, 1_000)),
    ):
        low, high = interval(*one, *other, method="wald", compare="diff", alpha=0.05)
        out["proportions"].append({"one": one, "other": other, "low": float(low), "high": float(high)})
    return out


if __name__ == "__main__":
    made = {"gbstats": from_gbstats, "confidence": from_confidence, "statsmodels": from_statsmodels}[sys.argv[1]]()
    sys.stdout.write(json.dumps(made) + "\n")
