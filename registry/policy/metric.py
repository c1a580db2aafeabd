"""Defines a team's own metric as a task carries it: what a device adds up in a window, and which bin the result is in.

    kind        result of a window                            bin 0                      bin 1
    count       number of records                             no record                  below the first edge
    share       records that were true, of all records        no record: no share        below the first edge
    value       sum of the recorded values, each at least 0   a sum of 0, or no record   above 0, below the first edge
    preference  one of the records, drawn evenly              no record: no preference   0: the second was preferred

A preference has no edges: bins 2 and 3 are 1/2, neither was preferred, and 1, the first was.  Which of two versions is
shown first is the device's arm (decision 0111).

Of the other kinds bin i + 1 holds edges[i-1] <= result < edges[i].  The last bin has no upper end, so a device need not
count beyond the last edge: it saturates there.
"""

from __future__ import annotations

import bisect
import itertools
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Final

from alcove.registry import limits
from alcove.registry.canonical import Part
from pydantic import Field, StringConstraints, ValidationInfo, field_serializer, field_validator

__all__ = ["PREFERENCE_VALUES", "MetricKind", "MetricName", "MetricTerms"]

_MILLIONTHS: Final = 1_000_000  # of a metric's unit; edges are whole ones

PREFERENCE_VALUES: Final = (0.0, 0.5, 1.0)
"""What a record of a preference may be: the second, neither, the first was preferred."""

MetricName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,63}$")]


class MetricKind(StrEnum):
    """What a device adds up in a window; the module's docstring says which bins come of it."""

    COUNT = "count"
    """How many times the app recorded it."""
    SHARE = "share"
    """How large a part of the records was true."""
    VALUE = "value"
    """The sum of what was recorded."""
    PREFERENCE = "preference"
    """Which of two versions a person preferred: 1 the one shown first, 0 the other, 1/2 neither."""


_EDGES: Final = MappingProxyType(
    {
        MetricKind.COUNT: f"an edge of a count is a whole number, at least 2, up to {limits.METRIC_VALUE_MAX}",
        MetricKind.SHARE: "an edge of a share is in whole millionths, above 0, below 1",
        MetricKind.VALUE: f"an edge of a value is in whole millionths, above 0, up to {limits.METRIC_VALUE_MAX}",
        MetricKind.PREFERENCE: "a preference has no edges",
    }
)


class MetricTerms(Part):
    """What a device needs to know of one version of a metric.

    Attributes:
        name: by which the app records it.
        version: of the definition, 1 the first.
        kind: what is added up.
        edges: rising; between the bins of devices that recorded something.  Of a count whole numbers from 2 on; of a
            share in (0, 1), at least one; of a value above 0, at least one; of a preference none.  Whole millionths.
    """

    name: MetricName
    version: Annotated[int, Field(strict=True, ge=1, le=limits.METRIC_VERSIONS_MAX)]
    kind: MetricKind
    edges: Annotated[tuple[float, ...], Field(max_length=limits.METRIC_EDGES_MAX, validate_default=True)] = ()

    @field_validator("edges", mode="before")
    @classmethod
    def _read_edges(cls, value: object) -> object:
        # Decimal text in the document, numbers in the program: no float is ever signed.
        if isinstance(value, (list, tuple)):
            return tuple(float(edge) if isinstance(edge, str) else edge for edge in value)
        return value

    @field_serializer("edges")
    def _write_edges(self, edges: tuple[float, ...]) -> list[str]:
        return [_decimal_text(edge) for edge in edges]

    @field_validator("edges")
    @classmethod
    def _validate_edges(cls, edges: tuple[float, ...], info: ValidationInfo) -> tuple[float, ...]:
        kind = info.data.get("kind")
        if kind is None:  # refused itself
            return edges
        for edge in edges:
            if not _is_edge(kind, edge):
                msg = f"{_EDGES[kind]}: {edge}"
                raise ValueError(msg)
        if any(low >= high for low, high in itertools.pairwise(edges)):
            msg = f"edges must rise: {edges}"
            raise ValueError(msg)
        if kind in (MetricKind.SHARE, MetricKind.VALUE) and not edges:
            msg = f"a {kind} has at least one edge"
            raise ValueError(msg)
        return edges

    @property
    def bin_count(self) -> int:
        """Number of bins: one for devices that recorded nothing, and one more than edges, or one a preference."""
        if self.kind is MetricKind.PREFERENCE:
            return 1 + len(PREFERENCE_VALUES)
        return len(self.edges) + 2

    def bin_of(self, records: int, total: float) -> int:
        """Return the bin of a window's result, in [0, bin_count).

        Args:
            records: how many times it was recorded, >= 0.
            total: of a share the number of true records, of a value the sum, of a preference the
                record that was drawn; not read for a count.

        Raises:
            ValueError: of a preference, the record is none.
        """
        if records == 0 or (self.kind is MetricKind.VALUE and total <= 0):
            return 0
        if self.kind is MetricKind.PREFERENCE:
            return 1 + PREFERENCE_VALUES.index(total)
        if self.kind is MetricKind.COUNT:
            result = float(records)
        elif self.kind is MetricKind.SHARE:
            result = total / records
        else:
            result = total
        return bisect.bisect_right(self.edges, result) + 1

    def is_saturated(self, records: int, total: float) -> bool:
        """Tell whether no further record can change the bin of a window."""
        is_open = self.kind in (MetricKind.SHARE, MetricKind.PREFERENCE)
        return not is_open and self.bin_of(records, total) == self.bin_count - 1


def _is_edge(kind: MetricKind, edge: float) -> bool:
    if kind is MetricKind.PREFERENCE:
        return False
    if kind is MetricKind.COUNT:
        return 2 <= edge <= limits.METRIC_VALUE_MAX and edge == int(edge)
    most = 1.0 - 1.0 / _MILLIONTHS if kind is MetricKind.SHARE else limits.METRIC_VALUE_MAX
    return 0 < edge <= most and round(edge * _MILLIONTHS) / _MILLIONTHS == edge


def _decimal_text(edge: float) -> str:
    whole, rest = divmod(round(edge * _MILLIONTHS), _MILLIONTHS)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".")
