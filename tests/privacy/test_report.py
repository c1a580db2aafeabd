"""A report is 38 bytes of task, window and cell, in a canonical and frozen encoding."""

import pytest
from alcove.privacy import ParameterError, Report, ReportFormatError, report_from_bytes, report_to_bytes
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
