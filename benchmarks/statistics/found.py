"""Simulates planned experiments, and counts how often the better arm wins: what a plan promises, and what is found.

Devices answer by a mechanism, the same in each window; ratios, their errors and the rule that an arm beats every other
one are those of `decide`, on arrays of runs. A test compares the calls with `decide`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TypeAlias

import numpy as np
from alcove.platform.stats import Mechanism, MetricModel, PowerModel, share_model
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.aggregator_noise import cell_variance, draw_noise
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.platform.stats.power import analyses_of
from alcove.privacy.randomized_response import RandomizedResponse
from numpy.typing import NDArray

from benchmarks.sections import Section, table_lines

SECTION = Section("found", "python -m benchmarks.statistics --plans --write docs/statistics.md")
ALPHA, POWER = 0.05, 0.8
SHARES = ((0.5, 0.5), (1 / 3, 1 / 3, 1 / 3), (0.8, 0.1, 0.1), (0.2,) * 5, (0.6, 0.1, 0.1, 0.1, 0.1))
RATES = ((0.5, 0.02), (0.8, 0.03), (0.05, 0.01), (0.005, 0.002))
"""Of the arms that are not better, and the effect."""
MECHANISMS = (
    (Mechanism.EXACT, Fraction(1)),
    (Mechanism.PRIO3, Fraction(1)),
    (Mechanism.RANDOMIZED_RESPONSE, Fraction(2)),
    (Mechanism.RANDOMIZED_RESPONSE, Fraction(1)),
)
NoiseVariance: TypeAlias = Callable[[FloatArray], FloatArray]
"""The noise's variance of weighted sums of cells, for weights [runs, cells]; [runs]."""
READINGS = ((0, 1), (0, 4), (5, 1))
"""Analyses, 0 for those at the end of each window, and windows."""


@dataclass(frozen=True)
class Plan:
    """One plan of the grid.

    Attributes:
        shares: of the arms.
        rate: of the arms that are not better.
        effect: of the better one.
        mechanism: of the reports.
        epsilon: of a report, or a window.
        analyses: planned, or 0.
        windows: in which each device reports.
    """

    shares: tuple[float, ...]
    rate: float
    effect: float
    mechanism: Mechanism
    epsilon: Fraction
    analyses: int
    windows: int

    @property
    def metric(self) -> MetricModel:
        """The metric of an arm that is not better."""
        return share_model(self.rate)

    @property
    def better(self) -> int:
        """The better arm: the treatment with the smallest share."""
        return min(range(1, len(self.shares)), key=lambda arm: self.shares[arm])

    def model(self) -> PowerModel:
        """Return what is planned by."""
        return PowerModel(self.metric, self.shares, self.mechanism, self.epsilon, power=POWER, analyses=self.analyses)

    def cells(self) -> FloatArray:
        """Return the probability of each cell, [arms * outcomes]."""
        arms = [self.metric.shift(self.effect if arm == self.better else 0.0) for arm in range(len(self.shares))]
        return np.concatenate([share * arm.probabilities.ravel() for share, arm in zip(self.shares, arms, strict=True)])


@dataclass(frozen=True)
class Found:
    """What became of one plan.

    Attributes:
        plan: which.
        devices: that it asks for.
        wins: part of the runs in which the better arm won at one of the analyses.
        others: part in which another arm did.
    """

    plan: Plan
    devices: int
    wins: float
    others: float


def grid() -> list[Plan]:
    """Return sixty plans: arms, mechanisms and readings, the rates in turn."""
    found = []
    for place, (shares, (mechanism, epsilon), (analyses, one_or_more)) in enumerate(
        product(SHARES, MECHANISMS, READINGS)
    ):
        windows = one_or_more
        rate, effect = RATES[(place + place // 12) % len(RATES)]
        if analyses and mechanism is Mechanism.PRIO3:
            windows = analyses  # aggregators release whole windows
        found.append(Plan(shares, rate, effect, mechanism, epsilon, analyses, windows))
    return found


def measure(plan: Plan, rng: np.random.Generator, *, runs: int) -> Found:
    """Simulate a plan with as many devices as it asks for.

    Raises:
        ValueError: no devices find the effect.
    """
    devices = plan.model().devices_needed(plan.effect, plan.windows)
    if devices is None:
        raise ValueError(plan)
    arms = len(plan.shares)
    planned = analyses_of(plan.analyses, plan.windows, ALPHA)
    won = np.zeros((arms, runs), bool)
    is_over = np.zeros(runs, bool)
    for (counts, pooled), part, bound in zip(
        _analyses(plan, rng, devices, len(planned.parts), runs), planned.parts, planned.bounds, strict=True
    ):
        reports = round(devices * plan.windows * part)
        called = beats_all(plan, counts, reports, pooled, bound) & ~is_over
        won |= called
        is_over |= called.any(axis=0)
    others = [arm for arm in range(arms) if arm != plan.better]
    return Found(plan, devices, float(won[plan.better].mean()), float(won[others].any(axis=0).mean()))


def beats_all(plan: Plan, counts: FloatArray, reports: int, pooled: int, bound: float) -> NDArray[np.bool_]:
    """Return [arms, runs] whether an arm is better than each other by `bound` standard errors.

    Args:
        plan: of the reports.
        counts: what the server has, [runs, cells].
        reports: of all arms, pooled.
        pooled: windows.
        bound: standard errors.
    """
    arms, cells = len(plan.shares), 2
    flat, noise = _estimate(plan, counts, reports, pooled)
    estimates = flat.reshape(-1, arms, cells)
    smooth = np.maximum(estimates, 0.0) + 1.0
    smooth *= reports / smooth.sum(axis=(1, 2), keepdims=True)
    sizes = np.maximum(estimates.sum(axis=2), 1.0)
    rates = estimates[:, :, 1] / sizes
    residuals = (np.array([0.0, 1.0]) - rates[..., None]) / sizes[..., None]
    sums = (residuals * smooth).sum(axis=2)
    own = pooled * ((residuals**2 * smooth).sum(axis=2) - sums**2 / reports)
    called = np.ones((arms, len(counts)), bool)
    for arm in range(arms):
        spread = np.zeros_like(estimates)
        spread[:, arm] = 1.0 / sizes[:, arm, None]
        variation = np.maximum(noise(spread.reshape(len(counts), -1)), 0.0)
        called &= (variation <= MAX_SIZE_VARIATION**2)[None, :]
    for arm in range(arms):
        for other in range(arms):
            if other == arm:
                continue
            spread = np.zeros_like(estimates)
            spread[:, arm], spread[:, other] = residuals[:, arm], -residuals[:, other]
            variance = own[:, arm] + own[:, other] + 2.0 * pooled * sums[:, arm] * sums[:, other] / reports
            variance += np.maximum(noise(spread.reshape(len(counts), -1)), 0.0)
            called[arm] &= rates[:, arm] - rates[:, other] > bound * np.sqrt(variance)
    return called


def found_lines(runs: int, seed: int) -> tuple[list[str], list[Found]]:
    """Return the table of the grid."""
    rng = np.random.default_rng(seed)
    found = [measure(plan, rng, runs=runs) for plan in grid()]
    rows = []
    for first in range(0, len(found), len(READINGS)):
        own = found[first : first + len(READINGS)]
        plan = own[0].plan
        reports = plan.mechanism.value + ("" if plan.mechanism is Mechanism.EXACT else f", ε = {plan.epsilon}")
        cells = [f"{one.wins:.1%} of {one.devices:,} ({one.plan.rate:.1%} + {100 * one.plan.effect:g})" for one in own]
        rows.append((" : ".join(f"{100 * share:.0f}" for share in plan.shares), reports, *cells))
    lowest, highest = min(one.wins for one in found), max(one.wins for one in found)
    return [
        "### Plans: what they promise and what is found",
        "",
        f"{len(found)} plans that promise {POWER:.0%}, {runs:,} simulated runs each. In each, one arm's accepted share",
        "is better than every other arm's, and it wins where it beats them all. Cells: how often it won, with the",
        "devices that the plan asks for, at the rate and the difference in parentheses, in points. All of them:",
        f"{lowest:.1%} to {highest:.1%}.",
        "",
        *table_lines(
            ("shares", "reports", "at will, one window", "at will, four windows", "five interim analyses"), rows
        ),
    ], found


def _analyses(
    plan: Plan, rng: np.random.Generator, devices: int, analyses: int, runs: int
) -> list[tuple[FloatArray, int]]:
    """Return what the server has at each analysis, [runs, cells], and the windows that are pooled in it."""
    cells = plan.cells()
    total = np.zeros((runs, len(cells)))
    found = []
    if plan.windows == 1:  # new devices come in before each analysis
        edges = [round(devices * (analysis + 1) / analyses) for analysis in range(analyses)]
        for fresh in np.diff([0, *edges]).tolist():
            total = total + _report(plan, rng, rng.multinomial(fresh, cells, size=runs))
            found.append((total, 1))
        return found
    true = rng.multinomial(devices, cells, size=runs)
    for window in range(1, plan.windows + 1):
        total = total + _report(plan, rng, true)
        if plan.analyses == 0 or window * plan.analyses % plan.windows == 0:
            found.append((total, window))
    return found


def _report(plan: Plan, rng: np.random.Generator, true: NDArray[np.int64]) -> FloatArray:
    """Return one window's sums of true cells, [runs, cells]."""
    if plan.mechanism is Mechanism.EXACT:
        return true.astype(np.float64)
    if plan.mechanism is Mechanism.PRIO3:
        noised: FloatArray = true.astype(np.float64) + draw_noise(rng, true.shape, plan.epsilon)
        return noised
    keep, other = _chances(plan)
    answers = np.full((true.shape[1],) * 2, other) + np.eye(true.shape[1]) * (keep - other)
    answers /= answers.sum(axis=1, keepdims=True)
    total = np.zeros(true.shape)
    for cell in range(true.shape[1]):
        total += rng.multinomial(true[:, cell], answers[cell])
    return total


def _chances(plan: Plan) -> tuple[float, float]:
    mechanism = RandomizedResponse(2 * len(plan.shares), plan.epsilon)
    return float(mechanism.keep_probability), float(mechanism.other_probability)


def _estimate(plan: Plan, counts: FloatArray, reports: int, pooled: int) -> tuple[FloatArray, NoiseVariance]:
    """Return unbiased counts, [runs, cells], and the variance of the noise in them."""
    if plan.mechanism is not Mechanism.RANDOMIZED_RESPONSE:
        variance = 0.0 if plan.mechanism is Mechanism.EXACT else pooled * cell_variance(plan.epsilon)
        return counts, lambda weights: variance * (weights**2).sum(axis=1)
    keep, other = _chances(plan)
    gap = keep - other
    estimates = (counts - reports * other) / gap
    true = np.maximum(estimates, 0.0)
    true *= reports / true.sum(axis=1, keepdims=True)

    def noise(weights: FloatArray) -> FloatArray:
        squares = other * (weights**2).sum(axis=1, keepdims=True) + gap * weights**2
        means = other * weights.sum(axis=1, keepdims=True) + gap * weights
        variance: FloatArray = (true * (squares - means**2)).sum(axis=1) / gap**2
        return variance

    return estimates, noise
