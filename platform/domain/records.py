"""Defines the records that store, engines and services hand to each other: versions, rollouts, experiments, layers.

Frozen, no database and no wire type inside.
"""

from dataclasses import dataclass, field

from alcove.platform.domain.experiment_records import Allocation, ExperimentPlan, InterimAnalysis, StoredDecision
from alcove.platform.domain.rollout_records import AnalysisRecord, Evidence, Proposal, RolloutPlan
from alcove.platform.domain.states import ExperimentState, RolloutState, VersionState
from alcove.registry.parameters import Setting

__all__ = [
    "ArmRecord",
    "Default",
    "ExperimentRecord",
    "ExperimentState",
    "HoldoutRecord",
    "LayerRecord",
    "Page",
    "RolloutRecord",
    "RolloutState",
    "SegmentRecord",
    "StoredDecision",
    "VariantRecord",
    "VersionRecord",
    "VersionState",
]


@dataclass(frozen=True)
class VariantRecord:
    """One program of a version; sizes in bytes."""

    name: str
    engine: str
    sha256: str
    size_bytes: int
    memory_ceiling_bytes: int


@dataclass(frozen=True)
class VersionRecord:
    """A published version; `sequence` orders publications, `manifest` is the canonical JSON that was signed."""

    sequence: int
    feature: str
    version: str
    team: str
    manifest_sha256: str
    manifest: bytes
    variants: tuple[VariantRecord, ...]
    published_at_s: int
    state: VersionState


@dataclass(frozen=True)
class Default:
    """The version that an app's devices run where no rollout or experiment says otherwise, and its parameters' values.

    Here and below `values` go by name; a parameter without one has its default.
    """

    app: str
    feature: str
    version: str
    manifest_sha256: str
    values: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class RolloutRecord:
    """A rollout; shares in 1/10 000 of all devices; `policy_serial` 0: no policy carries it yet.

    Attributes:
        plan: how it advances.
        audience: canonical text; "": every device.
        stage: number of the present stage, from 1; 0: a draft, or no stages.
        stage_started_at_s: when it began; 0: none did.
        control_basis_points: devices that are compared with the treated ones.
        proposal: the advance that waits for a second person.
        analysis: the last analysis of the present stage.
        evidence: stages that began, and the looks of the present one.
        revision: rises with every change.
        values: of the version's parameters on the devices that it moves.
    """

    sequence: int
    rollout_id: str
    app: str
    feature: str
    version: str
    manifest_sha256: str
    salt: str
    state: RolloutState
    share_basis_points: int
    created_at_s: int
    updated_at_s: int
    policy_serial: int
    plan: RolloutPlan = field(default_factory=RolloutPlan)
    audience: str = ""
    stage: int = 0
    stage_started_at_s: int = 0
    control_basis_points: int = 0
    proposal: Proposal | None = None
    analysis: AnalysisRecord | None = None
    evidence: Evidence = Evidence()  # noqa: RUF009 - immutable
    revision: int = 0
    values: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class ArmRecord:
    """One side of an experiment; share in 1/10 000 of all devices."""

    name: str
    version: str
    manifest_sha256: str
    share_basis_points: int
    values: tuple[Setting, ...] = ()


@dataclass(frozen=True)
class SegmentRecord:
    """A part of a layer: buckets [first, first + count) of 10 000."""

    layer: str
    first: int
    count: int


@dataclass(frozen=True)
class LayerRecord:
    """A set of experiments of an app that exclude each other."""

    app: str
    name: str
    salt: str
    created_at_s: int


@dataclass(frozen=True)
class HoldoutRecord:
    """Devices of an app that take part in no experiment; `revision` 0: it was never set."""

    app: str
    salt: str
    share_basis_points: int
    revision: int
    policy_serial: int


@dataclass(frozen=True)
class ExperimentRecord:
    """An experiment; `epsilon` is a decimal string, the task's fields are set from the start on.

    `revision` counts the changes.  `audience` is canonical text, "" for every device; `segment` is its part of a layer,
    None for all of them.  `interim_analyses` are the planned ones that were made, in order.  `allocation` says how the
    arms' shares moved, where a bandit moves them.
    """

    sequence: int
    experiment_id: str
    app: str
    feature: str
    salt: str
    arms: tuple[ArmRecord, ...]
    state: ExperimentState
    epsilon: str
    latency_edges_ms: tuple[float, ...]
    window_s: int
    minimum_cohort: int
    created_at_s: int
    started_at_s: int | None
    stopped_at_s: int | None
    task_id: str | None
    decision: StoredDecision | None
    policy_serial: int
    plan: ExperimentPlan = field(default_factory=ExperimentPlan)
    revision: int = 1
    audience: str = ""
    segment: SegmentRecord | None = None
    interim_analyses: tuple[InterimAnalysis, ...] = ()
    allocation: Allocation = Allocation()  # noqa: RUF009 - immutable


@dataclass(frozen=True)
class Page:
    """Which part of a list is wanted: entries after `after` (a sequence number), at most `size`."""

    after: int
    size: int
