"""Reads the guardrails of teams' own metrics in an experiment, each from the reports of a task of its own.  Pure."""

from alcove.platform.domain import limits
from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.own_metrics import validate_own_guardrails
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.domain.reports import Reports, aggregate_of
from alcove.platform.stats import GuardTests, GuardVerdict, Stratum, evaluate_bin_guardrail
from alcove.registry.limits import TASKS_MAX

__all__ = ["evaluate_own_guardrails", "validate_own"]


def validate_own(record: ExperimentRecord) -> None:
    """Refuse guardrails of own metrics that the experiment's reports cannot answer.

    Raises:
        InvalidFieldError: too many of all guardrails or of metrics, one twice, or a margin beyond the bins.
    """
    plan = record.plan
    validate_own_guardrails("own_guardrails", plan.own_guardrails, most=TASKS_MAX - 1)
    count = len(plan.guardrails) + len(plan.own_guardrails)
    if count > limits.GUARDRAILS_MAX:
        raise InvalidFieldError("own_guardrails", f"at most {limits.GUARDRAILS_MAX} guardrails of both kinds", count)


def evaluate_own_guardrails(
    record: ExperimentRecord, others: tuple[Reports, ...], treatment: int, *, alpha: float, planned_reports: int
) -> tuple[GuardVerdict, ...]:
    """Return what the guardrails of own metrics say of an arm; none where their reports were not read.

    Args:
        record: of the experiment.
        others: reports of its tasks but the first, in order.
        treatment: index of the arm.
        alpha: error of harm that all guardrails of the experiment share, of both kinds.
        planned_reports: of each task, where bounds are tightest; tasks have equal parts of the devices.

    Raises:
        StatsError: statistics refuse the reports.
    """
    plan, verdicts = record.plan, []
    count = len(plan.guardrails) + len(plan.own_guardrails)
    for guardrail, reports in zip(plan.own_guardrails, others, strict=False):
        aggregate = aggregate_of(reports)
        tests = GuardTests.at_will(alpha, reports=aggregate.reports, planned_reports=planned_reports)
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
