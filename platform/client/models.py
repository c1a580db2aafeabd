"""What does the server answer, as values?  Times are seconds since 1970-01-01 UTC, shares 1/10 000 of all devices.

Field names are those of the API; 0 and "" mean absent where the API says so.
"""

from typing import Annotated, Literal, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from pydantic import BaseModel, BeforeValidator, ConfigDict

__all__ = [
    "AliasMove",
    "AliasProposal",
    "Aliases",
    "Arm",
    "ArmDifference",
    "ArmResult",
    "Check",
    "Decision",
    "Estimate",
    "Experiment",
    "ExperimentReport",
    "FeatureRules",
    "Lineage",
    "Port",
    "Results",
    "Rollout",
    "StateMove",
    "Tag",
    "Validation",
    "Variant",
    "Version",
    "VersionDetails",
    "VersionState",
    "value_of",
]


def _without_prefix(prefix: str) -> BeforeValidator:
    return BeforeValidator(lambda value: value.removeprefix(prefix).lower() if isinstance(value, str) else value)


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer server may say more


class Variant(_Value):
    """One program of a version; sizes in bytes."""

    name: str
    engine: str
    sha256: str
    size_bytes: int
    memory_ceiling_bytes: int


VersionState = Annotated[
    Literal["registered", "validated", "released", "deprecated", "revoked"], _without_prefix("VERSION_STATE_")
]


class Tag(_Value):
    """A word about a version, and who said it when."""

    key: str
    value: str
    set_by: str
    set_at_s: int


class Lineage(_Value):
    """Where a version comes from, as its team signed it."""

    training_run: str
    code_revision: str
    data: str
    parent: str


class Version(_Value):
    """A published version of a feature."""

    feature: str
    version: str
    team: str
    manifest_sha256: str
    variants: tuple[Variant, ...]
    published_at_s: int
    state: VersionState
    tags: tuple[Tag, ...]
    aliases: tuple[str, ...]
    lineage: Lineage | None = None


class Port(_Value):
    """One input or output of a feature."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_ragged: bool
    labels: tuple[str, ...]


class StateMove(_Value):
    """One step of a version's life."""

    from_state: VersionState
    to_state: VersionState
    moved_by: str
    moved_at_s: int
    reason: str


class Check(_Value):
    """One figure held against its bound; bound "": the feature sets none."""

    name: str
    variant: str
    is_passed: bool
    figure: str
    bound: str


class Validation(_Value):
    """What a validation found."""

    is_passed: bool
    checks: tuple[Check, ...]
    validated_by: str
    validated_at_s: int


class VersionDetails(_Value):
    """A version and what is known of it; `manifest` is the canonical JSON that was signed."""

    version: Version
    manifest: bytes
    card: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    moves: tuple[StateMove, ...]
    validation: Validation | None = None


class AliasMove(_Value):
    """One move of an alias; "" as a version: it did not exist, or exists no more."""

    feature: str
    alias: str
    from_version: str
    to_version: str
    moved_by: str
    moved_at_s: int
    reason: str
    approved_by: str


class AliasProposal(_Value):
    """A move of an alias that waits for somebody else's approval."""

    proposal_id: str
    feature: str
    alias: str
    from_version: str
    to_version: str
    proposed_by: str
    proposed_at_s: int
    reason: str


class Aliases(_Value):
    """The aliases of a feature as they are, and what waits for approval."""

    aliases: tuple[AliasMove, ...]
    proposals: tuple[AliasProposal, ...]


class FeatureRules(_Value):
    """What versions of a feature are held against; 0 and () bound nothing."""

    must_approve_aliases: bool = False
    must_be_released: bool = False
    max_size_bytes: int = 0
    max_memory_bytes: int = 0
    max_latency_ms: float = 0.0
    allowed_ops: tuple[str, ...] = ()
    set_by: str = ""
    set_at_s: int = 0


class Rollout(_Value):
    """A rollout and where it stands."""

    rollout_id: str
    app: str
    feature: str
    version: str
    state: Annotated[
        Literal["draft", "running", "paused", "completed", "rolled_back", "halted"], _without_prefix("ROLLOUT_STATE_")
    ]
    share_permyriad: int
    created_at_s: int
    updated_at_s: int
    policy_serial: int


class Arm(_Value):
    """One side of an experiment."""

    name: str
    version: str
    share_permyriad: int


class Decision(_Value):
    """What the reports allow to say; `winner` is an index into the arms."""

    kind: Annotated[Literal["winner", "inconclusive"], _without_prefix("DECISION_KIND_")]
    winner: int | None = None
    code: str
    reason: str


class Experiment(_Value):
    """An experiment and where it stands."""

    experiment_id: str
    app: str
    feature: str
    arms: tuple[Arm, ...]
    state: Annotated[Literal["draft", "running", "stopped"], _without_prefix("EXPERIMENT_STATE_")]
    epsilon: str
    latency_edges_ms: tuple[float, ...]
    window_s: int
    minimum_cohort: int
    task_id: str
    created_at_s: int
    started_at_s: int
    stopped_at_s: int
    decision: Decision | None = None
    policy_serial: int


class Estimate(_Value):
    """A quantity with its always-valid interval, privacy noise included; None: nothing is known, or unbounded."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class ArmResult(_Value):
    """One arm as the reports show it."""

    name: str
    version: str
    devices: float
    share: Estimate
    accuracy: Estimate
    latency_ms: Estimate
    median_latency_ms: Estimate


class ArmDifference(_Value):
    """Accuracy of an arm minus that of the control."""

    arm: int
    accuracy: Estimate


class Results(_Value):
    """Everything that the reports of an experiment show so far."""

    report_count: int
    window_count: int
    cell_counts: tuple[int, ...]
    arms: tuple[ArmResult, ...]
    differences: tuple[ArmDifference, ...]
    decision: Decision
    alpha: float


class ExperimentReport(_Value):
    """An experiment and its results."""

    experiment: Experiment
    results: Results


_Model = TypeVar("_Model", bound=_Value)


def value_of(kind: type[_Model], message: Message) -> _Model:
    """Return the value that a message carries.

    Raises:
        pydantic.ValidationError: the message says something that this client must understand and does not.
    """
    return kind.model_validate(
        MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    )
