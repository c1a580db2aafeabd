"""Finds how many devices show that the 95th percentile of a latency is 10 ms higher, by a share and in ms.

Latencies are lognormal. A version is slower at every quantile by the same factor, here 110 ms instead of 100 ms at the
95th percentile; each device reports once. The fewest devices are found by bisection over simulated analyses.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan
from alcove.platform.domain.rollouts.task import task_of
from alcove.platform.stats import (
    Aggregate,
    AlwaysValidBound,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    HarmBound,
    Look,
    Mechanism,
    PlannedBound,
    Stratum,
    aggregate_from_noised_histogram,
    aggregate_from_randomized_response,
    evaluate_guardrail,
    propose_edges,
)
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.aggregator_noise import draw_noise
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout, Outcome

from benchmarks.sections import Section, table_lines
from benchmarks.statistics.plans import MECHANISMS, name_of

SECTION = Section("latency", "python -m benchmarks.statistics --latency --write docs/statistics.md")
QUANTILE = 0.95
CONTROL_MS = 100.0
SLOWER_MS = 110.0
SPREAD = 0.4
"""Standard deviation of the logarithm of a latency."""
POWER = 0.8
ALPHA = 0.05
STAGE = 0.01
"""Part of the app's devices in the treatment, and as many in the control."""
MOST_DEVICES = 10**11


@dataclass(frozen=True)
class Question:
    """What is watched: a guardrail and the bins that it needs.

    Attributes:
        name: as an operator writes it.
        guardrail: the limit.
        edges_ms: of the bins.
    """

    name: str
    guardrail: Guardrail
    edges_ms: tuple[float, ...]

    @property
    def layout(self) -> HistogramLayout:
        """Cells of a rollout that asks nothing else."""
        one = self.guardrail
        plan = RolloutPlan(
            guardrails=(GuardrailRecord(one.metric, one.margin, one.quantile, one.edge_ms),),
            latency_edges_ms=self.edges_ms,
        )
        return task_of("latency", plan, 0).layout


def share_question(margin: float) -> Question:
    """Return the question for the share of answers slower than the control's 95th percentile."""
    guardrail = Guardrail(GuardMetric.LATENCY, margin, edge_ms=CONTROL_MS)
    return Question(f"`latency>{CONTROL_MS:g}ms:{100 * margin:g}%`", guardrail, (CONTROL_MS,))


def quantile_question(margin_ms: float) -> Question:
    """Return the question for the 95th percentile in ms, with the edges that are proposed for it."""
    guardrail = Guardrail(GuardMetric.LATENCY, margin_ms, quantile=QUANTILE)
    name = f"`latency:{margin_ms:g}ms:{QUANTILE:g}`"
    return Question(name, guardrail, propose_edges(margin_ms, CONTROL_MS))


HARM = (share_question(0.0), share_question(0.01), quantile_question(5.0), quantile_question(2.0))
SAFE = (share_question(0.01), share_question(0.02), quantile_question(5.0), quantile_question(10.0))


def latency_lines(runs: int, seed: int) -> tuple[list[str], list[dict[str, object]]]:
    """Return the tables of devices that find a slower version harmful, and an equal one safe."""
    found: list[dict[str, object]] = []
    lines = [
        "### Latency: devices that find 10 ms",
        "",
        f"The 95th percentile is {SLOWER_MS:g} ms instead of {CONTROL_MS:g} ms, in lognormal latencies of spread",
        f"{SPREAD:g}: {100 * slow_share(SLOWER_MS):.1f} % of the answers take {CONTROL_MS:g} ms or longer, instead of",
        f"{100 * (1 - QUANTILE):.0f} %. Devices of both groups together, each with one report, that find it with",
        f"{POWER:.0%} at one analysis, α = {ALPHA:.0%}, to about a tenth ({runs:,} runs for each number tried); in",
        f"parentheses the app's, where {STAGE:.0%} of them are in each group. Cells: of a report.",
        "*Harmful*: the slower version, by the always-valid test. *Safe*: an equal version, by the planned one.",
        "",
    ]
    for verdict, questions, treatment_ms in (
        (GuardKind.HARMFUL, HARM, SLOWER_MS),
        (GuardKind.SAFE, SAFE, CONTROL_MS),
    ):
        rows = []
        for question in questions:
            row = [str(verdict), question.name, str(question.layout.cell_count)]
            for mechanism, epsilon in MECHANISMS:
                devices = devices_needed(question, verdict, treatment_ms, mechanism, epsilon, runs=runs, seed=seed)
                row.append("never" if devices is None else f"{devices:,} ({app_text(devices)})")
                found.append(
                    {
                        "verdict": str(verdict),
                        "question": question.name,
                        "reports": name_of(mechanism, epsilon),
                        "devices": devices,
                    }
                )
            rows.append(tuple(row))
        lines += table_lines(("found", "guardrail", "cells", *(name_of(*one) for one in MECHANISMS)), rows)
    return lines, found


def app_text(devices: int) -> str:
    """Return how many devices an app has in which so many are in both groups."""
    app = devices / (2.0 * STAGE)
    return f"{app / 1e6:.2g} M" if app < 1e8 else f"{app / 1e6:,.0f} M"


def devices_needed(
    question: Question,
    verdict: GuardKind,
    treatment_ms: float,
    mechanism: Mechanism,
    epsilon: Fraction,
    *,
    runs: int,
    seed: int,
) -> int | None:
    """Return about the fewest devices in both groups that find `verdict`, to 3 %; None where no app has as many."""

    def is_found(devices: int) -> bool:
        rng = np.random.default_rng(seed)
        draw = reports_of(question, treatment_ms, mechanism, epsilon, devices=devices, rng=rng)
        return sum(verdict_of(question, draw(), devices) is verdict for _ in range(runs)) >= POWER * runs

    low, high = 0, 200
    while not is_found(high):
        low, high = high, 2 * high
        if high > MOST_DEVICES:
            return None
    while high > low * 1.03 + 2:
        middle = round(math.sqrt(max(low, 1) * high))
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def verdict_of(question: Question, aggregate: Aggregate, devices: int) -> GuardKind:
    """Return what one analysis of all reports says, with bounds that are sharpest there."""
    harm = HarmBound(AlwaysValidBound(ALPHA, aggregate.reports, devices))
    safe = PlannedBound(ALPHA, (Look(1, float(aggregate.reports)),), 1)
    found = evaluate_guardrail(
        [Stratum(aggregate)],
        question.guardrail,
        control=0,
        treatment=1,
        tests=GuardTests(harm, safe),
        edges_ms=question.edges_ms,
    )
    return found.kind


def reports_of(
    question: Question,
    treatment_ms: float,
    mechanism: Mechanism,
    epsilon: Fraction,
    *,
    devices: int,
    rng: np.random.Generator,
) -> Callable[[], Aggregate]:
    """Return a function that draws the reports of one fleet."""
    layout = question.layout
    cells = cell_probabilities(layout, question.edges_ms, (CONTROL_MS, treatment_ms))
    response = RandomizedResponse(layout.cell_count, epsilon)
    other, keep = float(response.other_probability), float(response.keep_probability)

    def draw() -> Aggregate:
        if mechanism is Mechanism.RANDOMIZED_RESPONSE:
            counts = rng.multinomial(devices, other + (keep - other) * cells)
            return aggregate_from_randomized_response(counts.tolist(), layout, epsilon=epsilon)
        counts = rng.multinomial(devices, cells)
        if mechanism is Mechanism.PRIO3:
            counts = counts + draw_noise(rng, counts.shape, epsilon)
            return aggregate_from_noised_histogram(counts, reports=devices, epsilon=epsilon, layout=layout)
        full = layout.expand(counts.astype(np.float64))
        full = full.reshape(*layout.shape[:2], -1)
        return Aggregate(full, np.zeros((full.size, full.size)), devices)

    return draw


def cell_probabilities(
    layout: HistogramLayout, edges_ms: tuple[float, ...], values_ms: tuple[float, float]
) -> FloatArray:
    """Return the probabilities of the cells of two equal groups, all of whose devices have an answer."""
    cells = np.zeros(layout.cell_count)
    for arm, value_ms in enumerate(values_ms):
        reached = [faster_share(edge, value_ms) for edge in edges_ms]
        for place, share in enumerate(np.diff([0.0, *reached, 1.0])):
            cells[layout.cell_index(arm, Outcome.ACCEPTED, place)] += share / len(values_ms)
    return cells


def faster_share(edge_ms: float, value_ms: float) -> float:
    """Return the part of the answers below an edge, where the 95th percentile is `value_ms`."""
    normal = NormalDist()
    return normal.cdf(math.log(edge_ms / value_ms) / SPREAD + normal.inv_cdf(QUANTILE))


def slow_share(value_ms: float) -> float:
    """Return the part of the answers that take as long as the control's 95th percentile."""
    return 1.0 - faster_share(CONTROL_MS, value_ms)
