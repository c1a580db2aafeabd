"""Simulates stages of a rollout under a guardrail, and counts how often harm is found and how often safety.

Devices say the same in each window; differences, their errors and the bounds are those of `evaluate_guardrail`, on
arrays of runs. A test compares the calls with its verdicts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from alcove.platform.stats import Mechanism
from alcove.platform.stats._shares import ShareDifference, ShareSums, sampling_at_margin, share_difference
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.aggregator_noise import cell_variance, draw_noise
from alcove.platform.stats.guardrail_power import GuardrailModel, HarmTest, SafeTest
from alcove.platform.stats.limits import MAX_SIZE_VARIATION
from alcove.privacy.randomized_response import RandomizedResponse
from numpy.typing import NDArray

PooledNoise: TypeAlias = Callable[[FloatArray, int], FloatArray]
"""Covariance of the noise in the four sums, from pooled estimates of the cells, [runs, cells], and windows."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A stage before it begins.

    Attributes:
        guardrail: with the control's metric.
        difference: treatment minus control.
        devices: in both groups together.
        windows: in each of which every device reports.
    """

    guardrail: GuardrailModel
    difference: float
    devices: int
    windows: int

    def cells(self) -> FloatArray:
        """Return the probability of each cell, control first."""
        model, shares = self.guardrail.metric, self.guardrail.shares
        arms = (model, model.shift(self.difference))
        return np.concatenate([share * arm.probabilities.ravel() for share, arm in zip(shares, arms, strict=True)])

    def weights(self) -> FloatArray:
        """Return the weights over the cells of events and base of the treatment, then of the control; [4, cells]."""
        model = self.guardrail.metric
        size = model.probabilities.size
        found = np.zeros((4, 2 * size))
        found[0, size:], found[1, size:] = model.weights.ravel(), model.base.ravel()
        found[2, :size], found[3, :size] = model.weights.ravel(), model.base.ravel()
        return found


def windows_of(stage: Stage, rng: np.random.Generator, *, runs: int) -> list[ShareSums]:
    """Return what the server has at the end of each window."""
    cells, weights = stage.cells(), stage.weights()
    true = rng.multinomial(stage.devices, cells / cells.sum(), size=runs)
    total = np.zeros(true.shape)
    found = []
    for window in range(1, stage.windows + 1):
        drawn, noise = _window(stage, rng, true, weights)
        total = total + drawn
        found.append(ShareSums(total @ weights.T, noise(total, window)))
    return found


def harm_calls(stage: Stage, windows: list[ShareSums], test: HarmTest) -> NDArray[np.bool_]:
    """Return whether harm is called at the end of each window, [windows, runs]."""
    called = []
    for window, (sums, bound) in enumerate(zip(windows, test.bounds(len(windows)), strict=True), 1):
        found = share_difference(sums, reports_per_device=window)
        called.append(_is_known(found) & (found.value - bound * found.standard_error > stage.guardrail.margin))
    return np.array(called)


def safe_calls(stage: Stage, windows: list[ShareSums], test: SafeTest) -> NDArray[np.bool_]:
    """Return whether safety is called at the end of each window, [windows, runs]."""
    margin = stage.guardrail.margin
    called = []
    for window, (sums, bound) in enumerate(zip(windows, test.bounds(len(windows)), strict=True), 1):
        found = share_difference(sums, reports_per_device=window)
        error = np.sqrt(sampling_at_margin(sums, margin, reports_per_device=window) + found.noise)
        called.append(_is_known(found) & (found.value + bound * error < margin))
    return np.array(called)


def _is_known(found: ShareDifference) -> NDArray[np.bool_]:
    return np.asarray(found.size_variation <= MAX_SIZE_VARIATION)


def _window(
    stage: Stage, rng: np.random.Generator, true: NDArray[np.int64], weights: FloatArray
) -> tuple[FloatArray, PooledNoise]:
    """Return one window's estimates of the cells, [runs, cells], and a function of the pooled noise's covariance."""
    reports = stage.guardrail.reports
    cells = true.shape[1]
    if reports.mechanism is not Mechanism.RANDOMIZED_RESPONSE:
        one = 0.0 if reports.mechanism is Mechanism.EXACT else cell_variance(reports.epsilon)
        drawn = true.astype(np.float64)
        if one:
            drawn += draw_noise(rng, true.shape, reports.epsilon)
        return drawn, lambda _, window: weights @ weights.T * (one * window)
    mechanism = RandomizedResponse(cells, reports.epsilon)
    other = float(mechanism.other_probability)
    gap = float(mechanism.keep_probability) - other
    answers = np.full((cells, cells), other) + np.eye(cells) * gap
    answers /= answers.sum(axis=1, keepdims=True)
    counts = np.zeros(true.shape)
    for cell in range(cells):
        counts += rng.multinomial(true[:, cell], answers[cell])
    means = answers @ weights.T
    per_report = np.einsum("jc,ac,bc->jab", answers, weights, weights) - np.einsum("ja,jb->jab", means, means)

    def noise(estimates: FloatArray, window: int) -> FloatArray:
        present = np.maximum(estimates, 0.0)
        present *= stage.devices * window / present.sum(axis=1, keepdims=True)
        covariance: FloatArray = np.einsum("rj,jab->rab", present, per_report) / gap**2
        return covariance

    return (counts - stage.devices * other) / gap, noise
