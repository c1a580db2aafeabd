"""Chooses which outcomes a task counts, and which of them as one: only what somebody reads is told apart.  Pure.

Each cell of a report adds noise to all others, so that two outcomes which every metric treats alike are one.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from alcove.platform.stats import GuardMetric
from alcove.registry.policy import Outcome
from alcove.registry.policy.outcome import OUTCOMES_WITH_LATENCY

__all__ = ["FEEDBACK", "OUTCOMES_READ", "group_outcomes"]

FEEDBACK: Final = frozenset({Outcome.REFUSED, Outcome.ACCEPTED})
"""What a user made of an answer."""

OUTCOMES_READ: Final[Mapping[GuardMetric, tuple[frozenset[Outcome], ...]]] = MappingProxyType(
    {
        GuardMetric.CRASH_FALLBACK: (frozenset({Outcome.FALLBACK}),),
        GuardMetric.ERROR: (frozenset({Outcome.ERROR}),),
        GuardMetric.REFUSED: (frozenset({Outcome.REFUSED}), FEEDBACK),
        GuardMetric.LATENCY: (OUTCOMES_WITH_LATENCY,),
    }
)
"""Sets of outcomes that a guardrail counts; besides them it reads how many reports there are."""


def group_outcomes(
    read: Iterable[Collection[Outcome]], counted: Collection[Outcome] = tuple(Outcome)
) -> tuple[tuple[Outcome, ...], ...]:
    """Return the fewest groups of outcomes of which every set that is read is made up.

    Args:
        read: sets of outcomes whose reports are counted.
        counted: outcomes that make a report; all by default, so that a report says no more than that one is due.
    """
    sets = [frozenset(each) for each in read]
    groups: dict[tuple[bool, ...], list[Outcome]] = {}
    for outcome in sorted(counted):
        groups.setdefault(tuple(outcome in each for each in sets), []).append(outcome)
    return tuple(tuple(group) for group in groups.values())
