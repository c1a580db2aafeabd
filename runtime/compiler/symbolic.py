"""Evaluates torch's symbolic expressions of sizes at many sizes at once."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final

import numpy as np
import sympy
from numpy.typing import NDArray

Numbers = NDArray[Any]

_MANY: Final = 2**14
"""Sizes at which sympy itself evaluates what has no counterpart here: it takes a tenth of a millisecond each."""

_FUNCTIONS: Final[Mapping[str, Callable[[Numbers, Numbers], Numbers]]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Pow": np.power,
    "PowByNatural": np.power,
    "FloorDiv": np.floor_divide,
    "CleanDiv": np.floor_divide,
    "Mod": np.mod,
    "PythonMod": np.mod,
    "Min": np.minimum,
    "Max": np.maximum,
    "IntTrueDiv": np.true_divide,
    "FloatTrueDiv": np.true_divide,
    "FloatPow": np.float_power,
    "Equality": np.equal,
    "Unequality": np.not_equal,
    "StrictLessThan": np.less,
    "LessThan": np.less_equal,
    "StrictGreaterThan": np.greater,
    "GreaterThan": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
}
"""By the name of sympy's or torch's function."""
_OF_ONE: Final[Mapping[str, Callable[[Numbers], Numbers]]] = {
    "Not": np.logical_not,
    "ToFloat": lambda number: number.astype(np.float64),
    "FloorToInt": lambda number: np.floor(number).astype(np.int64),
    "CeilToInt": lambda number: np.ceil(number).astype(np.int64),
    "TruncToInt": lambda number: np.trunc(number).astype(np.int64),
    "RoundToInt": lambda number: np.rint(number).astype(np.int64),
    "Abs": np.abs,
}


def values_of(expression: Any, numbers: Mapping[Any, Numbers]) -> Numbers | None:
    """Return an expression's values, or None if it has parts that have no counterpart here.

    Args:
        expression: torch's (sympy).
        numbers: the values of each symbol, as int64.
    """
    if expression in numbers:
        return numbers[expression]
    if expression.is_Integer or expression.is_Float or (expression.is_Boolean and not expression.args):
        kind = int if expression.is_Integer else float if expression.is_Float else bool
        return np.array(kind(expression))
    parts = [values_of(part, numbers) for part in expression.args]
    known = [part for part in parts if part is not None]
    name = type(expression).__name__
    if not known or len(known) != len(parts):
        return None
    if name in _OF_ONE:
        return _OF_ONE[name](known[0])
    function = _FUNCTIONS.get(name)
    return reduce(function, known) if function is not None and _is_defined(function, known) else None


def _is_defined(function: Callable[[Numbers, Numbers], Numbers], parts: Sequence[Numbers]) -> bool:
    """Return whether numpy gives torch's value everywhere."""
    if function in {np.floor_divide, np.mod}:
        return bool(parts[1].all())
    return function is not np.power or (not (parts[1] < 0).any() and all(part.dtype.kind != "f" for part in parts))


def integers_of(expression: Any, numbers: Mapping[Any, Numbers]) -> NDArray[np.int64] | None:
    """Return an expression's values as int64, by sympy where numpy has no counterpart; None if it has none.

    Args:
        expression: torch's (sympy) or an integer.
        numbers: the values of each symbol, as int64, all of one length.
    """
    count = len(next(iter(numbers.values())))
    found = values_of(sympy.sympify(expression), numbers)
    if found is not None and found.dtype.kind in "ib":
        return np.broadcast_to(found.astype(np.int64), (count,))
    varying = [symbol for symbol in numbers if symbol in expression.free_symbols]
    if set(varying) != expression.free_symbols:
        return None
    table, places = np.unique(np.stack([numbers[symbol] for symbol in varying], 1), axis=0, return_inverse=True)
    if len(table) > _MANY:
        return None
    try:
        values = [int(expression.xreplace(dict(zip(varying, map(sympy.Integer, row), strict=True)))) for row in table]
    except (TypeError, ZeroDivisionError):
        return None
    return np.array(values, dtype=np.int64)[places.reshape(-1)]
