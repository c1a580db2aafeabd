"""Simulates experiments of the accepted share, with what devices did before (CUPED) in their reports, or without it.

Each device accepts an answer with a probability of its own, Beta distributed, and gave answers before the experiment;
the bin of their share is part of its report, as `sdk/history.py` settles it (`platform/stats/cuped_gain.py` has the
closed form). In each window it reports one new answer, as its budget lets it. Buckets, task, noise, and what is
compared and decided are those of the server; answers without feedback make no report.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Final, Protocol, Self, TypeVar

import numpy as np
from alcove.platform.domain.experiment_records import ExperimentPlan
from alcove.platform.domain.experiments.analysis import compare
from alcove.platform.domain.experiments.plan import make_plan
from alcove.platform.domain.experiments.task import task_of
from alcove.platform.domain.policy import compile_policy
from alcove.platform.domain.records import ArmRecord, Default, ExperimentRecord, ExperimentState
from alcove.platform.domain.reports import reports_per_device
from alcove.platform.simulation.aggregation import AggregationMechanism, aggregation_mechanism
from alcove.platform.simulation.fleet import Fleet, buckets_of
from alcove.platform.simulation.scenario import DEVICES_MAX
from alcove.platform.stats import Comparison, Mechanism, ReasonCode
from alcove.platform.stats.cuped_gain import ANSWERS, CORRELATION, acceptance_model
from alcove.privacy.limits import DAY_S, EPSILON_PER_30_DAYS
from alcove.registry.limits import POLICY_BUCKETS
from alcove.registry.policy import Outcome, TaskPolicy
from alcove.registry.policy.assignment import arm_ranges
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "ExperimentRun",
    "ExperimentScenario",
    "WindowComparison",
    "arms_of",
    "compare_windows",
    "first_win",
    "record_of",
    "repeat_runs",
    "simulate_experiment",
    "winner_of",
]

APP: Final = "simulated"
FEATURE: Final = "feature"
RunT = TypeVar("RunT")
LEAST_KNOWN: Final = 5  # earlier answers; with fewer a device's share is unknown, as on devices
_START_S: Final = 1_800_000_000  # any moment; the engine's clock is given


class Repeatable(Protocol):
    """What every scenario says of its runs: of how many devices, how many, and with which randomness."""

    @property
    def devices(self) -> int: ...

    @property
    def runs(self) -> int: ...

    @property
    def seed(self) -> int: ...


ScenarioT = TypeVar("ScenarioT", bound=Repeatable)


class ExperimentScenario(BaseModel):
    """Two arms of an app, before the experiment begins.

    Attributes:
        devices: of the app, all of which take part, half in each arm.
        rate: accepted share of the control, in (0, 1).
        effect: by how much more the treatment is accepted.
        pre_edges: of the earlier share; none: it is no part of the reports.
        correlation: of a device's earlier share and a later outcome.
        answers: earlier answers of each device.
        unknown: share of the devices that gave too few answers before.
        feedback: share of the answers that the app notes what the user made of.
        epsilon: of a report, or of a window's sums; decimal text.
        window_s: seconds of a window.
        windows: that are simulated.
        active: share of the devices that report in a window.
        spent: privacy loss that each device has spent on other tasks when the experiment begins.
        lost_replies: as in `Scenario`.
        mechanism: how reports become sums, not EXACT.
        runs: how often all of it is repeated.
        seed: of everything random.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    devices: Annotated[int, Field(ge=2, le=DEVICES_MAX)] = 100_000
    rate: Annotated[float, Field(gt=0, lt=1)] = 0.8
    effect: Annotated[float, Field(gt=-1, lt=1)] = 0.0
    pre_edges: tuple[float, ...] = ()
    correlation: Annotated[float, Field(gt=0, lt=1)] = CORRELATION
    answers: Annotated[int, Field(ge=1, le=64)] = ANSWERS
    unknown: Annotated[float, Field(ge=0, le=1)] = 0.0
    feedback: Annotated[float, Field(gt=0, le=1)] = 1.0
    epsilon: str = "2"
    window_s: Annotated[int, Field(ge=3600)] = DAY_S
    windows: Annotated[int, Field(ge=1, le=1000)] = 1
    active: Annotated[float, Field(gt=0, le=1)] = 1.0
    spent: Annotated[float, Field(ge=0, le=float(EPSILON_PER_30_DAYS))] = 0.0
    lost_replies: Annotated[float, Field(ge=0, lt=1)] = 0.0
    mechanism: Mechanism = Mechanism.RANDOMIZED_RESPONSE
    runs: Annotated[int, Field(ge=1, le=100_000)] = 1
    seed: Annotated[int, Field(ge=0)] = 1

    @model_validator(mode="after")
    def _validate(self) -> Self:
        if self.mechanism is Mechanism.EXACT:
            msg = "reports have a mechanism: randomized-response or prio3"
            raise ValueError(msg)
        if not 0.0 <= self.rate + self.effect <= 1.0:
            msg = f"rate and effect add up to {self.rate + self.effect:g}, in [0, 1]"
            raise ValueError(msg)
        return self

    def without_earlier_share(self) -> "ExperimentScenario":
        """Return the same devices with reports that say nothing of what they did before."""
        return self.model_copy(update={"pre_edges": ()})


@dataclass(frozen=True)
class WindowComparison:
    """What all reports say at the end of a window.

    Attributes:
        reports: that came.
        difference: of the accepted shares, treatment minus control, corrected where earlier shares are reported; None:
            noise hides the arms' sizes.
        standard_error: of it.
        uncorrected_error: that of the same reports without the correction.
        winner: index of the arm that won; None: none.
    """

    reports: int
    difference: float | None
    standard_error: float | None
    uncorrected_error: float | None
    winner: int | None


@dataclass(frozen=True)
class ExperimentRun:
    """One experiment.

    Attributes:
        windows: what was said at the end of each.
        won_window: the window at whose end the treatment first won, from 1; None: never.
        lost_window: likewise the control.
        epsilon_max: spent by the device that spent most.
    """

    windows: tuple[WindowComparison, ...]
    won_window: int | None
    lost_window: int | None
    epsilon_max: float


def simulate_experiment(
    scenario: ExperimentScenario, progress: Callable[[int], None] | None = None
) -> Iterator[ExperimentRun]:
    """Yield the runs of a scenario, one after the other.

    Args:
        scenario: what is simulated.
        progress: called with the number of runs done.

    Raises:
        InvalidFieldError: edges or epsilon are none that an experiment can have.
    """
    return repeat_runs(scenario, record_of(scenario), _run, progress)


def repeat_runs(
    scenario: ScenarioT,
    record: ExperimentRecord,
    run: Callable[[ScenarioT, ExperimentRecord, NDArray[np.uint16], np.random.Generator], RunT],
    progress: Callable[[int], None] | None,
) -> Iterator[RunT]:
    """Yield the runs of a scenario, one after the other, each with the devices' buckets in another order.

    Args:
        scenario: what is simulated.
        record: its experiment.
        run: makes one of scenario, record, buckets and the source of everything random.
        progress: called with the number of runs done.
    """
    rng = np.random.default_rng(scenario.seed)
    buckets = buckets_of(scenario.devices, record.salt, rng)
    for number in range(1, scenario.runs + 1):
        yield run(scenario, record, rng.permutation(buckets), rng)
        if progress is not None:
            progress(number)


def compare_windows(
    record: ExperimentRecord, aggregation: AggregationMechanism, counts: Iterable[NDArray[np.int64]]
) -> Iterator[Comparison]:
    """Yield what all reports say at the end of each window, as the server compares them.

    Args:
        record: of the experiment.
        aggregation: that the reports go through.
        counts: of the reports of each window by cell, before noise; taken one window at a time.
    """
    task = task_of(record)
    for window, true in enumerate(counts, 1):
        aggregation.add(true)
        yield compare(record, aggregation.aggregate(), reports_per_device(task, window))


def winner_of(compared: Comparison) -> int | None:
    """Return the index of the arm that a comparison has win; None: none."""
    return compared.decision.winner if compared.decision.code is ReasonCode.BETTER else None


def first_win(winners: Sequence[int | None], arm: int) -> int | None:
    """Return the window, from 1, at whose end an arm first won; None: never."""
    return next((window for window, winner in enumerate(winners, 1) if winner == arm), None)


def _run(
    scenario: ExperimentScenario, record: ExperimentRecord, buckets: NDArray[np.uint16], rng: np.random.Generator
) -> ExperimentRun:
    task = task_of(record)
    arms = arms_of(record, buckets)
    chances = rng.beta(
        *acceptance_model(scenario.rate, correlation=scenario.correlation, answers=scenario.answers), size=len(buckets)
    )
    bins = _earlier_bins(scenario, chances, rng)
    chances = np.where(arms == 1, np.clip(chances + scenario.effect, 0.0, 1.0), chances)
    fleet = Fleet(
        buckets,
        task.epsilon_fraction,
        task.window_s,
        rng,
        spent=Fraction(str(scenario.spent)),
        may_use_reserve=task.is_guardrail,
    )
    aggregation = aggregation_mechanism(scenario.mechanism, task, rng, lost_replies=scenario.lost_replies)
    cells = _cells_of(task)

    def counts() -> Iterator[NDArray[np.int64]]:
        for _ in range(scenario.windows):
            noted = (arms >= 0) & (rng.random(len(arms), dtype=np.float32) < scenario.feedback)
            reported = fleet.choose(noted, scenario.active)
            accepted = (rng.random(len(arms)) < chances)[reported].astype(np.int64)
            true = np.bincount(cells[arms[reported], accepted, bins[reported]], minlength=task.cell_count)
            yield true.astype(np.int64)

    found: list[WindowComparison] = []
    for compared in compare_windows(record, aggregation, counts()):
        (pair,), plain = compared.primary_pairs, compared.pairs[0]
        errors = pair.standard_error, plain.standard_error
        found.append(WindowComparison(compared.reports, pair.value, *errors, winner_of(compared)))
    winners = [each.winner for each in found]
    spent = float(fleet.total.max() * task.epsilon_fraction)
    return ExperimentRun(tuple(found), first_win(winners, 1), first_win(winners, 0), spent)


def _earlier_bins(
    scenario: ExperimentScenario, chances: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return the bin of each device's earlier share; 0: unknown, and that of all where it is not reported."""
    if not scenario.pre_edges:
        return np.zeros(len(chances), np.intp)
    share = rng.binomial(scenario.answers, chances) / scenario.answers
    found = np.searchsorted(np.asarray(scenario.pre_edges), share, side="right") + 1
    is_unknown = rng.random(len(chances)) < (1.0 if scenario.answers < LEAST_KNOWN else scenario.unknown)
    return np.where(is_unknown, 0, found)


def arms_of(record: ExperimentRecord, buckets: NDArray[np.uint16]) -> NDArray[np.intp]:
    """Return each device's arm, as the app's policy has it; -1: none."""
    defaults = [Default(APP, FEATURE, "1.0.0", "1" * 64)]
    policy = compile_policy(APP, 1, defaults=defaults, rollouts=[], experiments=[record], min_versions={})
    (experiment,) = policy.features[FEATURE].experiments
    found = np.full(len(buckets), -1, np.intp)
    for arm, members in enumerate(arm_ranges(experiment)):
        found[(buckets >= members.start) & (buckets < members.stop)] = arm
    return found


def _cells_of(task: TaskPolicy) -> NDArray[np.intp]:
    """Return the cell of each arm, outcome (refused, accepted) and bin of the earlier share."""
    layout = task.layout
    outcomes = (Outcome.REFUSED, Outcome.ACCEPTED)
    return np.array(
        [
            [
                [layout.cell_index(arm, outcome, 0, place) for place in range(layout.covariate_bins)]
                for outcome in outcomes
            ]
            for arm in range(layout.arms)
        ],
        np.intp,
    )


def record_of(scenario: ExperimentScenario) -> ExperimentRecord:
    """Return the experiment of a scenario, running.

    Raises:
        InvalidFieldError: as `simulate_experiment`.
    """
    half = POLICY_BUCKETS // 2
    draft = ExperimentRecord(
        sequence=1,
        experiment_id="ex-simulated",
        app=APP,
        feature=FEATURE,
        salt="simulated-experiment",
        arms=(ArmRecord("control", "1.0.0", "1" * 64, half), ArmRecord("treatment", "2.0.0", "2" * 64, half)),
        state=ExperimentState.RUNNING,
        epsilon=scenario.epsilon,
        latency_edges_ms=(),
        window_s=scenario.window_s,
        minimum_cohort=1,
        created_at_s=_START_S,
        started_at_s=_START_S,
        stopped_at_s=None,
        task_id=None,
        decision=None,
        policy_serial=0,
        plan=ExperimentPlan(pre_edges=scenario.pre_edges, base_rate=scenario.rate, expected_devices=scenario.devices),
    )
    task = task_of(draft)
    return ExperimentRecord(**{**vars(draft), "task_id": task.task_id, "plan": make_plan(draft, task)})
