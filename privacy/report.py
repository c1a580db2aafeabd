"""Encodes one private report: task, window and what was randomized, nothing else.

| form | bytes |
|---|---|
| one cell | 38: task 32, window 4 (u32 LE), cell 2 (u16 LE) |
| a set of cells | 36 + max(3, ⌈k / 8⌉): task, window, a bit for each of the task's k cells, the lowest bit first |

All reports of a task have one size, which tells the forms apart.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from alcove.privacy.errors import ParameterError, ReportFormatError
from alcove.privacy.limits import (
    MAX_CELLS,
    MAX_REPORT_BYTES,
    MAX_SUBSET_CELLS,
    MAX_WINDOW,
    MIN_SUBSET_BYTES,
    REPORT_BYTES,
    TASK_ID_BYTES,
)

_HEAD = struct.Struct(f"<{TASK_ID_BYTES}sI")
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
        _check_head(self.task_id, self.window)
        if not 0 <= self.cell < MAX_CELLS:
            raise ParameterError(name="cell", bound=f"in [0, {MAX_CELLS})", value=self.cell)


@dataclass(frozen=True, slots=True)
class SubsetReport:
    """One device's measurement of one window, as a set of cells.

    Attributes:
        task_id: SHA-256 of the task, 32 bytes.
        window: index of the window since the task's first, in [0, 2 ** 32).
        bits: one for each cell, the lowest first, 3 to 32 bytes; whether they are as many as the task's set has, and of
            its cells, is the reader's to check.

    Raises:
        ParameterError: a field is out of its bound.
    """

    task_id: bytes
    window: int
    bits: bytes

    def __post_init__(self) -> None:
        _check_head(self.task_id, self.window)
        if not MIN_SUBSET_BYTES <= len(self.bits) <= MAX_SUBSET_CELLS // 8:
            bound = f"{MIN_SUBSET_BYTES} to {MAX_SUBSET_CELLS // 8} bytes"
            raise ParameterError(name="bits", bound=bound, value=self.bits)

    @classmethod
    def of_cells(cls, task_id: bytes, window: int, cells: Iterable[int], cell_count: int) -> "SubsetReport":
        """Return the report of a set of cells, each in [0, cell_count).

        Raises:
            ParameterError: a field is out of its bound.
        """
        number = 0
        for cell in cells:
            if not 0 <= cell < cell_count:
                raise ParameterError(name="cell", bound=f"in [0, {cell_count})", value=cell)
            number |= 1 << cell
        return cls(task_id, window, number.to_bytes(subset_bytes(cell_count), "little"))

    @property
    def cells(self) -> tuple[int, ...]:
        """The set, rising."""
        number = int.from_bytes(self.bits, "little")
        return tuple(cell for cell in range(8 * len(self.bits)) if number >> cell & 1)


AnyReport = Report | SubsetReport
"""A report of either form."""


def subset_bytes(cell_count: int) -> int:
    """Return the size of the bits of a set of so many cells."""
    return max(MIN_SUBSET_BYTES, -(-cell_count // 8))


def report_to_bytes(report: AnyReport) -> bytes:
    """Return the bytes of a report, as the module's docstring has them."""
    if isinstance(report, SubsetReport):
        return _HEAD.pack(report.task_id, report.window) + report.bits
    return _RECORD.pack(report.task_id, report.window, report.cell)


def report_from_bytes(data: bytes) -> Report:
    """Return the report of one cell that `data` is; every 38 bytes are one, and no other size is.

    Raises:
        ReportFormatError: `data` has another size.
    """
    if len(data) != REPORT_BYTES:
        raise ReportFormatError(bound=f"exactly {REPORT_BYTES} bytes", size_bytes=len(data))
    return Report(*_RECORD.unpack(data))


def parse_report(data: bytes) -> AnyReport:
    """Return the report of either form that `data` is; all bytes of a size that reports have are one.

    Raises:
        ReportFormatError: `data` has another size.
    """
    if len(data) == REPORT_BYTES:
        return report_from_bytes(data)
    if not REPORT_BYTES < len(data) <= MAX_REPORT_BYTES:
        raise ReportFormatError(bound=f"{REPORT_BYTES} to {MAX_REPORT_BYTES} bytes", size_bytes=len(data))
    task_id, window = _HEAD.unpack_from(data)
    return SubsetReport(task_id, window, data[_HEAD.size :])


def _check_head(task_id: bytes, window: int) -> None:
    if len(task_id) != TASK_ID_BYTES:
        raise ParameterError(name="task_id", bound=f"{TASK_ID_BYTES} bytes", value=task_id)
    if not 0 <= window <= MAX_WINDOW:
        raise ParameterError(name="window", bound=f"in [0, {MAX_WINDOW}]", value=window)
