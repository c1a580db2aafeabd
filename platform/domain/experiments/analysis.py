"""Analyzes an experiment's reports: estimates, guardrails and the decision.  Pure."""

from dataclasses import dataclass, replace

from alcove.platform.domain.cells import FEEDBACK
from alcove.platform.domain.experiments.bandit import (
    describe_bandit,
    expected_shares_of,
    planned_part,
    split_epochs,
)
from alcove.platform.domain.experiments.own_guardrails import evaluate_own_guardrails
from alcove.platform.domain.experiments.plan import guardrails_of, primary_of
from alcove.platform.domain.experiments.questions import OUTCOMES, reports_by_question, shares_by_question
from alcove.platform.domain.experiments.schedule import next_analysis_reports
from alcove.platform.domain.experiments.task import bin_values_ms, outcome_groups
from alcove.platform.domain.records import ExperimentRecord, StoredDecision
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    Comparison,
    Decision,
    DecisionKind,
    Estimates,
    GuardKind,
    GuardTests,
    GuardVerdict,
    Metric,
    PrePeriod,
    Primary,
    ReasonCode,
    Rules,
    SequentialTest,
    StatsError,
    Stratum,
    apply_guardrails,
    bayesian_view_of_epochs,
    decide,
    effective_reports,
    estimate,
    evaluate_guardrail,
    find_impossible,
    select_bins,
    split_pre_period,
)
from alcove.platform.stats.limits import DEFAULT_PLANNED_REPORTS, MAX_REPORTS
from alcove.registry.policy import Outcome

__all__ = [
    "ALPHA",
    "UNREADABLE",
    "UNREADABLE_ERRORS",
    "ExperimentResults",
    "compare",
    "compare_bandit",
    "evaluate",
    "find_alarm",
    "planned_reports_of",
    "planned_reports_of_question",
    "read_epochs",
    "read_estimates",
]

ALPHA = 0.05  # error of each interval over all analyses together; the guardrails of all arms share another one
UNREADABLE = "unreadable"  # code of the decision where statistics refuse the reports
UNREADABLE_ERRORS = (StatsError, ArithmeticError, ValueError)  # how they refuse them


@dataclass(frozen=True)
class ExperimentResults:
    """Everything that the reports show so far.

    Attributes:
        reports: what was read.
        comparison: estimates, intervals and the decision before the guardrails are asked.
        verdicts: for each arm but the control, what each guardrail says, in order, those of own metrics last.
        verdict: what to do, guardrails included.
        next_analysis_reports: at how many reports the next interim analysis is due; None: none is.
    """

    reports: Reports
    comparison: Comparison
    verdicts: tuple[tuple[GuardVerdict, ...], ...]
    verdict: Decision
    next_analysis_reports: int | None = None

    @property
    def decision(self) -> StoredDecision:
        """The decision as it is kept when the experiment stops."""
        decision = self.verdict
        return StoredDecision(str(decision.kind), decision.winner, str(decision.code), decision.reason)


def evaluate(record: ExperimentRecord, reports: Reports) -> ExperimentResults:
    """Return what the reports say; where analyses are planned, the last one has decided.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    aggregate = aggregate_of(reports)
    comparison = (
        compare_bandit(record, reports) if record.plan.bandit else compare(record, aggregate, reports.per_device)
    )
    verdicts = _evaluate_guardrails(record, aggregate, reports)
    harms = {
        arm: verdict.reason
        for arm, of_arm in enumerate(verdicts, start=1)
        for verdict in of_arm
        if verdict.kind is GuardKind.HARMFUL
    }
    decision = apply_guardrails(_decide(record, comparison), harms)
    if alarm := find_alarm(record, aggregate):
        decision = Decision(DecisionKind.INCONCLUSIVE, None, ReasonCode.IMPOSSIBLE_REPORTS, alarm)
    return ExperimentResults(reports, comparison, verdicts, decision, next_analysis_reports(record))


def compare_bandit(record: ExperimentRecord, reports: Reports) -> Comparison:
    """Return what the counts say where the arms' shares moved from window to window, before the guardrails are asked.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    aggregate = aggregate_of(reports)
    estimates = read_estimates(record, aggregate, reports.per_device)
    observed = [estimates.moments.size(arm) / max(reports.reports, 1) for arm in range(estimates.arms)]
    rules = Rules(
        alpha=ALPHA,
        minimum_cohort=record.minimum_cohort,
        expected_shares=expected_shares_of(record, reports, observed),
    )
    epochs = read_epochs(record, reports)
    pooled = decide(estimates, AlwaysValid(planned_reports_of(record)), rules)
    return describe_bandit(pooled, epochs, bayesian_view_of_epochs(epochs or (estimates,)))


def read_epochs(record: ExperimentRecord, reports: Reports) -> tuple[Estimates, ...]:
    """Return what the counts of each run of windows with the same shares say.

    Reports of one device count as those of all windows together: the worst case, as in a fixed split.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    return tuple(
        read_estimates(record, aggregate_of(each), reports.per_device) for each in split_epochs(record, reports)
    )


def compare(
    record: ExperimentRecord, aggregate: Aggregate, reports_per_device: int, test: SequentialTest | None = None
) -> Comparison:
    """Return what the counts say before the guardrails are asked: at any time, or at a planned analysis with its test.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    total = sum(arm.share_basis_points for arm in record.arms)
    rules = Rules(
        alpha=ALPHA,
        minimum_cohort=record.minimum_cohort,
        expected_shares=tuple(arm.share_basis_points / total for arm in record.arms),
    )
    estimates = read_estimates(record, aggregate, reports_per_device)
    return decide(estimates, test or AlwaysValid(planned_reports_of(record)), rules)


def read_estimates(
    record: ExperimentRecord, aggregate: Aggregate, reports_per_device: int, primary: Primary | None = None
) -> Estimates:
    """Return what the counts say by a metric, by that which decides if none is given.

    Args:
        record: of the experiment.
        aggregate: counts of the question that asks for the metric.
        reports_per_device: of that question.
        primary: the metric.

    Raises:
        StatsError: statistics refuse the experiment's numbers, or the counts are more than they accept.
    """
    decides = primary_of(record.plan)
    asked = primary or decides
    if asked.own is not None:
        own = Metric(asked.own.bin_values, primary=asked, success_outcome=None, reports_per_device=reports_per_device)
        return estimate(aggregate, own)
    aggregate, pre_period = _split(record, aggregate)
    metric = Metric(
        bin_values_ms=bin_values_ms(record.latency_edges_ms),
        edges_ms=record.latency_edges_ms,
        primary=asked,
        success_outcome=_success_outcome(record),
        base_outcomes=tuple(sorted(FEEDBACK)),
        reports_per_device=reports_per_device,
        pre_period=pre_period if primary in (None, decides) else None,
    )
    return estimate(aggregate, metric)


def _success_outcome(record: ExperimentRecord) -> int | None:
    """Return the outcome whose share is shown beside the primary metric; None: reports do not tell it apart."""
    groups = outcome_groups(record)
    return int(Outcome.ACCEPTED) if (Outcome.ACCEPTED,) in groups else None


def find_alarm(record: ExperimentRecord, aggregate: Aggregate) -> str:
    """Return one sentence where the counts are none that devices can have sent; "" where they can."""
    return find_impossible(aggregate, planned_reports=planned_reports_of(record))


def _split(record: ExperimentRecord, aggregate: Aggregate) -> tuple[Aggregate, PrePeriod | None]:
    """Return the counts without the earlier share, and what they say of it where it was asked for."""
    edges = record.plan.pre_edges
    if not edges:
        return aggregate, None
    plain, pre_period = split_pre_period(aggregate, edges)
    return plain, replace(pre_period, joint=select_bins(pre_period.joint, sorted(FEEDBACK)))


def _decide(record: ExperimentRecord, comparison: Comparison) -> Decision:
    """Return what holds before guardrails: what the reports say now, or what the last interim analysis said.

    A sample-ratio mismatch holds whenever it is seen; nothing that the reports said before can be trusted then.
    """
    now = comparison.decision
    if not record.plan.interim_analyses or now.code is ReasonCode.SAMPLE_RATIO_MISMATCH:
        return now
    due = next_analysis_reports(record)
    following = "" if due is None else f"; the next analysis is due at {due} reports"
    if not record.interim_analyses:
        reason = f"none of {record.plan.interim_analyses} interim analyses was made at {comparison.reports} reports"
        reason += following
        return Decision(DecisionKind.INCONCLUSIVE, None, ReasonCode.BEFORE_FIRST_ANALYSIS, reason)
    last = record.interim_analyses[-1]
    decision = last.decision
    place = f"{last.fraction:.0%} of {record.plan.planned_reports} reports"
    reason = f"interim analysis {len(record.interim_analyses)}, at {place}: {decision.reason}{following}"
    return Decision(DecisionKind(decision.kind), decision.winner, ReasonCode(decision.code), reason)


def planned_reports_of(record: ExperimentRecord) -> int:
    """Return the reports at which always-valid intervals are tightest."""
    return record.plan.planned_reports or DEFAULT_PLANNED_REPORTS


def planned_reports_of_question(record: ExperimentRecord, name: str) -> int:
    """Return the same of one of its questions, which has its own part of the devices."""
    shares = shares_by_question(record.plan)
    deciding = next(iter(shares.values()))
    return max(1, min(MAX_REPORTS, planned_reports_of(record) * shares[name] // max(1, deciding)))


def _strata(record: ExperimentRecord, common: Stratum, reports: Reports, arm: int) -> list[Stratum]:
    """Return the counts of equal shares, each apart, in which guardrails compare an arm and the control of a bandit."""
    found = []
    for each in split_epochs(record, reports):
        share = planned_part(record, each.by_window[0].window, arm)
        found.append(Stratum(aggregate_of(each), treatment_share=share, reports_per_device=each.per_device))
    return found or [common]


def _evaluate_guardrails(
    record: ExperimentRecord, aggregate: Aggregate, reports: Reports
) -> tuple[tuple[GuardVerdict, ...], ...]:
    """Return what the guardrails say of each arm but the control; of one arm they share `ALPHA` for harm."""
    guardrails = guardrails_of(record.plan)
    count = max(1, len(guardrails) + len(record.plan.own_guardrails))
    answers = reports_by_question(record.plan, reports)
    planned = {name: planned_reports_of_question(record, name) for name in answers}
    common = _read_common(record, aggregate, answers.get(OUTCOMES))
    verdicts = []
    for arm in range(1, aggregate.arms):
        found = []
        if common is not None and guardrails:
            strata = [common] if record.plan.bandit is None else _strata(record, common, reports, arm)
            clock = common.aggregate.reports if record.plan.bandit is None else effective_reports(strata)
            tests = GuardTests.at_will(ALPHA, reports=clock, planned_reports=planned[OUTCOMES]).share(count)
            edges_ms = record.latency_edges_ms
            found = [
                evaluate_guardrail(strata, each, control=0, treatment=arm, tests=tests, edges_ms=edges_ms)
                for each in guardrails
            ]
        verdicts.append((*found, *evaluate_own_guardrails(record, answers, arm, alpha=ALPHA, planned=planned)))
    return tuple(verdicts)


def _read_common(record: ExperimentRecord, decides: Aggregate, reports: Reports | None) -> Stratum | None:
    """Return what the guardrails of every feature read: reports of outcomes, without what was before."""
    if reports is None:
        return None
    aggregate, _ = _split(record, decides if record.plan.own_primary is None else aggregate_of(reports))
    return Stratum(aggregate, reports_per_device=reports.per_device)
