"""The verifier enforces what reductions, sorts and norms may be given; each rule is broken alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly

F32, I64, U8 = DType.F32, DType.I64, DType.U8
Typed = tuple[DType, tuple[int, ...]]


@dataclass(frozen=True)
class Case:
    """One op: its inputs (the first is the caller's, the others constants), its outputs, its attributes."""

    op: str
    inputs: Sequence[Typed]
    outputs: Sequence[Typed]
    attributes: "tuple[int | float, ...]"

    def load(self) -> None:
        """Build and verify."""
        build = Assembly()
        tensors = [build.input(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(self.inputs)]
        for i, result in enumerate(build.op(self.op, tensors, *self.outputs, attributes=self.attributes)):
            build.output(f"y{i}", result)
        load(build.program())


X: Typed = (F32, (2, 3, 4))
W: Typed = (F32, (4,))
ROW: Typed = (F32, (2, 3))
PAIR: tuple[Typed, Typed] = (X, (I64, (2, 3, 4)))
FREE = (0, 0.0, 0.0)

GOOD = [
    Case("reduce", [X], [ROW], (0, 2, 1)),
    Case("reduce", [X], [(I64, (2,))], (5, 1, 2)),
    Case("reduce", [(DType.BOOL, (3,))], [(DType.BOOL, ())], (3, 0, 1)),
    Case("scan", [X], [X], (2, 1)),
    Case("scan_extreme", [X], PAIR, (1, 0)),
    Case("sort", [X], [*PAIR, (U8, (64,))], (1,)),
    Case("sort", [(I64, (2, 3, 4))], [(I64, (2, 3, 4)), PAIR[1], (U8, (128,))], (0,)),
    Case("topk", [X], [(F32, (2, 3, 2)), (I64, (2, 3, 2))], (2, 0)),
    Case("softmax", [X], [X], (1,)),
    Case("ctc_beam", [X], [(I64, (2, 4, 3)), (I64, (2, 4)), (F32, (2, 4)), (U8, (616,))], (4, 3)),
    Case("ctc_beam", [X], [(I64, (2, 1, 3)), (I64, (2, 1)), (F32, (2, 1)), (U8, (196,))], (1, 0)),
    Case("layer_norm", [X, W, W], [X], (0, 1, 3, 1e-5, *FREE)),
    Case("layer_norm", [X, (F32, (3, 4))], [X], (1, 2, 2, 0.0, *FREE)),
    Case("group_norm", [X, W], [X], (2, 1, 1e-5, *FREE)),
    Case("group_norm", [X, W], [X], (2, 1, 1e-5, 1, 0.0, float("inf"))),
]

BAD = [
    ("op_attribute", Case("reduce", [X], [ROW], (7, 2, 1))),
    ("op_attribute", Case("reduce", [X], [ROW], (-1, 2, 1))),
    ("op_attribute", Case("reduce", [X], [ROW], (0, 3, 1))),
    ("op_attribute", Case("reduce", [X], [ROW], (0, -1, 1))),
    ("op_attribute", Case("reduce", [X], [ROW], (0, 2, 2))),
    ("op_attribute", Case("reduce", [X], [X], (0, 2, 0))),
    ("op_attribute", Case("reduce", [X], [ROW], (0, 1, 2**62))),
    ("op_shape", Case("reduce", [X], [(F32, (2, 4))], (0, 2, 1))),
    ("op_shape", Case("reduce", [X], [(F32, (2, 3, 1))], (0, 2, 1))),
    ("op_shape", Case("reduce", [(F32, ())], [(F32, ())], (0, 0, 1))),
    ("op_type", Case("reduce", [(DType.I32, (4,))], [(DType.I32, ())], (0, 0, 1))),
    ("op_type", Case("reduce", [(I64, (4,))], [(I64, ())], (1, 0, 1))),
    ("op_type", Case("reduce", [X], [ROW], (5, 2, 1))),
    ("op_attribute", Case("scan", [X], [X], (3, 1))),
    ("op_attribute", Case("scan", [X], [X], (0, 3))),
    ("op_type", Case("scan", [PAIR[1]], [PAIR[1]], (2, 1))),
    ("op_shape", Case("scan", [X], [ROW], (0, 1))),
    ("op_attribute", Case("scan_extreme", [X], PAIR, (2, 0))),
    ("op_type", Case("scan_extreme", [X], [X, X], (1, 0))),
    ("op_shape", Case("scan_extreme", [X], [X, (I64, (2, 3))], (1, 0))),
    ("op_shape", Case("sort", [X], [*PAIR, (U8, (63,))], (1,))),
    ("op_shape", Case("sort", [(I64, (2, 3, 4))], [(I64, (2, 3, 4)), PAIR[1], (U8, (127,))], (0,))),
    ("op_type", Case("sort", [(DType.I8, (4,))], [(DType.I8, (4,)), (I64, (4,)), (U8, (64,))], (0,))),
    ("op_attribute", Case("sort", [X], [*PAIR, (U8, (64,))], (2,))),
    ("op_attribute", Case("topk", [X], [(F32, (2, 3, 5)), (I64, (2, 3, 5))], (5, 1))),
    ("op_shape", Case("topk", [X], [(F32, (2, 3, 2)), (I64, (2, 3, 3))], (2, 1))),
    ("op_type", Case("topk", [X], [(F32, (2, 3, 2)), (DType.I8, (2, 3, 2))], (2, 1))),
    ("op_attribute", Case("softmax", [X], [X], (2,))),
    ("op_shape", Case("ctc_beam", [X], [(I64, (2, 4, 3)), (I64, (2, 4)), (F32, (2, 4)), (U8, (615,))], (4, 3))),
    ("op_shape", Case("ctc_beam", [X], [(I64, (2, 4, 3)), (I64, (2, 4)), (F32, (2, 3)), (U8, (616,))], (4, 3))),
    ("op_shape", Case("ctc_beam", [X], [(I64, (2, 4, 3)), (I64, (2, 3)), (F32, (2, 4)), (U8, (616,))], (4, 3))),
    ("op_shape", Case("ctc_beam", [X], [(I64, (2, 4, 2)), (I64, (2, 4)), (F32, (2, 4)), (U8, (616,))], (4, 3))),
    ("op_shape", Case("ctc_beam", [X], [(I64, (2, 5, 3)), (I64, (2, 5)), (F32, (2, 5)), (U8, (616,))], (4, 3))),
    ("op_shape", Case("ctc_beam", [ROW], [(I64, (2, 4, 3)), (I64, (2, 4)), (F32, (2, 4)), (U8, (616,))], (4, 0))),
    ("op_type", Case("ctc_beam", [X], [(I64, (2, 4, 3)), (DType.I32, (2, 4)), (F32, (2, 4)), (U8, (616,))], (4, 3))),
    ("op_type", Case("ctc_beam", [X], [(DType.I32, (2, 4, 3)), (I64, (2, 4)), (F32, (2, 4)), (U8, (616,))], (4, 3))),
    ("op_attribute", Case("ctc_beam", [X], [(I64, (2, 1, 3)), (I64, (2, 1)), (F32, (2, 1)), (U8, (196,))], (0, 0))),
    (
        "op_budget",  # of one frame, within which no run can be stopped
        Case(
            "ctc_beam",
            [(F32, (1, 1, 100_000))],
            [(I64, (1, 1, 1)), (I64, (1, 1)), (F32, (1, 1)), (U8, (1_002_420,))],
            (1024, 0),
        ),
    ),
    (
        "op_attribute",
        Case("ctc_beam", [X], [(I64, (2, 1, 3)), (I64, (2, 1)), (F32, (2, 1)), (U8, (99999,))], (1025, 0)),
    ),
    ("op_attribute", Case("ctc_beam", [X], [(I64, (2, 1, 3)), (I64, (2, 1)), (F32, (2, 1)), (U8, (196,))], (1, 4))),
    ("op_attribute", Case("ctc_beam", [X], [(I64, (2, 1, 3)), (I64, (2, 1)), (F32, (2, 1)), (U8, (196,))], (1, -1))),
    ("op_shape", Case("softmax", [(F32, ())], [(F32, ())], (0,))),
    ("op_attribute", Case("layer_norm", [X, W, W], [X], (0, 4, 3, 1e-5, *FREE))),
    ("op_attribute", Case("layer_norm", [X, W, W], [X], (0, 0, 3, 1e-5, *FREE))),
    ("op_attribute", Case("layer_norm", [X, W, W], [X], (0, 1, 4, 1e-5, *FREE))),
    ("op_attribute", Case("layer_norm", [X, W, W], [X], (0, 1, 3, float("nan"), *FREE))),
    ("op_attribute", Case("layer_norm", [X], [X], (0, 1, 0, 1e-5, 2, 0.0, 0.0))),
    ("op_attribute", Case("layer_norm", [X], [X], (0, 1, 0, 1e-5, 1, 0.5, 0.0))),
    ("op_attribute", Case("group_norm", [X], [X], (2, 0, 1e-5, 1, float("nan"), 0.0))),
    ("op_arity", Case("layer_norm", [X, W, W], [X], (0, 1, 1, 1e-5, *FREE))),
    ("op_arity", Case("layer_norm", [X], [X], (0, 1, 2, 1e-5, *FREE))),
    ("op_shape", Case("layer_norm", [X, (F32, (3,))], [X], (0, 1, 1, 1e-5, *FREE))),
    ("op_shape", Case("layer_norm", [X, W], [X], (0, 2, 1, 1e-5, *FREE))),
    ("op_type", Case("layer_norm", [X, (I64, (4,))], [X], (0, 1, 1, 1e-5, *FREE))),
    ("op_attribute", Case("group_norm", [X, W], [X], (3, 1, 1e-5, *FREE))),
    ("op_attribute", Case("group_norm", [X, W], [X], (0, 1, 1e-5, *FREE))),
    ("op_attribute", Case("group_norm", [X, W], [X], (8, 1, 1e-5, *FREE))),
    ("op_shape", Case("group_norm", [X, (F32, (3,))], [X], (2, 2, 1e-5, *FREE))),
    ("op_shape", Case("group_norm", [W], [W], (2, 0, 1e-5, *FREE))),
]


@pytest.mark.parametrize("case", GOOD)
def test_what_the_rules_allow_opens(case: Case) -> None:
    """A test for the tests below."""
    case.load()


@pytest.mark.parametrize(("code", "case"), BAD)
def test_what_a_rule_forbids_is_refused(code: str, case: Case) -> None:
    """With the code that says what is wrong."""
    with pytest.raises(ProgramError) as refused:
        case.load()
    assert refused.value.code == code
