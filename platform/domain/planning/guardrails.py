"""Models the guardrails of a rollout for plans: which cells of its reports each reads, and how often devices do.

A metric of a team's own is modeled as its guardrail reads it: over the highest value of its bins, and turned so that
more is worse.  How devices spread over the bins is given, or the worst case.
"""

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from alcove.platform.domain.behavior import LATENCY_SPREAD, Behavior
from alcove.platform.domain.cells import FEEDBACK, OUTCOMES_READ
from alcove.platform.domain.experiments.base import spread_of
from alcove.platform.domain.own_metrics import OwnGuardrail
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.platform.stats import GuardMetric, MetricModel, bin_model
from alcove.platform.stats.aggregate import FloatArray
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.guardrail_power import GuardrailModel
from alcove.platform.stats.quantile_power import QuantileModel
from alcove.registry.policy import TaskPolicy
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY

__all__ = ["PlannedGuardrail", "guardrail_of", "own_guardrail_of"]


@dataclass(frozen=True, eq=False)
class PlannedGuardrail:
    """A guardrail of a plan, ready to be asked.

    Attributes:
        model: of the reports of both groups.
        reporting: part of the devices whose use makes a report.
        scale: what 1 in the model is in the metric's unit.
        is_turned: whether the model counts from the highest value down.
    """

    model: GuardrailModel | QuantileModel
    reporting: float
    scale: float = 1.0
    is_turned: bool = False

    @property
    def base_rate(self) -> float:
        """What is expected of the control, in the metric's unit."""
        rate = self.model.rate
        return self.scale * (1.0 - rate if self.is_turned else rate)


def guardrail_of(
    record: GuardrailRecord, task: TaskPolicy, behavior: Behavior, shares: tuple[float, float], reports: ReportModel
) -> PlannedGuardrail | None:
    """Return what a guardrail reads from the reports of a task; None where its test cannot be planned.

    Latencies of a version that is slower by a quantile are those of the version in use times a factor.  A share of what
    no device reports, such as refused answers without feedback, is not planned.

    Args:
        record: of the plan.
        task: of the stage's reports.
        behavior: of the version in use.
        shares: of control and treatment in the reports, together 1.
        reports: how they are made private.
    """
    metric = GuardMetric(record.metric)
    if metric not in OUTCOMES_READ:
        return None
    if record.quantile is not None:
        return _quantile_guardrail_of(record, task, behavior, shares, reports)
    layout = task.layout
    events, base = _outcomes_of(metric)
    slowest = -1 if record.edge_ms is None else task.latency_edges_ms.index(record.edge_ms)
    cells = [layout.axes(cell) for cell in range(layout.arm_cell_count)]
    in_base = np.array([base is None or axes.outcome in base for axes in cells], np.float64)
    weights = np.array([axes.outcome in events and axes.latency > slowest for axes in cells], np.float64)
    probabilities = np.array(behavior.cells(task))
    if not float((probabilities * in_base).sum()) > 0.0:
        return None
    reporting = float(probabilities.sum())
    if reports.local_epsilon is not None:
        reports = replace(reports, idle=1.0 / reporting - 1.0)
    model = GuardrailModel(MetricModel(weights, in_base, probabilities / reporting), record.margin, reports, shares)
    return PlannedGuardrail(model, reporting)


def _quantile_guardrail_of(
    record: GuardrailRecord, task: TaskPolicy, behavior: Behavior, shares: tuple[float, float], reports: ReportModel
) -> PlannedGuardrail | None:
    layout, quantile = task.layout, record.quantile or 0.5
    axes = [layout.axes(cell) for cell in range(layout.arm_cell_count)]
    found = behavior.cells(task)
    if not any(part > 0.0 for part, each in zip(found, axes, strict=True) if each.outcome in OUTCOMES_WITH_LATENCY):
        return None
    reporting = sum(found)
    if reports.local_epsilon is not None:
        reports = replace(reports, idle=1.0 / reporting - 1.0)

    def cells_of(factor: float) -> FloatArray:
        slower = behavior.model_copy(update={"latency_ms": behavior.latency_ms * factor})
        return np.array(slower.cells(task)) / reporting

    model = QuantileModel(
        cells=cells_of,
        bins=tuple(each.latency if each.outcome in OUTCOMES_WITH_LATENCY else -1 for each in axes),
        edges_ms=task.latency_edges_ms,
        quantile=quantile,
        control_ms=behavior.latency_ms * math.exp(LATENCY_SPREAD * NormalDist().inv_cdf(quantile)),
        margin=record.margin,
        reports=reports,
        shares=shares,
    )
    return PlannedGuardrail(model, reporting)


def own_guardrail_of(
    record: OwnGuardrail, parts: tuple[float, ...], shares: tuple[float, float], reports: ReportModel
) -> PlannedGuardrail:
    """Return what a guardrail of a team's own metric reads from the reports of its task, one of each device in use.

    Args:
        record: of the plan.
        parts: of the devices in each bin, of the version in use; none: the worst case.
        shares: of control and treatment in the reports, together 1.
        reports: how they are made private.
    """
    metric = record.metric.bin_metric
    scale = metric.bin_values[-1]
    model = bin_model(metric, spread_of(parts, metric), as_harm=True)
    guardrail = GuardrailModel(model, record.margin / scale, reports, shares)
    return PlannedGuardrail(guardrail, 1.0, scale, metric.is_more_better)


def _outcomes_of(metric: GuardMetric) -> tuple[frozenset[int], frozenset[int] | None]:
    """Return the outcomes that are events, and those that they are a part of; None: all."""
    if metric is GuardMetric.REFUSED:
        return OUTCOMES_READ[metric][0], FEEDBACK
    if metric is GuardMetric.LATENCY:
        return OUTCOMES_WITH_LATENCY, OUTCOMES_WITH_LATENCY
    return OUTCOMES_READ[metric][0], None
