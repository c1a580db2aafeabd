"""Defines the records of a rollout's plan and of its last analysis."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from alcove.platform.domain.own_metrics import OwnGuardrail, own_name
from alcove.registry.policy import Aggregation

__all__ = [
    "MISMATCH",
    "AnalysisRecord",
    "BegunStage",
    "Evidence",
    "GuardrailRecord",
    "KeptAnalysis",
    "LookRecord",
    "PlanAction",
    "Proposal",
    "Question",
    "RolloutPlan",
    "Stage",
    "StageDecisionKind",
    "VerdictRecord",
]


MISMATCH: Final = "sample_ratio_mismatch"  # code of an analysis whose groups do not have their sizes


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
class Question:
    """What a part of the devices reports.

    Attributes:
        metrics: of the guardrails that its reports answer.
        share_basis_points: part of the devices of both groups, in 1/10 000.
    """

    metrics: tuple[str, ...]
    share_basis_points: int = 10_000


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
        expected_devices: of the app, or of the audience; 0: not known.
        horizon_windows: windows of a stage at whose ends it may be found safe; 0: as many as a device's budget of 30
            days pays for.
        is_open_ended: a stage may be found safe at any time, without a horizon, which takes about twice the devices.
        signature_override_reason: why the version may break apps that were built for the default; "": it may not.
        own_guardrails: metrics of the team's own, watched as `guardrails` are.
        questions: how the guardrails are shared out among the devices, by the server; none: one has all of them.
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
    expected_devices: int = 0
    horizon_windows: int = 0
    is_open_ended: bool = False
    signature_override_reason: str = ""
    own_guardrails: tuple[OwnGuardrail, ...] = ()
    questions: tuple[Question, ...] = ()

    @property
    def watched(self) -> tuple[str, ...]:
        """Names of what is watched, in the order of its verdicts: guardrails, then own metrics as metric:NAME."""
        own = (own_name(each.metric.name) for each in self.own_guardrails)
        return (*(each.metric for each in self.guardrails), *own)


@dataclass(frozen=True)
class Proposal:
    """An advance that waits for a second person; a share in 1/10 000, seconds since 1970."""

    proposed_by: str
    proposed_at_s: int
    share_basis_points: int
    override_reason: str


@dataclass(frozen=True)
class VerdictRecord:
    """The verdict of one guardrail, harmful, safe or inconclusive, and the difference to the control; None: unknown.

    `metric` is a name of `RolloutPlan.watched`.
    """

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
        stages: whose reports the guardrails read, this one among them.
        pooled_reports: of all of them.
        looks: that were made at this stage.
        next_look_at_s: when the next one is due, seconds since 1970; 0: there is none.
        horizon_at_s: when the last one is due; 0: the stage has no horizon.
    """

    analyzed_at_s: int
    decision: StageDecisionKind
    code: str
    reason: str
    reports: int
    devices: tuple[float, ...]
    verdicts: tuple[VerdictRecord, ...]
    is_attested: bool = False
    stages: int = 1
    pooled_reports: int = 0
    looks: int = 0
    next_look_at_s: int = 0
    horizon_at_s: int = 0


@dataclass(frozen=True)
class KeptAnalysis:
    """An analysis that was kept, with the stage whose reports it read and the stage's share in 1/10 000."""

    sequence: int
    stage: int
    share_basis_points: int
    analysis: AnalysisRecord


@dataclass(frozen=True)
class BegunStage:
    """A stage with a control group, as it began; nothing of it changes later.

    Attributes:
        stage: its number, from 1.
        started_at_s: seconds since 1970; names the task of its reports.
        share_basis_points: devices that run the version.
        control_basis_points: devices that they are compared with.
        horizon_windows: at whose ends it may be found safe; 0: at any time.
        planned_reports: that are expected by then.
        early_windows: at whose ends harm is tested early, by a part of the error of its own; 0: it is not, as in all
            stages but the first one with a control group.
    """

    stage: int
    started_at_s: int
    share_basis_points: int
    control_basis_points: int
    horizon_windows: int
    planned_reports: int
    early_windows: int = 0


@dataclass(frozen=True)
class LookRecord:
    """One look at whether the present stage is safe, at the end of a window; later reports change nothing of it.

    Attributes:
        windows: of the stage that were over.
        reports: that were in, pooled over stages (`stats.effective_reports`).
        boundary: standard errors that had to lie between estimate and margin; None: nothing could be called yet.
        analyzed_at_s: seconds since 1970.
        verdicts: in the order of the guardrails.
    """

    windows: int
    reports: float
    boundary: float | None
    analyzed_at_s: int
    verdicts: tuple[VerdictRecord, ...]


@dataclass(frozen=True)
class Evidence:
    """What the tests of a rollout's guardrails are fixed by, and what was seen at looks.

    Attributes:
        planned_reports: where the test of harm, one for the whole rollout, is sharpest: the reports that the first
            watched stage expects; fixed when it begins; 0: it has not.
        later_reports: where it shall be sharp too: half of those that all watched stages expect; likewise.
        early_part: of the error of harm, for the early looks of the first watched stage; likewise; 0: it has none.
        stages: that began with a control group, in order; the present one last.  One that was left by a person's
            reason while its reports were impossible, or its groups not of their sizes, is no part of it.
        looks: of the present stage.
    """

    planned_reports: int = 0
    later_reports: int = 0
    early_part: float = 0.0
    stages: tuple[BegunStage, ...] = ()
    looks: tuple[LookRecord, ...] = ()
