"""Defines the values that the server answers with about versions, aliases and rules.

Times are seconds since 1970-01-01 UTC, shares 1/10 000 of all devices.

Field names are those of the API; 0 and "" mean absent where the API says so.
"""

from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from pydantic import BaseModel, BeforeValidator, ConfigDict

__all__ = [
    "AliasMove",
    "AliasProposal",
    "Aliases",
    "Check",
    "FeatureRules",
    "FeatureSummary",
    "Lineage",
    "Page",
    "Port",
    "StateCount",
    "StateMove",
    "Tag",
    "Validation",
    "Value",
    "Variant",
    "VariantLatency",
    "Version",
    "VersionDetails",
    "VersionState",
    "value_of",
    "without_prefix",
]


def without_prefix(prefix: str) -> BeforeValidator:
    """Return what reads the name of an enum's value, which the API prefixes with the enum's name."""
    return BeforeValidator(lambda value: value.removeprefix(prefix).lower() if isinstance(value, str) else value)


class Value(BaseModel):
    """Something that the server answers."""

    model_config = ConfigDict(frozen=True, extra="ignore")  # a newer server may say more


class Variant(Value):
    """One program of a version; sizes in bytes."""

    name: str
    engine: str
    sha256: str
    size_bytes: int
    memory_ceiling_bytes: int


VersionState = Annotated[
    Literal["registered", "validated", "released", "deprecated", "revoked"], without_prefix("VERSION_STATE_")
]


class Tag(Value):
    """A word about a version, and who said it when."""

    key: str
    value: str
    set_by: str
    set_at_s: int


class Lineage(Value):
    """The origin of a version, as its team signed it."""

    training_run: str
    code_revision: str
    data: str
    parent: str


class VariantLatency(Value):
    """How long a run of a variant took on the server, when the version was validated."""

    variant: str
    latency_ms: float


class Version(Value):
    """A published version of a feature.

    `released_by` "" and `released_at_s` 0: it was never released.  `checks` counts those of the last validation, 0:
    there was none; `latencies` are what runs took there.
    """

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
    released_by: str = ""
    released_at_s: int = 0
    checks: int = 0
    failed_checks: int = 0
    latencies: tuple[VariantLatency, ...] = ()


class StateCount(Value):
    """A number of versions in a state."""

    state: VersionState
    versions: int


class FeatureSummary(Value):
    """A feature with published versions; `newest_release` "": none is released."""

    feature: str
    team: str
    newest_release: str
    published_at_s: int
    states: tuple[StateCount, ...]


class Port(Value):
    """One input or output of a feature."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_ragged: bool
    labels: tuple[str, ...]


class StateMove(Value):
    """One step of a version's life."""

    from_state: VersionState
    to_state: VersionState
    moved_by: str
    moved_at_s: int
    reason: str


class Check(Value):
    """One figure and its bound; bound "": the feature sets none."""

    name: str
    variant: str
    is_passed: bool
    figure: str
    bound: str


class Validation(Value):
    """The result of a validation."""

    is_passed: bool
    checks: tuple[Check, ...]
    validated_by: str
    validated_at_s: int


class VersionDetails(Value):
    """A version and what is known of it; `manifest` is the canonical JSON that was signed."""

    version: Version
    manifest: bytes
    card: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    moves: tuple[StateMove, ...]
    validation: Validation | None = None


class AliasMove(Value):
    """One move of an alias; "" as a version: it did not exist, or exists no more."""

    feature: str
    alias: str
    from_version: str
    to_version: str
    moved_by: str
    moved_at_s: int
    reason: str
    approved_by: str


class AliasProposal(Value):
    """A move of an alias that waits for somebody else's approval."""

    proposal_id: str
    feature: str
    alias: str
    from_version: str
    to_version: str
    proposed_by: str
    proposed_at_s: int
    reason: str


class Aliases(Value):
    """The aliases of a feature as they are, and what waits for approval."""

    aliases: tuple[AliasMove, ...]
    proposals: tuple[AliasProposal, ...]


class FeatureRules(Value):
    """The rules that versions of a feature must meet; 0 and () bound nothing, and versions must be released."""

    must_approve_aliases: bool = False
    must_approve_rollouts: bool = False
    accepts_any_state: bool = False
    max_size_bytes: int = 0
    max_memory_bytes: int = 0
    max_latency_ms: float = 0.0
    allowed_ops: tuple[str, ...] = ()
    set_by: str = ""
    set_at_s: int = 0


_Model = TypeVar("_Model", bound=Value)
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class Page(Generic[_Item]):
    """A part of a list.

    Attributes:
        items: of this part.
        next_token: asks for the one after it; "": there is none.
        total: how many there are on all pages, where the server counts them for this filter; else 0.
    """

    items: tuple[_Item, ...]
    next_token: str = ""
    total: int = 0


def value_of(kind: type[_Model], message: Message) -> _Model:
    """Return the value that a message carries.

    Raises:
        pydantic.ValidationError: the message says something that this client must understand and does not.
    """
    return kind.model_validate(
        MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    )
