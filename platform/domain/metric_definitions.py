"""Defines the records of a team's own metrics, and validates what a team asks for.

create ─▶ version 1 ─ create again, changed ─▶ version 2 ─▶ …        a version never changes
              └────────────── deprecate ──────────────▶ deprecated: no plan may name it any more, and no version
                                                        follows; what runs with it goes on
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.field_validation import fields_named, validate_field, validate_reason
from alcove.platform.domain.own_metrics import OwnMetric
from alcove.registry.canonical import FeatureName
from alcove.registry.limits import METRIC_VALUE_MAX
from alcove.registry.policy.metric import MetricKind, MetricName, MetricTerms

__all__ = ["MetricDefinition", "MetricDeprecation", "validate_metric"]

_PARTS: Final = (MetricKind.SHARE, MetricKind.PREFERENCE)
"""Kinds whose results are in [0, 1]."""


@dataclass(frozen=True)
class MetricDefinition:
    """One version of a metric; it never changes.

    Attributes:
        sequence: orders all versions of all metrics; 0: not written yet.
        feature: whose handle records it.
        name: by which it is recorded; unique in the feature, and never another metric's.
        version: 1 the first, rising.
        kind: count, share, value or preference.
        edges: between the bins, as `MetricTerms` has them.
        cap: result that stands for everything above it, at or above the last edge: a device that records more counts
            as one that recorded that much.  Of a share and of a preference 1.
        more_is_better: whether a higher mean is an improvement.
        owner: who answers questions about it: a person or a group.
        description: what is recorded, when, and in which unit.
        created_by, created_at_s: who wrote the version and when.
    """

    sequence: int
    feature: str
    name: str
    version: int
    kind: MetricKind
    edges: tuple[float, ...]
    cap: float
    more_is_better: bool
    owner: str
    description: str
    created_by: str = ""
    created_at_s: int = 0

    @property
    def planned(self) -> OwnMetric:
        """What a plan keeps of it."""
        return OwnMetric(self.name, self.version, self.kind, self.edges, self.cap, self.more_is_better)

    @property
    def bin_values(self) -> tuple[float, ...]:
        """Result that stands for each bin (`OwnMetric.bin_values`)."""
        return self.planned.bin_values

    def says_the_same_as(self, other: "MetricDefinition") -> bool:
        """Tell whether two versions differ in nothing but their number, author and time."""
        numbered = replace(
            other,
            sequence=self.sequence,
            version=self.version,
            created_by=self.created_by,
            created_at_s=self.created_at_s,
        )
        return self == numbered


@dataclass(frozen=True)
class MetricDeprecation:
    """That a metric is to be used no more.

    Attributes:
        feature, name: which metric.
        successor: name of the metric of the same feature to use instead; "": none.
        reason: why.
        deprecated_by, deprecated_at_s: who said so and when.
    """

    feature: str
    name: str
    successor: str
    reason: str
    deprecated_by: str
    deprecated_at_s: int


def validate_metric(definition: MetricDefinition) -> MetricDefinition:
    """Return the definition with texts stripped and defaults in place.

    Raises:
        InvalidFieldError: a field is out of its bounds, or fields contradict each other.
    """
    validate_field("feature", FeatureName, definition.feature)
    validate_field("name", MetricName, definition.name)
    if definition.kind not in tuple(MetricKind):
        raise InvalidFieldError("kind", " | ".join(MetricKind), definition.kind)
    with fields_named():
        terms = replace(definition, version=1).planned.terms
    cap = definition.cap or _default_cap(terms)
    definition = replace(
        definition,
        cap=cap,
        owner=validate_reason("owner", definition.owner),
        description=validate_reason("description", definition.description),
    )
    _validate_cap(definition)
    if definition.kind is MetricKind.PREFERENCE and not definition.more_is_better:
        bound = "yes for a preference: its mean is how often the version shown first was preferred"
        raise InvalidFieldError("more_is_better", bound, definition.more_is_better)
    return definition


def _default_cap(terms: MetricTerms) -> float:
    """Return the cap where none was given: the last bin is as wide as the one before."""
    if terms.kind in _PARTS:
        return 1.0
    lows = (1.0 if terms.kind is MetricKind.COUNT else 0.0, *terms.edges)
    if len(lows) == 1:
        return lows[0]
    width = lows[-1] - lows[-2]
    return min(float(METRIC_VALUE_MAX), lows[-1] + width - (terms.kind is MetricKind.COUNT))


def _validate_cap(definition: MetricDefinition) -> None:
    kind, cap, edges = definition.kind, definition.cap, definition.edges
    if kind in _PARTS:
        if cap != 1.0:
            raise InvalidFieldError("cap", f"1, or none, for a {kind}", cap)
        return
    lowest = edges[-1] if edges else 1.0
    is_bounded = math.isfinite(cap) and lowest <= cap <= METRIC_VALUE_MAX
    if not is_bounded or (kind is MetricKind.COUNT and cap != int(cap)):
        whole = "a whole number " if kind is MetricKind.COUNT else ""
        raise InvalidFieldError("cap", f"{whole}from {lowest:g}, the last edge, to {METRIC_VALUE_MAX}", cap)
