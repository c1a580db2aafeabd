"""Compares arms in several metrics that decide nothing, and adjusts their p-values for how many they are.

Benjamini and Hochberg's step-up procedure: of the comparisons whose adjusted p-value is below q, a part of at most q is
false on average, where the p-values are independent or depend positively. That is less than no false one at all (Holm),
and finds more. With always-valid p-values it holds whenever it is read; those of `FixedHorizon` hold at one analysis.

Source: Benjamini and Hochberg, "Controlling the false discovery rate", Journal of the Royal Statistical Society B 1995;
dependence: Benjamini and Yekutieli, Annals of Statistics 2001; at will: Johari and others 2022 (`always_valid_p.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from alcove.platform.stats.confidence_sequence import normal_quantile
from alcove.platform.stats.decision import Difference
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.estimates import Estimates
from alcove.platform.stats.primary import Primary, PrimaryKind, primary_pairs
from alcove.platform.stats.sequential import AlwaysValid, SequentialTest
from alcove.registry.policy.outcome import Outcome


@dataclass(frozen=True)
class FixedHorizon:
    """A test that holds at one analysis, planned beforehand, and at no other.

    Attributes:
        planned_reports: of that analysis, in [1, 10**12].
    """

    planned_reports: int

    def critical_value(self, *, reports: int, alpha: float) -> float:
        """Return how many standard errors the interval reaches to each side; infinite before the analysis.

        Raises:
            ArgumentError: alpha not in (0, 1).
        """
        return normal_quantile(1.0 - 0.5 * alpha) if reports >= self.planned_reports else math.inf

    def p_value(self, value: float, standard_error: float, *, reports: int, alpha: float) -> float:
        """Return the two-sided normal p-value of "no difference"; 1 before the analysis; `alpha` is not read.

        Raises:
            ArgumentError: the standard error is not positive, or the value not finite.
        """
        del alpha
        if not (standard_error > 0.0 and math.isfinite(value)):
            raise ArgumentError("standard_error", "positive, of a finite value", (value, standard_error))
        return math.erfc(abs(value) / standard_error / math.sqrt(2.0)) if reports >= self.planned_reports else 1.0


@dataclass(frozen=True)
class SecondaryDifference:
    """An arm and the control in one of the metrics.

    Attributes:
        metric: index of the metric.
        difference: arm minus control; its interval holds by itself, not together with the others.
        p: p-value of no difference; None where none is known, as for a quantile.
        adjusted_p: for all metrics and arms together; None as for `p`, and such a comparison counts as p = 1.
    """

    metric: int
    difference: Difference
    p: float | None
    adjusted_p: float | None


def secondary_differences(
    estimates: Sequence[Estimates], tests: SequentialTest | Sequence[SequentialTest], *, alpha: float, control: int = 0
) -> tuple[SecondaryDifference, ...]:
    """Return each arm against the control in each metric, metric by metric.

    Args:
        estimates: counts by each metric: the same ones, or those of different reports.
        tests: of every comparison, or of each metric's; a quantile takes the always-valid one instead.
        alpha: error of each interval by itself.
        control: index of the arm that the others are compared with.

    Raises:
        ArgumentError: a metric reads cells that the counts do not have, or an argument is out of its bounds.
    """
    found: list[tuple[int, Difference, float | None]] = []
    each_test = tests if isinstance(tests, Sequence) else [tests] * len(estimates)
    for metric, (each, test) in enumerate(zip(estimates, each_test, strict=True)):
        for pair in _pairs(each, test, alpha=alpha, control=control):
            p = None
            if pair.interval is not None and pair.score is not None and pair.standard_error:
                p = test.p_value(pair.score, 1.0, reports=each.reports, alpha=alpha)
            found.append((metric, pair, p))
    adjusted = benjamini_hochberg([1.0 if p is None else p for _, _, p in found])
    return tuple(
        SecondaryDifference(metric, pair, p, None if p is None else value)
        for (metric, pair, p), value in zip(found, adjusted, strict=True)
    )


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return adjusted p-values in the order given: for the j-th smallest of m, the least m p_(i) / i over i >= j.

    Raises:
        ArgumentError: a p-value is not in [0, 1].
    """
    for value in p_values:
        if not 0.0 <= value <= 1.0:
            raise ArgumentError("p_values", "each in [0, 1]", value)
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    least = 1.0
    for rank in range(len(order), 0, -1):
        index = order[rank - 1]
        least = min(least, len(order) * p_values[index] / rank)
        adjusted[index] = least
    return tuple(adjusted)


def _pairs(estimates: Estimates, test: SequentialTest, *, alpha: float, control: int) -> tuple[Difference, ...]:
    metric = estimates.metric
    primary = metric.primary
    if primary.kind is PrimaryKind.ACCEPTED:
        primary = Primary(PrimaryKind.RATIO, None, (Outcome.ACCEPTED,), (Outcome.REFUSED, Outcome.ACCEPTED))
    if primary.kind is PrimaryKind.LATENCY_QUANTILE:
        test = AlwaysValid(test.planned_reports)
    return primary_pairs(
        estimates.aggregate,
        primary,
        [(arm, control) for arm in range(estimates.arms) if arm != control],
        bin_values_ms=estimates.bin_values_ms,
        edges_ms=metric.edges_ms,
        test=test,
        alpha=alpha,
        reports_per_device=metric.reports_per_device,
    )
