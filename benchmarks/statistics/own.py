"""Simulates plans of teams' own metrics, and counts how often they find what they promise.

Devices answer by randomized response, the same in each window; sums become calls by the code that decides: intervals of
pairs for experiments, `evaluate_bin_guardrail` for rollouts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from alcove.platform.stats import (
    Aggregate,
    AlwaysValidBound,
    BinMetric,
    GuardKind,
    GuardTests,
    HarmBound,
    Look,
    Mechanism,
    PlannedBound,
    PowerModel,
    Stratum,
    aggregate_from_randomized_response,
    bin_model,
    evaluate_bin_guardrail,
)
from alcove.platform.stats._ratio import Moments
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.guardrail_power import GuardrailModel, HarmTest, SafeTest, devices_for
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.power import analyses_of
from alcove.platform.stats.ratio_pairs import RatioPair, ratio_pair
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy.layout import HistogramLayout

__all__ = [
    "ALPHA",
    "EXPERIMENTS",
    "POWER",
    "ROLLOUTS",
    "ExperimentPlan",
    "RolloutPlan",
    "find_harm",
    "find_safe",
    "find_wins",
    "winner_of",
]

ALPHA, POWER = 0.05, 0.8
EDITS = BinMetric("undone_edits", (0.0, 1.5, 3.5))
DONE = BinMetric("done", (0.0, 1.0), is_more_better=True)
KEPT = BinMetric("kept", (0.0, 0.25, 0.75), is_more_better=True, needs_record=True)
MINUTES = BinMetric("minutes", (0.0, 2.5, 12.5, 40.0), is_more_better=True)


@dataclass(frozen=True)
class ExperimentPlan:
    """A plan whose better arm shall win: spread of the others over the bins, and by how much its mean is better."""

    metric: BinMetric
    parts: tuple[float, ...]
    effect: float
    shares: tuple[float, ...] = (0.5, 0.5)
    analyses: int = 0
    windows: int = 1
    epsilon: Fraction = Fraction(2)

    def model(self) -> PowerModel:
        """Return what is planned by."""
        return PowerModel(
            bin_model(self.metric, self.parts), self.shares, Mechanism.RANDOMIZED_RESPONSE, self.epsilon,
            power=POWER, analyses=self.analyses, is_less_better=not self.metric.is_more_better,
        )  # fmt: skip

    @property
    def better(self) -> int:
        """The better arm: the treatment with the smallest share."""
        return min(range(1, len(self.shares)), key=lambda arm: self.shares[arm])


@dataclass(frozen=True)
class RolloutPlan:
    """A guardrail of a stage with equal groups: spread of the control over the bins, and the margin."""

    metric: BinMetric
    parts: tuple[float, ...]
    margin: float
    windows: int = 4
    epsilon: Fraction = Fraction(2)

    def model(self) -> GuardrailModel:
        """Return what is planned by."""
        reports = ReportModel(Mechanism.RANDOMIZED_RESPONSE, self.epsilon)
        scale = self.metric.bin_values[-1]
        return GuardrailModel(bin_model(self.metric, self.parts, as_harm=True), self.margin / scale, reports)


EXPERIMENTS = (
    ExperimentPlan(EDITS, (0.575, 0.2375, 0.1875), 0.1),
    ExperimentPlan(EDITS, (0.8, 0.15, 0.05), 0.08, windows=3),
    ExperimentPlan(DONE, (0.9, 0.1), 0.02, analyses=5),
    ExperimentPlan(KEPT, (0.4, 0.2, 0.4), 0.05, shares=(0.5, 0.25, 0.25), analyses=1),
    ExperimentPlan(MINUTES, (0.3, 0.4, 0.2, 0.1), 1.5, shares=(0.7, 0.3)),
)
ROLLOUTS = (
    RolloutPlan(EDITS, (0.575, 0.2375, 0.1875), 0.1),
    RolloutPlan(DONE, (0.2, 0.8), 0.03),
    RolloutPlan(KEPT, (0.4, 0.2, 0.4), 0.05, windows=1),
    RolloutPlan(MINUTES, (0.3, 0.4, 0.2, 0.1), 2.0, windows=2),
)


def find_wins(plan: ExperimentPlan, rng: np.random.Generator, *, runs: int) -> tuple[float, float]:
    """Return how often the better arm wins with as many devices as the plan asks for, and how often another one does.

    Raises:
        ValueError: no number of devices is enough.
    """
    devices = plan.model().devices_needed(plan.effect, plan.windows)
    if devices is None:
        raise ValueError(plan)
    sign = 1.0 if plan.metric.is_more_better else -1.0
    base = bin_model(plan.metric, plan.parts)
    arms = [base.shift(sign * plan.effect if arm == plan.better else 0.0) for arm in range(len(plan.shares))]
    cells = [share * arm.probabilities for share, arm in zip(plan.shares, arms, strict=True)]
    planned = analyses_of(plan.analyses, plan.windows, ALPHA)
    won, others = 0, 0
    for analyses in _runs(
        np.array(cells), devices, rng, epsilon=plan.epsilon, windows=plan.windows, parts=planned.parts, runs=runs
    ):
        for (aggregate, pooled), bound in zip(analyses, planned.bounds, strict=True):
            winner = winner_of(aggregate, plan.metric, pooled, bound)
            if winner is not None:
                won += winner == plan.better
                others += winner != plan.better
                break
    return won / runs, others / runs


def find_safe(plan: RolloutPlan, rng: np.random.Generator, *, runs: int) -> float:
    """Return how often a sound version is found safe by the horizon, with as many devices as the plan asks for."""
    test = SafeTest.each_window(ALPHA, plan.windows)
    model = plan.model()
    devices = devices_for(lambda number: model.safe_power(number, plan.windows, test), POWER) or 0

    def tests(window: int) -> GuardTests:
        looks = tuple(Look(each, devices * each) for each in range(1, window + 1))
        harm = HarmBound(AlwaysValidBound(ALPHA, devices * window, devices * plan.windows))
        return GuardTests(harm, PlannedBound(ALPHA, looks, plan.windows))

    return _measure(plan, rng, devices, 0.0, tests=tests, kind=GuardKind.SAFE, runs=runs)


def find_harm(plan: RolloutPlan, rng: np.random.Generator, *, runs: int) -> float:
    """Return how often a version worse by two margins is found harmful, with as many devices as the plan asks for."""
    test = HarmTest(ALPHA, plan.windows)
    model = plan.model()
    difference = 2.0 * model.margin
    devices = devices_for(lambda number: model.harm_power(difference, number, plan.windows, test), POWER) or 0

    def tests(window: int) -> GuardTests:
        return GuardTests(HarmBound(AlwaysValidBound(ALPHA, devices * window, devices * plan.windows)), None)

    return _measure(plan, rng, devices, difference, tests=tests, kind=GuardKind.HARMFUL, runs=runs)


def _measure(
    plan: RolloutPlan,
    rng: np.random.Generator,
    devices: int,
    difference: float,
    *,
    tests: Callable[[int], GuardTests],
    kind: GuardKind,
    runs: int,
) -> float:
    """Return how often a verdict is reached at the end of some window."""
    model = plan.model()
    cells = np.array([0.5 * arm.probabilities for arm in (model.metric, model.metric.shift(difference))])
    parts = tuple(window / plan.windows for window in range(1, plan.windows + 1))
    called = 0
    bounds = [tests(window) for window in range(1, plan.windows + 1)]
    for analyses in _runs(cells, devices, rng, epsilon=plan.epsilon, windows=plan.windows, parts=parts, runs=runs):
        for (aggregate, pooled), bound in zip(analyses, bounds, strict=True):
            strata = [Stratum(aggregate, reports_per_device=pooled)]
            verdict = evaluate_bin_guardrail(strata, plan.metric, plan.margin, control=0, treatment=1, tests=bound)
            if verdict.kind is kind:
                called += 1
                break
    return called / runs


def _runs(
    cells: FloatArray,
    devices: int,
    rng: np.random.Generator,
    *,
    epsilon: Fraction,
    windows: int,
    parts: tuple[float, ...],
    runs: int,
) -> Iterator[list[tuple[Aggregate, int]]]:
    """Yield for each run what the server has at each analysis, and the windows that are pooled in it."""
    arms = len(cells)
    layout = HistogramLayout.of_groups(arms, [[1]], latency_bins=cells.shape[1])
    mechanism = RandomizedResponse(cells.size, epsilon)
    other = float(mechanism.other_probability)
    answers = np.full((cells.size, cells.size), other) + np.eye(cells.size) * (
        float(mechanism.keep_probability) - other
    )
    answers /= answers.sum(axis=1, keepdims=True)
    flat = cells.ravel() / cells.sum()
    edges = np.diff([0, *(round(devices * part) for part in parts)]) if windows == 1 else [0] * len(parts)
    for _ in range(runs):
        true = rng.multinomial(devices, flat)
        total = np.zeros(cells.size, np.int64)
        found = []
        for place, fresh in enumerate(edges):
            own = rng.multinomial(fresh, flat) if windows == 1 else true
            total = total + rng.multinomial(own, answers).sum(axis=0)
            counts = total.tolist()
            found.append(
                (aggregate_from_randomized_response(counts, layout, epsilon=epsilon), 1 if windows == 1 else place + 1)
            )
        yield found


def winner_of(aggregate: Aggregate, metric: BinMetric, pooled: int, bound: float) -> int | None:
    """Return the arm that beats each other one by `bound` standard errors."""
    above, below = (weights.ravel() for weights in metric.weights(aggregate))
    moments = Moments(aggregate, pooled)
    for arm in range(aggregate.arms):
        size = moments.total(arm, below)
        if size < 1.0 or moments.covariance(arm, below, arm, below).noise > (MAX_SIZE_VARIATION * size) ** 2:
            return None
    for arm in range(aggregate.arms):
        others = [other for other in range(aggregate.arms) if other != arm]
        if all(_is_better(ratio_pair(moments, above, below, arm=arm, versus=each), metric, bound) for each in others):
            return arm
    return None


def _is_better(found: RatioPair | None, metric: BinMetric, bound: float) -> bool:
    if found is None or found.value == 0.0 or (found.value > 0.0) != metric.is_more_better:
        return False
    interval = found.interval(bound)
    return interval.low > 0.0 if metric.is_more_better else interval.high < 0.0
