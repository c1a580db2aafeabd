"""A report is 38 bytes of task, window and cell, or a little more for a set of cells, in a canonical encoding."""

import pytest
from alcove.privacy import ParameterError, Report, ReportFormatError, report_from_bytes, report_to_bytes
from alcove.privacy.report import SubsetReport, parse_report
from hypothesis import given
from hypothesis import strategies as st

REPORTS = st.builds(
    Report, st.binary(min_size=32, max_size=32), st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 16) - 1)
)


@given(REPORTS)
def test_report_survives_the_wire(report: Report) -> None:
    """Encoding then decoding gives the same report, always in 38 bytes."""
    data = report_to_bytes(report)
    assert len(data) == 38
    assert report_from_bytes(data) == report


@given(st.binary(min_size=38, max_size=38))
def test_encoding_is_canonical(data: bytes) -> None:
    """Every 38 bytes are exactly one report's."""
    assert report_to_bytes(report_from_bytes(data)) == data


def test_layout_is_frozen() -> None:
    """The bytes are those of the wire's description: id, u32 LE, u16 LE."""
    report = Report(bytes(range(32)), 0x01020304, 0x0506)
    assert report_to_bytes(report) == bytes(range(32)) + bytes([4, 3, 2, 1, 6, 5])


@pytest.mark.parametrize("size", [0, 1, 37, 39, 76, 38 * 1024])
def test_report_of_another_size_is_refused(size: int) -> None:
    """One report has 38 bytes."""
    with pytest.raises(ReportFormatError, match="exactly 38"):
        report_from_bytes(bytes(size))


@pytest.mark.parametrize(
    ("task", "window", "cell", "name"),
    [
        (bytes(31), 0, 0, "task_id"),
        (bytes(32), -1, 0, "window"),
        (bytes(32), 1 << 32, 0, "window"),
        (bytes(32), 0, -1, "cell"),
        (bytes(32), 0, 1 << 16, "cell"),
    ],
)
def test_field_out_of_bound_is_refused(task: bytes, window: int, cell: int, name: str) -> None:
    """No report exists that has no bytes."""
    with pytest.raises(ParameterError, match=f"{name} must be"):
        Report(task, window, cell)


@given(st.integers(2, 256).flatmap(lambda cells: st.tuples(st.just(cells), st.sets(st.integers(0, cells - 1)))))
def test_set_of_cells_survives_the_wire(drawn: tuple[int, set[int]]) -> None:
    """All sets of a task have one size, which no report of one cell has: 36 bytes, and a bit for each cell."""
    cells, members = drawn
    report = SubsetReport.of_cells(bytes(32), 7, members, cells)
    data = report_to_bytes(report)
    assert len(data) == 36 + max(3, (cells + 7) // 8)
    assert 38 < len(data) <= 68
    assert parse_report(data) == report
    assert report.cells == tuple(sorted(members))


@given(st.integers(38, 68).flatmap(lambda size: st.binary(min_size=size, max_size=size)))
def test_encoding_of_either_form_is_canonical(data: bytes) -> None:
    """All bytes of a size that reports have are exactly one report's."""
    assert report_to_bytes(parse_report(data)) == data


def test_layout_of_a_set_is_frozen() -> None:
    """The lowest bit of the first byte is cell 0."""
    report = SubsetReport.of_cells(bytes(range(32)), 0x01020304, (0, 9, 23), 24)
    assert report_to_bytes(report) == bytes(range(32)) + bytes([4, 3, 2, 1, 0x01, 0x02, 0x80])


@pytest.mark.parametrize("size", [0, 1, 37, 69, 76])
def test_bytes_of_neither_form_are_refused(size: int) -> None:
    """A report has 38 to 68 bytes."""
    with pytest.raises(ReportFormatError, match="38 to 68"):
        parse_report(bytes(size))


def test_set_that_has_no_bytes_is_refused() -> None:
    """A cell that the task does not have, bits that are too few or too many, no task, no window."""
    for cells, count in (((3,), 3), ((-1,), 3)):
        with pytest.raises(ParameterError, match="cell must be"):
            SubsetReport.of_cells(bytes(32), 0, cells, count)
    for bits in (bytes(2), bytes(33)):
        with pytest.raises(ParameterError, match="bits must be"):
            SubsetReport(bytes(32), 0, bits)
    with pytest.raises(ParameterError, match="task_id must be"):
        SubsetReport(bytes(31), 0, bytes(3))
    with pytest.raises(ParameterError, match="window must be"):
        SubsetReport(bytes(32), 1 << 32, bytes(3))
