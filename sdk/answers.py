"""Defines what an app gets for a prediction, and what the SDK knows of it: version, reason, outcome."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Generic, TypeVar

from alcove.registry.policy.outcome import Outcome
from alcove.sdk.engine import Runnable
from alcove.sdk.load_attempts import NO_ATTEMPT, LoadAttempt

T = TypeVar("T")

__all__ = ["NO_CONFIG", "STALE", "ActiveModel", "Answer", "AnswerError", "Measurement", "ModelRef"]

NO_CONFIG: Final[Mapping[str, bool | int | float | str]] = MappingProxyType({})

STALE = "stale"
"""Reason of what answers while the server was not heard for longer than `max_stale_s`."""


class AnswerError(StrEnum):
    """Why an answer has no value."""

    INVALID_TEXT = "invalid_text"
    """A text is not UTF-8 (or holds a lone surrogate)."""
    RUN_FAILED = "run_failed"
    """The runtime refused the run, or the device has no memory for it."""
    DECODE_FAILED = "decode_failed"
    """The program's outputs are not this feature's."""
    NO_MODEL = "no_model"
    """No slot of the feature could be loaded, and it has no baseline that could."""
    STALE = STALE
    """The server was not heard for longer than `max_stale_s`, and the feature has no baseline that could answer."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    """The run was not back within the deadline that the app set for this feature."""
    CANCELLED = "cancelled"
    """The client, or the stream, was closed while it ran on a thread of theirs."""
    INVALID_INPUT = "invalid_input"
    """Of a stream, a frame that was submitted: it is not what the version takes; `Answer.cause` says why."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """One prediction.

    Attributes:
        value: the feature's value; None where `error` says why.
        version: version that answered, "baseline" for the app's own model, "" if none could.
        reason: why that version: "default", "rollout", "experiment", "holdout" (the device keeps the version with which
            a read-out of the holdout began), "fallback", "baseline", "stale" (the server was not heard for longer than
            `max_stale_s`, so the app's own model answers), "debug" (pinned on a test device), or "unavailable".
        latency_ms: time of run and decoding, in milliseconds.
        error: None, or why there is no value.
        cause: what the feature's contract raised, of `DECODE_FAILED`; its text may hold what the user wrote.  Of
            `INVALID_INPUT` what `FeatureStream.process` would have raised.
        config: values of the parameters of the version that answered; empty where it declares none, and for the app's
            own model.
    """

    value: T | None
    version: str
    reason: str
    latency_ms: float
    error: AnswerError | None = None
    cause: Exception | None = field(default=None, compare=False, repr=False)
    config: Mapping[str, bool | int | float | str] = field(default_factory=lambda: NO_CONFIG, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ActiveModel:
    """What answers for a feature at present.

    Attributes:
        model: the loaded program, or None if none could be loaded.
        key: digest of the version's manifest; "" for the baseline.
        file: which file it was loaded from (inode, time of change): a repaired version is another file.
        arm: number of the arm, in an experiment or a rollout that compares.
        task: JSON text of what is reported of that arm; None where nothing is.
        has_abandoned_arm: the device is in that arm, whose version crashed here; something else answers.
        config: values of the version's parameters.
        attempt: notes each run, so that a process that ends in one is counted; over for what needs none.
    """

    model: Runnable | None
    version: str
    reason: str
    key: str = ""
    file: tuple[int, int] = (0, 0)
    arm: int | None = None
    task: str | None = None
    attempt: LoadAttempt = NO_ATTEMPT
    has_abandoned_arm: bool = False
    config: Mapping[str, bool | int | float | str] = field(default_factory=lambda: NO_CONFIG)


class ModelRef:
    """Holds the present `ActiveModel`; setting it is one store, which readers see whole, without a lock.

    Attributes:
        active: see above.
        is_refused: the app passed last what nothing here takes.
    """

    __slots__ = ("active", "is_refused")

    def __init__(self, active: ActiveModel) -> None:
        self.active = active
        self.is_refused = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """What came of one prediction.

    Attributes:
        feature: the feature.
        active: what answered.
        outcome: which of the outcomes that a task may count.
        latency_ms: of the answer; 0 for an outcome without one.
    """

    feature: str
    active: ActiveModel
    outcome: Outcome
    latency_ms: float
