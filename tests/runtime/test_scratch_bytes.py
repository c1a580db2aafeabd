"""Scratch sizes come from the formulas that the native rules check."""

import pytest
from alcove.runtime import ProgramError, _native, load
from alcove.runtime.format.attributes import SortAttributes
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly


def _sort(scratch: int) -> bytes:
    build = Assembly()
    shape = (2, 17)
    x = build.input("x", DType.I64, shape)
    outputs = [(DType.I64, shape), (DType.I64, shape), (DType.U8, (scratch,))]
    build.output("y", build.op("sort", [x], *outputs, attributes=SortAttributes(is_descending=0))[0])
    return build.program()


def test_program_with_one_byte_less_than_it_says_is_refused() -> None:
    """The size is exactly what the rule asks for."""
    enough = _native.scratch_bytes("sort", count=17, element_bytes=8)
    load(_sort(enough))
    with pytest.raises(ProgramError, match="scratch"):
        load(_sort(enough - 1))


@pytest.mark.parametrize(
    ("op", "sizes", "error", "message"),
    [
        ("unary", {}, ValueError, "unary has no scratch"),
        ("sort", {"count": 4}, TypeError, "sort needs element_bytes"),
        ("sort", {"count": 4, "element_bytes": 4, "rows": 1}, TypeError, "sort takes other sizes"),
        ("sort", {"count": -1, "element_bytes": 4}, ValueError, "count is out of range"),
        ("sort", {"count": 1 << 31, "element_bytes": 4}, ValueError, "count is out of range"),
        ("conv_transpose2d", {"taps": 0, "in_c": 1, "out_c": 1}, ValueError, "taps is 0"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(
    op: str, sizes: dict[str, int], error: type[Exception], message: str
) -> None:
    """A missing, unknown or impossible size is an error of the call, never a division by zero."""
    with pytest.raises(error, match=message):
        _native.scratch_bytes(op, **sizes)
