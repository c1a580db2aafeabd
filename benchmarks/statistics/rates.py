"""Measures how often harm or a winner is called where there is none, and how often intervals cover the truth.

`calls` decides as `evaluate_guardrail` does, from the same functions, on arrays; the tests compare the two. A winner is
called by `decide` itself, at the analyses where a rougher bound does not exclude one.
"""

import math
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats import AlwaysValid, DecisionKind, Metric, Rules, decide, estimate
from alcove.platform.stats._shares import ShareDifference, share_difference
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.confidence_sequence import critical_value, one_sided_critical_value
from alcove.platform.stats.exact_e_process import log_evidence
from alcove.platform.stats.limits import DEFAULT_PLANNED_REPORTS, MAX_SIZE_VARIATION
from numpy.typing import NDArray

from benchmarks.statistics.fleets import CumulativeSums, two_cell_sums

ALPHA = 0.05
ANALYSES = 30
DEVIATIONS = (0.0, 7.5, 30.0)
COHORTS = (200, 2_000, 20_000)
CRASH_RATE = 0.02
Z_ONE_SIDED = 1.6448536269514722
Z_TWO_SIDED = 1.959963984540054


@dataclass(frozen=True)
class FalseCalls:
    """Parts of the runs in which some analysis called something; the truth is that the arms are equal.

    Attributes:
        name: what fleet.
        halts: the guardrail with margin 0 said HARMFUL.
        wins: `decide` named a winner.
        naive_halts: a fixed-horizon one-sided test at 5 % that ignores the noise, repeated at each analysis.
        unknown_noise_halts: the guardrail's confidence sequence without the noise in its standard error.
        covered: all 30 always-valid intervals cover the truth (0), of the runs.
    """

    name: str
    halts: float
    wins: float
    naive_halts: float
    unknown_noise_halts: float
    covered: float


def calls(analyses: CumulativeSums, *, margin: float = 0.0, alpha: float = ALPHA) -> NDArray[np.bool_]:
    """Return where the guardrail with `margin` says HARMFUL, [runs, analyses]."""
    shares = analyses.shares()
    found = share_difference(shares)
    if shares.is_exact:
        kt, nt, kc, nc = np.moveaxis(shares.sums, -1, 0)
        evidence = log_evidence(kt, nt, kc, nc, margin)
        is_harmful = evidence >= -math.log(alpha)
    else:
        is_harmful = found.value - _one_sided(analyses, alpha) * found.standard_error > margin
    return np.asarray(is_harmful & (found.size_variation <= MAX_SIZE_VARIATION))


def false_calls(
    name: str,
    rng: np.random.Generator,
    *,
    runs: int,
    cohorts: tuple[int, ...],
    deviation: float,
    rate: float = CRASH_RATE,
) -> FalseCalls:
    """Simulate equal arms and count."""
    analyses = two_cell_sums(rng, runs=runs, cohorts=cohorts, rates=(rate, rate), deviation=deviation)
    blind = share_difference(analyses.shares(is_noise_known=False))
    found = share_difference(analyses.shares())
    return FalseCalls(
        name=name,
        halts=_any(calls(analyses)),
        wins=_win_rate(analyses, found),
        naive_halts=_any(blind.value > Z_ONE_SIDED * blind.standard_error),
        unknown_noise_halts=_any(blind.value > _one_sided(analyses, ALPHA) * blind.standard_error),
        covered=1.0 - _any(_is_outside(analyses, found)),
    )


def coverage(rng: np.random.Generator, *, runs: int, cohort: int, windows: int, deviation: float) -> float | None:
    """Return how often 95 % intervals of a difference of shares (2 % and 5 %) cover it at one analysis.

    None where the noise hides an arm's size, so that nothing is said.
    """
    analyses = two_cell_sums(rng, runs=runs, cohorts=(cohort,) * windows, rates=(0.05, 0.02), deviation=deviation)
    found = share_difference(analyses.shares())
    if float((found.size_variation[:, -1] > MAX_SIZE_VARIATION).mean()) > 0.01:
        return None
    is_inside = np.abs(found.value[:, -1] - 0.03) <= Z_TWO_SIDED * found.standard_error[:, -1]
    return float(is_inside.mean())


def halted_by(analyses: CumulativeSums) -> FloatArray:
    """Return the part of the runs that had been called harmful by each analysis, [analyses]."""
    by_analysis: FloatArray = np.logical_or.accumulate(calls(analyses), axis=1).mean(axis=0)
    return by_analysis


def naively_halted_by(analyses: CumulativeSums) -> FloatArray:
    """Return the same for the fixed-horizon test, repeated, noise ignored."""
    blind = share_difference(analyses.shares(is_noise_known=False))
    called = blind.value > Z_ONE_SIDED * blind.standard_error
    by_analysis: FloatArray = np.logical_or.accumulate(called, axis=1).mean(axis=0)
    return by_analysis


def _one_sided(analyses: CumulativeSums, alpha: float) -> FloatArray:
    return np.array(
        [
            one_sided_critical_value(reports=reports, alpha=alpha, planned_reports=DEFAULT_PLANNED_REPORTS)
            for reports in analyses.reports
        ]
    )


def _two_sided(analyses: CumulativeSums) -> FloatArray:
    return np.array(
        [
            critical_value(reports=reports, alpha=ALPHA, planned_reports=DEFAULT_PLANNED_REPORTS)
            for reports in analyses.reports
        ]
    )


def _is_outside(analyses: CumulativeSums, found: ShareDifference) -> NDArray[np.bool_]:
    is_read = found.size_variation <= MAX_SIZE_VARIATION
    return np.asarray(is_read & (np.abs(found.value) > _two_sided(analyses) * found.standard_error))


def _win_rate(analyses: CumulativeSums, found: ShareDifference) -> float:
    """Return in how many runs `decide` names a winner at some analysis; only analyses near one are asked."""
    near = np.abs(found.value) > 0.6 * _two_sided(analyses) * found.standard_error
    won = 0
    for run in np.flatnonzero(near.any(axis=1)):
        won += any(
            decide(
                estimate(analyses.aggregate(int(run), int(analysis)), Metric((1.0,))),
                AlwaysValid(),
                Rules(minimum_cohort=0),
            ).decision.kind
            is DecisionKind.WINNER
            for analysis in np.flatnonzero(near[run])
        )
    return won / len(analyses.sums)


def _any(called: NDArray[np.bool_]) -> float:
    return float(called.any(axis=1).mean())
