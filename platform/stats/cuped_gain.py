"""Computes whether CUPED is worth the cells that it adds to a report: the standard error with it and without.

The earlier share explains a part of the outcomes, which narrows an interval; its bins multiply the cells of a report,
and privacy noise grows with them, which widens it. `cuped_error_ratio` is the standard error of the corrected
difference relative to one of reports without the earlier share, from the variances of `power.py`.

The devices that it assumes each gave `answers` answers before and accept every one with a probability of their own,
Beta distributed: a share of earlier answers is beta-binomial, and a later outcome given k of m accepted has probability
(a + k) / (a + b + m). With r = 1 / (a + b + 1), the correlation of two answers of one device, a later outcome
correlates with the share of m earlier ones by sqrt(m) r / sqrt(1 + (m - 1) r).

Source: Johnson, Kotz and Kemp, Univariate Discrete Distributions, 2nd ed., section 6.2.2 (beta-binomial).
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.mechanism import Mechanism
from alcove.platform.stats.power import MetricModel, PowerModel
from alcove.platform.stats.pre_period import middles_of

CORRELATION = 0.6
"""Of a device's earlier share and a later outcome: high for one outcome, so that what does not pay at it never does."""

ANSWERS = 20
"""Earlier answers of a device: between what it needs to be known (5) and what it remembers (64)."""


def acceptance_model(rate: float, *, correlation: float = CORRELATION, answers: int = ANSWERS) -> tuple[float, float]:
    """Return a and b of the Beta distribution of the devices' own probabilities to accept; see the module's docstring.

    Args:
        rate: accepted share of all devices, in (0, 1).
        correlation: of a device's earlier share and a later outcome, in (0, 1).
        answers: earlier answers of each device, >= 1.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """
    for name, value in (("base_rate", rate), ("correlation", correlation)):
        if not 0.0 < value < 1.0:
            raise ArgumentError(name, "in (0, 1)", value)
    if answers < 1:
        raise ArgumentError("answers", "at least 1", answers)
    squared, others = correlation**2, answers - 1
    alike = (squared * others + math.sqrt((squared * others) ** 2 + 4.0 * answers * squared)) / (2.0 * answers)
    total = 1.0 / alike - 1.0
    return rate * total, (1.0 - rate) * total


def joint_model(
    edges: Sequence[float], rate: float, *, correlation: float = CORRELATION, answers: int = ANSWERS
) -> FloatArray:
    """Return the probabilities of pre bin and outcome, [pre bins, 2]: refused, accepted; nobody is in bin 0.

    Args:
        edges: of the earlier share, rising, in (0, 1).
        rate: accepted share of all devices, in (0, 1).
        correlation: of a device's earlier share and a later outcome, in (0, 1).
        answers: earlier answers of each device, >= 1.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """
    from scipy.special import betaln  # noqa: PLC0415 - a quarter of a second, and only analyses need it

    first, second = acceptance_model(rate, correlation=correlation, answers=answers)
    total = first + second
    found = np.zeros((len(edges) + 2, 2))
    for accepted in range(answers + 1):
        weight = math.comb(answers, accepted) * math.exp(
            betaln(first + accepted, second + answers - accepted) - betaln(first, second)
        )
        later = (first + accepted) / (total + answers)
        place = int(np.searchsorted(np.asarray(edges), accepted / answers, side="right")) + 1
        found[place] += (weight * (1.0 - later), weight * later)
    joint: FloatArray = found / found.sum()
    return joint


def cuped_error_ratio(
    edges: Sequence[float],
    *,
    rate: float,
    shares: Sequence[float],
    mechanism: Mechanism,
    epsilon: Fraction,
    devices: int,
    outcomes: int = 2,
    latency_bins: int = 1,
    correlation: float = CORRELATION,
    local_epsilon: Fraction | None = None,
    subset_sizes: tuple[int, int] = (1, 1),
) -> float:
    """Return the standard error with CUPED relative to that without; below 1 it pays.

    Args:
        edges: of the earlier share.
        rate: accepted share of all devices, in (0, 1).
        shares: part of the reports in each arm, as in `PowerModel`.
        mechanism: how reports are made private.
        epsilon: as in `PowerModel`.
        devices: that report once, in all arms together, >= 1; under randomized response it does not matter.
        outcomes: that reports tell apart, >= 2; refused and accepted come first.
        latency_bins: that reports tell apart, >= 1.
        correlation: of a device's earlier share and a later outcome, in (0, 1).
        local_epsilon: as in `PowerModel`.
        subset_sizes: cells that a randomized report names without CUPED and with it.

    Raises:
        ArgumentError: an argument is out of its bounds.
    """
    if devices < 1:
        raise ArgumentError("devices", "at least 1", devices)
    joint = joint_model(edges, rate, correlation=correlation)
    pre = np.concatenate([[0.0], middles_of(edges)])
    pre[0] = float((joint.sum(axis=1) * pre).sum())  # nobody there: the mean of the others
    plain = _cells(joint.sum(axis=0)[:, None], outcomes, latency_bins)
    fine = _cells(joint.T, outcomes, latency_bins)
    accepted = np.zeros(fine.shape)
    accepted[1] = 1.0
    earlier = np.broadcast_to(np.tile(pre, latency_bins), fine.shape)

    def variance(weights: FloatArray, cells: FloatArray) -> float:
        model = MetricModel(weights, np.ones(cells.shape), cells)
        size = subset_sizes[cells is fine]
        power = PowerModel(model, shares, mechanism, epsilon, local_epsilon=local_epsilon, subset_size=size)
        return power.standard_error(devices) ** 2

    base, above, below = (variance(accepted - theta * earlier, fine) for theta in (0.0, 1.0, -1.0))
    slope, curve = (below - above) / 4.0, (above + below) / 2.0 - base  # of base - 2 slope theta + curve theta^2
    least = base - slope**2 / curve
    return math.sqrt(least / variance(accepted[:, :latency_bins], plain))


def _cells(by_outcome: FloatArray, outcomes: int, latency_bins: int) -> FloatArray:
    """Return [outcomes, latency bins x pre bins] of [2, pre bins]: latencies alike, further outcomes never met."""
    cells = np.zeros((outcomes, latency_bins * by_outcome.shape[1]))
    cells[:2] = np.tile(by_outcome, latency_bins) / latency_bins
    return cells
