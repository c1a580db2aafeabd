"""What does the server answer, as values?  Times are seconds since 1970-01-01 UTC, shares 1/10 000 of all devices.

Field names are those of the API; 0 and "" mean absent where the API says so.
"""

from typing import Annotated, Literal, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from pydantic import BaseModel, BeforeValidator, ConfigDict

__all__ = [
    "Arm",
    "ArmDifference",
    "ArmResult",
    "Decision",
    "Estimate",
    "Experiment",
    "ExperimentReport",
    "Results",
    "Rollout",
    "Variant",
    "Version",
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


class Version(_Value):
    """A published version of a feature."""

    feature: str
    version: str
    team: str
    manifest_sha256: str
    variants: tuple[Variant, ...]
    published_at_s: int


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
