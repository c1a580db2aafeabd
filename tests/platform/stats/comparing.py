"""Estimates and decides in one call, with the defaults that most tests of the statistics share."""

from collections.abc import Sequence

from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    Comparison,
    Metric,
    PrePeriod,
    Primary,
    Rules,
    SequentialTest,
    decide,
    estimate,
)
from alcove.platform.stats.limits import DEFAULT_PLANNED_REPORTS


def compare(
    aggregate: Aggregate,
    *,
    bin_values_ms: Sequence[float],
    alpha: float = 0.05,
    minimum_cohort: int = Rules().minimum_cohort,
    control: int = 0,
    expected_shares: Sequence[float] | None = None,
    success_outcome: int = 1,
    planned_reports: int = DEFAULT_PLANNED_REPORTS,
    reports_per_device: int = 1,
    primary: Primary | None = None,
    edges_ms: Sequence[float] = (),
    test: SequentialTest | None = None,
    pre_period: PrePeriod | None = None,
) -> Comparison:
    """Return the comparison by `test`, always valid around `planned_reports` if there is none."""
    metric = Metric(
        bin_values_ms=tuple(bin_values_ms),
        edges_ms=tuple(edges_ms),
        primary=primary or Primary(),
        success_outcome=success_outcome,
        reports_per_device=reports_per_device,
        pre_period=pre_period,
    )
    shares = None if expected_shares is None else tuple(expected_shares)
    rules = Rules(alpha, minimum_cohort, control, shares)
    return decide(estimate(aggregate, metric), test or AlwaysValid(planned_reports), rules)
