"""Corrects differences of the accepted share by what the same devices accepted before (CUPED).

Reports of a task with edges of the earlier share (`registry/policy/task.py`) say beside arm, outcome and latency
in which bin the share of accepted answers was before the device met the task. `split_pre_period` reads such an
aggregate twice: without the earlier share, as everything else reads it, and as the joint histogram [arms, pre bins,
outcomes] that `cuped_difference` takes. A bin stands for its middle. Devices that nothing is known of (bin 0) stand at
the mean of the others, so that they add nothing to the slope and their number in an arm corrects nothing.

Randomization makes the earlier share independent of the arm, so the correction adds no bias, whatever the bins stand
for (docs/decisions/0022).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from alcove.platform.stats.aggregate import Aggregate, FloatArray, regroup
from alcove.platform.stats.decision import Difference
from alcove.platform.stats.errors import ArgumentError
from alcove.platform.stats.metrics import cuped_difference
from alcove.registry.policy.layout import HistogramLayout


@dataclass(frozen=True, eq=False)
class PrePeriod:
    """Counts of the devices' earlier answers.

    Attributes:
        joint: counts, [arms, pre bins, outcomes]; bin 0 is unknown.
        edges: of the other bins, rising, in (0, 1).
    """

    joint: Aggregate
    edges: tuple[float, ...]


@dataclass(frozen=True)
class Adjustment:
    """The effect of the correction on one difference.

    Attributes:
        theta: by how much the difference of the accepted shares is corrected, per unit of the earlier shares' own.
        variance_reduction_percent: by how many per cent the variance of the difference shrank.
    """

    theta: float
    variance_reduction_percent: float


def split_pre_period(aggregate: Aggregate, edges: Sequence[float]) -> tuple[Aggregate, PrePeriod]:
    """Return the aggregate without the earlier share, and the joint histogram with it.

    Args:
        aggregate: in the order of `HistogramLayout`, latency bins and covariate bins on one axis.
        edges: of the earlier share, at least one.

    Raises:
        ArgumentError: no edges, or bins that are no multiple of the pre bins.
    """
    pre_bins = len(edges) + 2
    latency_bins, rest = divmod(aggregate.bins, pre_bins)
    if not edges or rest:
        raise ArgumentError("pre_edges", "at least one, their bins dividing those of the reports", tuple(edges))
    layout = HistogramLayout(aggregate.arms, aggregate.outcomes, latency_bins, pre_bins)
    without = replace(layout, covariate_bins=1)
    cells = [layout.axes(cell) for cell in range(layout.cell_count)]
    plain = np.array([without.cell_index(cell.arm, cell.outcome, cell.latency) for cell in cells])
    shape = (layout.arms, layout.covariate_bins, layout.outcomes)
    axes = np.array([(cell.arm, cell.covariate, cell.outcome) for cell in cells])
    joint = np.asarray(np.ravel_multi_index(tuple(axes.T), shape), dtype=np.intp)
    return regroup(aggregate, plain, without.shape[:3]), PrePeriod(regroup(aggregate, joint, shape), tuple(edges))


def corrected_pairs(
    pre_period: PrePeriod,
    pairs: Sequence[Difference],
    *,
    success_outcome: int,
    critical_value: float,
    reports_per_device: int = 1,
) -> tuple[tuple[Difference, ...], tuple[Adjustment | None, ...]]:
    """Return differences of the accepted share after the correction, and what it did to each.

    Args:
        pre_period: of the same reports.
        pairs: the differences before it; one without a value or an interval stays so.
        success_outcome: as in `Metric`.
        critical_value: standard errors to each side, as the pairs' own.
        reports_per_device: as in `Metric`.

    Raises:
        ArgumentError: arms that are not there.
    """
    found = [_correct(pre_period, pair, success_outcome, critical_value, reports_per_device) for pair in pairs]
    return tuple(pair for pair, _ in found), tuple(adjustment for _, adjustment in found)


def _correct(
    pre_period: PrePeriod, pair: Difference, success_outcome: int, critical_value: float, reports_per_device: int
) -> tuple[Difference, Adjustment | None]:
    joint = pre_period.joint
    if pair.value is None or pair.standard_error is None:
        return pair, None
    found = cuped_difference(
        joint,
        pre_values(pre_period, pair.arm, pair.versus),
        (np.arange(joint.bins) == success_outcome).astype(np.float64),
        arm=pair.arm,
        versus=pair.versus,
        critical_value=critical_value if pair.interval is not None else 1.0,
        reports_per_device=reports_per_device,
    )
    if found is None:
        return pair, None
    interval = None if pair.interval is None else found.interval.clip(-1.0, 1.0)
    before = found.unadjusted.standard_error
    reduction = 100.0 * (1.0 - (found.standard_error / before) ** 2) if before > 0.0 else 0.0
    after = replace(
        pair,
        value=found.value,
        interval=interval,
        standard_error=found.standard_error,
        noise_percent=found.noise_percent,
        score=found.score,
        lift=None,  # of what the correction leaves; the arms' own ratio is the uncorrected one
        lift_interval=None,
    )
    return after, Adjustment(found.theta, reduction)


def pre_values(pre_period: PrePeriod, arm: int, versus: int) -> FloatArray:
    """Return the earlier share that each bin stands for in a comparison of two arms, [pre bins]."""
    middles = middles_of(pre_period.edges)
    counts = pre_period.joint.estimates[[arm, versus], 1:, :].sum(axis=(0, 2))
    known = float(counts.sum())
    mean = float((counts * middles).sum()) / known if known >= 1.0 else float(middles.mean())
    return np.concatenate([[min(max(mean, middles[0]), middles[-1])], middles])


def middles_of(edges: Sequence[float]) -> FloatArray:
    """Return the middles of the bins of a share with these edges, [edges + 1]."""
    ends = np.array([0.0, *edges, 1.0])
    middles: FloatArray = (ends[:-1] + ends[1:]) / 2.0
    return middles
