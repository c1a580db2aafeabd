"""Says of each comparison that a task's reports allow how much of its uncertainty is privacy noise.  Pure."""

from dataclasses import dataclass

import numpy as np
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import StatsError, noise_share
from alcove.registry.policy import Outcome, TaskPolicy
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY
from alcove.registry.policy.task import METRIC_OUTCOME
from numpy.typing import NDArray

__all__ = ["NoiseShare", "noise_shares"]

_SHARES = (("accepted", Outcome.ACCEPTED), ("error", Outcome.ERROR), ("fallback", Outcome.FALLBACK))


@dataclass(frozen=True)
class NoiseShare:
    """Noise in the comparison of an arm with arm 0.

    Attributes:
        arm: its number, from 1.
        quantity: "accepted", "error" or "fallback": the share of reports with that outcome; "latency": the mean bin of
            the answers' latency; "metric": the mean bin of an own metric.
        share: part of the variance of the difference that is privacy noise, in [0, 1].
    """

    arm: int
    quantity: str
    share: float


def noise_shares(reports: Reports) -> tuple[NoiseShare, ...]:
    """Return the noise in each quantity of each arm; empty where reports are too few to compare anything."""
    if reports.reports < 1:
        return ()
    try:
        aggregate = aggregate_of(reports)
    except StatsError:
        return ()
    found = []
    for quantity, numerator, denominator in _quantities(reports.task, (aggregate.outcomes, aggregate.bins)):
        for arm in range(1, aggregate.arms):
            share = noise_share(aggregate, numerator, denominator, arm=arm, reports_per_device=reports.per_device)
            if share is not None:
                found.append(NoiseShare(arm, quantity, share))
    return tuple(found)


def _quantities(task: TaskPolicy, shape: tuple[int, int]) -> list[tuple[str, NDArray[np.float64], NDArray[np.float64]]]:
    """Return what the cells of a task can compare, with the weights of numerator and denominator, [outcomes, bins]."""
    layout = task.layout
    ones, outcomes = np.ones(shape), np.arange(shape[0])[:, None]
    number = np.broadcast_to(np.arange(shape[1]) // layout.covariate_bins, shape).astype(np.float64)  # latency is outer
    if task.metric is not None:
        is_metric = np.broadcast_to(outcomes == METRIC_OUTCOME, shape).astype(np.float64)
        return [("metric", number * is_metric, is_metric)]
    counted = {outcome for group in task.outcome_groups for outcome in group}
    found = [
        (name, np.broadcast_to(outcomes == outcome, shape).astype(np.float64), ones)
        for name, outcome in _SHARES
        if outcome in counted and counted != {outcome} and layout.tells_apart([outcome])
    ]
    timed = [int(outcome) for outcome in counted & OUTCOMES_WITH_LATENCY if layout.latency_bins_of(int(outcome)) > 1]
    if timed:
        is_timed = np.broadcast_to(np.isin(outcomes, timed), shape).astype(np.float64)
        found.append(("latency", number * is_timed, is_timed))
    return found
