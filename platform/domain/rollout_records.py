"""Defines the records of a rollout's plan and of its last analysis."""

from dataclasses import dataclass
from enum import StrEnum

from alcove.registry.policy import Aggregation

__all__ = [
    "AnalysisRecord",
    "GuardrailRecord",
    "PlanAction",
    "Proposal",
    "RolloutPlan",
    "Stage",
    "StageDecisionKind",
    "VerdictRecord",
]


class PlanAction(StrEnum):
    """An action of the plan; `rollouts/decide.py` says when."""

    HOLD = "hold"
    PAUSE = "pause"
    ROLL_BACK = "rollback"
    HALT = "halt"


class StageDecisionKind(StrEnum):
    """The decision after an analysis of a stage, by the rules of `rollouts/decide.py`."""

    WAIT = "wait"
    HOLD = "hold"
    READY = "ready"
    HARM = "harm"
    TIMEOUT = "timeout"
    ALARM = "alarm"


@dataclass(frozen=True)
class Stage:
    """One step: a share in 1/10 000, seconds that it lasts at least, devices that each group has at least."""

    share_basis_points: int
    minimum_s: int
    minimum_cohort: int


@dataclass(frozen=True)
class GuardrailRecord:
    """What must not get worse.

    Attributes:
        metric: as `platform.stats.GuardMetric` spells it.
        margin: by how much more than the control's it may be: a share, or milliseconds for a quantile.
        quantile: of a latency in milliseconds; None for the others.
        edge_ms: of a latency as a share: answers that took this long or longer are slow; None for the others.
    """

    metric: str
    margin: float
    quantile: float | None = None
    edge_ms: float | None = None


@dataclass(frozen=True)
class RolloutPlan:
    """Stages, guardrails and actions of a rollout.

    Attributes:
        stages: rising; none: the operator names each share and nothing is watched.
        guardrails: watched at each stage that has a control group.
        on_harm: pause, roll back or halt; on reports that are not attested no more than a pause.
        on_timeout: hold, pause or roll back, for a stage that was not found safe in time; as `on_harm`.
        timeout_s: seconds after which that is so; 0: never.
        auto_advance_reason: why it may advance by itself; "": a person advances.
        epsilon: privacy loss of one report, or of a window's sums where aggregators add them up; decimal text.
        latency_edges_ms: upper edges of the latency bins but the last, rising.
        window_s: seconds in which a device reports at most once.
        aggregation: the aggregators of the reports; None: randomized response.
    """

    stages: tuple[Stage, ...] = ()
    guardrails: tuple[GuardrailRecord, ...] = ()
    on_harm: PlanAction = PlanAction.HALT
    on_timeout: PlanAction = PlanAction.HOLD
    timeout_s: int = 0
    auto_advance_reason: str = ""
    epsilon: str = "2"
    latency_edges_ms: tuple[float, ...] = ()
    window_s: int = 86_400
    aggregation: Aggregation | None = None


@dataclass(frozen=True)
class Proposal:
    """An advance that waits for a second person; a share in 1/10 000, seconds since 1970."""

    proposed_by: str
    proposed_at_s: int
    share_basis_points: int
    override_reason: str


@dataclass(frozen=True)
class VerdictRecord:
    """The verdict of one guardrail, harmful, safe or inconclusive, and the difference to the control; None: unknown."""

    metric: str
    kind: str
    difference: float | None
    low: float | None
    high: float | None
    reason: str


@dataclass(frozen=True)
class AnalysisRecord:
    """The last analysis of a stage's reports.

    Attributes:
        analyzed_at_s: seconds since 1970.
        decision: what follows.
        code: the rule that says so.
        reason: one sentence with the bound and the value.
        reports: counted in this stage.
        devices: estimated, of control and treatment.
        verdicts: one for each guardrail of the plan.
        is_attested: each report came from an enrolled device.
    """

    analyzed_at_s: int
    decision: StageDecisionKind
    code: str
    reason: str
    reports: int
    devices: tuple[float, ...]
    verdicts: tuple[VerdictRecord, ...]
    is_attested: bool = False
