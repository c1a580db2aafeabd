"""Derives the task that an experiment's reports belong to from its record, the same each time."""

from alcove.platform.domain import limits
from alcove.platform.domain.records import ExperimentRecord
from alcove.platform.stats import GuardMetric
from alcove.registry.policy import Outcome, TaskPolicy, make_task

__all__ = ["bin_values_ms", "outcome_count", "task_of"]

_ANSWERS = 2  # refused and accepted
_ANSWER_NAMES = ("refused", "accepted")
_BEYOND_ANSWERS = (GuardMetric.ERROR, GuardMetric.CRASH_FALLBACK)


def outcome_count(record: ExperimentRecord) -> int:
    """Return how many outcomes reports tell apart: all only where something reads them, for each costs precision."""
    is_beyond = any(guardrail.metric in _BEYOND_ANSWERS for guardrail in record.plan.guardrails)
    is_beyond = is_beyond or any(name not in _ANSWER_NAMES for name in record.plan.denominator)
    return len(Outcome) if is_beyond else _ANSWERS


def task_of(record: ExperimentRecord) -> TaskPolicy:
    """Return the task of an experiment that has started.

    Window 0 begins `limits.WINDOW_LATE_S` before the start, so that a device whose clock is a little late finds
    itself in it, and has its full length whatever the time of day.

    Raises:
        pydantic.ValidationError: a field is out of its bounds.
    """
    started_at_s = record.started_at_s or 0
    return make_task(
        experiment_id=record.experiment_id,
        epsilon=record.epsilon,
        arm_count=len(record.arms),
        outcome_count=outcome_count(record),
        latency_edges_ms=record.latency_edges_ms,
        window_s=record.window_s,
        first_window_start_s=max(0, started_at_s - limits.WINDOW_LATE_S),
        pre_edges=record.plan.pre_edges,
    )


def bin_values_ms(edges_ms: tuple[float, ...]) -> tuple[float, ...]:
    """Return the latency that stands for each bin: its middle; the open last bin is taken as wide as the one before."""
    if not edges_ms:
        return (0.0,)
    lows = (0.0, *edges_ms)
    last_width = lows[-1] - lows[-2]
    highs = (*edges_ms, edges_ms[-1] + last_width)
    return tuple((low + high) / 2 for low, high in zip(lows, highs, strict=True))
