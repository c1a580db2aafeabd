"""Turns dynamic sizes among the elements, as in `x / x.shape[1]`, into tensors that a program computes.

Such a number is read from a table of all the values it can have, by a movement whose offset follows the size.  What
several sizes make together is computed from one table each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import sympy
import torch
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.capture import Symbol
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules import Refused
from alcove.runtime.format.attributes import AsStridedCopyAttributes
from alcove.runtime.format.spec import DType
from numpy.typing import NDArray

MAX_TABLE: Final = 2**14
"""Entries of one table; a size that has more values cannot be computed with."""

_COMBINED: Final = {
    "Add": "add",
    "Mul": "mul",
    "FloorDiv": "floor_div",
    "CleanDiv": "floor_div",
    "Mod": "remainder",
    "PythonMod": "remainder",
    "Min": "minimum",
    "Max": "maximum",
    "IntTrueDiv": "div",
    "FloatTrueDiv": "div",
}
"""By the name of torch's symbolic function: the runtime's, of two operands."""
_DIVISIONS: Final = ("IntTrueDiv", "FloatTrueDiv")


@dataclass(frozen=True)
class Origins:
    """What a number follows from.

    Attributes:
        expression: torch's (sympy).
        symbols: those that vary, with their bounds.
        sizes: their values now, by name.
    """

    expression: Any
    symbols: tuple[Symbol, ...]
    sizes: tuple[tuple[str, int], ...]


class ComputedInt(int):
    """A whole number that follows from sizes: rules may take it as the number it is now, or ask for its tensor."""

    origins: Origins


class ComputedFloat(float):
    """A real number that follows from sizes, as `ComputedInt`."""

    origins: Origins


def with_origins(number: torch.SymInt | torch.SymFloat, value: float, origins: Origins) -> ComputedInt | ComputedFloat:
    """Return `value` with where it comes from."""
    result = ComputedInt(value) if isinstance(number, torch.SymInt) else ComputedFloat(value)
    result.origins = origins
    return result


class SizedBuilder(Builder):
    """A builder to whom a number that follows from sizes is a tensor that a program computes."""

    def scalar(self, number: float, dtype: DType, shape: Sequence[int] = ()) -> Value:
        """Return `number` in every element of `shape`."""
        if not isinstance(number, ComputedInt | ComputedFloat):
            return super().scalar(number, dtype, shape)
        kind = DType.I64 if isinstance(number, int) else DType.F32
        return self.expand(self.cast(self._tensor(number.origins, number.origins.expression, kind), dtype), shape)

    def varies(self, number: float) -> bool:
        """Return whether it follows from sizes."""
        return isinstance(number, ComputedInt | ComputedFloat)

    def hide_constant(self, x: Value) -> Value:
        """Return a constant as a tensor that no rule computes with now."""
        return x if x.constant is None else self.op("reshape", [x], x.dtype, x.shape)

    def _tensor(self, origins: Origins, expression: Any, kind: DType) -> Value:
        """Return the scalar of an expression, computed in `kind`.

        Raises:
            Refused: it combines sizes in a way that no operator does, or has too many values.
        """
        varying = [symbol for symbol in origins.symbols if symbol.expression in expression.free_symbols]
        if not varying:
            return super().scalar(float(expression) if kind is DType.F32 else int(expression), kind)
        if len(varying) == 1:
            symbol = varying[0]
            if symbol.maximum - symbol.minimum >= MAX_TABLE:
                raise Refused(f"it computes with a size of more than {MAX_TABLE} values: let the Dim be closer")
            table = _table(expression, symbol.expression, symbol.minimum, symbol.maximum)
            elements = self.constant(table.astype("<i8" if kind is DType.I64 else "<f4"))
            offset = dict(origins.sizes)[symbol.name] - symbol.minimum
            return self.op("as_strided_copy", [elements], kind, (), AsStridedCopyAttributes(offset=offset, strides=()))
        name = type(expression).__name__
        function = _COMBINED.get(name)
        if function is None or (kind is DType.I64) == (name in _DIVISIONS):
            if name == "ToFloat":
                return self.cast(self._tensor(origins, expression.args[0], DType.I64), DType.F32)
            raise Refused("it computes with several sizes at once in a way that no operator does")
        parts = [self._tensor(origins, part, kind) for part in expression.args]
        result = parts[0]
        for part in parts[1:]:
            result = self.binary(function, result, part)
        return result


@lru_cache(maxsize=256)
def _table(expression: Any, symbol: Any, minimum: int, maximum: int) -> NDArray[np.float64 | np.int64]:
    """Return the values of an expression of one symbol, from its least to its largest."""
    values = [expression.xreplace({symbol: sympy.Integer(size)}) for size in range(minimum, maximum + 1)]
    return np.array([int(value) if value.is_Integer else float(value) for value in values])
