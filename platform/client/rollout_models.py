"""Defines the values that the server answers with about rollouts.  As in `models`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from alcove.platform.client.models import Value, without_prefix
from alcove.platform.client.parameter_values import ParameterValues
from alcove.platform.client.plots import plot_rollout
from alcove.platform.client.records import guardrail_records
from pydantic import Field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alcove.platform.client.audit import AuditLine
    from matplotlib.figure import Figure

__all__ = [
    "Collection",
    "Ending",
    "GuardrailPlan",
    "GuardrailVerdict",
    "KeptAnalysis",
    "Mechanism",
    "OwnGuardrail",
    "OwnVerdict",
    "Plan",
    "Proposal",
    "Rollout",
    "StageAnalysis",
    "StagePlan",
    "UncollectedWindow",
]

Metric = Annotated[Literal["crash_fallback", "error", "refused", "latency"], without_prefix("GUARD_METRIC_")]
Kind = Annotated[Literal["harmful", "safe", "inconclusive"], without_prefix("GUARD_KIND_")]
Decision = Annotated[Literal["wait", "hold", "ready", "harm", "timeout", "alarm"], without_prefix("STAGE_DECISION_")]
Mechanism = Annotated[Literal["unspecified", "randomized_response", "prio3"], without_prefix("MECHANISM_")]
Action = Annotated[Literal["unspecified", "hold", "pause", "roll_back", "halt"], without_prefix("ACTION_")]


class StagePlan(Value):
    """One step: a share, seconds that it lasts at least, devices of each group (0: the server's default)."""

    share_basis_points: int
    minimum_s: int = 0
    minimum_cohort: int = 0


class GuardrailPlan(Value):
    """A limit on how much worse than the control's a metric may be: a share, or milliseconds for a latency quantile.

    Of "latency" only: `quantile` (0: 0.95), or `edge_ms` for the share of answers that took as long or longer.
    """

    metric: Metric
    margin: float
    quantile: float = 0.0
    edge_ms: float = 0.0


class OwnGuardrail(Value):
    """A limit on how much worse than the control's the mean of a team's own metric may be, in its unit.

    `metric_version` 0: the newest.
    """

    metric: str
    metric_version: int = 0
    margin: float


class Question(Value):
    """A question that a part of the devices is asked, in 1/10 000 of both groups: metrics of guardrails."""

    metrics: tuple[str, ...]
    share_basis_points: int


class Plan(Value):
    """Stages, guardrails and actions of a rollout; fields left out have the server's default."""

    stages: tuple[StagePlan, ...] = ()
    guardrails: tuple[GuardrailPlan, ...] = ()
    on_harm: Action = "unspecified"
    on_timeout: Action = "unspecified"
    timeout_s: int = 0
    auto_advance_reason: str = ""
    epsilon: str = ""
    latency_edges_ms: tuple[float, ...] = ()
    window_s: int = 0
    mechanism: Mechanism = "unspecified"
    expected_devices: int = 0
    horizon_windows: int = 0
    is_open_ended: bool = False
    signature_override_reason: str = ""
    own_guardrails: tuple[OwnGuardrail, ...] = ()
    questions: tuple[Question, ...] = ()


class GuardrailVerdict(Value):
    """The verdict of a guardrail in the last analysis; None where there are too few reports."""

    metric: Metric
    kind: Kind
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str


class OwnVerdict(Value):
    """The verdict of a guardrail of an own metric; a difference above 0 is worse; None: too few reports, unbounded."""

    metric: str
    kind: Kind
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str


class StageAnalysis(Value):
    """The last analysis: what follows, and why; guardrails read `stage_count` stages together.

    Whether the stage is safe is asked at looks; 0 where there is no other (`next_look_at_s`), or no horizon.
    """

    analyzed_at_s: int
    decision: Decision
    code: str
    reason: str
    report_count: int
    devices: tuple[float, ...]
    verdicts: tuple[GuardrailVerdict, ...]
    stage_count: int = 1
    pooled_report_count: int = 0
    look_count: int = 0
    next_look_at_s: int = 0
    horizon_at_s: int = 0
    own_verdicts: tuple[OwnVerdict, ...] = ()


class KeptAnalysis(Value):
    """An analysis that the server keeps, with its stage and the share of devices that ran the version then."""

    stage: int = 0
    share_basis_points: int = 0
    analysis: StageAnalysis


class Proposal(Value):
    """An advance that waits for a second person."""

    proposed_by: str
    proposed_at_s: int
    share_basis_points: int
    override_reason: str


class UncollectedWindow(Value):
    """A window of a task by Prio3 that could have been collected and was not; `is_missing`: it is given up."""

    window: int = 0
    start_s: int
    is_missing: bool = False
    reason: str


class Collection(Value):
    """What became of the windows of a task by Prio3; `uncollected` are the newest, `next_at_s` 0: no other follows."""

    collected_count: int = 0
    waiting_count: int = 0
    missing_count: int = 0
    uncollected: tuple[UncollectedWindow, ...] = ()
    next_at_s: int = 0
    problem: str = ""


class Ending(Value):
    """Why a rollout was rolled back or halted, and by whom."""

    principal: str
    reason: str
    ended_at_s: int


class Rollout(Value):
    """A rollout and where it stands; `promise` says against whom its reports are private.

    `ending` is there where one rollout is asked for that was rolled back or halted.  `values` are of parameters of the
    version, on the devices that it moves.
    """

    rollout_id: str
    app: str
    feature: str
    version: str
    state: Annotated[
        Literal["draft", "running", "paused", "completed", "rolled_back", "halted"], without_prefix("ROLLOUT_STATE_")
    ]
    share_basis_points: int
    created_at_s: int
    updated_at_s: int
    policy_serial: int
    etag: str = ""
    plan: Plan = Field(default_factory=Plan)
    stage: int = 0
    stage_started_at_s: int = 0
    audience: str = ""
    control_basis_points: int = 0
    proposal: Proposal | None = None
    analysis: StageAnalysis | None = None
    promise: str = ""
    ending: Ending | None = None
    collection: Collection | None = None
    values: ParameterValues = Field(default_factory=dict)

    def records(self, history: "Sequence[AuditLine | KeptAnalysis | Self]" = ()) -> list[dict[str, Any]]:
        """Return one flat record for each guardrail of each analysis, the oldest first.

        Columns: rollout_id, app, feature, version, analyzed_at_s, report_count, decision, guardrail, verdict, reason,
        and difference, difference_low, difference_high and margin, each with _share, _ms and _own (the unit).

        Args:
            history: earlier analyses: `client.stage_analyses(rollout_id)`, rollouts that `watch_rollout` yielded, or
                `client.audit(about=rollout_id)`, which has those that led to an action; the rollout has the last one.
        """
        return guardrail_records(self, history)

    def plot(self, history: "Sequence[AuditLine | KeptAnalysis | Self]" = ()) -> "Figure":
        """Return a matplotlib figure of each guardrail's interval over time, with its margin.

        Args:
            history: as in `records`.

        Raises:
            ModuleNotFoundError: matplotlib is not installed (alcove-platform[plot]).
        """
        return plot_rollout(self, history)
