"""Measures false wins and power of interim analyses, beside looking at will and a fixed test at each analysis.

Arms answer by randomized response, or exactly; differences and their errors are those of `_shares.py`, on arrays. The
tests compare the calls with `decide`'s.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from alcove.platform.stats import GroupSequential
from alcove.platform.stats._shares import ShareDifference, ShareSums, share_difference
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.confidence_sequence import critical_value
from alcove.platform.stats.group_sequential import drift
from alcove.privacy.randomized_response import RandomizedResponse

from benchmarks.statistics.rates import ALPHA, Z_TWO_SIDED

RATE = 0.7
POWER = 0.8
_SUMS = np.array([[0.0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 0], [1, 1, 0, 0]])
"""Accepted and all of treatment and of control, over the cells: refused and accepted of the control, then treatment."""


@dataclass(frozen=True)
class Planned:
    """What became of one plan.

    Attributes:
        name: which analyses, of which reports.
        analyses: how many were planned.
        wins: false wins of the interim analyses: parts of runs with equal arms in which some analysis called a winner.
        at_will: of the confidence sequence at the same moments.
        fixed: of a fixed-horizon test at 5 %, repeated.
        power: parts of runs in which the interim analyses found an effect that is planned to be found in 80 %.
        power_at_will: in which the confidence sequence did.
        used: mean part of the reports at which the interim analyses ended.
        half_width: standard errors that the last analysis needs.
        half_width_at_will: that the confidence sequence needs there.
    """

    name: str
    analyses: int
    wins: float
    at_will: float
    fixed: float
    power: float
    power_at_will: float
    used: float
    half_width: float
    half_width_at_will: float


def simulate(
    rng: np.random.Generator, *, runs: int, cohorts: tuple[int, ...], effect: float, epsilon: Fraction | None
) -> ShareSums:
    """Return cumulative sums at each analysis, [runs, analyses, 4], of two arms that accept RATE -+ effect / 2.

    Args:
        rng: of the simulation.
        runs: how many experiments.
        cohorts: reports, of both arms together, that come in before each analysis.
        effect: treatment minus control.
        epsilon: of randomized response; None: exact counts.
    """
    rates = (RATE - effect / 2.0, RATE + effect / 2.0)
    cells = np.array([part / 2.0 for rate in rates for part in (1.0 - rate, rate)])
    keep, other = 1.0, 0.0
    if epsilon is not None:
        mechanism = RandomizedResponse(len(cells), epsilon)
        keep, other = float(mechanism.keep_probability), float(mechanism.other_probability)
    gap = keep - other
    reports = np.stack([rng.multinomial(cohort, other + gap * cells, size=runs) for cohort in cohorts], axis=1)
    totals = reports.cumsum(axis=1)
    estimates = (totals - totals.sum(axis=-1, keepdims=True) * other) / gap
    answers = np.full((4, 4), other) + np.eye(4) * gap
    means = answers @ _SUMS.T
    per_report = np.einsum("jc,ac,bc->jab", answers, _SUMS, _SUMS) - np.einsum("ja,jb->jab", means, means)
    return ShareSums(estimates @ _SUMS.T, np.einsum("rlj,jab->rlab", estimates, per_report) / gap**2)


def measure_planned(
    name: str, rng: np.random.Generator, *, runs: int, cohorts: tuple[int, ...], epsilon: Fraction | None
) -> Planned:
    """Simulate equal arms and the planned effect, and count; the horizon is the sum of the cohorts."""
    equal = share_difference(simulate(rng, runs=runs, cohorts=cohorts, effect=0.0, epsilon=epsilon))
    error = float(np.median(equal.standard_error[:, -1]))
    effect = drift(len(cohorts), alpha=ALPHA, power=POWER) * error
    better = share_difference(simulate(rng, runs=runs, cohorts=cohorts, effect=effect, epsilon=epsilon))
    bounds, sequence = half_widths(cohorts)
    reports = np.cumsum(cohorts)
    called = _scores(better) >= bounds
    ends = np.where(called.any(axis=1), called.argmax(axis=1), len(cohorts) - 1)
    return Planned(
        name=name,
        analyses=len(cohorts),
        wins=_any(np.abs(_scores(equal)) >= bounds),
        at_will=_any(np.abs(_scores(equal)) >= sequence),
        fixed=_any(np.abs(_scores(equal)) >= np.full(len(cohorts), Z_TWO_SIDED)),
        power=_any(called),
        power_at_will=_any(_scores(better) >= sequence),
        used=float((reports[ends] / reports[-1]).mean()),
        half_width=float(bounds[-1]),
        half_width_at_will=float(sequence[-1]),
    )


def half_widths(cohorts: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Return the standard errors that each analysis needs: planned, and at will."""
    reports = tuple(int(total) for total in np.cumsum(cohorts))
    analyses = [GroupSequential(reports[: place + 1], reports[-1]) for place in range(len(reports))]
    sequence = [critical_value(reports=total, alpha=ALPHA, planned_reports=reports[-1]) for total in reports]
    return np.array(
        [analysis.critical_value(reports=analysis.reports[-1], alpha=ALPHA) for analysis in analyses]
    ), np.array(sequence)


def _scores(found: ShareDifference) -> FloatArray:
    scores: FloatArray = found.value / found.standard_error
    return scores


def _any(called: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]") -> float:
    return float(called.any(axis=1).mean())
