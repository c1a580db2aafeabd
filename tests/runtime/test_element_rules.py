"""The verifier accepts valid forms of the elementwise operators, and refuses others with the code of the fault."""

from collections.abc import Callable

import pytest
from alcove.runtime import ProgramError, _native, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly

ADD, SHIFT, LESS = (_native.functions("binary")[name] for name in ("add", "shift_left", "lt"))
NEGATE, SINE, NOT, IS_NAN = (_native.functions("unary")[name] for name in ("neg", "sin", "logical_not", "isnan"))
Shape = tuple[int, ...]


def unary(function: int, takes: DType, gives: DType, shape: Shape = (3, 2), input_shape: Shape = (3, 2)) -> bytes:
    """One function of one operand."""
    build = Assembly()
    attributes = (function, 0.0, 0.0, 0.0)
    build.output(
        "y", build.op("unary", [build.input("x", takes, input_shape)], (gives, shape), attributes=attributes)[0]
    )
    return build.program()


def binary(function: int, a: tuple[DType, Shape], b: tuple[DType, Shape], y: tuple[DType, Shape]) -> bytes:
    """One function of two operands."""
    build = Assembly()
    inputs = [build.input("a", *a), build.input("b", *b)]
    build.output("y", build.op("binary", inputs, y, attributes=(function,))[0])
    return build.program()


def where(condition: DType, a: DType, b: DType, y: tuple[DType, Shape]) -> bytes:
    """A choice between [3, 1] and [2]."""
    build = Assembly()
    inputs = [build.input("c", condition, (3, 1)), build.input("a", a, (3, 1)), build.input("b", b, (2,))]
    build.output("y", build.op("where", inputs, y)[0])
    return build.program()


def cast(y: tuple[DType, Shape]) -> bytes:
    """A cast of float32 [3, 2]."""
    build = Assembly()
    build.output("y", build.op("cast", [build.input("x", DType.F32, (3, 2))], y)[0])
    return build.program()


GOOD: dict[str, Callable[[], bytes]] = {
    "negated integers": lambda: unary(NEGATE, DType.I64, DType.I64),
    "a test": lambda: unary(IS_NAN, DType.F32, DType.BOOL),
    "a sum": lambda: binary(ADD, (DType.F32, (3, 1)), (DType.F32, (2,)), (DType.F32, (3, 2))),
    "scalars": lambda: binary(ADD, (DType.F32, ()), (DType.F32, ()), (DType.F32, ())),
    "a comparison": lambda: binary(LESS, (DType.BOOL, (1, 4)), (DType.BOOL, (4, 1)), (DType.BOOL, (4, 4))),
    "a choice": lambda: where(DType.BOOL, DType.I64, DType.I64, (DType.I64, (3, 2))),
    "a cast": lambda: cast((DType.U8, (3, 2))),
}
BAD: dict[str, tuple[str, Callable[[], bytes]]] = {
    "function 0": ("op_attribute", lambda: unary(0, DType.F32, DType.F32)),
    "a function beyond the last": (
        "op_attribute",
        lambda: unary(len(_native.functions("unary")) + 1, DType.F32, DType.F32),
    ),
    "a function below 0": (
        "op_attribute",
        lambda: binary(-1, (DType.F32, (2,)), (DType.F32, (2,)), (DType.F32, (2,))),
    ),
    "the sine of integers": ("op_type", lambda: unary(SINE, DType.I64, DType.I64)),
    "the inverse of a float": ("op_type", lambda: unary(NOT, DType.F32, DType.F32)),
    "a negated bool": ("op_type", lambda: unary(NEGATE, DType.BOOL, DType.BOOL)),
    "a test that gives floats": ("op_type", lambda: unary(IS_NAN, DType.F32, DType.F32)),
    "a function that changes the type": ("op_type", lambda: unary(NEGATE, DType.I64, DType.F32)),
    "an output of another shape": ("op_shape", lambda: unary(NEGATE, DType.F32, DType.F32, shape=(2, 3))),
    "an output of more dimensions": ("op_shape", lambda: unary(NEGATE, DType.F32, DType.F32, shape=(3, 2, 1))),
    "two types": ("op_type", lambda: binary(ADD, (DType.F32, (2,)), (DType.I64, (2,)), (DType.F32, (2,)))),
    "a shift of floats": ("op_type", lambda: binary(SHIFT, (DType.F32, (2,)), (DType.F32, (2,)), (DType.F32, (2,)))),
    "a comparison that gives floats": (
        "op_type",
        lambda: binary(LESS, (DType.F32, (2,)), (DType.F32, (2,)), (DType.F32, (2,))),
    ),
    "sizes that don't fit": ("op_shape", lambda: binary(ADD, (DType.F32, (3,)), (DType.F32, (2,)), (DType.F32, (3,)))),
    "an output that is too small": (
        "op_shape",
        lambda: binary(ADD, (DType.F32, (3, 1)), (DType.F32, (2,)), (DType.F32, (3, 1))),
    ),
    "an output that is too large": (
        "op_shape",
        lambda: binary(ADD, (DType.F32, (3, 1)), (DType.F32, (2,)), (DType.F32, (3, 3))),
    ),
    "a condition of numbers": ("op_type", lambda: where(DType.U8, DType.F32, DType.F32, (DType.F32, (3, 2)))),
    "a choice of two types": ("op_type", lambda: where(DType.BOOL, DType.F32, DType.I64, (DType.F32, (3, 2)))),
    "a choice of a third type": ("op_type", lambda: where(DType.BOOL, DType.F32, DType.F32, (DType.I64, (3, 2)))),
    "a choice of another shape": ("op_shape", lambda: where(DType.BOOL, DType.F32, DType.F32, (DType.F32, (2, 3)))),
    "a cast to another shape": ("op_shape", lambda: cast((DType.I64, (2, 3)))),
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD)
def test_a_form_of_the_page_is_accepted(make: Callable[[], bytes]) -> None:
    """So that what is refused below is refused for its one fault."""
    load(make())


@pytest.mark.parametrize(("code", "make"), BAD.values(), ids=BAD)
def test_a_form_that_the_page_does_not_have_is_refused(code: str, make: Callable[[], bytes]) -> None:
    """Functions, types and shapes, each with its code."""
    with pytest.raises(ProgramError) as caught:
        load(make())
    assert caught.value.code == code


@pytest.mark.parametrize("op", ["unary", "binary"])
def test_numbers_of_functions_have_no_gaps(op: str) -> None:
    """The verifier's table is indexed by them."""
    assert list(_native.functions(op).values()) == list(range(1, len(_native.functions(op)) + 1))
