"""Defines how plans name teams' own metrics: a version of one, with all that statistics need of it, and a margin.

A plan keeps the version that it was made with.  Later versions, and a deprecation, change nothing of it: the task that
devices have says the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.stats import BinMetric
from alcove.registry.policy.metric import PREFERENCE_VALUES, MetricKind, MetricTerms

__all__ = ["OwnGuardrail", "OwnMetric", "OwnQuestion", "metric_of", "own_name", "validate_own_guardrails"]

_PREFIX: Final = "metric:"  # no name that every feature has begins so


@dataclass(frozen=True)
class OwnMetric:
    """One version of a team's own metric.

    Attributes:
        name: by which apps record it.
        version: of the definition; 0 in a request: the newest.
        kind: count, share, value or preference.
        edges: between the bins of devices that recorded something.
        cap: result that stands for everything above it.
        more_is_better: whether a higher mean is an improvement.
    """

    name: str
    version: int
    kind: MetricKind = MetricKind.COUNT
    edges: tuple[float, ...] = ()
    cap: float = 0.0
    more_is_better: bool = False

    @property
    def terms(self) -> MetricTerms:
        """What a task says of it.

        Raises:
            pydantic.ValidationError: a field is out of its bounds.
        """
        return MetricTerms(name=self.name, version=self.version, kind=self.kind, edges=self.edges)

    @property
    def bin_values(self) -> tuple[float, ...]:
        """Result that stands for each bin, rising: 0 for devices that recorded nothing, else the middle of the bin.

        The open last bin ends at the cap.  A preference's bins are its values, of which the first is 0, too.
        """
        if self.kind is MetricKind.PREFERENCE:
            return (0.0, *PREFERENCE_VALUES)
        if self.kind is MetricKind.COUNT:
            firsts = (1.0, *self.edges)
            lasts = (*(edge - 1 for edge in self.edges), self.cap)
        else:
            firsts = (0.0, *self.edges)
            lasts = (*self.edges, self.cap)
        return (0.0, *((first + last) / 2 for first, last in zip(firsts, lasts, strict=True)))

    @property
    def bin_metric(self) -> BinMetric:
        """What statistics read."""
        return BinMetric(
            self.name,
            self.bin_values,
            is_more_better=self.more_is_better,
            needs_record=self.kind in (MetricKind.SHARE, MetricKind.PREFERENCE),
        )


@dataclass(frozen=True)
class OwnGuardrail:
    """What must not get worse.

    Attributes:
        metric: which.
        margin: by how much worse than the control's its mean may be, in the metric's unit.
    """

    metric: OwnMetric
    margin: float


@dataclass(frozen=True)
class OwnQuestion:
    """That a part of the devices is asked about a metric.

    Attributes:
        metric: which.
        share_basis_points: the part, in 1/10 000 of the devices that take part.
    """

    metric: OwnMetric
    share_basis_points: int


def own_name(metric: str) -> str:
    """Return how verdicts and plans name an own metric beside those that every feature has."""
    return _PREFIX + metric


def metric_of(name: str) -> str | None:
    """Return the own metric that a verdict is about; None: it is about none."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else None


def validate_own_guardrails(field: str, guardrails: Sequence[OwnGuardrail], *, most: int) -> None:
    """Refuse guardrails that reports cannot answer.

    Args:
        field: of the plan, for errors.
        guardrails: of it.
        most: how many metrics the plan can ask for: each takes a task, and so a part of the devices, of its own.

    Raises:
        InvalidFieldError: more metrics than that, one of them twice, or a margin that no difference can reach.
    """
    names = [guardrail.metric.name for guardrail in guardrails]
    if len(names) > most:
        bound = f"at most {most} metrics: each is a question of its own, and a device answers one of them"
        raise InvalidFieldError(field, bound, len(names))
    if len(set(names)) != len(names):
        raise InvalidFieldError(f"{field}.metric", "each metric once", names)
    for guardrail in guardrails:
        highest = guardrail.metric.bin_values[-1]
        if not (math.isfinite(guardrail.margin) and 0.0 <= guardrail.margin < highest):
            bound = f"in [0, {highest:g}), below what stands for the last bin of {guardrail.metric.name}"
            raise InvalidFieldError(f"{field}.margin", bound, guardrail.margin)
