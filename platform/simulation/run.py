"""Simulates the runs of a scenario: each is one rollout, window by window.

The policy is compiled from the rollout's record as the server does it; what the reports say is analyzed, decided and
acted on by the engine's own pure functions.  A window's reports are looked at when it ends.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from alcove.platform.domain.policy import compile_policy
from alcove.platform.domain.records import Default, RolloutRecord, RolloutState
from alcove.platform.domain.reports import reports_per_device
from alcove.platform.domain.rollout_records import StageDecisionKind
from alcove.platform.domain.rollouts.analysis import AnalysisResult, StageCounts, analyze
from alcove.platform.domain.rollouts.decide import StageDecision, action_of, decide
from alcove.platform.domain.rollouts.machine import Action, transition
from alcove.platform.domain.rollouts.task import stage_tasks, tasks_of
from alcove.platform.simulation.aggregation import AggregationMechanism, aggregation_mechanism
from alcove.platform.simulation.fleet import Fleet, buckets_of
from alcove.platform.simulation.scenario import Scenario
from alcove.registry.policy import RolloutPolicy, TaskPolicy
from numpy.typing import NDArray

__all__ = ["Run", "WindowAnalysis", "simulate"]

APP: Final = "simulated"
FEATURE: Final = "feature"
_START_S: Final = 1_800_000_000  # any moment; the engine's clock is given


@dataclass(frozen=True)
class WindowAnalysis:
    """The analysis at a window's end: the guardrails' differences in the order of the plan, None where unknown."""

    window: int
    share_basis_points: int
    stage: int
    reports: int
    decision: str
    code: str
    differences: tuple[tuple[float | None, float | None, float | None], ...]


@dataclass(frozen=True)
class Run:
    """One rollout from its first stage to its end, or to the last window.

    Attributes:
        state: where it stands at the end.
        code: the rule that said so at the last analysis.
        harmed_window: the window at whose end harm was found, from 1; None: never.
        completed_window: likewise, when it was complete.
        analyses: at the end of each window.
        epsilon_mean: spent by a device that took part, on average.
        epsilon_max: spent by the device that spent most.
        device_windows: devices times windows.
    """

    state: RolloutState
    code: str
    harmed_window: int | None
    completed_window: int | None
    analyses: tuple[WindowAnalysis, ...]
    epsilon_mean: float
    epsilon_max: float
    device_windows: int


def simulate(scenario: Scenario, progress: Callable[[int], None] | None = None) -> Iterator[Run]:
    """Yield the runs of a scenario, one after the other.

    The devices' secrets are hashed once; each run permutes their buckets, which equals new secrets.

    Args:
        scenario: what is simulated.
        progress: called with the number of runs done.
    """
    rng = np.random.default_rng(scenario.seed)
    salt = "simulated-rollout"
    buckets = buckets_of(scenario.devices, salt, rng)
    chances = [
        [np.array(each.cells(task)) for each in (scenario.control, scenario.treatment)]
        for task in tasks_of("ro-simulated", scenario.plan, _START_S)
    ]
    for number in range(1, scenario.runs + 1):
        yield _run(scenario, rng.permutation(buckets), salt, chances, rng)
        if progress is not None:
            progress(number)


def _run(
    scenario: Scenario,
    buckets: NDArray[np.uint16],
    salt: str,
    chances: Sequence[Sequence[NDArray[np.float64]]],
    rng: np.random.Generator,
) -> Run:
    plan = scenario.plan
    epsilon = Fraction(plan.epsilon)
    fleet = Fleet(buckets, epsilon, plan.window_s, rng, spent=Fraction(str(scenario.spent)))
    now_s = _START_S
    record = transition(_draft(scenario, salt), Action.ADVANCE, now_s=now_s)
    analyses: list[WindowAnalysis] = []
    tasks: tuple[TaskPolicy, ...] = ()
    aggregations: list[AggregationMechanism] = []
    earlier: list[list[StageCounts]] = []
    windows = 0
    decision = StageDecision(StageDecisionKind.WAIT, "not_begun", "")
    harmed = completed = None
    for window in range(1, scenario.windows + 1):
        rollout = _compile_policy(record)
        if rollout is None:
            break
        if rollout.tasks != tasks:
            tasks, windows = rollout.tasks, 0
            aggregations = [
                aggregation_mechanism(scenario.mechanism, task, rng, lost_replies=scenario.lost_replies)
                for task in tasks
            ]
        windows += 1
        now_s += plan.window_s
        counts: list[StageCounts] = []
        reported = fleet.report(rollout, chances, scenario.active)
        for task, aggregation, of_task in zip(tasks, aggregations, reported, strict=True):
            aggregation.add(of_task)
            collected = None if task.aggregation is None else windows
            counts.append(StageCounts(aggregation.aggregate(), reports_per_device(task, windows), collected))
        result = analyze(record, [*earlier, counts], now_s=now_s)
        record = replace(record, evidence=replace(record.evidence, looks=result.looks))
        decision = decide(record, result, now_s=now_s)
        analyses.append(_window_analysis(window, record, result, decision))
        action = action_of(record, decision.kind, is_attested=result.is_attested)
        if action is None and decision.kind is StageDecisionKind.READY and scenario.is_advanced:
            action = Action.ADVANCE
        if decision.kind is StageDecisionKind.HARM:
            harmed = window
        if action is not None:
            record = transition(record, action, now_s=now_s)
        if action is Action.ADVANCE:
            earlier.append(counts)
        if record.state is RolloutState.COMPLETED:
            completed = window
        if record.state is not RolloutState.RUNNING:
            break
    took_part = fleet.total[fleet.total > 0]
    return Run(
        state=record.state,
        code=decision.code,
        harmed_window=harmed,
        completed_window=completed,
        analyses=tuple(analyses),
        epsilon_mean=float(took_part.mean() * epsilon) if len(took_part) else 0.0,
        epsilon_max=float(took_part.max() * epsilon) if len(took_part) else 0.0,
        device_windows=len(buckets) * len(analyses),
    )


def _draft(scenario: Scenario, salt: str) -> RolloutRecord:
    return RolloutRecord(
        sequence=1,
        rollout_id="ro-simulated",
        app=APP,
        feature=FEATURE,
        version="2.0.0",
        manifest_sha256="2" * 64,
        salt=salt,
        state=RolloutState.DRAFT,
        share_basis_points=0,
        created_at_s=_START_S,
        updated_at_s=_START_S,
        policy_serial=0,
        plan=scenario.plan,
    )


def _compile_policy(record: RolloutRecord) -> RolloutPolicy | None:
    """Return the rollout as the app's policy has it; None where nothing is compared."""
    if not stage_tasks(record):
        return None
    default = Default(APP, FEATURE, "1.0.0", "1" * 64)
    policy = compile_policy(APP, 1, defaults=[default], rollouts=[record], experiments=[], min_versions={})
    return policy.features[FEATURE].rollout


def _window_analysis(
    window: int, record: RolloutRecord, result: AnalysisResult, decision: StageDecision
) -> WindowAnalysis:
    return WindowAnalysis(
        window=window,
        share_basis_points=record.share_basis_points,
        stage=record.stage,
        reports=result.reports,
        decision=decision.kind,
        code=decision.code,
        differences=tuple((verdict.low, verdict.difference, verdict.high) for verdict in result.verdicts),
    )
