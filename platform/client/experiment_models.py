"""Defines the values that the server answers with about experiments.  As in `models`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from alcove.platform.client.models import Value, without_prefix
from alcove.platform.client.parameter_values import ParameterValues
from alcove.platform.client.plots import plot_experiment
from alcove.platform.client.records import arm_records, difference_records
from alcove.platform.client.rollout_models import Collection, GuardrailPlan, Mechanism, OwnGuardrail
from pydantic import Field

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Adjustment",
    "AllocationView",
    "Arm",
    "ArmDifference",
    "ArmPosterior",
    "ArmRatio",
    "ArmResult",
    "Bandit",
    "BayesianView",
    "CellRow",
    "CellTable",
    "Decision",
    "DifferencePosterior",
    "DimensionView",
    "Estimate",
    "Experiment",
    "ExperimentPlan",
    "ExperimentReport",
    "ExperimentVerdict",
    "Heterogeneity",
    "InterimAnalysis",
    "OutcomeName",
    "OwnQuestion",
    "PairDifference",
    "Posterior",
    "Primary",
    "PrimaryDifference",
    "Results",
    "SampleRatio",
    "SecondaryDifference",
    "SecondaryView",
    "Segment",
    "ShareChange",
    "StratumDifference",
    "StratumView",
]


OutcomeName = Literal["refused", "accepted", "error", "fallback", "answered"]


class Arm(Value):
    """One side of an experiment; `values` are of parameters of its version."""

    name: str
    version: str
    share_basis_points: int
    values: ParameterValues = Field(default_factory=dict)


class Decision(Value):
    """The decision that the reports allow; `winner` is an index into the arms."""

    kind: Annotated[Literal["winner", "inconclusive"], without_prefix("DECISION_KIND_")]
    winner: int | None = None
    code: str
    reason: str


class Primary(Value):
    """The metric that decides; `quantile` of "latency_quantile", `edge_ms` of "latency_share", outcomes of "ratio".

    Of "metric", one of the team's own, its name and version; 0: the newest. `is_preference` is said in answers.
    """

    kind: Annotated[
        Literal["unspecified", "accepted", "latency_mean", "latency_quantile", "ratio", "latency_share", "metric"],
        without_prefix("PRIMARY_KIND_"),
    ] = "accepted"
    quantile: float = 0.0
    numerator: tuple[Annotated[OutcomeName, without_prefix("OUTCOME_")], ...] = ()
    denominator: tuple[Annotated[OutcomeName, without_prefix("OUTCOME_")], ...] = ()
    less_is_better: bool = False
    edge_ms: float = 0.0
    metric: str = ""
    metric_version: int = 0
    is_preference: bool = False


class OwnQuestion(Value):
    """That a part of the devices, in 1/10 000, is asked about a metric of the team's own."""

    metric: str
    metric_version: int = 0
    share_basis_points: int


class ExperimentPlan(Value):
    """The effect to find and the devices that find it; the server computes the rest; 0: unknown, or not at all."""

    mde: float = 0.0
    base_rate: float = 0.0
    expected_devices: int = 0
    devices_needed: int = 0
    days_needed: int = 0
    detectable: float = 0.0
    planned_reports: int = 0
    interim_analyses: int = 0
    horizon_reports: int = 0
    denominator_share: float = 0.0
    cuped_error_ratio: float = 0.0
    base_distribution: tuple[float, ...] = ()


class Segment(Value):
    """Buckets [first, first + count) of a layer, of 10 000."""

    layer: str
    first: int
    count: int


class Estimate(Value):
    """A quantity with its always-valid interval, privacy noise included; None: nothing is known, or unbounded."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


class PairDifference(Value):
    """`arm` minus `versus` in the metric that decides, and relative to it; p-value of the pair, None: unknown.

    `noise_percent`: by how many per cent of itself the standard error would shrink without privacy noise.
    """

    arm: int = 0
    versus: int = 0
    difference: Estimate
    p_value: float | None = None
    lift: Estimate | None = None
    noise_percent: float | None = None


class SecondaryDifference(Value):
    """`arm` minus `versus` in a secondary metric, by its place; p by itself and by Benjamini and Hochberg for all."""

    metric: int = 0
    arm: int = 0
    versus: int = 0
    difference: Estimate
    p: float | None = None
    adjusted_p: float | None = None


class SecondaryView(Value):
    """All arms in all secondary metrics; they decide nothing.  `is_at_horizon`: by a test that was read once."""

    differences: tuple[SecondaryDifference, ...] = ()
    is_at_horizon: bool = False


class Bandit(Value):
    """How far a bandit moves shares, in 1/10 000 of the experiment's devices; 0: the server's default of a tenth."""

    min_share_basis_points: int = 0
    max_step_basis_points: int = 0


class ShareChange(Value):
    """Shares of the arms in 1/10 000 of all devices, and the chances to be best that moved them, if any did."""

    first_window: int = 0
    changed_at_s: int = 0
    shares_basis_points: tuple[int, ...] = ()
    report_count: int = 0
    chances: tuple[float, ...] = ()
    expected_losses: tuple[float, ...] = ()


class AllocationView(Value):
    """How a bandit moved the shares; `held`: why they stayed last, "" where they moved.

    Regrets are expected ones by the posterior of now, in the metric's unit: of one report with the shares as they are,
    of all reports so far, and of all reports had the first shares stayed; None where there is no posterior.
    """

    changes: tuple[ShareChange, ...] = ()
    held: str = ""
    expected_regret: float | None = None
    regret_so_far: float | None = None
    fixed_regret_so_far: float | None = None


class InterimAnalysis(Value):
    """An interim analysis as it was made, before guardrails.

    `boundary`: standard errors that a difference had to reach, None where nothing could be called yet.
    """

    report_count: int
    fraction: float
    boundary: float | None = None
    analyzed_at_s: int
    decision: Decision
    pairs: tuple[PairDifference, ...]
    secondary: tuple[SecondaryDifference, ...] = ()


class Experiment(Value):
    """An experiment and where it stands."""

    experiment_id: str
    app: str
    feature: str
    arms: tuple[Arm, ...]
    state: Annotated[Literal["draft", "running", "stopped"], without_prefix("EXPERIMENT_STATE_")]
    epsilon: str
    latency_edges_ms: tuple[float, ...]
    window_s: int
    minimum_cohort: int
    primary: Primary = Primary()
    guardrails: tuple[GuardrailPlan, ...] = ()
    plan: ExperimentPlan = ExperimentPlan()
    task_id: str
    created_at_s: int
    started_at_s: int
    stopped_at_s: int
    decision: Decision | None = None
    policy_serial: int
    etag: str = ""
    audience: str = ""
    segment: Segment | None = None
    interim_analyses: tuple[InterimAnalysis, ...] = ()
    pre_edges: tuple[float, ...] = ()
    mechanism: Mechanism = "randomized_response"
    secondary: tuple[Primary, ...] = ()
    own_guardrails: tuple[OwnGuardrail, ...] = ()
    own_questions: tuple[OwnQuestion, ...] = ()
    bandit: Bandit | None = None
    dimension: str = ""

    def plot(self) -> "Figure":
        """Return a matplotlib figure of the interim analyses, titled with the decision.

        Raises:
            ModuleNotFoundError: matplotlib is not installed (alcove-platform[plot]).
        """
        return plot_experiment(self)


class ArmResult(Value):
    """One arm as the reports show it; `own_metric`: mean of the team's own metric, where one decides."""

    name: str
    version: str
    devices: float
    share: Estimate
    accepted: Estimate
    latency_ms: Estimate
    median_latency_ms: Estimate
    own_metric: Estimate | None = None


class ArmDifference(Value):
    """Accepted part of an arm minus that of the control, and relative to it, less 1."""

    arm: int
    accepted: Estimate
    lift: Estimate = Estimate()


class Adjustment(Value):
    """The effect of the correction by earlier answers (CUPED) on a difference."""

    unadjusted: Estimate
    theta: float = 0.0
    variance_reduction_percent: float = 0.0


class PrimaryDifference(Value):
    """An arm minus the control in the metric that decides, in its unit; corrected by CUPED.

    `lift`: relative to the control, less 1; nothing for a quantile and with CUPED.
    """

    arm: int
    difference: Estimate
    lift: Estimate = Estimate()
    adjustment: Adjustment | None = None


class ExperimentVerdict(Value):
    """The verdict of one guardrail, by its place in the experiment's, on one arm."""

    arm: int
    guardrail: int = 0
    kind: Annotated[Literal["harmful", "safe", "inconclusive"], without_prefix("GUARD_KIND_")]
    difference: Estimate
    reason: str


class Posterior(Value):
    """A posterior in the metric's unit: mean, standard deviation, the interval that holds 95 %."""

    mean: float
    standard_deviation: float
    low: float
    high: float


class ArmPosterior(Value):
    """The posterior of one arm in the metric that decides; the loss is against the best arm, in the metric's unit."""

    arm: int = 0
    value: Posterior
    chance_best: float
    expected_loss: float


class DifferencePosterior(Value):
    """The posterior of `arm` minus `versus`; the loss is that of choosing `arm` instead, in the metric's unit."""

    arm: int = 0
    versus: int = 0
    difference: Posterior
    chance_better: float
    expected_loss: float


class BayesianView(Value):
    """Posteriors in the metric that decides; they decide nothing.  Empty with an `obstacle` where there are none."""

    arms: tuple[ArmPosterior, ...] = ()
    differences: tuple[DifferencePosterior, ...] = ()
    prior: str = ""
    obstacle: str = ""


class CellRow(Value):
    """One cell of an experiment's reports; edges in ms; weights of the metric that decides, None for a quantile.

    `metric_bin`: bin of the team's own metric, where one decides.
    """

    arm: int = 0
    outcomes: tuple[Annotated[OutcomeName, without_prefix("OUTCOME_")], ...] = ()
    latency_from_ms: float | None = None
    latency_below_ms: float | None = None
    earlier_share_bin: int = 0
    count: int
    estimate: float
    noise_standard_error: float
    numerator_weight: float | None = None
    denominator_weight: float | None = None
    metric_bin: int | None = None


class CellTable(Value):
    """All cells; the noise's covariance row by row up to the diagonal: (0, 0), (1, 0), (1, 1), ..."""

    rows: tuple[CellRow, ...]
    noise_covariance: tuple[float, ...]
    reports_per_device: int


class StratumDifference(Value):
    """`arm` minus `versus` among the devices of one value; p by itself and by Benjamini and Hochberg for all."""

    arm: int = 0
    versus: int = 0
    difference: Estimate
    p: float | None = None
    adjusted_p: float | None = None


class StratumView(Value):
    """The devices of one value of a dimension; `obstacle` says why nothing is shown."""

    value: str
    report_count: int = 0
    obstacle: str = ""
    differences: tuple[StratumDifference, ...] = ()


class Heterogeneity(Value):
    """Cochran's Q of an arm over the values that are shown; `p` holds at one reading."""

    arm: int = 0
    q: float = 0.0
    degrees: int = 0
    p: float = 0.0


class DimensionView(Value):
    """The metric that decides by the values of the experiment's dimension; they decide nothing."""

    dimension: str
    strata: tuple[StratumView, ...]
    heterogeneity: tuple[Heterogeneity, ...] = ()


class ArmRatio(Value):
    """The part of the reports that an arm should have, and the one that it has with its interval."""

    expected: float
    observed: Estimate
    is_mismatch: bool = False


class SampleRatio(Value):
    """The check that arms have the parts of the reports that they should have; it is wrong with a chance of `alpha`."""

    arms: tuple[ArmRatio, ...] = ()
    alpha: float = 0.0


class Results(Value):
    """Everything that the reports of an experiment show so far; `promise` says against whom they are private."""

    report_count: int
    window_count: int
    cell_counts: tuple[int, ...]
    arms: tuple[ArmResult, ...]
    differences: tuple[ArmDifference, ...]
    decision: Decision
    alpha: float
    primary: tuple[PrimaryDifference, ...] = ()
    verdicts: tuple[ExperimentVerdict, ...] = ()
    pairs: tuple[PairDifference, ...] = ()
    next_analysis_reports: int = 0
    promise: str = ""
    collection: Collection | None = None
    bayesian: BayesianView = BayesianView()
    secondary: SecondaryView = SecondaryView()
    cells: CellTable | None = None
    allocation: AllocationView | None = None
    dimension: DimensionView | None = None
    sample_ratio: SampleRatio = SampleRatio()


class ExperimentReport(Value):
    """An experiment and its results."""

    experiment: Experiment
    results: Results

    def records(self) -> list[dict[str, Any]]:
        """Return one flat record for each pair of arms and metric, at each interim analysis and now.

        Columns: experiment_id, app, feature, analysis (0: now, else its number), analyzed_at_s, report_count, metric,
        arm, versus, p_value, decides, and difference, difference_low, difference_high, each with _share, _ms and _own.
        _share is a part of 1, _ms milliseconds, _own the unit of a team's own metric; None: there is nothing.
        `pandas.DataFrame(report.records())` and `polars.DataFrame(report.records())` take it as it is.
        """
        return difference_records(self)

    def arm_records(self) -> list[dict[str, Any]]:
        """Return one flat record for each arm.

        Columns: experiment_id, app, feature, arm, version, device_count, and reported_share, accepted_share,
        latency_ms, median_latency_ms and metric_own, each with the ends of its interval (_low, _high).
        """
        return arm_records(self)

    def plot(self) -> "Figure":
        """Return a matplotlib figure of the arms' differences over the reports, titled with the decision.

        Raises:
            ModuleNotFoundError: matplotlib is not installed (alcove-platform[plot]).
        """
        return plot_experiment(self.experiment, self.results)
