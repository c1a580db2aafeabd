"""Makes and sends reports that the device randomized, for tasks without aggregators.

outcome of the window ─▶ debit ─▶ randomize ─▶ 38 to 68 bytes, as many for all of a task ─▶ POST /reports of the server
"""

from typing import TYPE_CHECKING, Final

from alcove.privacy.entropy import Entropy
from alcove.privacy.ledger import Ledger
from alcove.privacy.report import Report, SubsetReport, report_to_bytes
from alcove.privacy.subset_selection import SubsetSelection
from alcove.registry.policy.task import TaskPolicy
from alcove.sdk.errors import StatusError
from alcove.sdk.report_files import PendingOutcome, RandomizedReport

if TYPE_CHECKING:
    from alcove.sdk.transport import Transport

__all__ = ["make_randomized_report", "randomize_report", "send_randomized_report"]

RETRIED_STATUSES: Final = frozenset({408, 425, 429})
"""Refusals (below 500) that mean "later"; any other means that the server will never take these bytes."""


def make_randomized_report(entry: PendingOutcome, ledger: Ledger, entropy: Entropy) -> RandomizedReport:
    """Return the report of an outcome, paid for beforehand.

    Raises:
        AlreadyReportedError: the window had its report.
        AlcovePrivacyError: it cannot be paid now, or the task's terms are none.
    """
    task = entry.task
    mechanism = SubsetSelection(task.cell_count, task.epsilon_fraction, task.subset_size)
    task_id = bytes.fromhex(task.task_id)
    ledger.debit(task_id, entry.window, task.epsilon_fraction, may_use_reserve=task.is_guardrail)
    return RandomizedReport(_encode(task, entry.window, mechanism.randomize(entry.cell, entropy)))


def randomize_report(task: TaskPolicy, window: int, cell: int, entropy: Entropy) -> bytes:
    """Return a report of a true cell; whoever calls it has paid for it.

    Raises:
        ParameterError: the task's terms, the window or the cell are none.
    """
    mechanism = SubsetSelection(task.cell_count, task.epsilon_fraction, task.subset_size)
    return _encode(task, window, mechanism.randomize(cell, entropy))


def _encode(task: TaskPolicy, window: int, cells: tuple[int, ...]) -> bytes:
    """Return the bytes of what a device tells: one cell, or a set of them."""
    task_id = bytes.fromhex(task.task_id)
    if task.subset_size == 1:
        return report_to_bytes(Report(task_id, window, *cells))
    return report_to_bytes(SubsetReport.of_cells(task_id, window, cells, task.cell_count))


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
