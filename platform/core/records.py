"""Which values do store, engines and services hand to each other?  Frozen, no database and no wire type inside."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "ArmRecord",
    "Default",
    "ExperimentRecord",
    "ExperimentState",
    "Page",
    "RolloutRecord",
    "RolloutState",
    "StoredDecision",
    "VariantRecord",
    "VersionRecord",
    "VersionState",
]


class RolloutState(StrEnum):
    """Where a rollout stands; the arrows are drawn in `rollouts/machine.py`."""

    DRAFT = "draft"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    ROLLED_BACK = "rolled_back"
    HALTED = "halted"


class ExperimentState(StrEnum):
    """Where an experiment stands; the arrows are drawn in `experiments/machine.py`."""

    DRAFT = "draft"
    RUNNING = "running"
    STOPPED = "stopped"


class VersionState(StrEnum):
    """Where a version stands; the arrows are drawn in `catalog/lifecycle.py`."""

    REGISTERED = "registered"
    VALIDATED = "validated"
    RELEASED = "released"
    DEPRECATED = "deprecated"
    REVOKED = "revoked"


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
    """The version that an app's devices run where no rollout or experiment says otherwise."""

    app: str
    feature: str
    version: str
    manifest_sha256: str


@dataclass(frozen=True)
class RolloutRecord:
    """A rollout; shares in 1/10 000 of all devices; `policy_serial` 0: no policy carries it yet."""

    sequence: int
    rollout_id: str
    app: str
    feature: str
    version: str
    manifest_sha256: str
    salt: str
    state: RolloutState
    share_permyriad: int
    created_at_s: int
    updated_at_s: int
    policy_serial: int


@dataclass(frozen=True)
class ArmRecord:
    """One side of an experiment; share in 1/10 000 of all devices."""

    name: str
    version: str
    manifest_sha256: str
    share_permyriad: int


@dataclass(frozen=True)
class StoredDecision:
    """What held when an experiment was stopped; `winner` is an index into its arms."""

    kind: str
    winner: int | None
    code: str
    reason: str


@dataclass(frozen=True)
class ExperimentRecord:
    """An experiment; `epsilon` is a decimal string, the task's fields are set from the start on."""

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


@dataclass(frozen=True)
class Page:
    """Which part of a list is wanted: entries after `after` (a sequence number), at most `size`."""

    after: int
    size: int
