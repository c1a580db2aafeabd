"""Lists the cells of an experiment's reports, with what was counted, what it estimates and its noise.  Pure."""

from dataclasses import dataclass

import numpy as np
from alcove.platform.domain.experiments.analysis import read_estimates
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import primary_weights
from alcove.registry.policy import Outcome
from alcove.registry.policy.layout import CellAxes, HistogramLayout

__all__ = ["CellRow", "CellTable", "tabulate_cells"]


@dataclass(frozen=True)
class CellRow:
    """One cell.

    Attributes:
        arm: index of the arm.
        outcomes: names of the outcomes that it counts as one; none where an own metric decides.
        latency_from_ms: lower edge of its latency bin; None: it has none.
        latency_below_ms: upper edge; None: it has none, or is the open last bin.
        earlier_share_bin: index of the bin of the earlier accepted share; 0 where reports say nothing of it.
        count: reports that named it, or with aggregators their noised sum.
        estimate: unbiased, in reports.
        noise_standard_error: of the estimate, from the privacy noise alone.
        numerator_weight: its weight in the numerator of the primary metric; None where that is a quantile.
        denominator_weight: likewise in the denominator.
        metric_bin: bin of the own metric that decides; 0: nothing was recorded; None: outcomes are counted.
    """

    arm: int
    outcomes: tuple[str, ...]
    latency_from_ms: float | None
    latency_below_ms: float | None
    earlier_share_bin: int
    count: int
    estimate: float
    noise_standard_error: float
    numerator_weight: float | None
    denominator_weight: float | None
    metric_bin: int | None = None


@dataclass(frozen=True)
class CellTable:
    """All cells.

    Attributes:
        rows: in the order of the task's layout.
        noise_covariance: of the estimates, row by row up to the diagonal: (0, 0), (1, 0), (1, 1), ...
        reports_per_device: how many of the reports one device can have sent.
    """

    rows: tuple[CellRow, ...]
    noise_covariance: tuple[float, ...]
    reports_per_device: int


def tabulate_cells(record: ExperimentRecord, reports: Reports) -> CellTable:
    """Return the cells of the reports.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    layout = reports.task.layout
    aggregate = aggregate_of(reports)
    places = np.array(layout.places)
    values = aggregate.estimates.ravel()[places]
    covariance = aggregate.noise_covariance[np.ix_(places, places)]
    weights = None
    estimates = read_estimates(record, aggregate, reports.per_device)
    if estimates.metric.primary.quantile is None:
        weights = primary_weights(estimates)
    rows = []
    for cell, (count, value) in enumerate(zip(reports.counts, values.tolist(), strict=True)):
        axes = layout.axes(cell)
        is_own = record.plan.own_primary is not None
        low, high = (None, None) if is_own else _latency_range(layout, axes, record.latency_edges_ms)
        above, below = (None, None)
        if weights is not None:
            above, below = (float(each[axes.outcome, axes.latency]) for each in weights)
        rows.append(
            CellRow(
                arm=axes.arm,
                outcomes=() if is_own else _names(layout, axes.outcome),
                latency_from_ms=low,
                latency_below_ms=high,
                earlier_share_bin=axes.covariate,
                count=int(count),
                estimate=value,
                noise_standard_error=float(np.sqrt(max(covariance[cell, cell], 0.0))),
                numerator_weight=above,
                denominator_weight=below,
                metric_bin=axes.latency if is_own else None,
            )
        )
    lower = covariance[np.tril_indices(len(rows))]
    return CellTable(tuple(rows), tuple(lower.tolist()), reports.per_device)


def _names(layout: HistogramLayout, outcome: int) -> tuple[str, ...]:
    groups = layout.groups or tuple((each,) for each in range(layout.outcomes))
    (group,) = (each for each in groups if each[0] == outcome)
    return tuple(Outcome(each).name.lower() for each in group)


def _latency_range(
    layout: HistogramLayout, axes: CellAxes, edges_ms: tuple[float, ...]
) -> tuple[float | None, float | None]:
    if layout.latency_bins_of(axes.outcome) < 2:
        return None, None
    edges = (0.0, *edges_ms)
    return edges[axes.latency], None if axes.latency == len(edges_ms) else edges[axes.latency + 1]
