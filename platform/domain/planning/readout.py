"""Forecasts what a read-out of the holdout would find.  Pure; every number comes from `platform.stats.PowerModel`.

It is made for the test that runs: one analysis, two groups of one size, devices that say the same in each month.
"""

from dataclasses import dataclass, replace

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiments.task import bin_values_ms
from alcove.platform.domain.mechanism import report_model_of
from alcove.platform.domain.readout_records import ReadoutMetric, ReadoutPlan
from alcove.platform.domain.readouts.analysis import describe_metric
from alcove.platform.domain.readouts.task import plan_task
from alcove.platform.stats import MetricModel, PowerModel, mean_model, share_model, slow_model
from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy import TaskPolicy

__all__ = ["MonthForecast", "ReadoutForecast", "ReadoutQuestion", "forecast_readout"]

_WORST_RATE = 0.5
POOR = 0.05
"""Difference of a share above which a read-out finds next to nothing that a quarter's versions do."""


@dataclass(frozen=True)
class ReadoutQuestion:
    """What a read-out is planned for.

    Attributes:
        plan: from `fill_plan`, with its months.
        devices: of the app, that would report in a window.
        share_basis_points: of the devices in each group.
        base_rate: expected share in the holdout, in (0, 1); 0: a half, the worst case of a share.
        mde: smallest difference that shall be found, a share or in the metric's unit; 0: nothing is asked.
    """

    plan: ReadoutPlan
    devices: int
    share_basis_points: int
    base_rate: float = 0.0
    mde: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.devices <= limits.EXPECTED_DEVICES_MAX:
            raise InvalidFieldError("devices", f"1 to {limits.EXPECTED_DEVICES_MAX}", self.devices)
        most = POLICY_BUCKETS // 2
        if not 1 <= self.share_basis_points <= most:
            raise InvalidFieldError("share_basis_points", f"1 to {most}", self.share_basis_points)
        if not 0.0 <= self.base_rate < 1.0:
            raise InvalidFieldError("base_rate", "in [0, 1)", self.base_rate)
        is_share = self.plan.metric in (ReadoutMetric.ACCEPTED, ReadoutMetric.LATENCY_SHARE)
        if self.base_rate and not is_share:
            raise InvalidFieldError("base_rate", f"0 for {self.plan.metric}", self.base_rate)
        if not 0.0 <= self.mde < (1.0 if is_share else limits.EXPECTED_DEVICES_MAX):
            raise InvalidFieldError("mde", "in [0, 1) for a share, else at least 0", self.mde)

    @property
    def group_devices(self) -> int:
        """Devices of each group that report in a window."""
        return self.devices * self.share_basis_points // POLICY_BUCKETS


@dataclass(frozen=True)
class MonthForecast:
    """The smallest difference that so many measured months find with a chance of 80 %; 0: none, whatever its size."""

    months: int
    detectable: float


@dataclass(frozen=True)
class ReadoutForecast:
    """What is to be expected.

    Attributes:
        group_devices: of each group that report in a window.
        detectable: smallest difference that the planned months find; 0: none.
        by_months: the same for other lengths.
        devices_needed: of the app, that find `mde` in the planned months; 0: no number of them does, or none was asked.
        cells: of a report.
        warnings: sentences for people.
    """

    group_devices: int
    detectable: float
    by_months: tuple[MonthForecast, ...]
    devices_needed: int
    cells: int
    warnings: tuple[str, ...]


def forecast_readout(question: ReadoutQuestion) -> ReadoutForecast:
    """Return what a read-out would find.

    Raises:
        InvalidFieldError: a field is out of its bounds.
    """
    plan = question.plan
    task = plan_task(plan, "readout")
    model = _power(plan, task, question.base_rate)
    both = 2 * question.group_devices
    a_month = limits.READOUT_MONTH_S // plan.window_s
    lengths = sorted({1, 2, 3, 6, 12, plan.months})
    found = {months: 0.0 if both < 2 else model.detectable(both, months * a_month) or 0.0 for months in lengths}
    needed = 0
    if question.mde:
        devices = model.devices_needed(question.mde, plan.months * a_month) or 0
        needed = -(-devices * POLICY_BUCKETS // (2 * question.share_basis_points))
    forecast = ReadoutForecast(
        question.group_devices,
        found[plan.months],
        tuple(MonthForecast(months, found[months]) for months in lengths),
        needed,
        task.cell_count,
        (),
    )
    return replace(forecast, warnings=_warnings(question, forecast))


def _power(plan: ReadoutPlan, task: TaskPolicy, base_rate: float) -> PowerModel:
    made = report_model_of(task)
    return PowerModel(
        _metric_model(plan, task, base_rate or _WORST_RATE).at_cells(task.layout),
        (0.5, 0.5),
        made.mechanism,
        made.epsilon,
        analyses=1,
        local_epsilon=made.local_epsilon,
        subset_size=made.subset_size,
        is_less_better=plan.metric is not ReadoutMetric.ACCEPTED,
    )


def _metric_model(plan: ReadoutPlan, task: TaskPolicy, rate: float) -> MetricModel:
    outcomes, bins = task.layout.outcomes, task.layout.latency_bins
    if plan.own is not None:
        return mean_model(plan.own.bin_values, outcomes=outcomes)
    if plan.metric is ReadoutMetric.LATENCY_MEAN:
        return mean_model(bin_values_ms(plan.latency_edges_ms), outcomes=outcomes)
    if plan.metric is ReadoutMetric.LATENCY_SHARE:
        slow = len(plan.latency_edges_ms) - plan.latency_edges_ms.index(plan.edge_ms)
        return slow_model(rate, outcomes=outcomes, bins=bins, slow_bins=slow)
    return share_model(rate, outcomes=outcomes, bins=bins)


def _warnings(question: ReadoutQuestion, found: ReadoutForecast) -> tuple[str, ...]:
    plan, warnings = question.plan, []
    what, size = describe_metric(plan), found.group_devices
    least = 0 if plan.aggregation is None else plan.aggregation.min_batch_size
    if 2 * size < least:
        warnings.append(
            f"This finds nothing: both groups have {2 * size} devices, and the aggregators release no window of fewer"
            f" than {least}."
        )
    elif not found.detectable:
        warnings.append(
            f"This finds nothing: with {size} devices in each group privacy noise hides how large the groups are, and"
            f" no difference in {what} is found, whatever its size. A larger holdout, or two aggregators, would."
        )
    elif plan.metric in (ReadoutMetric.ACCEPTED, ReadoutMetric.LATENCY_SHARE) and found.detectable > POOR:
        warnings.append(
            f"This finds next to nothing: with {size} devices in each group only a difference of"
            f" {100.0 * found.detectable:.1f} points or more in {what} is found with a chance of 80 %."
        )
    if question.mde and (not found.detectable or found.detectable > question.mde):
        needed = f"about {found.devices_needed} devices of the app" if found.devices_needed else "no number of devices"
        warnings.append(
            f"The difference that shall be found is smaller: {needed} would find it, and there are {question.devices}."
        )
    return tuple(warnings)
