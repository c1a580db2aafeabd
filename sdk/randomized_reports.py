"""Makes and sends reports of one randomized cell, for tasks without aggregators.

outcome of the window ─▶ debit ─▶ randomize ─▶ 38 bytes ─▶ POST /reports of the app's server
"""

from typing import TYPE_CHECKING, Final

from alcove.privacy.entropy import Entropy
from alcove.privacy.ledger import Ledger
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.privacy.report import Report, report_to_bytes
from alcove.sdk.errors import StatusError
from alcove.sdk.report_files import PendingOutcome, RandomizedReport

if TYPE_CHECKING:
    from alcove.sdk.transport import Transport

__all__ = ["make_randomized_report", "send_randomized_report"]

RETRIED_STATUSES: Final = frozenset({408, 425, 429})
"""Refusals (below 500) that mean "later"; any other means that the server will never take these bytes."""


def make_randomized_report(entry: PendingOutcome, ledger: Ledger, entropy: Entropy) -> RandomizedReport:
    """Return the report of an outcome, paid for beforehand.

    Raises:
        AlreadyReportedError: the window had its report.
        AlcovePrivacyError: it cannot be paid now, or the task's terms are none.
    """
    epsilon = entry.task.epsilon_fraction
    task_id = bytes.fromhex(entry.task.task_id)
    mechanism = RandomizedResponse(entry.task.cell_count, epsilon)
    ledger.debit(task_id, entry.window, epsilon, may_use_reserve=entry.task.is_guardrail)
    cell = mechanism.randomize(entry.cell, entropy)
    return RandomizedReport(report_to_bytes(Report(task_id, entry.window, cell)))


def send_randomized_report(transport: "Transport", report: RandomizedReport) -> StatusError | None:
    """Send a report; return why the server will never take it, or None if the server has it.

    Raises:
        RemoteError: try again later.
    """
    try:
        transport.post("/reports", report.data)
    except StatusError as error:
        if error.status >= 500 or error.status in RETRIED_STATUSES:
            raise
        return error
    return None
