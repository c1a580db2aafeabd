"""Reports a device's outcomes: at most one cell per task and window, randomized on the device or shared in two.

    record ─▶ pending.json: one outcome of the window (window_outcomes.py); its true cell, on this device only;
              in a task of a metric the result of the window so far, whose bin is the cell when the window is over
    report ─┬─ no aggregators: debit the ledger ─▶ randomize ──┬─▶ outbox.json ─▶ POST, each alone ─▶ gone
            └─ aggregators, window over, due: debit ─▶ share ──┘      └─ failed: the same bytes next time, no new debit

`randomized_reports.py` and `shared_reports.py` make and send the reports of the two mechanisms; budget, files, locks
and order are here.

Invariants, of both:
  I1  The debit is on the disk before the report exists, and the report before it is sent.
  I2  The true cell leaves the device only through the mechanism; a window is randomized, or shared, once, so repeating
      an upload tells nothing more.
  I3  Only the present window and the one before are reported; older outcomes are dropped.  A window is at least
      `WINDOW_MIN_S` long, whatever the policy says: it names when the device was used, and short ones would tie the
      reports of a device together.
  I4  A body holds one report, and has a connection of its own (`egress.py`): neither ties two tasks of a device
      together, nor a report to a sync, and a refusal costs that report alone.  In the background one is sent at a time,
      at times drawn at random; what an app sends by `Client.report` goes at once, so that the moment ties it.  The
      device's address is not hidden from the server that takes the report.
  I5  Whether there is a randomized report tells that the feature was used in the window, or, of a task that counts the
      user's answers alone, that the app recorded one; not the arm, the outcome or the version.  Of a task with
      aggregators there is one of every window, which tells nothing of that.
  I6  Whatever a crash interrupts: at most one report for a task and window; perhaps none, with its budget spent.
  I7  A server that is away keeps no report of another one back.
  I8  Of a task that counts answers without feedback a window is reported when it is over, so that the worst of it is
      told, and failures are told no sooner than the uses that they are a share of.
"""

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from alcove.privacy.budget import BudgetLimits
from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import AlcovePrivacyError, AlreadyReportedError
from alcove.privacy.ledger import Ledger
from alcove.registry.limits import WINDOW_MIN_S
from alcove.registry.policy.outcome import Outcome
from alcove.registry.policy.task import TaskPolicy
from alcove.runtime.clock import Clock
from alcove.sdk.aggregators import AggregatorPair
from alcove.sdk.consent import Consent
from alcove.sdk.errors import AlcoveSdkError, DeviceStorageError, RemoteError
from alcove.sdk.history import History
from alcove.sdk.ledger_file import LedgerFile
from alcove.sdk.limits import MAX_PENDING
from alcove.sdk.participation import Participation
from alcove.sdk.randomized_reports import make_randomized_report, send_randomized_report
from alcove.sdk.report_files import (
    OutboxFile,
    PendingFile,
    PendingOutcome,
    RandomizedReport,
    SharedReport,
    WaitingReport,
)
from alcove.sdk.storage import FileLock, Files
from alcove.sdk.window_outcomes import add_outcome

if TYPE_CHECKING:
    from alcove.sdk.handle import ActiveModel, Measurement
    from alcove.sdk.heartbeats import Heartbeat
    from alcove.sdk.metric_records import MetricRecord
    from alcove.sdk.oblivious import ObliviousWays
    from alcove.sdk.shared_reports import DueReport, Envelope, SharedReports
    from alcove.sdk.tokens import Attestation, DeviceTokens
    from alcove.sdk.transport import OpenTransport


@dataclass(frozen=True, slots=True)
class ReportResult:
    """What a report did.

    Attributes:
        sent: reports that the server accepted now.
        waiting: reports whose upload failed, which are sent again as they are, and those for which there was no turn.
        dropped: outcomes and reports given up: no budget, a window past, or refused by the server for good.
        epsilon_spent: budget debited now.
        error: what went wrong, or None.
        next_due_s: seconds until the next report of two aggregators is due; None: none is to come that is known of.
    """

    sent: int = 0
    waiting: int = 0
    dropped: int = 0
    epsilon_spent: Fraction = Fraction(0)
    error: AlcoveSdkError | AlcovePrivacyError | None = None
    next_due_s: int | None = None


@dataclass(slots=True)
class _Tally:
    sent: int = 0
    waiting: int = 0
    dropped: int = 0
    spent: Fraction = Fraction(0)
    error: AlcoveSdkError | AlcovePrivacyError | None = None
    next_due_s: int | None = None

    def result(self) -> ReportResult:
        """Return what the app gets."""
        return ReportResult(self.sent, self.waiting, self.dropped, self.spent, self.error, self.next_due_s)


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
        participation: the tasks with aggregators that the device takes part in.
        aggregators: those that the app names.
        attestation: gives the platform's evidence to an issuer of tokens; None: there is none.
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
        participation: Participation,
        aggregators: Collection[AggregatorPair] = (),
        attestation: "Attestation | None" = None,
    ) -> None:
        self._folder = folder
        self._files = files
        self._attestation = attestation
        self._pending = PendingFile(folder / "pending.json", files)
        self._outbox = OutboxFile(folder / "outbox.json", files)
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._history = history
        self._consent = consent
        self._participation = participation
        self._aggregators = aggregators
        self._lock = FileLock(folder / "lock")
        self._upload_lock = FileLock(folder / "upload.lock")
        self._thread_lock = threading.Lock()
        self._shared: SharedReports | None = None
        self._unreachable: set[str] = set()
        self._ways: ObliviousWays | None = None
        self.ledger = Ledger(LedgerFile(folder / "ledger.jsonl", files), limits, clock)

    def record(self, measurement: "Measurement") -> None:
        """Take an outcome into its window's draw; without a task, or if its task does not count it, it is left out.

        `window_outcomes.py` says which outcome of a window is reported.  A disk that fails loses it.
        """
        self._add([(measurement.active, None, measurement.outcome, measurement.latency_ms, 1)])

    def record_heartbeats(self, heartbeats: "Iterable[Heartbeat]") -> None:
        """Take in that versions answered; a disk that fails loses it."""
        self._add([(one.active, one.window, one.outcome, one.latency_ms, one.seen) for one in heartbeats])

    def _add(self, noted: "Iterable[tuple[ActiveModel, int | None, Outcome, float, int]]") -> None:
        """Take in outcomes: what answered, window (None: the present), outcome, latency, out of how many."""
        found = []
        for active, noted_window, outcome, latency_ms, seen in noted:
            if active.task is None or active.arm is None:
                continue
            task = TaskPolicy.model_validate_json(active.task)
            window = task.window_at(self._clock.now_s()) if noted_window is None else noted_window
            if task.metric is not None:
                self._note_metric(task, window, active.arm, None)
                continue
            if window is None or active.arm >= task.arm_count or not task.layout.is_counted(outcome):
                continue
            if task.window_s < WINDOW_MIN_S:
                continue
            cell = task.cell_index(active.arm, outcome, max(latency_ms, 0.0), self._history.bin_of(task))
            found.append(PendingOutcome(task, window, outcome, cell, seen))
        if not found:
            return
        with contextlib.suppress(DeviceStorageError), self._exclusive():
            if not self._consent.is_given:
                return
            pending = self._pending.read()
            for each in found:
                add_outcome(pending, each, self._entropy)
            self._pending.write(pending, is_durable=False)

    def record_metric(self, record: "MetricRecord") -> None:
        """Add a record to the result of its window, if the device's task asks for the metric.

        A disk that fails loses it.
        """
        active = record.active
        if active.task is None or active.arm is None:
            return
        task = TaskPolicy.model_validate_json(active.task)
        if task.metric is not None and task.metric.name == record.name:
            self._note_metric(task, task.window_at(self._clock.now_s()), active.arm, record.value)

    def _note_metric(self, task: TaskPolicy, window: int | None, arm: int, value: float | None) -> None:
        """Note that the device used the feature in a window, and what it recorded, if anything; a crash is no more."""
        if window is None or arm >= task.arm_count or task.window_s < WINDOW_MIN_S:
            return
        with contextlib.suppress(DeviceStorageError), self._exclusive():
            if not self._consent.is_given:
                return
            pending = self._pending.read()
            entry = next((e for e in pending if e.is_of(task, window)), None)
            is_new = entry is None
            if entry is None:
                entry = PendingOutcome.of_metric(task, window, arm)
                pending.append(entry)
            is_changed = value is not None and entry.is_in_arm(arm) and entry.add_record(value, self._entropy)
            if is_new or is_changed:
                self._pending.write(pending, is_durable=False)

    def report(self, open_transport: "OpenTransport", *, most: int | None = None) -> ReportResult:
        """Make the due reports and send those that wait; raises nothing for transient failures or a spent budget.

        Args:
            open_transport: gives the ways to the app's server and to aggregators.
            most: send no more than that now, and make no more of those whose time was drawn; None: all.

        Raises:
            ClosedError: the client was closed.
        """
        tally = _Tally()
        open_transport = self._open_ways(open_transport)
        try:
            with self._upload_lock.hold():
                due, tokens = self._make_randomized(tally)
                left = self._make_shared(due, open_transport, most, tally)
                self._fetch_tokens(tokens, open_transport, most, tally)
                self._send_waiting(open_transport, most, tally)
                tally.waiting += left
        except (RemoteError, DeviceStorageError) as error:
            tally.error = error
        return tally.result()

    def forget(self) -> None:
        """Remove outcomes, reports and tokens not yet sent, and the history (the user opted out); the ledger stays.

        Raises:
            DeviceStorageError: the disk failed.
        """
        with self._exclusive():
            self._pending.remove()
            self._outbox.remove()
        self._forget_tokens()
        self._history.forget()

    def _make_randomized(self, tally: _Tally) -> "tuple[tuple[DueReport, ...], tuple[DueReport, ...]]":
        """Give up what is late, make the randomized reports that are due; return which shared ones, and tokens, are."""
        with self._exclusive():
            if not self._consent.is_given:
                return (), ()
            with contextlib.suppress(AlcovePrivacyError):  # the debit says it, if there is one
                self.ledger.note_time()
            outbox = self._drop_late(tally)
            tally.waiting = len(outbox)
            now_s = self._clock.now_s()
            pending = self._pending.read()
            due, tokens, is_wanted = self._plan_shared(tally)
            kept: list[PendingOutcome] = []
            for entry in sorted(pending, key=lambda each: not each.task.is_guardrail):  # they are paid for first
                if entry.task.aggregation is not None:
                    if is_wanted(entry):
                        kept.append(entry)
                    else:
                        tally.dropped += 1
                    continue
                present = entry.task.window_at(now_s)
                if present is None or not present - 1 <= entry.window <= present:
                    tally.dropped += 1
                    continue
                if entry.window == present and _is_reported_whole(entry.task):
                    kept.append(entry)  # I8; nor is the result of a metric complete
                    continue
                report = self._debit_and_randomize(entry, tally, kept)
                if report is not None:
                    outbox.append(report)
                    self._outbox.write(outbox)
            if len(kept) != len(pending):
                ids = {id(entry) for entry in kept}
                self._pending.write([entry for entry in pending if id(entry) in ids], is_durable=True)
            return due, tokens

    def _drop_late(self, tally: _Tally) -> list[WaitingReport]:
        """Return the outbox without the shared reports whose time is over."""
        outbox = self._outbox.read()
        now_s = self._clock.now_s()
        kept = [one for one in outbox if isinstance(one, RandomizedReport) or not one.is_late(now_s)]
        if len(kept) != len(outbox):
            tally.dropped += len(outbox) - len(kept)
            self._outbox.write(kept)
        return kept

    def _debit_and_randomize(
        self, entry: PendingOutcome, tally: _Tally, kept: list[PendingOutcome]
    ) -> RandomizedReport | None:
        try:
            report = make_randomized_report(entry, self.ledger, self._entropy)
        except AlreadyReportedError:
            tally.dropped += 1
            return None
        except AlcovePrivacyError as error:
            # It may be paid later in the window or in the next.
            kept.append(entry)
            tally.error = error
            return None
        tally.spent += entry.task.epsilon_fraction
        return report

    def _plan_shared(
        self, tally: _Tally
    ) -> "tuple[tuple[DueReport, ...], tuple[DueReport, ...], Callable[[PendingOutcome], bool]]":
        """Return which shared reports and tokens are due, and what tells the outcomes kept for reports that will be."""
        memberships = self._participation.read()
        if not memberships:
            return (), (), lambda _entry: False
        try:
            plan = self._open_shared().plan(memberships)
        except AlcovePrivacyError as error:
            tally.error = error
            return (), (), lambda _entry: True
        tally.error = plan.error
        tally.next_due_s = plan.next_due_s
        return plan.due, plan.tokens, plan.wants

    def _make_shared(
        self, due: "tuple[DueReport, ...]", open_transport: "OpenTransport", most: int | None, tally: _Tally
    ) -> int:
        """Make reports of windows that are over; return for how many there was no turn.

        The files' lock is free while aggregators are asked for their keys.  One that gives none keeps no other back.
        """
        made = 0
        for index, each in enumerate(due):
            if made == most:
                return len(due) - index
            try:
                envelope = self._open_shared().find_envelope(each, open_transport)
            except RemoteError as error:
                tally.error = error
                continue
            if envelope is not None:
                with self._exclusive():
                    made += self._debit_and_share(each, envelope, tally)
        return 0

    def _fetch_tokens(
        self, due: "tuple[DueReport, ...]", open_transport: "OpenTransport", most: int | None, tally: _Tally
    ) -> None:
        """Ask for the tokens of windows under way; what comes after the user's no is removed."""
        fetched = 0
        for each in due:
            if fetched == most:
                break
            try:
                self._open_shared().fetch_token(each, open_transport)
                fetched += 1
            except RemoteError as error:
                tally.error = error
        if not self._consent.is_given:
            self._forget_tokens()

    def _forget_tokens(self) -> None:
        if self._attestation is not None:
            self._open_tokens(self._attestation).forget()

    def _open_tokens(self, attestation: "Attestation") -> "DeviceTokens":
        from alcove.sdk.tokens import DeviceTokens  # noqa: PLC0415 - loads blind RSA

        return DeviceTokens(self._folder, self._files, self._clock, self._entropy, attestation)

    def _debit_and_share(self, due: "DueReport", envelope: "Envelope", tally: _Tally) -> bool:
        """Move a window from pending to the outbox, or put it there with the idle cell (I1); tell whether it was."""
        if not self._consent.is_given:
            return False
        outbox, pending = self._outbox.read(), self._pending.read()
        entry = next((one for one in pending if one.is_of(due.task, due.window)), None)
        is_due = due.task.window_at(self._clock.now_s()) == due.window + 1
        if not is_due or len(outbox) >= MAX_PENDING:
            return False
        try:
            report = self._open_shared().make(due, None if entry is None else entry.cell, envelope)
        except AlcovePrivacyError as error:
            tally.error = error
            return False
        tally.spent += due.task.epsilon_fraction
        self._outbox.write([*outbox, report])
        if entry is not None:
            pending.remove(entry)
            self._pending.write(pending, is_durable=True)
        return True

    def _send_waiting(self, open_transport: "OpenTransport", most: int | None, tally: _Tally) -> None:
        """Send what waits, servers that were away last time after the others (I7)."""
        with self._exclusive():
            waiting = self._outbox.read() if self._consent.is_given else []
        tally.waiting = len(waiting)
        away: set[str] = set()
        tried = 0
        for report in sorted(waiting, key=lambda one: _server(one) in self._unreachable):
            server = _server(report)
            if tried == most or not self._consent.is_given:
                return
            if report not in waiting or server in away or not self._may_send(report):
                continue
            tried += 1
            try:
                # The files' lock is free meanwhile: an app that records an outcome never waits for the network.
                left = self._send(report, open_transport, tally)
            except RemoteError as error:
                tally.error = error
                away.add(server)
                self._unreachable.add(server)
                continue
            self._unreachable.discard(server)
            waiting = self._replace(report, left)
            tally.waiting = len(waiting)

    def _may_send(self, report: WaitingReport) -> bool:
        return isinstance(report, RandomizedReport) or report.is_open(self._clock.now_s())

    def _send(self, report: WaitingReport, open_transport: "OpenTransport", tally: _Tally) -> WaitingReport | None:
        """Send one report (I4); return what is left to be sent of it.

        Raises:
            RemoteError: try again later.
        """
        left: WaitingReport | None = None
        error: AlcoveSdkError | AlcovePrivacyError | None
        if isinstance(report, RandomizedReport):
            error = send_randomized_report(open_transport(""), report)
        else:
            left, error = self._open_shared().send(report, open_transport)
        tally.error = error or tally.error
        if left is None:
            tally.sent += error is None
            tally.dropped += error is not None
        return left

    def _replace(self, report: WaitingReport, left: WaitingReport | None) -> list[WaitingReport]:
        """Put what is left of a report in its place in the outbox as it is now (the user may have emptied it)."""
        with self._exclusive():
            outbox = self._outbox.read()
            if report in outbox and report != left:
                index = outbox.index(report)
                outbox[index : index + 1] = [] if left is None else [left]
                self._outbox.write(outbox)
            return outbox

    def _open_ways(self, open_transport: "OpenTransport") -> "OpenTransport":
        """Return the ways to the parties of tasks, through the relays that the app names."""
        if not any(pair.leader_relay or pair.helper_relay for pair in self._aggregators):
            return open_transport
        if self._ways is None:
            from alcove.sdk.oblivious import ObliviousWays  # noqa: PLC0415 - loads HPKE

            self._ways = ObliviousWays(self._aggregators, self._clock)
        return self._ways.through(open_transport)

    def _open_shared(self) -> "SharedReports":
        """Return what makes the reports of two aggregators, loaded where there is such a task."""
        if self._shared is None:
            from alcove.sdk.shared_reports import SharedReports  # noqa: PLC0415 - loads Prio3, HPKE and DAP

            tokens = None if self._attestation is None else self._open_tokens(self._attestation)
            self._shared = SharedReports(
                self._aggregators, self._limits, self.ledger, self._clock, self._entropy, tokens=tokens
            )
        return self._shared

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        with self._thread_lock, self._lock.hold():
            yield


def _is_reported_whole(task: TaskPolicy) -> bool:
    """Tell whether a window is reported when it is over (I8)."""
    return task.metric is not None or task.layout.is_counted(Outcome.ANSWERED)


def _server(report: WaitingReport) -> str:
    """Return the address of the server that a report goes to; "" is the app's."""
    aggregation = report.task.aggregation if isinstance(report, SharedReport) else None
    return "" if aggregation is None else aggregation.leader_url
