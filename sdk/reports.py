"""Reports a device's outcomes: at most one randomized cell per task and window.

    record ─▶ pending.json: one outcome of the window, drawn evenly from all so far; its true cell, on this device only
    report ─▶ debit the ledger ─▶ randomize ─▶ outbox.json ─▶ POST, each alone ─▶ gone from the outbox
                 └─ no budget, or had its report: dropped        └─ failed: the same bytes again next time, no new debit

Invariants:
  I1  The debit is on the disk before the randomized cell exists, and that before it is sent.
  I2  The true cell leaves pending.json only through the randomizer; a window is randomized once, so repeating an upload
      tells nothing more.
  I3  Only the present window and the one before are reported; older outcomes are dropped.  A window is at least
      `WINDOW_MIN_S` long, whatever the policy says: it names when the device was used, and short ones would tie the
      reports of a device together.
  I4  A body holds one report, and has a connection of its own (`egress.py`): neither ties two tasks of a device
      together, nor a report to a sync, and a refusal costs that report alone.  In the background one is sent at a time,
      at times drawn at random; what an app sends by `Client.report` goes at once, so that the moment ties it.  The
      device's address is not hidden from the server that takes the report.
  I5  Whether there is a report tells that the app recorded an outcome or that a run failed; not the arm, the outcome or
      the version.
  I6  Whatever a crash interrupts: at most one report for a task and window; perhaps none, with its budget spent.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alcove.privacy.entropy import Entropy, uniform_below
from alcove.privacy.errors import AlcovePrivacyError, AlreadyReportedError, BudgetExceededError
from alcove.privacy.ledger import BudgetLimits, Ledger
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.report import Report, report_from_bytes, report_to_bytes
from alcove.registry.errors import DocumentError
from alcove.registry.limits import WINDOW_MIN_S
from alcove.registry.policy.outcome import Outcome
from alcove.registry.policy.task import TaskPolicy
from alcove.runtime.clock import Clock
from alcove.sdk.consent import Consent
from alcove.sdk.errors import AlcoveSdkError, DeviceStorageError, RemoteError, StatusError
from alcove.sdk.history import History
from alcove.sdk.ledger_file import LedgerFile
from alcove.sdk.limits import MAX_PENDING, MAX_STATE_BYTES
from alcove.sdk.storage import FileLock, Files
from pydantic import ValidationError

if TYPE_CHECKING:
    from alcove.sdk.handle import Measurement
    from alcove.sdk.transport import Transport

RETRIED_STATUSES: Final = frozenset({408, 425, 429})
"""Refusals (below 500) that mean "later"; any other means that the server will never take these bytes."""


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What a report did.

    Attributes:
        sent: reports that the server accepted now.
        waiting: reports whose upload failed; they are sent again as they are.
        dropped: outcomes and reports given up: no budget, a window past, or refused by the server for good.
        epsilon_spent: budget debited now.
        error: what went wrong, or None.
    """

    sent: int = 0
    waiting: int = 0
    dropped: int = 0
    epsilon_spent: Fraction = Fraction(0)
    error: AlcoveSdkError | AlcovePrivacyError | None = None


@dataclass(slots=True)
class _Pending:
    """One outcome of a window: the true cell, and out of how many it was drawn."""

    task: TaskPolicy
    window: int
    cell: int
    seen: int

    @property
    def outcome(self) -> int:
        """Outcome that the cell stands for."""
        return self.task.layout.axes(self.cell).outcome


@dataclass(slots=True)
class _Tally:
    dropped: int = 0
    spent: Fraction = Fraction(0)
    error: AlcoveSdkError | AlcovePrivacyError | None = None


class Reporter:
    """The reports of one device.

    Args:
        folder: holds ledger and outbox; it exists.
        files: the disk.
        clock: gives the window.
        entropy: source of unpredictable bytes.
        limits: the caps of the device's budget.
        history: how answers fared before a task was met.
        consent: asked before anything is recorded or sent.
    """

    def __init__(
        self,
        folder: Path,
        files: Files,
        clock: Clock,
        entropy: Entropy,
        limits: BudgetLimits,
        *,
        history: History,
        consent: Consent,
    ) -> None:
        self._pending_path = folder / "pending.json"
        self._outbox_path = folder / "outbox.json"
        self._files = files
        self._clock = clock
        self._entropy = entropy
        self._history = history
        self._consent = consent
        self._lock = FileLock(folder / "lock")
        self._upload_lock = FileLock(folder / "upload.lock")
        self._thread_lock = threading.Lock()
        self.ledger = Ledger(LedgerFile(folder / "ledger.jsonl", files), limits, clock)

    def record(self, measurement: "Measurement") -> None:
        """Take an outcome into its window's draw; without a task, or if its task does not count it, it is left out.

        Every outcome of a window is equally likely to be the one that is reported; only, a device that left its arm's
        version says that and nothing else.  A disk that fails loses it.
        """
        active = measurement.active
        if active.task is None or active.arm is None:
            return
        task = TaskPolicy.model_validate_json(active.task)
        window = task.window_at(self._clock.now_s())
        if window is None or active.arm >= task.arm_count or measurement.outcome >= task.outcome_count:
            return
        if task.window_s < WINDOW_MIN_S:
            return
        latency_ms = max(measurement.latency_ms, 0.0)
        cell = task.cell_index(active.arm, measurement.outcome, latency_ms, self._history.bin_of(task))
        with contextlib.suppress(DeviceStorageError), self._exclusive():
            if not self._consent.is_given:
                return
            pending = self._read_pending()
            entry = next((e for e in pending if e.task.task_id == task.task_id and e.window == window), None)
            if entry is None:
                pending.append(_Pending(task, window, cell, 1))
            elif measurement.outcome is Outcome.FALLBACK:
                entry.cell = cell
            elif entry.outcome != Outcome.FALLBACK:
                entry.seen += 1
                if uniform_below(entry.seen, self._entropy) == 0:
                    entry.cell = cell
            self._write_pending(pending[-MAX_PENDING:], is_durable=False)

    def report(self, transport: "Transport", *, most: int | None = None) -> ReportResult:
        """Make the due reports and send those that wait; raises nothing for transient failures or a spent budget.

        Args:
            transport: the way to the server.
            most: send no more than that now; None: all.
        """
        tally = _Tally()
        sent = waiting = tried = 0
        try:
            with self._upload_lock.hold():
                with self._exclusive():
                    if not self._consent.is_given:
                        return ReportResult()
                    with contextlib.suppress(AlcovePrivacyError):  # the debit says it, if there is one
                        self.ledger.note_time()
                    outbox = self._read_outbox()
                    waiting = len(outbox)
                    self._make_due(outbox, tally)
                while (waiting := len(outbox)) and tried != most and self._consent.is_given:
                    tried += 1
                    # The files' lock is free meanwhile: an app that records an outcome never waits for the network.
                    if self._send_report(transport, outbox[0], tally):
                        sent += 1
                    outbox = self._without(outbox[0])
        except (RemoteError, DeviceStorageError) as error:
            tally.error = error
        return ReportResult(sent, waiting, tally.dropped, tally.spent, tally.error)

    def forget(self) -> None:
        """Remove every outcome and report that was not sent, and the history (the user opted out); the ledger stays.

        Raises:
            DeviceStorageError: the disk failed.
        """
        with self._exclusive():
            self._files.remove(self._pending_path)
            self._files.remove(self._outbox_path)
        self._history.forget()

    @staticmethod
    def _send_report(transport: "Transport", report: bytes, tally: _Tally) -> bool:
        """Send one report (I4); tell whether it was taken, False if it never will be.

        Raises:
            RemoteError: try again later.
        """
        try:
            transport.post("/reports", report)
        except StatusError as error:
            if error.status >= 500 or error.status in RETRIED_STATUSES:
                raise
            tally.error = error
            tally.dropped += 1
            return False
        return True

    def _without(self, done: bytes) -> list[bytes]:
        """Take the first report out of the outbox as it is now (the user may have emptied it); return what is left."""
        with self._exclusive():
            outbox = self._read_outbox()
            left = outbox[1:] if outbox[:1] == [done] else []
            if left != outbox:
                self._write_outbox(left)
            return left

    def _make_due(self, outbox: list[bytes], tally: _Tally) -> None:
        """Move what is due from pending to the outbox, debited and randomized (I1)."""
        now_s = self._clock.now_s()
        pending = self._read_pending()
        kept: list[_Pending] = []
        for entry in pending:
            present = entry.task.window_at(now_s)
            if entry.task.aggregation is not None:
                tally.dropped += 1  # a task of two aggregators, whose reports are not randomized: they are not made yet
                continue
            if present is None or not present - 1 <= entry.window <= present:
                tally.dropped += 1
                continue
            report = self._debit_and_queue(entry, tally, kept)
            if report is not None:
                outbox.append(report_to_bytes(report))
                self._write_outbox(outbox)
        if len(kept) != len(pending):
            self._write_pending(kept, is_durable=True)

    def _debit_and_queue(self, entry: _Pending, tally: _Tally, kept: list[_Pending]) -> Report | None:
        epsilon = entry.task.epsilon_fraction
        task_id = bytes.fromhex(entry.task.task_id)
        try:
            mechanism = RandomizedResponse(entry.task.cell_count, epsilon)
            self.ledger.debit(task_id, entry.window, epsilon)
        except AlreadyReportedError:
            tally.dropped += 1
            return None
        except BudgetExceededError as error:
            # It may be paid later in the window or in the next.
            kept.append(entry)
            tally.error = error
            return None
        except AlcovePrivacyError as error:
            kept.append(entry)
            tally.error = error
            return None
        tally.spent += epsilon
        return Report(task_id, entry.window, mechanism.randomize(entry.cell, self._entropy))

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._thread_lock, self._lock.hold():
            yield

    def _read_pending(self) -> list[_Pending]:
        entries = []
        for fields in self._read_list(self._pending_path):
            with contextlib.suppress(ValidationError, DocumentError, KeyError, TypeError):
                task = TaskPolicy.model_validate_json(fields["task"])
                entry = _Pending(task, int(fields["window"]), int(fields["cell"]), int(fields["seen"]))
                is_sound = entry.window >= 0 and 0 <= entry.cell < task.cell_count and entry.seen > 0
                if is_sound and task.window_s >= WINDOW_MIN_S:
                    entries.append(entry)
        return entries

    def _write_pending(self, entries: list[_Pending], *, is_durable: bool) -> None:
        fields = [
            {"task": e.task.model_dump_json(), "window": e.window, "cell": e.cell, "seen": e.seen} for e in entries
        ]
        self._files.write_whole(self._pending_path, json.dumps(fields).encode(), is_durable=is_durable)

    def _read_outbox(self) -> list[bytes]:
        reports = []
        for text in self._read_list(self._outbox_path):
            with contextlib.suppress(ValueError, TypeError, AlcovePrivacyError):
                reports.append(report_to_bytes(report_from_bytes(bytes.fromhex(text))))
        return reports

    def _write_outbox(self, reports: list[bytes]) -> None:
        self._files.write_whole(self._outbox_path, json.dumps([report.hex() for report in reports]).encode())

    def _read_list(self, path: Path) -> list[Any]:
        """Return the list in a file of ours; damage loses what was not sent, never budget."""
        data = self._files.read(path, MAX_STATE_BYTES)
        try:
            entries = json.loads(data) if data else []
        except (ValueError, RecursionError):
            return []
        return entries if isinstance(entries, list) else []
