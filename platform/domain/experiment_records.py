"""Defines the records of an experiment's plan, its decision, its interim analyses and its moved shares."""

from dataclasses import dataclass

from alcove.platform.domain.own_metrics import OwnGuardrail, OwnMetric, OwnQuestion
from alcove.platform.domain.rollout_records import GuardrailRecord
from alcove.registry.policy import Aggregation

__all__ = [
    "Allocation",
    "BanditRecord",
    "BucketRange",
    "ExperimentPlan",
    "InterimAnalysis",
    "MetricRecord",
    "PairRecord",
    "SecondaryRecord",
    "ShareChange",
    "StoredDecision",
]


@dataclass(frozen=True)
class MetricRecord:
    """A metric that decides nothing.

    Attributes:
        kind: as `platform.stats.PrimaryKind` spells it.
        quantile: of a latency; None for the others.
        numerator: names of the outcomes that a ratio counts; empty for other metrics.
        denominator: names of the outcomes that it is a part of; empty: all that are counted.
        less_is_better: of a ratio: whether the lower one is the better one.
        edge_ms: of a share of slow answers: those that took this long or longer; None for the others.
        own: a metric of the team's own; None for the others.
    """

    kind: str
    quantile: float | None = None
    numerator: tuple[str, ...] = ()
    denominator: tuple[str, ...] = ()
    less_is_better: bool = False
    edge_ms: float | None = None
    own: OwnMetric | None = None


@dataclass(frozen=True)
class BanditRecord:
    """Bounds within which the server moves the arms' shares, in 1/10 000 of the experiment's devices.

    Attributes:
        min_share_basis_points: least share of each arm.
        max_step_basis_points: most that a share changes in a day, or in a window where that is longer.
    """

    min_share_basis_points: int
    max_step_basis_points: int


@dataclass(frozen=True)
class ExperimentPlan:
    """Metric, guardrails and size of an experiment; 0 where nothing was given or nothing is known.

    Attributes:
        primary: what decides, as `platform.stats.PrimaryKind` spells it.
        quantile: of a latency that decides in milliseconds; None for the others.
        edge_ms: of a latency that decides as a share of slow answers; None for the others.
        guardrails: what the winner must not make worse.
        mde: smallest difference that shall be found: a share, milliseconds, or in the unit of an own metric.
        base_rate: expected accepted share of the control, or its ratio, in (0, 1); 0: a half, the worst case.
        expected_devices: devices that will take part, in all arms together.
        devices_needed: devices, in all arms together, that find `mde` in one window; 0: none do, or no `mde`.
        days_needed: days in which `expected_devices` find it; 0: they don't within what they may spend in 30 days.
        detectable: smallest difference that `expected_devices` find within what they may spend in 30 days; 0: none,
            whatever its size.
        planned_reports: reports at which the intervals are tightest, or the last interim analysis is due; 0: the
            server's default.
        numerator: names of the outcomes that a ratio counts; empty for other metrics.
        denominator: names of the outcomes that it is a part of.
        less_is_better: whether the lower ratio wins.
        denominator_share: expected part of the reports with an outcome of the denominator, in (0, 1].
        interim_analyses: how many interim analyses decide; 0: any number.
        horizon_reports: `planned_reports` as asked for; 0: as many as `mde` needs.
        pre_edges: edges of the accepted share of a device's earlier answers, by which the primary metric is corrected
            (CUPED); empty: it is not.
        cuped_error_ratio: standard error with that correction relative to that without; 0: no correction.
        aggregation: the aggregators of the reports; None: randomized response.
        secondary: metrics that are compared beside the one that decides, and decide nothing.
        own_guardrails: metrics of the team's own that the winner must not make worse.
        own_primary: metric of the team's own that decides; None: `primary` says what does.
        own_questions: metrics of the team's own that a stated part of the devices is asked about.
        base_distribution: expected part of the control's devices in each bin of the own metric that decides, of sum 1;
            empty: half in its lowest bin with a result and half in its highest, the worst case.
        bandit: how far the server moves the arms' shares by what reports say; None: they are fixed.
        dimension: by which the reports that decide are told apart, canonical text; "": by nothing.
    """

    primary: str = "accepted"
    quantile: float | None = None
    guardrails: tuple[GuardrailRecord, ...] = ()
    mde: float = 0.0
    base_rate: float = 0.0
    expected_devices: int = 0
    devices_needed: int = 0
    days_needed: int = 0
    detectable: float = 0.0
    planned_reports: int = 0
    numerator: tuple[str, ...] = ()
    denominator: tuple[str, ...] = ()
    less_is_better: bool = False
    denominator_share: float = 0.0
    interim_analyses: int = 0
    horizon_reports: int = 0
    pre_edges: tuple[float, ...] = ()
    cuped_error_ratio: float = 0.0
    aggregation: Aggregation | None = None
    secondary: tuple[MetricRecord, ...] = ()
    own_guardrails: tuple[OwnGuardrail, ...] = ()
    bandit: BanditRecord | None = None
    edge_ms: float | None = None
    own_primary: OwnMetric | None = None
    own_questions: tuple[OwnQuestion, ...] = ()
    base_distribution: tuple[float, ...] = ()
    dimension: str = ""


@dataclass(frozen=True)
class StoredDecision:
    """The decision at the stop of an experiment, or at a planned analysis; `winner` is an index into its arms."""

    kind: str
    winner: int | None
    code: str
    reason: str


@dataclass(frozen=True)
class PairRecord:
    """Two arms at an interim analysis: `arm` minus `versus` in the primary metric; None: unknown, or unbounded."""

    arm: int
    versus: int
    value: float | None
    low: float | None
    high: float | None
    p_value: float | None


@dataclass(frozen=True)
class SecondaryRecord:
    """An arm and the control in a secondary metric, by its index: `arm` minus `versus`; None: unknown, or unbounded.

    The interval and `p` hold by themselves; `adjusted_p` is Benjamini and Hochberg's over all metrics and arms.
    """

    metric: int
    arm: int
    versus: int
    value: float | None
    low: float | None
    high: float | None
    p: float | None
    adjusted_p: float | None


@dataclass(frozen=True)
class InterimAnalysis:
    """An interim analysis as it was made, before guardrails.

    Attributes:
        reports: that were in.
        fraction: of the planned reports, at most 1.
        boundary: standard errors that a pair's difference had to reach; None: nothing could be called yet.
        analyzed_at_s: seconds since 1970-01-01 UTC.
        decision: by the reports of that moment alone.
        pairs: all of them, those with the control first.
        secondary: of the last analysis, by a test that is read once; empty before it, and without secondary metrics.
    """

    reports: int
    fraction: float
    boundary: float | None
    analyzed_at_s: int
    decision: StoredDecision
    pairs: tuple[PairRecord, ...]
    secondary: tuple[SecondaryRecord, ...] = ()


@dataclass(frozen=True)
class BucketRange:
    """Buckets [first, first + count) of an experiment's salt; `arm` is an index."""

    arm: int
    first: int
    count: int

    @property
    def end(self) -> int:
        """First bucket behind it."""
        return self.first + self.count


@dataclass(frozen=True)
class ShareChange:
    """Shares of the arms, and what they were moved by.

    Attributes:
        first_window: first window in which devices have these shares.
        changed_at_s: seconds since 1970-01-01 UTC.
        shares: of the arms, in 1/10 000 of all devices.
        reports: that were read; 0 at the start.
        chances: of each arm to be the best one, by those reports; empty at the start.
        expected_losses: of each arm against the best one, in the metric's unit; empty at the start.
    """

    first_window: int
    changed_at_s: int
    shares: tuple[int, ...]
    reports: int = 0
    chances: tuple[float, ...] = ()
    expected_losses: tuple[float, ...] = ()


@dataclass(frozen=True)
class Allocation:
    """The shares of an experiment that the server moves.

    Attributes:
        changes: all of them, the shares of the start first; empty where shares are fixed.
        ranges: buckets that the arms have now, rising.
        looked_window: window in which the reports were last looked at; -1: they never were.
        read_window: newest window whose reports were read then; -1: none was.
        held: one sentence: why shares stayed then; "": they moved.
    """

    changes: tuple[ShareChange, ...] = ()
    ranges: tuple[BucketRange, ...] = ()
    looked_window: int = -1
    read_window: int = -1
    held: str = ""
