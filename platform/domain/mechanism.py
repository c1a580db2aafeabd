"""Chooses how a task's reports become sums, and says what each way promises.  Pure."""

from decimal import Decimal
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

from alcove.platform.domain.errors import AggregatorsMissingError
from alcove.platform.stats import Mechanism
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.privacy.limits import EPSILON_PER_DAY, MIN_EPSILON
from alcove.privacy.schedule import WIDEST
from alcove.privacy.subset_selection import best_subset_size
from alcove.registry.policy import Aggregation, TaskPolicy, in_stratum, make_task

__all__ = [
    "choose_aggregation",
    "choose_subset",
    "default_epsilon",
    "largest_epsilon",
    "mechanism_of",
    "promise_of",
    "report_model_of",
]


def mechanism_of(aggregation: Aggregation | None) -> Mechanism:
    """Return the mechanism of a task that has these aggregators, or none."""
    return Mechanism.RANDOMIZED_RESPONSE if aggregation is None else Mechanism.PRIO3


def choose_aggregation(mechanism: Mechanism | None, aggregators: Aggregation | None) -> Aggregation | None:
    """Return the aggregators of a task, None for randomized response.

    Args:
        mechanism: as asked for; None: Prio3 where the server has aggregators, else randomized response.
        aggregators: the server's.

    Raises:
        AggregatorsMissingError: Prio3 is asked of a server without aggregators.
    """
    if mechanism is Mechanism.PRIO3 and aggregators is None:
        raise AggregatorsMissingError
    return None if mechanism is Mechanism.RANDOMIZED_RESPONSE else aggregators


def default_epsilon(aggregation: Aggregation | None) -> str:
    """Return the privacy loss of a rollout's report that none is named for, decimal text.

    2, all that a device spends in a day, under randomized response: at 1 no app below a hundred million devices would
    find a stage safe.  1 where aggregators add reports up: their noise is small then.
    """
    return "2" if aggregation is None else "1"


def largest_epsilon(aggregation: Aggregation | None, *, is_guardrail: bool) -> Fraction:
    """Return the largest privacy loss of one report that some device pays for.

    With aggregators a day's cap.  Under randomized response all of what may be spent in 30 days, by a report that is
    alone in its day, on the devices of apps that allow it (`BudgetLimits.per_lone_report`).

    Args:
        aggregation: of the task.
        is_guardrail: the report is a rollout's, which may spend the reserve.
    """
    if aggregation is not None:
        return EPSILON_PER_DAY
    return min(cap.most_of_one for cap in WIDEST.caps(may_use_reserve=is_guardrail))


def report_model_of(task: TaskPolicy) -> ReportModel:
    """Return how the reports of a task are made private, as plans count it."""
    local = None if task.aggregation is None else task.aggregation.local_epsilon_fraction
    return ReportModel(mechanism_of(task.aggregation), task.epsilon_fraction, local, task.subset_size)


def choose_subset(task: TaskPolicy) -> TaskPolicy:
    """Return the task with reports of as many cells as tell most; unchanged where aggregators add them up."""
    if task.aggregation is not None or not task.epsilon_fraction >= MIN_EPSILON:
        return task
    size = best_subset_size(task.cell_count, task.epsilon_fraction)
    if size == task.subset_size:
        return task
    terms: dict[str, Any] = {name: value for name, value in task if name not in ("task_id", "stratum")}
    terms["subset_size"] = size
    return in_stratum(make_task(**terms), task.stratum)


def promise_of(epsilon: str, aggregation: Aggregation | None) -> str:
    """Return one sentence that says against whom reports are private, and up to which epsilon."""
    if aggregation is None:
        text = f"randomized response: each report hides arm and outcome up to ε = {epsilon}, from this server too"
        if Decimal(epsilon) <= EPSILON_PER_DAY:
            return text
        return (
            f"{text}; it is more than the {EPSILON_PER_DAY} of a day: only devices of apps that allow such reports"
            " (BudgetLimits.per_lone_report) send one, within what they may spend in 30 days"
        )
    leader, helper = (urlsplit(url).netloc for url in (aggregation.leader_url, aggregation.helper_url))
    together = "they could read every report together"
    if aggregation.local_epsilon is not None:
        together = f"together they could read a report up to ε = {aggregation.local_epsilon}"
    return (
        f"two aggregators (Prio3): neither {leader} nor {helper} reads a report, and they release a window's sums with"
        f" ε = {epsilon} from {aggregation.min_batch_size} reports on; {together}"
    )
