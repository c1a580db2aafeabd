"""Turns dynamic sizes among the elements, as in `x / x.shape[1]`, into tensors that a program computes.

Such a number is read from a table of all the values it can have, by a movement whose offset follows the size.  What
several sizes make together is computed from one table each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sympy
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.expressions import Expression, evaluate_all
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules import Refused
from alcove.runtime.compiler.sizes import Size
from alcove.runtime.compiler.terms import Space
from alcove.runtime.format.attributes import AsStridedCopyAttributes
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

if TYPE_CHECKING:
    from alcove.runtime.compiler.capture import Symbol

MAX_TABLE: Final = 2**14
"""Entries of one table; a size that has more values cannot be computed with."""

_COMBINED: Final = {
    "Add": "add",
    "Mul": "mul",
    "IntTrueDiv": "div",
    "FloatTrueDiv": "div",
}
"""By the name of torch's symbolic function, of real numbers: the runtime's, of two operands."""
_WHOLE: Final = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "floordiv": "floor_div",
    "mod": "remainder",
    "min": "minimum",
    "max": "maximum",
}
"""By the kind of an expression: the runtime's function."""
_COMBINES: Final = "it computes with several sizes at once in a way that no operator does"


@dataclass(frozen=True)
class Origins:
    """What a real number follows from.

    Attributes:
        expression: torch's (sympy).
        sizes: the symbols that vary, each with its size now.
    """

    expression: Any
    sizes: "tuple[tuple[Symbol, int], ...]"


class ComputedFloat(float):
    """A real number that follows from sizes: rules may take it as the number it is now, or ask for its tensor."""

    origins: Origins


def with_origins(number: float, origins: Origins) -> ComputedFloat:
    """Return `number` with where it comes from."""
    result = ComputedFloat(number)
    result.origins = origins
    return result


class SizedBuilder(Builder):
    """A builder to whom a number that follows from sizes is a tensor that a program computes."""

    def __init__(self, space: Space, sizes: Sequence[int]) -> None:
        """Begin a graph whose symbols are of a space and have these sizes."""
        super().__init__()
        self._space = space
        self._sizes = sizes

    def scalar(self, number: float, dtype: DType, shape: Sequence[int] = ()) -> Value:
        """Return `number` in every element of `shape`."""
        if isinstance(number, Size):
            if number.term.expression is None:
                raise Refused("it computes with a size by a rule that no program has")
            return self.expand(self.cast(self._whole(number.term.expression), dtype), shape)
        if not isinstance(number, ComputedFloat):
            return super().scalar(number, dtype, shape)
        return self.expand(self.cast(self._real(number.origins, number.origins.expression), dtype), shape)

    def varies(self, number: float) -> bool:
        """Return whether it follows from sizes."""
        return isinstance(number, Size | ComputedFloat)

    def hide_constant(self, x: Value) -> Value:
        """Return a constant as a tensor that no rule computes with now."""
        return x if x.constant is None else self.op("reshape", [x], x.dtype, x.shape)

    def _whole(self, expression: Expression) -> Value:
        """Return the scalar of an expression, in int64.

        Raises:
            Refused: it has too many values.
        """
        varying = _places_of(expression)
        if not varying:
            return super().scalar(evaluate_all(expression, [np.zeros(1, np.int64)])[0].item(), DType.I64)
        if len(varying) == 1:
            (place,) = varying
            symbol = self._space.symbols[place]
            _check_table(symbol)
            column = np.arange(symbol.minimum, symbol.maximum + 1)
            return self._entry(symbol, self._sizes[place], evaluate_all(expression, [column] * (place + 1)))
        operands = [part for part in (expression.a, expression.b) if isinstance(part, Expression)]
        first, second = map(self._whole, operands)
        return self.binary(_WHOLE[expression.kind], first, second)

    def _real(self, origins: Origins, expression: Any) -> Value:
        """Return the scalar of one of torch's expressions, in float32.

        Raises:
            Refused: it combines sizes in a way that no operator does, or has too many values.
        """
        varying = [(symbol, size) for symbol, size in origins.sizes if symbol.expression in expression.free_symbols]
        if not varying:
            return super().scalar(float(expression), DType.F32)
        name = type(expression).__name__
        if len(varying) == 1:
            ((symbol, size),) = varying
            _check_table(symbol)
            return self._entry(symbol, size, _table(expression, symbol.expression, symbol.minimum, symbol.maximum))
        term = self._space.read(expression.args[0]) if name == "ToFloat" else None
        if term is not None and term.expression is not None:
            return self.cast(self._whole(term.expression), DType.F32)
        if name not in _COMBINED:
            raise Refused(_COMBINES)
        parts = [self._real(origins, part) for part in expression.args]
        result = parts[0]
        for part in parts[1:]:
            result = self.binary(_COMBINED[name], result, part)
        return result

    def _entry(self, symbol: "Symbol", size: int, table: NDArray[np.float64 | np.int64]) -> Value:
        """Return the entry of a table that belongs to the size of a symbol."""
        is_whole = table.dtype.kind == "i"
        elements = self.constant(table.astype("<i8" if is_whole else "<f4"))
        attributes = AsStridedCopyAttributes(offset=size - symbol.minimum, strides=())
        return self.op("as_strided_copy", [elements], DType.I64 if is_whole else DType.F32, (), attributes)


def _check_table(symbol: "Symbol") -> None:
    if symbol.maximum - symbol.minimum >= MAX_TABLE:
        raise Refused(f"it computes with a size of more than {MAX_TABLE} values: let the Dim be closer")


def _places_of(expression: Expression) -> set[int]:
    """Return the indices of the symbols in an expression."""
    if expression.kind == "symbol" and isinstance(expression.a, int):
        return {expression.a}
    parts = [part for part in (expression.a, expression.b) if isinstance(part, Expression)]
    return set().union(*map(_places_of, parts))


@lru_cache(maxsize=256)
def _table(expression: Any, symbol: Any, minimum: int, maximum: int) -> NDArray[np.float64]:
    """Return the values of an expression of one symbol, from its least to its largest."""
    values = [expression.xreplace({symbol: sympy.Integer(size)}) for size in range(minimum, maximum + 1)]
    return np.array([float(value) for value in values])
