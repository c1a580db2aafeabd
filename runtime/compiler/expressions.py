"""Defines expressions of sizes, as a program has them, and evaluates them."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["constant", "symbol", "add", "sub", "mul", "floordiv", "mod", "min", "max"]
Vector = NDArray[np.int64]
"""A number's values at many sizes."""


@dataclass(frozen=True)
class Expression:
    """One step of the evaluation of sizes.

    Attributes:
        kind: what it does; "constant" and "symbol" have `a` alone, all others two operands.
        a: a number, the index of a symbol, or an operand.
        b: an operand or None.
    """

    kind: Kind
    a: "int | Expression"
    b: "Expression | None" = None


FUNCTIONS: Final[dict[Kind, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
}
ON_ARRAYS: Final[dict[Kind, Callable[[Any, Any], Any]]] = {**FUNCTIONS, "min": np.minimum, "max": np.maximum}


def evaluate(expression: Expression, sizes: Sequence[int]) -> int:
    """Return the value of an expression where the symbols have `sizes`, as the device computes it."""
    if not isinstance(expression.a, Expression):
        return sizes[expression.a] if expression.kind == "symbol" else expression.a
    operands = [evaluate(operand, sizes) for operand in (expression.a, expression.b) if operand is not None]
    return FUNCTIONS[expression.kind](*operands)


def evaluate_all(expression: Expression, columns: Sequence[Vector]) -> Vector:
    """Return the values of an expression at many sizes, a column for each symbol."""
    if not isinstance(expression.a, Expression):
        number = np.full(len(columns[0]), 0 if expression.kind == "symbol" else expression.a, dtype=np.int64)
        return columns[expression.a] if expression.kind == "symbol" else number
    operands = [evaluate_all(operand, columns) for operand in (expression.a, expression.b) if operand is not None]
    result: Vector = ON_ARRAYS[expression.kind](*operands)
    return result
