"""Defines the records of a read-out of an app's holdout: what is kept, what is measured, and what came of it."""

from dataclasses import dataclass
from enum import StrEnum

from alcove.platform.domain.own_metrics import OwnMetric
from alcove.registry.policy import Aggregation

__all__ = ["KeptVersion", "ReadoutMetric", "ReadoutPlan", "ReadoutRecord", "ReadoutResult", "ReadoutState"]


class ReadoutState(StrEnum):
    """Where a read-out stands; `readouts/machine.py` draws the arrows."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"


class ReadoutMetric(StrEnum):
    """What is compared."""

    ACCEPTED = "accepted"
    """Part of the rated answers that users kept; more is better."""
    LATENCY_MEAN = "latency_mean"
    """Mean latency of answers in milliseconds; less is better."""
    LATENCY_SHARE = "latency_share"
    """Part of the answers that took an edge's time or longer; less is better."""
    OWN = "own"
    """Mean of a metric of the feature's team."""


@dataclass(frozen=True)
class KeptVersion:
    """The version of a feature that held-out devices keep."""

    feature: str
    version: str
    manifest_sha256: str


@dataclass(frozen=True)
class ReadoutPlan:
    """What a read-out measures.

    Attributes:
        metric: which.
        edge_ms: of LATENCY_SHARE, one of the latency edges; 0 for the others.
        own: of OWN, the version that it began with; None for the others.
        latency_edges_ms: inner edges of the latency bins; empty where no latency is read.
        epsilon: privacy loss of one report, or of one window's sums; decimal text.
        window_s: seconds in which a device reports once; a whole part of 30 days.
        months: of 30 days, that are measured.
        aggregation: the aggregators of the reports; None: randomized response.
    """

    metric: ReadoutMetric = ReadoutMetric.ACCEPTED
    edge_ms: float = 0.0
    own: OwnMetric | None = None
    latency_edges_ms: tuple[float, ...] = ()
    epsilon: str = "2"
    window_s: int = 0
    months: int = 0
    aggregation: Aggregation | None = None


@dataclass(frozen=True)
class ReadoutResult:
    """The one analysis; None where nothing can be said.

    Attributes:
        code: rule that decided, as `platform.stats.ReasonCode` spells it, or "unreadable".
        summary: sentences for people.
        held_out: mean of the metric in the holdout: a share, milliseconds, or in the own metric's unit.
        difference: of the mirror group less the holdout.
        low, high: interval of it, of 95 %.
        p_value: of no difference.
        lift: of the mirror group relative to the holdout.
        lift_low, lift_high: interval of it, of 95 %.
        noise_percent: by how many per cent of itself the standard error would shrink without privacy noise.
        reports: how many were read.
        months: how many could be read.
        analyzed_at_s: seconds since 1970.
    """

    code: str
    summary: str
    held_out: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    lift: float | None
    lift_low: float | None
    lift_high: float | None
    noise_percent: float | None
    reports: int
    months: int
    analyzed_at_s: int


@dataclass(frozen=True)
class ReadoutRecord:
    """A read-out of the holdout of an app.

    Attributes:
        sequence: orders all read-outs; 0: not written yet.
        readout_id: chosen by the server.
        app: whose devices.
        kept: versions of the first day, the measured feature's first.
        plan: what is measured.
        share_basis_points: of the devices in each group, in 1/10 000.
        state: where it stands.
        started_at_s: seconds since 1970.
        until_s: end of the last day.
        ended_at_s: when it finished or was stopped; None: it runs.
        end_reason: why it was stopped; "" else.
        result: of the last day; None before, and where it was stopped.
        policy_serial: of the policy that carries the state.
        revision: counts the changes.
    """

    sequence: int
    readout_id: str
    app: str
    kept: tuple[KeptVersion, ...]
    plan: ReadoutPlan
    share_basis_points: int
    state: ReadoutState
    started_at_s: int
    until_s: int
    ended_at_s: int | None = None
    end_reason: str = ""
    result: ReadoutResult | None = None
    policy_serial: int = 0
    revision: int = 1

    @property
    def feature(self) -> str:
        """The feature that is measured."""
        return self.kept[0].feature
