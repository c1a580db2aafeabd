"""Defines the demo's result: the record behind the tables and `--json FILE`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

STEPS = ("serve", "publish", "experiment", "devices", "decide", "ramp", "guard", "tamper")


@dataclass(frozen=True)
class ArmOutcome:
    """One arm, as the private aggregates show it (None: not distinguishable from the privacy noise).

    Attributes:
        version: the version that the arm's devices ran.
        devices: estimated number of devices.
        share: estimated share of the devices, 0..1.
        accuracy: estimated share of accepted guesses, 0..1.
        interval: confidence interval of `accuracy`, privacy noise included.
        latency_ms: estimated mean latency over devices, from the histogram's bins.
        latency_interval: confidence interval of `latency_ms`.
    """

    version: str
    devices: float
    share: float | None
    accuracy: float | None
    interval: tuple[float, float] | None
    latency_ms: float | None
    latency_interval: tuple[float, float] | None


@dataclass(frozen=True)
class GuardOutcome:
    """The end of the harmful version.

    Attributes:
        version: the harmful version.
        share: of the devices that it was rolled out to, 0..1.
        ran_it: devices in processes that ran it.
        state: of the rollout at the end: "halted" by a person once the server had paused it, or "rolled_back" where the
            reports did not tell.
        decision: of the last analysis: "harm" or "hold".
        reason: the last analysis's sentence.
        reports: reports that it read.
        seconds: from the first report to when the pause was seen; None where the reports did not tell.
    """

    version: str
    share: float
    ran_it: int
    state: str
    decision: str
    reason: str
    reports: int
    seconds: float | None


@dataclass
class DemoResult:
    """Everything that the demo measured; filled in as the steps hold."""

    devices: int = 0
    fleet: int = 0
    arms: list[ArmOutcome] = field(default_factory=list)
    decision: str = "none"
    winner: str | None = None
    decision_reason: str = ""
    epsilon: float = 0.0
    cells: int = 0
    bytes_left_device: int = 0
    privacy: dict[str, Any] = field(default_factory=dict)
    bytes_moved: dict[str, int] = field(default_factory=dict)
    ramped: bool = False
    ramped_to: str | None = None
    override_reason: str | None = None
    guarded: GuardOutcome | None = None
    tamper_refused: bool = False
    tamper_error: str | None = None
    error: str | None = None
    steps: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(STEPS, False))
    seconds: float = 0.0

    @property
    def has_held(self) -> bool:
        """True where all steps held; the demo's exit code is 0 only then."""
        return all(self.steps.values())

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON types."""
        return asdict(self)
