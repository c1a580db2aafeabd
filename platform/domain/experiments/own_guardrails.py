"""Validates what an experiment asks of own metrics, and reads their guardrails, each from its own task.  Pure."""

from collections.abc import Mapping

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.experiments.questions import questions_of, shares_by_question
from alcove.platform.domain.own_metrics import validate_own_guardrails
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import GuardTests, GuardVerdict, Stratum, evaluate_bin_guardrail
from alcove.registry.limits import POLICY_BUCKETS, TASKS_MAX
from alcove.registry.policy.metric import MetricKind

__all__ = ["LEAST_SHARE", "evaluate_own_guardrails", "validate_own"]

LEAST_SHARE = 100
"""Of the devices that a question is asked of, in 1/10 000: fewer would find nothing."""


def validate_own(record: ExperimentRecord) -> None:
    """Refuse own metrics that the experiment's reports cannot answer.

    Raises:
        InvalidFieldError: too many of all guardrails or of metrics, one twice, a margin beyond the bins, or a share of
            the devices that leaves too few for a question; or a preference that decides among three arms or more.
    """
    plan = record.plan
    if plan.own_primary is not None and plan.own_primary.kind is MetricKind.PREFERENCE and len(record.arms) != 2:
        raise InvalidFieldError("arms", "2 where a preference decides: it is between two versions", len(record.arms))
    validate_own_guardrails("own_guardrails", plan.own_guardrails, most=TASKS_MAX - 1)
    count = len(plan.guardrails) + len(plan.own_guardrails)
    if count > limits.GUARDRAILS_MAX:
        raise InvalidFieldError("own_guardrails", f"at most {limits.GUARDRAILS_MAX} guardrails of both kinds", count)
    if plan.own_primary is not None and plan.own_primary.name in {each.metric.name for each in plan.own_guardrails}:
        raise InvalidFieldError("own_guardrails", "other metrics than that which decides", plan.own_primary.name)
    _validate_questions(record)


def _validate_questions(record: ExperimentRecord) -> None:
    plan = record.plan
    names = [each.metric.name for each in plan.own_questions]
    if len(set(names)) != len(names):
        raise InvalidFieldError("own_questions", "each metric once", names)
    questions = questions_of(plan)
    if len(questions) > TASKS_MAX:
        bound = f"at most {TASKS_MAX} questions, outcomes one of them: a device answers one, in its budget"
        raise InvalidFieldError("own_questions", bound, [name or "outcomes" for name in questions])
    for each in plan.own_questions:
        if not LEAST_SHARE <= each.share_basis_points <= POLICY_BUCKETS:
            bound = f"{LEAST_SHARE} to {POLICY_BUCKETS}"
            raise InvalidFieldError("own_questions.share_basis_points", bound, each.share_basis_points)
    shares = shares_by_question(plan)
    if min(shares.values()) < LEAST_SHARE or sum(shares.values()) != POLICY_BUCKETS:
        bound = f"shares that leave each of {len(shares)} questions at least {LEAST_SHARE} of {POLICY_BUCKETS}"
        bound += ", and together all where each is stated"
        raise InvalidFieldError(
            "own_questions.share_basis_points", bound, [each.share_basis_points for each in plan.own_questions]
        )


def evaluate_own_guardrails(
    record: ExperimentRecord,
    answers: Mapping[str, Reports],
    treatment: int,
    *,
    alpha: float,
    planned: Mapping[str, int],
) -> tuple[GuardVerdict, ...]:
    """Return what the guardrails of own metrics say of an arm; none where their reports were not read.

    Args:
        record: of the experiment.
        answers: reports of its questions, by their names.
        treatment: index of the arm.
        alpha: error of harm that all guardrails of the experiment share, of both kinds.
        planned: reports of each question, where bounds are tightest.

    Raises:
        StatsError: statistics refuse the reports.
    """
    plan, verdicts = record.plan, []
    count = len(plan.guardrails) + len(plan.own_guardrails)
    for guardrail in plan.own_guardrails:
        reports = answers.get(guardrail.metric.name)
        if reports is None:
            continue
        aggregate = aggregate_of(reports)
        tests = GuardTests.at_will(alpha, reports=aggregate.reports, planned_reports=planned[guardrail.metric.name])
        verdicts.append(
            evaluate_bin_guardrail(
                [Stratum(aggregate, reports_per_device=reports.per_device)],
                guardrail.metric.bin_metric,
                guardrail.margin,
                control=0,
                treatment=treatment,
                tests=tests.share(count),
            )
        )
    return tuple(verdicts)
