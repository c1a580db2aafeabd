"""Derives the task that an experiment's reports belong to from its record, the same each time."""

from alcove.platform.domain import limits
from alcove.platform.domain.cells import FEEDBACK, OUTCOMES_READ, group_outcomes
from alcove.platform.domain.experiments.questions import questions_of, shares_by_question, strata_count
from alcove.platform.domain.mechanism import choose_subset
from alcove.platform.domain.own_metrics import OwnMetric
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.stats import GuardMetric, PrimaryKind
from alcove.registry.policy import Aggregation, Outcome, TaskPolicy, in_stratum, make_task
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY

__all__ = [
    "bin_values_ms",
    "counted_outcomes",
    "first_window_start_s",
    "outcome_count",
    "outcome_groups",
    "task_of",
    "tasks_of",
]

_FEEDBACK_NAMES = tuple(outcome.name.lower() for outcome in FEEDBACK)
_OF_ALL = (GuardMetric.ERROR, GuardMetric.CRASH_FALLBACK)


def counted_outcomes(record: ExperimentRecord) -> frozenset[Outcome]:
    """Return the outcomes that make a report: only those that something reads, for each costs precision."""
    plan = record.plan
    metrics = {guardrail.metric for guardrail in plan.guardrails}
    if metrics.intersection(_OF_ALL) or Outcome.ANSWERED.name.lower() in plan.denominator:
        return frozenset(Outcome)
    if any(name not in _FEEDBACK_NAMES for name in plan.denominator):
        return frozenset(Outcome) - {Outcome.ANSWERED}
    is_latency = GuardMetric.LATENCY in metrics or plan.primary.startswith("latency")
    return OUTCOMES_WITH_LATENCY if is_latency else FEEDBACK


def outcome_count(record: ExperimentRecord) -> int:
    """Return how many outcomes make a report."""
    return len(counted_outcomes(record))


def outcome_groups(record: ExperimentRecord) -> tuple[tuple[Outcome, ...], ...]:
    """Return which outcomes reports tell apart: what the primary metric and the guardrails read.

    Names that mean nothing are left out here; `plan.py` refuses them.
    """
    plan = record.plan
    metrics = [GuardMetric(each.metric) for each in plan.guardrails if each.metric in tuple(GuardMetric)]
    read = [each for metric in metrics for each in OUTCOMES_READ[metric]]
    if plan.primary == PrimaryKind.ACCEPTED:
        read += OUTCOMES_READ[GuardMetric.REFUSED]
    elif plan.primary == PrimaryKind.RATIO:
        for names in (plan.numerator, plan.denominator):
            read.append(frozenset(outcome for outcome in Outcome if outcome.name.lower() in names))
    elif plan.primary != PrimaryKind.METRIC:
        read += OUTCOMES_READ[GuardMetric.LATENCY]
    return group_outcomes(read, counted_outcomes(record))


def tasks_of(record: ExperimentRecord) -> tuple[TaskPolicy, ...]:
    """Return the tasks of an experiment that has started, one for each of its questions; the first decides.

    With a dimension the question that decides has a task for each value, in order, and these come first.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    shares = shares_by_question(record.plan)
    first, *others = (_task(record, metric, shares[name]) for name, metric in questions_of(record.plan).items())
    count = strata_count(record.plan)
    strata = [in_stratum(first, number) for number in range(count)] if count > 1 else [first]
    return (*strata, *others)


def task_of(record: ExperimentRecord) -> TaskPolicy:
    """Return the task that decides an experiment that has started; with a dimension, that of its first value.

    Window 0 begins `limits.WINDOW_LATE_S` before the start, so that a device whose clock is a little late finds
    itself in it, and has its full length whatever the time of day.  With aggregators windows begin at multiples of
    their length: window 0 is the one under way at that moment, and what is left of it may be short.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    return tasks_of(record)[0]


def _task(record: ExperimentRecord, metric: OwnMetric | None, share_basis_points: int) -> TaskPolicy:
    """Return the task of one question: of an own metric, or of outcomes where it is None."""
    of_outcomes = metric is None
    task = make_task(
        experiment_id=record.experiment_id,
        epsilon=record.epsilon,
        arm_count=len(record.arms),
        outcome_groups=outcome_groups(record) if of_outcomes else None,
        latency_edges_ms=record.latency_edges_ms if of_outcomes else (),
        share_basis_points=share_basis_points,
        window_s=record.window_s,
        first_window_start_s=first_window_start_s(record.started_at_s or 0, record.window_s, record.plan.aggregation),
        pre_edges=record.plan.pre_edges if of_outcomes else (),
        aggregation=record.plan.aggregation,
        metric=None if metric is None else metric.terms,
    )
    return choose_subset(task)


def first_window_start_s(started_at_s: int, window_s: int, aggregation: Aggregation | None) -> int:
    """Return when window 0 of a task begins that starts at `started_at_s`, seconds since 1970."""
    start_s = max(0, started_at_s - limits.WINDOW_LATE_S)
    return start_s if aggregation is None else start_s - start_s % max(1, window_s)


def bin_values_ms(edges_ms: tuple[float, ...]) -> tuple[float, ...]:
    """Return the latency that stands for each bin: its middle; the open last bin is taken as wide as the one before."""
    if not edges_ms:
        return (0.0,)
    lows = (0.0, *edges_ms)
    last_width = lows[-1] - lows[-2]
    highs = (*edges_ms, edges_ms[-1] + last_width)
    return tuple((low + high) / 2 for low, high in zip(lows, highs, strict=True))
