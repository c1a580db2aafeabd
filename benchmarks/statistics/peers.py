"""Prints what other packages say of exact counts, as JSON; runs in their own environments, without alcove.

echo CASES | python peers.py gbstats | confidence
"""

import json
import sys
import warnings
from importlib import import_module
from typing import Any

TUNED_AT = 5_000.0
ALPHA = 0.05
LOOKS = [0.2, 0.4, 0.6, 0.8, 1.0]


def from_gbstats(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Tests that are read once and always, and Bayesian results of a flat prior."""
    tests, models = import_module("gbstats.frequentist.tests"), import_module("gbstats.models.statistics")
    bayesian = import_module("gbstats.bayesian.tests")
    found: dict[str, Any] = {"once": [], "always": [], "bayesian": []}
    for case in cases:
        control, treatment = (models.ProportionStatistic(n=n, sum=k) for n, k in (case["control"], case["treatment"]))
        config = tests.FrequentistConfig(difference_type="absolute")
        always = tests.SequentialConfig(difference_type="absolute", sequential_tuning_parameter=TUNED_AT)
        for name, test in (
            ("once", tests.TwoSidedTTest(control, treatment, config)),
            ("always", tests.SequentialTwoSidedTTest(control, treatment, always)),
        ):
            result = test.compute_result()
            found[name].append({"low": result.ci[0], "high": result.ci[1], "p": float(result.p_value)})
        result = bayesian.EffectBayesianABTest(
            control, treatment, bayesian.EffectBayesianConfig(difference_type="absolute", prior_type="absolute")
        ).compute_result()
        found["bayesian"].append(
            {"chance": float(result.chance_to_win), "low": result.ci[0], "high": result.ci[1], "loss": result.risk[1]}
        )
    return found


def from_confidence(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Spotify's test that is read once and its boundaries; statsmodels' interval, p-value and adjusted p-values."""
    warnings.simplefilter("ignore")
    frames, numbers = import_module("pandas"), import_module("numpy")
    test_of = import_module("spotify_confidence").ZTest
    bounds = import_module("spotify_confidence.analysis.frequentist.sequential_bound_solver").bounds
    proportion = import_module("statsmodels.stats.proportion")
    multipletests = import_module("statsmodels.stats.multitest").multipletests
    found: dict[str, Any] = {"confidence": [], "statsmodels": []}
    for case in cases:
        (m, j), (n, k) = case["control"], case["treatment"]
        frame = frames.DataFrame({"arm": ["control", "treatment"], "n": [m, n], "s": [j, k]})
        row = (
            test_of(
                frame,
                numerator_column="s",
                numerator_sum_squares_column=None,
                denominator_column="n",
                categorical_group_columns="arm",
                interval_size=1.0 - ALPHA,
            )
            .difference(level_1="control", level_2="treatment")
            .iloc[0]
        )
        found["confidence"].append({"low": row["ci_lower"], "high": row["ci_upper"], "p": row["p-value"]})
        low, high = proportion.confint_proportions_2indep(k, n, j, m, method="wald", compare="diff", alpha=ALPHA)
        p = proportion.test_proportions_2indep(k, n, j, m, method="wald", compare="diff").pvalue
        found["statsmodels"].append({"low": float(low), "high": float(high), "p": float(p)})
    p_values = [each["p"] for each in found["statsmodels"]]
    found["adjusted"] = [float(p) for p in multipletests(p_values, method="fdr_bh")[1]]
    solved = bounds(t=numbers.array(LOOKS), alpha=ALPHA, rho=3.0, ztrun=8.0, sides=2, max_nints=2000)
    found["boundaries"] = [float(bound) for bound in solved.bounds]
    return found


if __name__ == "__main__":
    made = {"gbstats": from_gbstats, "confidence": from_confidence}[sys.argv[1]](json.load(sys.stdin))
    sys.stdout.write(json.dumps(made, default=float) + "\n")
