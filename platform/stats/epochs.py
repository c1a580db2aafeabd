"""Estimates arms whose shares changed on the way: each epoch by itself, then all epochs together.

An *epoch* is the windows in which the arms had the same shares. Within an epoch devices are split at random, so that
its arms compare alike devices at alike times. Counts of several epochs may not be pooled: an arm that got more of the
devices on good days would look good (Simpson's paradox). Epoch e has a level of its own, which all arms share:

    r_e = level_e + difference + error,   Cov(error) = C_e, sampling and privacy noise of the epoch

and the best linear estimate of levels and differences is that of generalized least squares (Aitken 1936), with
differences counted from arm 0. What an arm is said to reach is its difference plus the mean of the levels, each
weighted by the reports of its epoch: what it would have shown had it had its part of all devices, all the time. With
one epoch that is the epoch's own estimate.

**What holds.** Shares of an epoch follow from earlier epochs alone, so that each epoch's difference is unbiased given
everything before it; combined by weights that depend on sizes and noise they stay so, as in a test of a fixed split.
The weights here depend on the counts through the variances, and devices report in several epochs: their reports count
as those of one device by the design effect of each epoch's estimates, which is the worst case. The interval of a test
that is read at any time is not claimed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.bayes import (
    BayesianView,
    arm_values,
    bayesian_view,
    find_obstacle,
    primary_weights,
    view_of_values,
)
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.estimates import Estimates
from alcove.platform.stats.primary import PrimaryKind

__all__ = ["CombinedEpochs", "bayesian_view_of_epochs", "combine_epochs", "expected_share_bounds"]


@dataclass(frozen=True, eq=False)
class CombinedEpochs:
    """Values of arms over all epochs.

    Attributes:
        values: of the arms in the metric, in its unit; float64 [arms].
        covariance: of the values, sampling and noise; float64 [arms, arms].
        read: which epochs were read, by their place; the others say too little.
    """

    values: FloatArray
    covariance: FloatArray
    read: tuple[int, ...]


def combine_epochs(epochs: Sequence[Estimates]) -> CombinedEpochs | None:
    """Return the arms' values over those epochs that can be read; None: none can.

    An epoch is not read where an arm has no report, or noise leaves the size of an arm uncertain by more than 10 %.

    Args:
        epochs: estimates of the same arms by the same metric, whose reports of one device are those of all epochs.

    Raises:
        ArgumentError: there is no epoch, or the metric is a quantile, which is no ratio of sums.
    """
    if not epochs:
        raise ArgumentError("epochs", "at least one", 0)
    weights = [primary_weights(each) for each in epochs]
    read = tuple(
        place
        for place, (each, (_, base)) in enumerate(zip(epochs, weights, strict=True))
        if not find_obstacle(each, base)
    )
    if not read:
        return None
    arms, count = epochs[0].arms, len(read)
    information = np.zeros((count + arms - 1, count + arms - 1))
    score = np.zeros(count + arms - 1)
    for row, place in enumerate(read):
        values, covariance = arm_values(epochs[place], *weights[place])
        design = np.zeros((arms, count + arms - 1))
        design[:, row] = 1.0
        design[1:, count:] = np.eye(arms - 1)
        weighed = np.linalg.solve(covariance, design)
        information += design.T @ weighed
        score += weighed.T @ np.array(values)
    reports = np.array([epochs[place].reports for place in read], dtype=np.float64)
    wanted = np.zeros((arms, count + arms - 1))
    wanted[:, :count] = reports / reports.sum()
    wanted[1:, count:] = np.eye(arms - 1)
    covariance = wanted @ np.linalg.solve(information, wanted.T)
    return CombinedEpochs(wanted @ np.linalg.solve(information, score), (covariance + covariance.T) / 2.0, read)


def bayesian_view_of_epochs(epochs: Sequence[Estimates], *, control: int = 0) -> BayesianView:
    """Return the Bayesian view of all epochs together; of one epoch it is `bayesian_view`.

    Args:
        epochs: as for `combine_epochs`.
        control: index of the arm that the others are shown against.

    Raises:
        ArgumentError: there is no epoch, or no such arm, or the metric reads cells that the reports do not have.
    """
    if not epochs:
        raise ArgumentError("epochs", "at least one", 0)
    if len(epochs) == 1 or epochs[0].metric.primary.kind is PrimaryKind.LATENCY_QUANTILE:
        return bayesian_view(epochs[0], control=control)
    found = combine_epochs(epochs)
    if found is None:
        return bayesian_view(epochs[-1], control=control)  # it says what is missing
    return view_of_values(epochs[0], found.values.tolist(), found.covariance, control=control)


def expected_share_bounds(
    reports: Sequence[int], shares: Sequence[Sequence[float]], before: Sequence[Sequence[float]]
) -> tuple[tuple[float, float], ...]:
    """Return between which parts of all reports each arm must have, by the shares of each window.

    Devices hear of new shares in the course of a window: in the window of a change an arm's part lies between its share
    before and after it.

    Args:
        reports: of each window.
        shares: of the arms in each window, [windows, arms], each of sum 1.
        before: of the arms in the window before each, likewise; where nothing changed the same as `shares`.

    Raises:
        ArgumentError: lengths differ, or there is no report.
    """
    if not len(reports) == len(shares) == len(before):
        raise ArgumentError("shares", f"one for each of {len(reports)} windows", (len(shares), len(before)))
    total = sum(reports)
    if total < 1:
        raise ArgumentError("reports", "at least one", total)
    now, then, weights = np.array(shares), np.array(before), np.array(reports, dtype=np.float64) / total
    lows, highs = weights @ np.minimum(now, then), weights @ np.maximum(now, then)
    return tuple(zip(lows.tolist(), highs.tolist(), strict=True))
