"""Chooses which guardrails a device is asked about: all of them by one report, or a part of the devices by each.  Pure.

Under randomized response the noise grows with the cells of a report, and the cells with the guardrails that it answers.
Splitting the devices leaves fewer reports for each question, with fewer cells.  Both are valid; the choice is what
needs the fewest devices for a sound version to be found safe by all guardrails. With v_g the variance of a guardrail's
difference over its squared margin, per device that answers it, and s_g the part of the devices that is asked,

    chance that all are safe with N devices  =  product over g of  Phi(sqrt(N s_g / v_g) - z)

Sampling and noise are those of the windows that a device's budget of 30 days pays for.  A guardrail's own rates matter
little to the choice, so they are those of an ordinary version (`behavior.py`).  Aggregators add their noise to each
window's sums, however many devices there are: all are then asked everything.  A metric of a team's own is a question by
itself, whatever the mechanism.
"""

import bisect
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Final

import numpy as np
from alcove.platform.domain.behavior import LATENCY_SPREAD, Behavior
from alcove.platform.domain.cells import FEEDBACK, OUTCOMES_READ
from alcove.platform.domain.mechanism import report_model_of
from alcove.platform.domain.own_metrics import own_name
from alcove.platform.domain.rollout_records import GuardrailRecord, Question, RolloutPlan
from alcove.platform.domain.rollouts.task import tasks_of
from alcove.platform.stats import GuardMetric, MetricModel
from alcove.platform.stats.arm_covariance import ratio_covariance
from alcove.privacy.limits import DAY_S
from alcove.privacy.schedule import debit_times_s
from alcove.registry.limits import POLICY_BUCKETS, TASKS_MAX
from alcove.registry.policy import TaskPolicy
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY

__all__ = ["choose_questions", "devices_needed"]

LEAST_GAIN: Final = 0.1
"""Part of the devices that splitting the devices must save: one question is simpler to explain and to check."""

SAFE_POWER: Final = 0.8
"""Chance that a sound version is found safe by all guardrails."""

SAFE_SCORE: Final = 1.8
"""Standard errors below a margin that are called safe at the last of a few looks (5 %, one side)."""

EXPONENTS: Final = (1.0, 0.85, 0.7, 0.55, 0.4)
"""Of the variances, which the parts of the devices are in proportion to: the lower, the surer are easy questions."""

PRECISION_BITS: Final = 20
"""Halvings of the interval that holds the devices needed."""

LEAST_SHARE: Final = 200
"""Of the devices that a question is asked, in 1/10 000."""

LEAST_MARGIN: Final = 0.001
"""Stands for a margin below it, which no number of devices would make comparable."""


def choose_questions(plan: RolloutPlan, behavior: Behavior | None = None) -> tuple[Question, ...]:
    """Return the questions of a plan, in the order of its guardrails; with aggregators one, without guardrails none.

    Args:
        plan: with its defaults in place.
        behavior: of the version in use; None: an ordinary one.
    """
    own = tuple((own_name(each.metric.name),) for each in plan.own_guardrails)
    metrics = tuple(dict.fromkeys(guardrail.metric for guardrail in plan.guardrails))
    if not own:
        return _share_out(plan, metrics, TASKS_MAX, behavior or Behavior())
    # How a metric of the team's own is spread is not known: each has as much as the guardrails together.
    most = len(own) + bool(metrics)
    common = _share_out(plan, metrics, TASKS_MAX - len(own), behavior or Behavior())
    shares = [max(1, question.share_basis_points // most) for question in common]
    rest = POLICY_BUCKETS - sum(shares)
    parts = [Question(question.metrics, share) for question, share in zip(common, shares, strict=True)]
    for place, names in enumerate(own):
        parts.append(Question(names, rest // len(own) + (place < rest % len(own))))
    return tuple(parts)


def _share_out(plan: RolloutPlan, metrics: tuple[str, ...], most: int, behavior: Behavior) -> tuple[Question, ...]:
    """Return at most so many questions of metrics that every feature has."""
    if not metrics:
        return ()
    together: tuple[Question, ...] = (Question(metrics),)
    if plan.aggregation is not None or len(metrics) == 1:
        return together
    best, least = together, devices_needed(plan, together, behavior) * (1.0 - LEAST_GAIN)
    for parts in _partitions(metrics):
        if not 1 < len(parts) <= most:
            continue
        worst = [max(_variances(plan, Question(part), behavior)) for part in parts]
        for exponent in EXPONENTS:
            shares = _shares([variance**exponent for variance in worst])
            questions = tuple(Question(part, share) for part, share in zip(parts, shares, strict=True))
            needed = devices_needed(plan, questions, behavior)
            if needed < least:
                best, least = questions, needed
    return best


def devices_needed(plan: RolloutPlan, questions: Sequence[Question], behavior: Behavior) -> float:
    """Return the devices of both groups with which every guardrail that is asked finds a sound version safe.

    Args:
        plan: its guardrails that no question has are left out; at least one has.
        questions: of the devices.
        behavior: of the version in use.
    """
    variances = [each for question in questions for each in _variances(plan, question, behavior)]
    normal = NormalDist()
    low, high = 0.0, 1.0  # square roots of the devices
    while math.prod(normal.cdf(high / math.sqrt(each) - SAFE_SCORE) for each in variances) < SAFE_POWER:
        low, high = high, 2.0 * high
    for _ in range(PRECISION_BITS):
        middle = (low + high) / 2.0
        chance = math.prod(normal.cdf(middle / math.sqrt(each) - SAFE_SCORE) for each in variances)
        low, high = (low, middle) if chance >= SAFE_POWER else (middle, high)
    return high**2


def _variances(plan: RolloutPlan, question: Question, behavior: Behavior) -> list[float]:
    """Return the variance over the squared margin of each guardrail of a question, times the devices."""
    (task,) = tasks_of("ro-0", replace(plan, questions=(question,)), 0)
    return [
        _variance(guardrail, task, behavior) * POLICY_BUCKETS / question.share_basis_points
        for guardrail in plan.guardrails
        if guardrail.metric in question.metrics
    ]


def _variance(guardrail: GuardrailRecord, task: TaskPolicy, behavior: Behavior) -> float:
    """Return the variance of a guardrail's difference over its squared margin, times the devices that are asked.

    They report in as many windows of 30 days as their budget pays for, and are the same devices in each.
    """
    layout = task.layout
    cells = [layout.axes(cell) for cell in range(layout.arm_cell_count)]
    metric = GuardMetric(guardrail.metric)
    margin, first_bin = guardrail.margin, 0
    events, base = OUTCOMES_READ[metric][0], None
    if metric is GuardMetric.REFUSED:
        base = FEEDBACK
    elif metric is GuardMetric.LATENCY:
        base = OUTCOMES_WITH_LATENCY
        edge_ms = guardrail.edge_ms
        if edge_ms is None:
            score = NormalDist().inv_cdf(guardrail.quantile or 0.5)
            edge_ms = behavior.latency_ms * float(np.exp(LATENCY_SPREAD * score))
            margin *= NormalDist().pdf(score) / (edge_ms * LATENCY_SPREAD)  # ms as a share of the answers
        first_bin = min(max(1, bisect.bisect_right(task.latency_edges_ms, edge_ms)), len(task.latency_edges_ms))
    weights = np.array([axes.outcome in events and axes.latency >= first_bin for axes in cells], np.float64)
    in_base = np.array([base is None or axes.outcome in base for axes in cells], np.float64)
    probabilities = np.array(behavior.cells(task))
    reporting = float(probabilities.sum())
    model = MetricModel(weights, in_base, probabilities / reporting)
    covariance = ratio_covariance((model, model), (0.5, 0.5), report_model_of(task)).total(
        1.0, _windows_of_30_days(task)
    )
    difference = float(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1])
    return difference / reporting / max(margin, LEAST_MARGIN) ** 2


def _windows_of_30_days(task: TaskPolicy) -> int:
    """Return in how many windows of 30 days a device's budget lets it report, at least 1."""
    times_s = debit_times_s(
        task.epsilon_fraction, task.window_s, max(1, 30 * DAY_S // task.window_s), may_use_reserve=True
    )
    return max(1, sum(time_s < 30 * DAY_S for time_s in times_s))


def _shares(variances: Sequence[float]) -> list[int]:
    """Return shares in proportion to the variances, in 1/10 000, of sum 10 000 and none below `LEAST_SHARE`."""
    total = sum(variances)
    shares = [max(LEAST_SHARE, round(POLICY_BUCKETS * variance / total)) for variance in variances]
    shares[shares.index(max(shares))] += POLICY_BUCKETS - sum(shares)
    return shares


def _partitions(metrics: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield every way to put metrics into parts, parts by their first metric."""
    if not metrics:
        yield ()
        return
    first, rest = metrics[0], metrics[1:]
    for parts in _partitions(rest):
        yield ((first,), *parts)
        for place, part in enumerate(parts):
            others = parts[:place] + parts[place + 1 :]
            yield ((first, *part), *others)
