"""Defines the demo's result: the record behind the tables and `--json FILE`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

STEPS = ("serve", "publish", "experiment", "devices", "report", "decide", "ramp", "refine", "guard", "tamper")
PRIVATE_STEPS = frozenset({"refine"})  # only where two aggregators add reports up


@dataclass(frozen=True)
class ArmOutcome:
    """One arm, as the private aggregates show it (None: not distinguishable from the privacy noise).

    Attributes:
        version: the version that the arm's devices ran.
        devices: estimated number of devices.
        share: estimated share of the devices, 0..1.
        accepted: estimated share of accepted guesses, 0..1.
        interval: confidence interval of `accepted`, privacy noise included.
        latency_ms: estimated mean latency over devices, from the histogram's bins.
        latency_interval: confidence interval of `latency_ms`.
    """

    version: str
    devices: float
    share: float | None
    accepted: float | None
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
        state: of the rollout at the end: "halted", or "rolled_back" by a person where the reports did not tell.
        decision: of the last analysis: "harm" or "hold".
        reason: the last analysis's sentence.
        reports: reports that it read.
        seconds: from the first report to when the stop was seen; None where the reports did not tell.
        by_itself: what the server did by itself: "halted" by attested reports, "paused" by others; "" where they did
            not tell.
    """

    version: str
    share: float
    ran_it: int
    state: str
    decision: str
    reason: str
    reports: int
    seconds: float | None
    by_itself: str = ""

    @property
    def how_it_stopped(self) -> str:
        """Who stopped it, in words."""
        if self.by_itself == "halted":
            return "halted by itself, as its reports are attested"
        return "paused by itself, and halted by a person" if self.by_itself else "rolled back by a person"


@dataclass(frozen=True)
class BatchOutcome:
    """The way of one window's reports through the two aggregators.

    Attributes:
        acknowledged: reports that the leader took, of all devices.
        forged_refused: reports without a token, all of which the leader refused.
        tokens_issued: that the issuer gave for the task, by its rows.
        tokens_spent: nonces of tokens that the leader has noted.
        tokens_recognized: of these, how many the issuer's rows hold.
        released: reports in the sums that the server collected.
        repeated_uploads: requests that were sent again because the leader had been killed.
        killed_process: id of the leader's process that was killed in the middle; 0: none was.
        compared: reports that were made in Python too, with the same bytes as by the native core.
        report_bytes: of one report.
        cells: that are counted, the idle one among them.
        least_share_bits: length of the smallest number in the aggregators' shares of the sums.
        largest_noise: by how much a count that the server learns is off at most.
        single_reports_at_server: reports that the server has of one device alone.
    """

    acknowledged: int
    forged_refused: int
    tokens_issued: int
    tokens_spent: int
    tokens_recognized: int
    released: int
    repeated_uploads: int
    killed_process: int
    compared: int
    report_bytes: int
    cells: int
    least_share_bits: int
    largest_noise: int
    single_reports_at_server: int


@dataclass(frozen=True)
class SmallDifference:
    """The experiment on two versions that differ by little.

    Attributes:
        control: its version.
        treatment: the other version.
        devices: that reported.
        power: the planned chance to find `detectable`.
        analyses: planned interim analyses.
        detectable: difference that as many devices as were planned find, 0..1, by mechanism and epsilon;
            None: none.
        decision: "winner" or "inconclusive".
        winner: its version; None: none was found.
        reason: the decision's sentence.
        difference: estimated at the analysis, treatment minus control; None: there was none.
        interval: of the difference, at the analysis; None: unbounded.
    """

    control: str
    treatment: str
    devices: int
    power: float
    analyses: int
    detectable: dict[str, float | None]
    decision: str
    winner: str | None
    reason: str
    difference: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Party:
    """What one party holds and learns, as this run showed."""

    name: str
    holds: str
    learns: str


@dataclass
class DemoResult:
    """Everything that the demo measured; filled in as the steps hold."""

    mechanism: str = "prio3"
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
    batch: BatchOutcome | None = None
    parties: list[Party] = field(default_factory=list)
    small_difference: SmallDifference | None = None
    guarded: GuardOutcome | None = None
    tamper_refused: bool = False
    tamper_error: str | None = None
    error: str | None = None
    steps: dict[str, bool] = field(default_factory=dict)
    seconds_by_part: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        is_private = self.mechanism == "prio3"
        self.steps = {step: False for step in STEPS if is_private or step not in PRIVATE_STEPS}

    @property
    def has_held(self) -> bool:
        """True where all steps held; the demo's exit code is 0 only then."""
        return all(self.steps.values())

    def as_json(self) -> dict[str, Any]:
        """Return the record as JSON types."""
        return asdict(self)
