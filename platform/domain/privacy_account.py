"""Accounts for what an app's policy has devices report: each task, what a report is made of, and what it costs.  Pure.

The costs are upper bounds, of the device that spends as soon as its ledger lets it (`privacy/schedule.py`), against the
caps that every device keeps (`privacy/budget.py`).
"""

import functools
import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal

from alcove.platform.domain.mechanism import mechanism_of, promise_of
from alcove.platform.stats import Mechanism
from alcove.privacy.budget import BudgetLimits
from alcove.privacy.limits import DAY_S, MIN_EPSILON, REPORT_BYTES, TASK_ID_BYTES
from alcove.privacy.report import subset_bytes
from alcove.privacy.schedule import debit_times_s
from alcove.registry.policy import ExperimentPolicy, Outcome, Policy, TaskPolicy
from alcove.registry.policy.metric import MetricKind, MetricTerms

__all__ = ["AppCost", "Cost", "MeasuredTask", "cost_of", "list_tasks", "report_parts", "report_size", "total_cost"]

MONTH_S: Final = 30 * DAY_S
PROMISED: Final = BudgetLimits()
"""The caps of an app that sets none of its own."""

Kind = Literal["rollout", "experiment", "readout"]


@dataclass(frozen=True)
class MeasuredTask:
    """A task and what it measures.

    Attributes:
        kind: of the comparison.
        part: id of the rollout, experiment or read-out.
        feature: whose devices report.
        task: as signed.
        arms: what each arm is, in words.
        value: of a dimension that its devices have, in words; "": there is no dimension.
    """

    kind: Kind
    part: str
    feature: str
    task: TaskPolicy
    arms: tuple[str, ...]
    value: str = ""

    @property
    def mechanism(self) -> Mechanism:
        """How reports become sums."""
        return mechanism_of(self.task.aggregation)

    @property
    def promise(self) -> str:
        """Against whom reports are private, in one sentence."""
        return promise_of(self.task.epsilon, self.task.aggregation)

    @property
    def is_attested(self) -> bool:
        """Whether each report needs a token of an enrolled installation."""
        return self.task.aggregation is not None and self.task.aggregation.token_issuer is not None


@dataclass(frozen=True)
class Cost:
    """What one device spends on something, as exact epsilon.

    Attributes:
        per_day: most in any 24 hours.
        per_30_days: most in any 30 days.
        asked_per_30_days: what a report in every window would cost; above `per_30_days` the ledger does not pay.
    """

    per_day: Fraction = Fraction(0)
    per_30_days: Fraction = Fraction(0)
    asked_per_30_days: Fraction = Fraction(0)

    def __add__(self, other: "Cost") -> "Cost":
        """Return both together."""
        return Cost(
            self.per_day + other.per_day,
            self.per_30_days + other.per_30_days,
            self.asked_per_30_days + other.asked_per_30_days,
        )


@dataclass(frozen=True)
class AppCost:
    """What one device spends on all tasks of an app, at most, and what it may.

    Attributes:
        all: of all tasks, within the caps.
        experiments: of the tasks that may not use the reserve, within theirs.
        day_cap: what it may spend in 24 hours.
        month_cap: in 30 days.
        experiments_month_cap: of that on experiments; the rest is left to guardrails.
    """

    all: Cost
    experiments: Cost
    day_cap: Fraction
    month_cap: Fraction
    experiments_month_cap: Fraction


def list_tasks(policy: Policy) -> list[MeasuredTask]:
    """Return the tasks of an app's policy, by feature; a read-out's first."""
    found = []
    readout = None if policy.holdout is None else policy.holdout.readout
    if readout is not None:
        kept = f"held out, keeps {readout.kept[readout.feature].version}"
        arms = (kept, "mirror group, runs what everybody runs")
        found.append(MeasuredTask("readout", readout.id, readout.feature, readout.task, arms))
    for feature, rules in sorted(policy.features.items()):
        if rules.rollout is not None:
            sides = (f"control, stays on {rules.default.version}", f"new version {rules.rollout.version.version}")
            found += [MeasuredTask("rollout", rules.rollout.id, feature, task, sides) for task in rules.rollout.tasks]
        for experiment in rules.experiments:
            named = tuple(f"{arm.name}, runs {arm.version.version}" for arm in experiment.arms)
            found += [
                MeasuredTask("experiment", experiment.id, feature, task, named, _value_of(experiment, task))
                for task in experiment.tasks
            ]
    return found


def _value_of(experiment: ExperimentPolicy, task: TaskPolicy) -> str:
    if experiment.dimension is None or task.stratum is None:
        return ""
    return f"{experiment.dimension.attribute} {experiment.dimension.names[task.stratum]}"


def cost_of(task: TaskPolicy, limits: BudgetLimits = PROMISED) -> Cost:
    """Return what a device spends on a task by itself, at most.

    Args:
        task: whose.
        limits: of the device.
    """
    return _cost(task.epsilon_fraction, task.window_s, task.is_guardrail, limits)


@functools.lru_cache(maxsize=1024)
def _cost(epsilon: Fraction, window_s: int, is_guardrail: bool, limits: BudgetLimits) -> Cost:
    windows = math.ceil(MONTH_S / window_s)
    asked = windows * epsilon
    if epsilon < MIN_EPSILON or epsilon > limits.largest_report:
        return Cost(asked_per_30_days=asked)  # no ledger pays for it
    # Two months: in the first the ledger is empty, so that as much is spent as in any other.
    times = debit_times_s(epsilon, window_s, 2 * windows, may_use_reserve=is_guardrail, limits=limits)
    return Cost(_most_in(times, DAY_S) * epsilon, _most_in(times, MONTH_S) * epsilon, asked)


def _most_in(times: Sequence[int], length_s: int) -> int:
    """Return how many of some rising times lie in a period of a length at most, [t, t + length)."""
    return max((bisect_left(times, time + length_s) - index for index, time in enumerate(times)), default=0)


def total_cost(policy: Policy, limits: BudgetLimits = PROMISED) -> AppCost:
    """Return what the device spends that takes part in as much as any device can.

    For each feature a device takes part in one experiment or in the rollout, and reports one of its questions; in a
    read-out it reports nothing else.
    """
    features: list[tuple[Cost, Cost]] = []
    for rules in policy.features.values():
        experiments = _largest(cost_of(task, limits) for one in rules.experiments for task in one.tasks)
        rollout = _largest(cost_of(task, limits) for task in (rules.rollout.tasks if rules.rollout else ()))
        features.append((_largest((experiments, rollout)), experiments))
    everything = sum((both for both, _ in features), Cost())
    experiments = sum((alone for _, alone in features), Cost())
    readout = None if policy.holdout is None else policy.holdout.readout
    if readout is not None:
        alone = cost_of(readout.task, limits)
        everything, experiments = _largest((everything, alone)), _largest((experiments, alone))
    caps = limits.caps(may_use_reserve=False)
    of_experiments = min(cap.most for cap in caps if cap.length_s == MONTH_S and cap.is_of_experiments)
    return AppCost(
        _within(everything, limits.largest_report, limits.per_30_days),
        _within(experiments, limits.largest_report, of_experiments),
        limits.per_day,
        limits.per_30_days,
        of_experiments,
    )


def _largest(costs: Iterable[Cost]) -> Cost:
    found = list(costs)
    return Cost(
        max((one.per_day for one in found), default=Fraction(0)),
        max((one.per_30_days for one in found), default=Fraction(0)),
        max((one.asked_per_30_days for one in found), default=Fraction(0)),
    )


def _within(cost: Cost, day: Fraction, month: Fraction) -> Cost:
    return Cost(min(cost.per_day, day), min(cost.per_30_days, month), cost.asked_per_30_days)


def report_size(task: TaskPolicy) -> int | None:
    """Return the bytes of a report of a task by randomized response, the same for all; None with aggregators."""
    if task.aggregation is not None:
        return None
    return REPORT_BYTES if task.subset_size == 1 else TASK_ID_BYTES + 4 + subset_bytes(task.cell_count)


_OUTCOMES: Final = {
    Outcome.REFUSED: "the user did not keep the answer",
    Outcome.ACCEPTED: "the user kept the answer",
    Outcome.ERROR: "a prediction failed or was late",
    Outcome.FALLBACK: "the device left the version because it crashed",
    Outcome.ANSWERED: "the version answered and nothing else was noted",
}


def report_parts(one: MeasuredTask) -> list[tuple[str, tuple[str, ...]]]:
    """Return the questions that one cell answers, each with the answers that it can have; together they make the cell.

    The number of cells is no product of these where an outcome has no latency.  With aggregators there is one more
    cell, for devices that have nothing to report.
    """
    task = one.task
    idle = [("or, instead of all that", ("nothing to report of the window",))] if task.aggregation is not None else []
    parts: list[tuple[str, tuple[str, ...]]] = [("arm", one.arms)]
    if task.metric is not None:
        return [*parts, (f"metric {task.metric.name}, version {task.metric.version}", _metric_bins(task.metric)), *idle]
    groups = tuple(" or ".join(_OUTCOMES[outcome] for outcome in group) for group in task.outcome_groups)
    parts.append(("outcome of one prediction in the window", groups))
    if task.latency_edges_ms:
        parts.append(("latency of an answer", _bins(task.latency_edges_ms, " ms")))
    if task.pre_edges:
        earlier = [f"{share}" for share in _bins([100 * edge for edge in task.pre_edges], " %")]
        parts.append(("share of answers kept before the experiment", ("not known", *earlier)))
    return [*parts, *idle]


def _metric_bins(metric: MetricTerms) -> tuple[str, ...]:
    nothing = {
        MetricKind.COUNT: "nothing recorded in the window",
        MetricKind.SHARE: "nothing recorded in the window",
        MetricKind.VALUE: "a sum of 0, or nothing recorded",
        MetricKind.PREFERENCE: "nothing compared in the window",
    }[metric.kind]
    if metric.kind is MetricKind.PREFERENCE:
        return (nothing, "the second was preferred", "no preference", "the first was preferred")
    if not metric.edges:
        return (nothing, "something recorded")
    return (nothing, *_bins(metric.edges, ""))


def _bins(edges: Sequence[float], unit: str) -> tuple[str, ...]:
    """Return the bins between edges in words."""
    inner = tuple(f"{low:g} to {high:g}{unit}" for low, high in itertools.pairwise(edges))
    return (f"below {edges[0]:g}{unit}", *inner, f"{edges[-1]:g}{unit} or more")
