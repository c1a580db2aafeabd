"""Simulates experiments that a metric of the team's own decides: what people prefer, or how they rate.

Each device has a result in a window with `answering`, in a bin by its arm's parts; else it is in the bin of those that
recorded nothing.  Buckets, task, noise, budgets, and what is compared and decided are those of the server.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Self

import numpy as np
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.metric_definitions import MetricDefinition, validate_metric
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.simulation.aggregation import aggregation_mechanism
from alcove.platform.simulation.experiment import (
    ExperimentScenario,
    arms_of,
    compare_windows,
    first_win,
    record_of,
    repeat_runs,
    winner_of,
)
from alcove.platform.simulation.fleet import Fleet
from alcove.platform.simulation.scenario import DEVICES_MAX
from alcove.platform.stats import Comparison, Mechanism, Preference, read_preference
from alcove.registry.policy.metric import MetricKind
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["OwnMetricRun", "OwnMetricScenario", "preference_parts", "share_parts", "simulate_own_metric"]

_SPREAD: Final = 1e-9
"""By how much a sum of parts may differ from 1."""


def preference_parts(
    preference: float, *, ties: float = 0.0, order_effect: float = 0.0
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return for each arm the parts of comparisons in which the second, neither and the first version is preferred.

    Args:
        preference: part in which the treatment is preferred over both orders, ties half to each.
        ties: part in which neither is.
        order_effect: by how much more often than half what is shown first is preferred.

    Raises:
        ValueError: they give a part below 0.
    """
    arms = []
    for own in (1.0 - preference, preference):
        first = own + order_effect - ties / 2.0
        arms.append((1.0 - ties - first, ties, first))
    if any(part < 0.0 for arm in arms for part in arm):
        msg = f"a preference of {preference:g} with ties of {ties:g} and an order effect of {order_effect:g} cannot be"
        raise ValueError(msg)
    return arms[0], arms[1]


def share_parts(control: float, treatment: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return for each arm the parts of rating devices below and above the one edge of a share."""
    return (1.0 - control, control), (1.0 - treatment, treatment)


class OwnMetricScenario(BaseModel):
    """Two equal arms of an app, before the experiment begins.

    Attributes:
        kind: preference, or share: the part of the records that are true, with one edge at a half.
        parts: of the devices with a result, in each bin that has one, for control and treatment; each of sum 1.
        answering: part of the devices that record something in a window.
        devices, epsilon, windows, active, mechanism, runs, seed: as in `ExperimentScenario`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: MetricKind
    parts: tuple[tuple[float, ...], tuple[float, ...]]
    answering: Annotated[float, Field(gt=0, le=1)] = 1.0
    devices: Annotated[int, Field(ge=2, le=DEVICES_MAX)] = 100_000
    epsilon: str = "2"
    windows: Annotated[int, Field(ge=1, le=1000)] = 1
    active: Annotated[float, Field(gt=0, le=1)] = 1.0
    mechanism: Mechanism = Mechanism.RANDOMIZED_RESPONSE
    runs: Annotated[int, Field(ge=1, le=100_000)] = 1
    seed: Annotated[int, Field(ge=0)] = 1

    @model_validator(mode="after")
    def _validate(self) -> Self:
        bins = {MetricKind.PREFERENCE: 3, MetricKind.SHARE: 2}.get(self.kind)
        if bins is None:
            msg = f"kind is preference or share: {self.kind}"
            raise ValueError(msg)
        for arm in self.parts:
            if len(arm) != bins or min(arm) < 0.0 or abs(sum(arm) - 1.0) > _SPREAD:
                msg = f"parts are {bins} numbers of sum 1, at least 0: {arm}"
                raise ValueError(msg)
        return self


@dataclass(frozen=True)
class OwnMetricRun:
    """One experiment.

    Attributes:
        reports: that came by the end.
        difference: of the arms' means at the end, treatment minus control, of a share that of the parts that are true;
            None: noise hides it.
        low, high: its always-valid interval; None: unbounded.
        preference: what people prefer, of the kind `preference`; None as `difference`.
        won_window: the window at whose end the treatment first won, from 1; None: never.
        lost_window: likewise the control.
    """

    reports: int
    difference: float | None
    low: float | None
    high: float | None
    preference: Preference | None
    won_window: int | None
    lost_window: int | None


def simulate_own_metric(
    scenario: OwnMetricScenario, progress: Callable[[int], None] | None = None
) -> Iterator[OwnMetricRun]:
    """Yield the runs of a scenario, one after the other.

    Args:
        scenario: what is simulated.
        progress: called with the number of runs done.

    Raises:
        InvalidFieldError: an epsilon that no experiment can have.
    """
    return repeat_runs(scenario, _record_of(scenario), _run, progress)


def _run(
    scenario: OwnMetricScenario, record: ExperimentRecord, buckets: NDArray[np.uint16], rng: np.random.Generator
) -> OwnMetricRun:
    task = task_of(record)
    arms = arms_of(record, buckets)
    fleet = Fleet(buckets, task.epsilon_fraction, task.window_s, rng, may_use_reserve=task.is_guardrail)
    aggregation = aggregation_mechanism(scenario.mechanism, task, rng)
    bins = 1 + len(scenario.parts[0])

    def counts() -> Iterator[NDArray[np.int64]]:
        for _ in range(scenario.windows):
            reported = arms[fleet.choose(arms >= 0, scenario.active)]
            true = np.zeros(task.cell_count, np.int64)
            for arm, parts in enumerate(scenario.parts):
                shares = (1.0 - scenario.answering, *(scenario.answering * part for part in parts))
                true[arm * bins : (arm + 1) * bins] = rng.multinomial(int((reported == arm).sum()), shares)
            yield true

    compared: Comparison | None = None
    winners: list[int | None] = []
    for compared in compare_windows(record, aggregation, counts()):
        winners.append(winner_of(compared))
    if compared is None:
        raise ValueError(f"a run has one window or more, not {scenario.windows}")
    (pair,) = compared.primary_pairs
    # A share's two bins stand in their middles, 1/4 and 3/4: a part that is true counts as half of what it is.
    unit = 0.5 if scenario.kind is MetricKind.SHARE else 1.0
    difference = None if pair.value is None else pair.value / unit
    low, high = (None, None) if pair.interval is None else (pair.interval[0] / unit, pair.interval[1] / unit)
    found = None
    if scenario.kind is MetricKind.PREFERENCE and pair.value is not None:
        means = [(arm.own_mean, arm.own_interval) for arm in compared.arms]
        known = tuple((mean, interval) for mean, interval in means if mean is not None)
        found = read_preference((pair.value, pair.interval), known if len(known) == len(means) else None)
    return OwnMetricRun(compared.reports, difference, low, high, found, first_win(winners, 1), first_win(winners, 0))


def _record_of(scenario: OwnMetricScenario) -> ExperimentRecord:
    """Return the experiment of a scenario, running.

    Raises:
        InvalidFieldError: as `simulate_own_metric`.
    """
    edges = () if scenario.kind is MetricKind.PREFERENCE else (0.5,)
    definition = MetricDefinition(
        1, "feature", "simulated", 1, scenario.kind, edges, 0.0, True, "simulation", "what devices record"
    )
    metric = validate_metric(definition).planned
    base = record_of(ExperimentScenario(devices=scenario.devices, epsilon=scenario.epsilon))
    plan = ExperimentPlan(primary="metric", own_primary=metric, expected_devices=scenario.devices)
    draft = ExperimentRecord(**{**vars(base), "task_id": None, "plan": plan})
    task = task_of(draft)
    planned = ExperimentPlan(**{**vars(plan), "planned_reports": scenario.devices})
    return ExperimentRecord(**{**vars(draft), "task_id": task.task_id, "plan": planned})
