"""Plans, makes and sends the reports of two aggregators: one for each window of each task, whatever happened in it.

    participation ─▶ window over? its upload time come? not reported? ─▶ keys ─▶ debit ─▶ share and seal ─▶ outbox
    outbox ─▶ leader ─┬─ has it (the same bytes again too): gone        ├─ no answer, an error: the same bytes again
                      ├─ its key was rotated away: sealed again, same id  └─ refused, or the next window over: gone

Invariants (T1 to T5 of `participation.py` say which windows; P1 to P3 of `prio3_reports.py` what a report is):
  S1  The ledger is debited, by the task's epsilon, and that is on the disk, before the report exists; the report's
      bytes are on the disk before they are sent.  A window is debited once and has one report id for good.
  S2  An aggregator takes a report id once.  So an answer that was lost, a leader that says "outdated" of a report that
      it has, and one that gives the helper both sealings, all count the device once.
  S3  A report leaves between the end of its window and the end of the next; after that neither it nor the true cell is
      kept.
  S4  A window whose budget cannot be paid, whose aggregators give no keys, or whose token is not there yet waits for
      that, as long as S3 lets it.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from alcove.privacy.budget import BudgetLimits
from alcove.privacy.dap.messages import ReportError
from alcove.privacy.dap.report_tokens import ReportToken
from alcove.privacy.dap.reports import Recipients
from alcove.privacy.dap.task import DapTask
from alcove.privacy.entropy import Entropy
from alcove.privacy.errors import AlcovePrivacyError, DapTaskError, ReportRejectedError
from alcove.privacy.ledger import Ledger
from alcove.registry.policy.task import TaskPolicy
from alcove.runtime.clock import Clock
from alcove.sdk.aggregators import AggregatorPair
from alcove.sdk.dap_client import KeyCache, upload
from alcove.sdk.participation import Membership
from alcove.sdk.prio3_reports import SeedEntropy, check_task, make_window_report
from alcove.sdk.report_files import SEED_BYTES, PendingOutcome, SharedReport
from alcove.sdk.tokens import DeviceTokens
from alcove.sdk.transport import OpenTransport

__all__ = ["DueReport", "Envelope", "Plan", "SharedReports"]

OUTDATED: Final = frozenset({ReportError.OUTDATED_CONFIG, ReportError.HPKE_UNKNOWN_CONFIG_ID})
"""Refusals of a report whose key is not the aggregator's any more."""

LATER: Final = frozenset({ReportError.REPORT_TOO_EARLY, ReportError.TASK_NOT_STARTED})
"""Refusals that another time changes."""


@dataclass(frozen=True, slots=True)
class DueReport:
    """A window whose report is to be made.

    Attributes:
        task: the policy's task.
        dap_task: its form in DAP, which the device's rules allow.
        window: the window before the present one.
    """

    task: TaskPolicy
    dap_task: DapTask
    window: int


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a report is put into.

    Attributes:
        recipients: keys of both aggregators.
        token: what the report is counted by; None where the task asks for none.
    """

    recipients: Recipients
    token: ReportToken | None


@dataclass(slots=True)
class Plan:
    """What is to be reported.

    Attributes:
        due: reports to be made now, in the order of their upload times.
        tokens: windows whose token is to be asked for now, in the order in which they were to be.
        open_windows: task and window of the outcomes that a report will still be made of.
        next_due_s: seconds until the next report is due; None: none is to come that is known of.
        error: why a task is not reported, or None.
    """

    due: tuple[DueReport, ...] = ()
    tokens: tuple[DueReport, ...] = ()
    open_windows: set[tuple[str, int]] = field(default_factory=set)
    next_due_s: int | None = None
    error: AlcovePrivacyError | None = None

    def wants(self, entry: PendingOutcome) -> bool:
        """Tell whether an outcome is kept until its report is made."""
        return (entry.task.task_id, entry.window) in self.open_windows


class SharedReports:
    """The reports of two aggregators of one device; its caller lets one thread at a time send.

    Args:
        trusted: the aggregators that the app names.
        limits: the device's own caps.
        ledger: pays.
        clock: gives the windows.
        entropy: source of the seeds.
        tokens: of tasks that ask for them; None: the app gives no evidence that it is genuine, so that it has none.
    """

    def __init__(
        self,
        trusted: Collection[AggregatorPair],
        limits: BudgetLimits,
        ledger: Ledger,
        clock: Clock,
        entropy: Entropy,
        *,
        tokens: DeviceTokens | None = None,
    ) -> None:
        self._trusted = trusted
        self._limits = limits
        self._ledger = ledger
        self._clock = clock
        self._entropy = entropy
        self._tokens = tokens
        self._keys = KeyCache(clock)

    def plan(self, memberships: Iterable[Membership]) -> Plan:
        """Return what is to be reported now and next.

        Raises:
            LedgerStorageError: the ledger cannot be read.
        """
        plan = Plan()
        now_s = self._clock.now_s()
        reported = {(debit.task_id.hex(), debit.window) for debit in self._ledger.debits()}
        times: list[tuple[int, DueReport]] = []
        token_times: list[tuple[int, DueReport]] = []
        for one in memberships:
            present = one.task.window_at(now_s)
            if present is None:
                continue
            windows = [window for window in (present - 1, present) if one.has_window(window)]
            windows = [window for window in windows if (one.task.task_id, window) not in reported]
            try:
                dap_task = check_task(one.task, self._trusted, self._limits.per_day)
            except AlcovePrivacyError as error:
                plan.error = error
                continue
            if dap_task.info.token_issuer is not None and self._tokens is None:
                bound, value = "none, or evidence by the app (Client(attestation=...))", dap_task.info.token_issuer
                plan.error = DapTaskError(what="token_issuer", bound=bound, value=value)
                continue
            plan.open_windows |= {(one.task.task_id, window) for window in windows}
            for window in windows:
                self._schedule(one, DueReport(one.task, dap_task, window), present, (times, token_times))
        for each in (times, token_times):
            each.sort(key=lambda entry: entry[0])
        plan.due = tuple(report for at_s, report in times if at_s <= now_s)
        plan.tokens = tuple(report for at_s, report in token_times if at_s <= now_s)
        plan.next_due_s = min((at_s - now_s for at_s, _ in times + token_times if at_s > now_s), default=None)
        return plan

    def _schedule(
        self, one: Membership, due: DueReport, present: int, lists: tuple[list[tuple[int, DueReport]], ...]
    ) -> None:
        """Note when a window's report leaves, and when its token is asked for before that."""
        times, token_times = lists
        at_s = one.due_at_s(due.window)
        if due.dap_task.info.token_issuer is not None and self._tokens is not None:
            ready_at_s = self._tokens.ready_at_s(due)
            if ready_at_s is None and due.window == present:
                token_times.append((one.token_at_s(due.window), due))
            at_s = max(at_s, ready_at_s or 0)
        times.append((at_s, due))

    def fetch_token(self, due: DueReport, open_transport: OpenTransport) -> None:
        """Ask for the token of a window that is under way.

        Raises:
            RemoteError: somebody does not answer as they should; the next turn tries again.
        """
        if self._tokens is not None:
            self._tokens.find(due, open_transport)

    def find_envelope(self, due: DueReport, open_transport: OpenTransport) -> Envelope | None:
        """Return what a report is to be put into; None: its token is not there yet (S4).

        Raises:
            RemoteError: an aggregator, or who gives the token, does not answer as it should.
        """
        token = None
        if due.dap_task.info.token_issuer is not None and self._tokens is not None:
            token = self._tokens.find(due, open_transport)
            if token is None:
                return None
        return Envelope(self._keys.find(due.dap_task, open_transport), token)

    def make(self, due: DueReport, cell: int | None, envelope: Envelope) -> SharedReport:
        """Return the report of a window, paid for beforehand (S1).

        Args:
            due: the window.
            cell: its outcome; None: nothing happened.
            envelope: what the report is put into.

        Raises:
            AlcovePrivacyError: it cannot be paid now, or had its report.
        """
        task = due.task
        self._ledger.debit(
            bytes.fromhex(task.task_id), due.window, task.epsilon_fraction, may_use_reserve=task.is_guardrail
        )
        return _seal(due, cell, self._entropy.random_bytes(SEED_BYTES), envelope)

    def send(
        self, report: SharedReport, open_transport: OpenTransport
    ) -> tuple[SharedReport | None, AlcovePrivacyError | None]:
        """Send a report; return what is left to be sent of it, and why the leader did not take it.

        Raises:
            RemoteError: try again later.
        """
        try:
            dap_task = check_task(report.task, self._trusted, self._limits.per_day)
        except AlcovePrivacyError as error:
            return None, error
        leader_url = dap_task.configuration.leader_url.decode()
        refusal = upload(open_transport(leader_url), dap_task.task_id, report.data)
        if refusal is None:
            return None, None
        rejection = ReportRejectedError(refusal, "so the leader says")
        if refusal in LATER:
            return report, rejection
        if refusal not in OUTDATED:
            return None, rejection
        self._keys.forget(dap_task)
        due = DueReport(report.task, dap_task, report.window)
        envelope = self.find_envelope(due, open_transport)
        return report if envelope is None else _seal(due, report.cell, report.seed, envelope), rejection


def _seal(due: DueReport, cell: int | None, seed: bytes, envelope: Envelope) -> SharedReport:
    """Return a report in its envelope; with a seed that was used before it is the same report (P2, S2)."""
    report = make_window_report(
        due.task,
        due.dap_task,
        due.window,
        cell,
        recipients=envelope.recipients,
        entropy=SeedEntropy(seed),
        token=envelope.token,
    )
    return SharedReport(due.task, due.window, cell, seed, report.to_bytes())
