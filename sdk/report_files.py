"""Keeps what a device has to report, in two files that are replaced whole.

    pending.json   of each task and window one outcome, its true cell, or the result of a metric: on this device only
    outbox.json    reports that are paid for and wait to be sent; both mechanisms, in the order in which they were made

Damage loses what was not sent, never budget; nothing damaged is sent.
"""

import base64
import contextlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from alcove.privacy.entropy import Entropy, uniform_below
from alcove.privacy.errors import AlcovePrivacyError
from alcove.privacy.report import parse_report, report_to_bytes
from alcove.registry.errors import DocumentError
from alcove.registry.limits import WINDOW_MIN_S
from alcove.registry.policy.metric import MetricKind
from alcove.registry.policy.outcome import Outcome
from alcove.registry.policy.task import METRIC_OUTCOME, TaskPolicy
from alcove.sdk.limits import MAX_PENDING, MAX_STATE_BYTES
from alcove.sdk.storage import Files
from pydantic import ValidationError

__all__ = [
    "SEED_BYTES",
    "OutboxFile",
    "PendingFile",
    "PendingOutcome",
    "RandomizedReport",
    "SharedReport",
    "WaitingReport",
]

SEED_BYTES: Final = 32
"""Size of the seed of one shared report's randomness."""

_DAMAGE: Final = (ValidationError, DocumentError, AlcovePrivacyError, ValueError, KeyError, TypeError)


@dataclass(slots=True)
class PendingOutcome:
    """One outcome of a window with its true cell, or the window's result of a metric.

    Attributes:
        task: the policy's task.
        window: which window it is of.
        outcome: which outcome; of a metric `METRIC_OUTCOME`.
        cell: the true cell.
        seen: out of how many outcomes it was drawn; of a metric the number of records, which a count stops at its last
            edge.
        total: of a share the number of true records, of a value their sum, which stops at its last edge, of a
            preference the drawn record; else 0.
    """

    task: TaskPolicy
    window: int
    outcome: Outcome
    cell: int
    seen: int
    total: float = 0.0

    @classmethod
    def of_metric(cls, task: TaskPolicy, window: int, arm: int) -> "PendingOutcome":
        """Return the window of a task of a metric in which nothing was recorded so far."""
        return cls(task, window, METRIC_OUTCOME, task.metric_cell(arm, 0, 0.0), 0)

    def add_record(self, value: float, entropy: Entropy) -> bool:
        """Add one record to the window's result; tell whether anything changed.

        Of a preference the result is one of the window's records: each new one, the nth, takes its place with 1/n.
        """
        metric = self.task.metric
        if metric is None or metric.is_saturated(self.seen, self.total):
            return False
        self.seen += 1
        if metric.kind is MetricKind.SHARE:
            self.total += value
        elif metric.kind is MetricKind.VALUE:
            self.total = min(self.total + value, metric.edges[-1])
        elif metric.kind is MetricKind.PREFERENCE and uniform_below(self.seen, entropy) == 0:
            self.total = value
        self.cell = self.task.metric_cell(self.task.layout.axes(self.cell).arm, self.seen, self.total)
        return True

    @property
    def is_sound(self) -> bool:
        """Whether its numbers can belong together."""
        if self.window < 0 or not 0 <= self.cell < self.task.cell_count or self.task.window_s < WINDOW_MIN_S:
            return False
        if self.task.metric is None:
            return self.seen > 0
        if self.seen < 0 or not 0 <= self.total < math.inf:
            return False
        return self.cell == self.task.metric_cell(self.task.layout.axes(self.cell).arm, self.seen, self.total)

    def is_of(self, task: TaskPolicy, window: int) -> bool:
        """Tell whether it is the outcome of a task's window."""
        return self.task.task_id == task.task_id and self.window == window

    def is_in_arm(self, arm: int) -> bool:
        """Tell whether it is of an arm, by its number."""
        return self.task.layout.axes(self.cell).arm == arm


@dataclass(frozen=True, slots=True)
class RandomizedReport:
    """A report of one randomized cell, for the app's server.

    Attributes:
        data: the bytes that are sent.
    """

    data: bytes


@dataclass(frozen=True, slots=True)
class SharedReport:
    """A report of two aggregators, for the leader.

    Attributes:
        task: the policy's task.
        window: which window it is of.
        cell: the true cell; None: the idle one. With the seed it makes the same report again, sealed to other keys.
        seed: of the report's randomness.
        data: the report's bytes, sealed.
    """

    task: TaskPolicy
    window: int
    cell: int | None
    seed: bytes
    data: bytes

    def is_open(self, now_s: int) -> bool:
        """Tell whether the report may be sent: its window is over, and the next one is not."""
        return self.task.window_at(now_s) == self.window + 1

    def is_late(self, now_s: int) -> bool:
        """Tell whether the next window is over, too."""
        present = self.task.window_at(now_s)
        return present is not None and present > self.window + 1


WaitingReport = RandomizedReport | SharedReport
"""A report that is paid for and was not taken yet."""


class PendingFile:
    """The outcomes of a device; its caller excludes others.

    Args:
        path: the file.
        files: the disk.
    """

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    def read(self) -> list[PendingOutcome]:
        """Return the outcomes, the oldest first."""
        entries = []
        for fields in _read_list(self._files, self._path):
            with contextlib.suppress(*_DAMAGE):
                task = TaskPolicy.model_validate_json(fields["task"])
                outcome, cell = Outcome(fields["outcome"]), int(fields["cell"])
                numbers = int(fields["seen"]), float(fields["total"])
                entry = PendingOutcome(task, int(fields["window"]), outcome, cell, *numbers)
                if entry.is_sound:
                    entries.append(entry)
        return entries

    def write(self, entries: list[PendingOutcome], *, is_durable: bool) -> None:
        """Replace all, but keep no more than the newest `MAX_PENDING`."""
        fields = [
            {
                "task": e.task.model_dump_json(),
                "window": e.window,
                "outcome": e.outcome,
                "cell": e.cell,
                "seen": e.seen,
                "total": e.total,
            }
            for e in entries[-MAX_PENDING:]
        ]
        self._files.write_whole(self._path, json.dumps(fields).encode(), is_durable=is_durable)

    def remove(self) -> None:
        """Forget all of them."""
        self._files.remove(self._path)


class OutboxFile:
    """The reports that wait; its caller excludes others.

    Args:
        path: the file.
        files: the disk.
    """

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files

    def read(self) -> list[WaitingReport]:
        """Return the reports in the order in which they were made."""
        reports: list[WaitingReport] = []
        for fields in _read_list(self._files, self._path):
            with contextlib.suppress(*_DAMAGE):
                reports.append(_read_shared(fields) if isinstance(fields, dict) else _read_randomized(fields))
        return reports

    def write(self, reports: list[WaitingReport]) -> None:
        """Replace all; they are on the disk when it returns."""
        fields = [one.data.hex() if isinstance(one, RandomizedReport) else _shared_fields(one) for one in reports]
        self._files.write_whole(self._path, json.dumps(fields).encode())

    def remove(self) -> None:
        """Forget all of them."""
        self._files.remove(self._path)


def _read_randomized(text: str) -> RandomizedReport:
    return RandomizedReport(report_to_bytes(parse_report(bytes.fromhex(text))))


def _shared_fields(report: SharedReport) -> dict[str, Any]:
    return {
        "task": report.task.model_dump_json(),
        "window": report.window,
        "cell": report.cell,
        "seed": report.seed.hex(),
        "report": base64.b64encode(report.data).decode(),
    }


def _read_shared(fields: dict[str, Any]) -> SharedReport:
    """Return a report of two aggregators.

    Raises:
        ValueError, KeyError, TypeError: it is damaged.
    """
    from alcove.privacy.dap.messages import Report  # noqa: PLC0415 - loaded where there is such a report

    task = TaskPolicy.model_validate_json(fields["task"])
    window, cell, seed = int(fields["window"]), fields["cell"], bytes.fromhex(fields["seed"])
    data = Report.from_bytes(base64.b64decode(fields["report"], validate=True)).to_bytes()
    is_cell = cell is None or (type(cell) is int and 0 <= cell < task.cell_count)
    if task.aggregation is None or window < 0 or not is_cell or len(seed) != SEED_BYTES:
        msg = f"a report of window {window} is damaged"
        raise ValueError(msg)
    return SharedReport(task, window, cell, seed, data)


def _read_list(files: Files, path: Path) -> list[Any]:
    """Return the list in a file."""
    data = files.read(path, MAX_STATE_BYTES)
    try:
        entries = json.loads(data) if data else []
    except (ValueError, RecursionError):
        return []
    return entries if isinstance(entries, list) else []
