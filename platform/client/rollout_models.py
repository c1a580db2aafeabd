"""Defines the values that the server answers with about rollouts.  As in `models`."""

from typing import Annotated, Literal

from alcove.platform.client.models import Value, without_prefix
from pydantic import Field

__all__ = ["Examination", "GuardrailPlan", "Plan", "Proposal", "Rollout", "StagePlan", "Verdict"]

Metric = Annotated[Literal["crash_fallback", "error", "refused", "latency"], without_prefix("GUARD_METRIC_")]
Action = Annotated[Literal["unspecified", "hold", "pause", "roll_back", "halt"], without_prefix("ACTION_")]


class StagePlan(Value):
    """One step: a share, seconds that it lasts at least, devices of each group (0: the server's default)."""

    share_permyriad: int
    minimum_s: int = 0
    minimum_cohort: int = 0


class GuardrailPlan(Value):
    """What must not get worse than the control's by more than a margin: a share, or milliseconds for "latency"."""

    metric: Metric
    margin: float
    quantile: float = 0.0


class Plan(Value):
    """How a rollout goes on and what stops it; what is left open is the server's default."""

    stages: tuple[StagePlan, ...] = ()
    guardrails: tuple[GuardrailPlan, ...] = ()
    on_harm: Action = "unspecified"
    on_timeout: Action = "unspecified"
    timeout_s: int = 0
    waiver: str = ""
    epsilon: str = ""
    latency_edges_ms: tuple[float, ...] = ()
    window_s: int = 0


class Verdict(Value):
    """What a guardrail said at the last look; None where the reports say too little."""

    metric: Metric
    kind: str
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str


class Examination(Value):
    """The last look at the present stage: "wait", "hold", "ready", "harm", "timeout" or "alarm", and why."""

    examined_at_s: int
    judgement: str
    code: str
    reason: str
    report_count: int
    devices: tuple[float, ...]
    verdicts: tuple[Verdict, ...]


class Proposal(Value):
    """An advance that waits for a second person."""

    proposed_by: str
    proposed_at_s: int
    share_permyriad: int
    override_reason: str


class Rollout(Value):
    """A rollout and where it stands."""

    rollout_id: str
    app: str
    feature: str
    version: str
    state: Annotated[
        Literal["draft", "running", "paused", "completed", "rolled_back", "halted"], without_prefix("ROLLOUT_STATE_")
    ]
    share_permyriad: int
    created_at_s: int
    updated_at_s: int
    policy_serial: int
    etag: str = ""
    plan: Plan = Field(default_factory=Plan)
    stage: int = 0
    stage_started_at_s: int = 0
    audience: str = ""
    control_permyriad: int = 0
    proposal: Proposal | None = None
    examination: Examination | None = None
