"""Defines the records of a version's life after publication: states, tags, aliases, validations and rules.

Frozen, no database and no wire type inside.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from alcove.platform.domain.records import VersionRecord, VersionState

__all__ = [
    "AliasMove",
    "AliasProposal",
    "CheckResult",
    "FeatureRules",
    "FeatureSummary",
    "ListedVersion",
    "StateMove",
    "Tag",
    "ValidationRecord",
]


@dataclass(frozen=True)
class FeatureSummary:
    """A feature with published versions.

    Attributes:
        newest_release: highest released version; "": none is released.
        published_at_s: when a version of it was last published.
        states: how many versions are in each state that has some.
    """

    feature: str
    team: str
    newest_release: str
    published_at_s: int
    states: Mapping[VersionState, int]


@dataclass(frozen=True)
class Tag:
    """A word about a version, and who said it when."""

    key: str
    value: str
    set_by: str
    set_at_s: int


@dataclass(frozen=True)
class StateMove:
    """One step of a version's life."""

    from_state: VersionState
    to_state: VersionState
    moved_by: str
    moved_at_s: int
    reason: str


@dataclass(frozen=True)
class AliasMove:
    """One move of an alias; None: it did not exist, or exists no more.  `sequence` orders all moves."""

    sequence: int
    feature: str
    alias: str
    from_version: str | None
    to_version: str | None
    moved_by: str
    moved_at_s: int
    reason: str
    approved_by: str | None


@dataclass(frozen=True)
class AliasProposal:
    """A move that waits for a second person; `base_sequence` is the last move that its proposer saw, 0 for none."""

    proposal_id: str
    feature: str
    alias: str
    base_sequence: int
    from_version: str | None
    to_version: str | None
    proposed_by: str
    proposed_at_s: int
    reason: str


@dataclass(frozen=True)
class ListedVersion:
    """A version with the tags and aliases that it has now, its release and what its last validation found.

    Attributes:
        released_by: "" where it never was, as `released_at_s` 0.
        checks: how many the last validation made; 0 where there was none.
        failed_checks: how many of them failed.
        latencies_ms: what a run took there, by variant.
    """

    record: VersionRecord
    tags: tuple[Tag, ...]
    aliases: tuple[str, ...]
    released_by: str = ""
    released_at_s: int = 0
    checks: int = 0
    failed_checks: int = 0
    latencies_ms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CheckResult:
    """One figure and its bound; both as text with their units.

    Attributes:
        name: which check.
        variant: program that was looked at; "" for the version as a whole.
        bound: "" where the feature sets none.
    """

    name: str
    variant: str
    is_passed: bool
    figure: str
    bound: str


@dataclass(frozen=True)
class ValidationRecord:
    """The result of a validation."""

    is_passed: bool
    checks: tuple[CheckResult, ...]
    validated_by: str
    validated_at_s: int


@dataclass(frozen=True)
class FeatureRules:
    """The rules that versions of a feature must meet; 0 and () bound nothing, and versions must be released.

    Attributes:
        must_approve_aliases: a move of an alias needs a second person.
        must_approve_rollouts: an advance of a rollout needs a second person.
        accepts_any_state: rollouts, experiments and aliases take versions that are not released, too.
        max_size_bytes: of a program.
        max_memory_bytes: that one run needs besides the program.
        max_latency_ms: of one run on the server, median over the certificate's samples.
        allowed_ops: operators that programs may use.
        set_by, set_at_s: who set them and when; "" and 0 where nobody did.
    """

    must_approve_aliases: bool = False
    must_approve_rollouts: bool = False
    accepts_any_state: bool = False
    max_size_bytes: int = 0
    max_memory_bytes: int = 0
    max_latency_ms: float = 0.0
    allowed_ops: tuple[str, ...] = ()
    set_by: str = ""
    set_at_s: int = 0
