"""Computes how many devices two arms need today, and how many they needed by the first design of reports.

The first design (commit 6a924bb) gave a report one cell of arm x outcome x latency bin: accepted and refused, or all
four outcomes where a guardrail watched crashes or errors; every outcome had every bin; a cell was answered by k-ary
randomized response; and a device sent as many reports in 30 days as eight times epsilon holds. Needs were those of a
single reading by a two-sided always-valid interval, with the sampling of arms without a difference:

    devices = (c + z)^2 (S + A / reports) / difference^2

with S and A of `arm_covariance.py` for those cells, c of `confidence_sequence.py` at the reports it is tuned to and z
the normal quantile of the power. Test: the figures that the documents of that commit print are computed again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.planning.experiment import forecast_experiment
from alcove.platform.domain.records import ArmRecord, ExperimentRecord, ExperimentState
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.stats import Mechanism, share_model
from alcove.platform.stats.arm_covariance import ReportModel, ratio_covariance
from alcove.platform.stats.confidence_sequence import critical_value
from alcove.privacy.limits import DAY_S, EPSILON_PER_30_DAYS
from alcove.registry.limits import POLICY_BUCKETS

from benchmarks.sections import table_lines

ALPHA, POWER, RATE, EFFECT = 0.05, 0.8, 0.8, 0.02
EDGES_MS = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
CRASH, ERROR = GuardrailRecord("crash_fallback", 0.005), GuardrailRecord("error", 0.005)
SLOW = GuardrailRecord("latency", 0.01, edge_ms=160.0)
CASES = (
    ("nothing", (), ()),
    ("crashes", (CRASH,), ()),
    ("crashes, errors", (CRASH, ERROR), ()),
    ("crashes, errors, slower than 160 ms", (CRASH, ERROR, SLOW), EDGES_MS[4:5]),
    ("the same in eight bins", (CRASH, ERROR, SLOW), EDGES_MS),
)
"""What is watched besides, for people; guardrails; edges of the latency."""


@dataclass(frozen=True)
class Comparison:
    """One row: cells of a report and devices of both arms, before and now, read at will or once at the end."""

    watched: str
    epsilon: Fraction
    cells_before: int
    before: int
    cells_now: int
    now: int
    once: int


def devices_before(epsilon: Fraction, *, outcomes: int, bins: int, reports: int, effect: float = EFFECT) -> int:
    """Return the devices of two equal arms that found a difference by the first design.

    Args:
        epsilon: of a report.
        outcomes: that a report told apart.
        bins: of the latency, of each outcome.
        reports: of a device.
        effect: difference of accepted shares.
    """
    metric = share_model(RATE, outcomes=outcomes, bins=bins)
    covariance = ratio_covariance((metric, metric), (0.5, 0.5), ReportModel(Mechanism.RANDOMIZED_RESPONSE, epsilon))
    contrast = np.array([-1.0, 1.0])
    variance = float(contrast @ (covariance.sampling + covariance.per_report / reports) @ contrast)
    reach = critical_value(reports=1, alpha=ALPHA, planned_reports=1) + NormalDist().inv_cdf(POWER)
    return int(np.ceil(reach**2 * variance / effect**2))


def compare_designs() -> Iterator[Comparison]:
    """Give the rows: randomized response at both of the daily epsilons."""
    for watched, guardrails, edges_ms in CASES:
        outcomes, bins = 4 if guardrails else 2, len(edges_ms) + 1
        for epsilon in (Fraction(2), Fraction(1)):
            at_will, once = (
                forecast_experiment(_draft(epsilon, guardrails, edges_ms, analyses)) for analyses in (0, 1)
            )
            reports = int(EPSILON_PER_30_DAYS / epsilon)
            before = devices_before(epsilon, outcomes=outcomes, bins=bins, reports=reports)
            yield Comparison(
                watched,
                epsilon,
                2 * outcomes * bins,
                before,
                at_will.cells,
                at_will.devices_needed_in_30_days,
                once.devices_needed_in_30_days,
            )


def comparison_lines() -> list[str]:
    """Return the table."""
    rows = [
        (
            each.watched,
            f"{float(each.epsilon):g}",
            f"{each.cells_before} to {each.cells_now}",
            f"{each.before:,}",
            f"{each.now:,} ({each.now / each.before:.2f})",
            f"{each.once:,} ({each.once / each.before:.2f})",
        )
        for each in compare_designs()
    ]
    return [
        f"Devices of both arms that find {100 * EFFECT:g} points of accepted share within 30 days ({POWER:.0%}) by",
        "randomized response, by what guardrails watch besides. *Before*: the first design (commit 6a924bb), by its",
        "formulas (`benchmarks/statistics/since.py`): a cell for each of four outcomes and bins, nothing sent where",
        "nobody rated an answer, no budget left to rollouts (four reports of ε 2, now three). In parentheses: relative",
        "to before.",
        "",
        *table_lines(("watched besides", "ε", "cells", "before", "at will", "one analysis"), rows),
    ]


def _draft(
    epsilon: Fraction, guardrails: tuple[GuardrailRecord, ...], edges_ms: tuple[float, ...], analyses: int
) -> ExperimentRecord:
    return ExperimentRecord(
        sequence=0,
        experiment_id="ex-1",
        app="app",
        feature="feature",
        salt="salt",
        arms=tuple(ArmRecord(name, "1.0.0", "0" * 64, POLICY_BUCKETS // 2) for name in ("control", "treatment")),
        state=ExperimentState.DRAFT,
        epsilon=str(epsilon),
        latency_edges_ms=edges_ms,
        window_s=DAY_S,
        minimum_cohort=50,
        created_at_s=1,
        started_at_s=None,
        stopped_at_s=None,
        task_id=None,
        decision=None,
        policy_serial=0,
        plan=ExperimentPlan(mde=EFFECT, base_rate=RATE, guardrails=guardrails, interim_analyses=analyses),
    )
