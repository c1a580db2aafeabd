"""Takes what an app records of its own metrics, and counts what becomes of it.

    handle.record ─▶ check_value ─▶ consent ─ yes ─▶ asked by the feature's task? ─ yes ─▶ reports.py
                                       └ no: gone          └ no: counted in memory, and gone

Invariants:
  M1  A name or value that none can be raises on every device, whatever its task: an error that only the devices of an
      experiment raise would reach users and no developer.
  M2  What no task asks for touches no file and loads nothing, and raises nothing.
  M3  The counts stay in this process; they are of names alone, never of values.
"""

import functools
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from alcove.sdk.errors import OutOfBoundError
from alcove.sdk.limits import MAX_METRIC_NAMES

if TYPE_CHECKING:
    from alcove.sdk.handle import ActiveModel

__all__ = [
    "MetricCounter",
    "MetricRecord",
    "RecordedMetric",
    "asks_preference",
    "check_name",
    "check_value",
    "is_asked",
    "is_fit",
]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FIT: Final[Mapping[str, tuple[float, ...]]] = MappingProxyType({"share": (0.0, 1.0), "preference": (0.0, 0.5, 1.0)})
"""Values that a kind has a use for; of the other kinds all."""
_OTHERS: Final = ""
"""Stands for the names beyond the most that are counted apart."""


@dataclass(frozen=True, slots=True)
class MetricRecord:
    """One record of a metric.

    Attributes:
        feature: whose handle it came by.
        active: what answers for the feature.
        name: of the metric.
        value: finite, at least 0.
    """

    feature: str
    active: "ActiveModel"
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class RecordedMetric:
    """What became of an app's records of one name, in this process.

    Attributes:
        feature: whose handle they came by.
        name: as recorded; "" for all names beyond the first 256.
        kept: records that a task of the device asked for; only such a name can ever become part of a report.
        unasked: records that no task asked for at the time.
        unfit: records that a task asked for, with a value that its kind has no use for: of a share neither true nor
            false, of a preference none of 0, 1/2 and 1.
    """

    feature: str
    name: str
    kept: int
    unasked: int
    unfit: int


class MetricCounter:
    """Counts records by name; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], Counter[str]] = {}

    def count(self, record: MetricRecord, what: str) -> None:
        """Count one record as "kept", "unasked" or "unfit"."""
        with self._lock:
            key = (record.feature, record.name)
            if key not in self._counts and len(self._counts) >= MAX_METRIC_NAMES:
                key = (record.feature, _OTHERS)
            self._counts.setdefault(key, Counter())[what] += 1

    def records(self) -> tuple[RecordedMetric, ...]:
        """Return the counts so far, by feature and name."""
        with self._lock:
            return tuple(
                RecordedMetric(*key, counts["kept"], counts["unasked"], counts["unfit"])
                for key, counts in sorted(self._counts.items())
            )

    def begin_in_child(self) -> None:
        """Hold no lock of the parent in a forked child."""
        self._lock = threading.Lock()


def check_name(name: object) -> str:
    """Return the name of a metric.

    Raises:
        OutOfBoundError: no metric can have it.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise OutOfBoundError(
            name="name", bound="lower-case letters, digits and _, a letter first, up to 64", value=name
        )
    return name


def check_value(value: object) -> float:
    """Return a value as a float.

    Raises:
        OutOfBoundError: it is no number, not finite, or below 0.
    """
    try:
        number = float(value) if isinstance(value, Real) else math.nan
    except (OverflowError, TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise OutOfBoundError(name="value", bound="a finite number of at least 0, or a bool", value=value)
    return number


def is_asked(record: MetricRecord) -> bool:
    """Tell whether the device's task asks for the metric."""
    task = record.active.task
    return task is not None and record.active.arm is not None and _metric_of(task)[0] == record.name


def is_fit(record: MetricRecord) -> bool:
    """Tell whether the kind of the metric that is asked for has a use for the value."""
    fit = _FIT.get(_metric_of(record.active.task or "")[1] or "")
    return fit is None or record.value in fit


def asks_preference(active: "ActiveModel") -> bool:
    """Tell whether the device's task asks which of two versions people prefer, and the version of its arm answers."""
    is_in_arm = active.arm is not None and not active.has_abandoned_arm
    return is_in_arm and _metric_of(active.task or "")[1] == "preference"


@functools.lru_cache(maxsize=64)
def _metric_of(task: str) -> tuple[str | None, str | None]:
    """Return name and kind of the metric that a task's JSON text asks for; without pydantic, for the app's thread."""
    try:
        found = json.loads(task).get("metric") or {}
        return found.get("name"), found.get("kind")
    except (ValueError, AttributeError, RecursionError):
        return None, None
