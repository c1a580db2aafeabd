"""Defines the records of a rollout's plan, and of what its reports said at the last look."""

from dataclasses import dataclass
from enum import StrEnum

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
    """What happens by itself; `rollouts/decide.py` says when."""

    HOLD = "hold"
    PAUSE = "pause"
    ROLL_BACK = "rollback"
    HALT = "halt"


class StageDecisionKind(StrEnum):
    """What follows from a look at a stage; `rollouts/decide.py` says from what."""

    WAIT = "wait"
    HOLD = "hold"
    READY = "ready"
    HARM = "harm"
    TIMEOUT = "timeout"
    ALARM = "alarm"


@dataclass(frozen=True)
class Stage:
    """One step: a share in 1/10 000, seconds that it lasts at least, devices that each group has at least."""

    share_permyriad: int
    minimum_s: int
    minimum_cohort: int


@dataclass(frozen=True)
class GuardrailRecord:
    """What must not get worse.

    Attributes:
        metric: as `platform.stats.GuardMetric` spells it.
        margin: by how much more than the control's it may be: a share, or milliseconds.
        quantile: of a latency; None for the others.
    """

    metric: str
    margin: float
    quantile: float | None = None


@dataclass(frozen=True)
class RolloutPlan:
    """How a rollout goes on and what stops it.

    Attributes:
        stages: rising; none: the operator names each share and nothing is watched.
        guardrails: watched at each stage that has a control group.
        on_harm: pause, roll back or halt; on reports that are not attested no more than a pause.
        on_timeout: hold, pause or roll back, for a stage that was not found safe in time; as `on_harm`.
        timeout_s: seconds after which that is so; 0: never.
        waiver: why it may advance by itself; "": a person advances.
        epsilon: privacy loss of one report, decimal text.
        latency_edges_ms: upper edges of the latency bins but the last, rising.
        window_s: seconds in which a device reports at most once.
    """

    stages: tuple[Stage, ...] = ()
    guardrails: tuple[GuardrailRecord, ...] = ()
    on_harm: PlanAction = PlanAction.HALT
    on_timeout: PlanAction = PlanAction.HOLD
    timeout_s: int = 0
    waiver: str = ""
    epsilon: str = "1"
    latency_edges_ms: tuple[float, ...] = ()
    window_s: int = 86_400


@dataclass(frozen=True)
class Proposal:
    """An advance that waits for a second person; a share in 1/10 000, seconds since 1970."""

    proposed_by: str
    proposed_at_s: int
    share_permyriad: int
    override_reason: str


@dataclass(frozen=True)
class VerdictRecord:
    """What one guardrail said: harmful, safe or inconclusive; the difference to the control, None: cannot be told."""

    metric: str
    kind: str
    difference: float | None
    low: float | None
    high: float | None
    reason: str


@dataclass(frozen=True)
class AnalysisRecord:
    """What the reports of a stage said at the last look.

    Attributes:
        examined_at_s: seconds since 1970.
        judgement: what follows.
        code: the rule that says so.
        reason: one sentence with the bound and the value.
        reports: counted in this stage.
        devices: estimated, of control and treatment.
        verdicts: one for each guardrail of the plan.
        is_attested: each report came from an enrolled device.
    """

    examined_at_s: int
    judgement: StageDecisionKind
    code: str
    reason: str
    reports: int
    devices: tuple[float, ...]
    verdicts: tuple[VerdictRecord, ...]
    is_attested: bool = False
