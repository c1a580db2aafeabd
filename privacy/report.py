"""Encodes one private report: task, window and (randomized) cell, 38 bytes, nothing else."""

import struct
from dataclasses import dataclass

from alcove.privacy.errors import ParameterError, ReportFormatError
from alcove.privacy.limits import MAX_CELLS, MAX_WINDOW, REPORT_BYTES, TASK_ID_BYTES

_RECORD = struct.Struct(f"<{TASK_ID_BYTES}sIH")


@dataclass(frozen=True, slots=True)
class Report:
    """One device's measurement of one window.

    Attributes:
        task_id: SHA-256 of the task, 32 bytes.
        window: index of the window since the task's first, in [0, 2 ** 32).
        cell: the randomized cell, in [0, 65536); whether it is below the task's cell count is the reader's to check.

    Raises:
        ParameterError: a field is out of its bound.
    """

    task_id: bytes
    window: int
    cell: int

    def __post_init__(self) -> None:
        if len(self.task_id) != TASK_ID_BYTES:
            raise ParameterError(name="task_id", bound=f"{TASK_ID_BYTES} bytes", value=self.task_id)
        if not 0 <= self.window <= MAX_WINDOW:
            raise ParameterError(name="window", bound=f"in [0, {MAX_WINDOW}]", value=self.window)
        if not 0 <= self.cell < MAX_CELLS:
            raise ParameterError(name="cell", bound=f"in [0, {MAX_CELLS})", value=self.cell)


def report_to_bytes(report: Report) -> bytes:
    """Return the 38 bytes of a report: task id, window as u32 LE, cell as u16 LE."""
    return _RECORD.pack(report.task_id, report.window, report.cell)


def report_from_bytes(data: bytes) -> Report:
    """Return the report that `data` is; every 38 bytes are one, and no other size is.

    Raises:
        ReportFormatError: `data` has another size.
    """
    if len(data) != REPORT_BYTES:
        raise ReportFormatError(bound=f"exactly {REPORT_BYTES} bytes", size_bytes=len(data))
    return Report(*_RECORD.unpack(data))
