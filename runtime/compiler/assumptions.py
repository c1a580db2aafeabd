"""Does what torch assumed of the sizes that vary hold for all of them?

Torch proves little of quotients and remainders: what it cannot prove it writes down as an assertion.  The sizes are
bounded, so each is tried.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from alcove.runtime.compiler.capture import Symbol

MAX_TRIED: Final = 2**22
"""Sizes, or pairs of sizes, that are tried for one assertion."""

_Numbers = NDArray[Any]

_FUNCTIONS: Final[Mapping[str, Callable[[_Numbers, _Numbers], _Numbers]]] = {
    "Add": np.add,
    "Mul": np.multiply,
    "Pow": np.power,
    "FloorDiv": np.floor_divide,
    "CleanDiv": np.floor_divide,
    "Mod": np.mod,
    "PythonMod": np.mod,
    "Min": np.minimum,
    "Max": np.maximum,
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


def broken_at(exported: torch.export.ExportedProgram, symbols: Sequence["Symbol"]) -> dict[str, int] | None:
    """Return the first sizes, by name, at which an assertion about sizes fails; None if every one holds for all.

    Raises:
        ValueError: one cannot be tried.
    """
    for condition in _conditions(exported):
        broken = _broken_at(condition, symbols)
        if broken:
            return broken
    return None


def _conditions(exported: torch.export.ExportedProgram) -> list[Any]:
    nodes = [node for node in exported.graph.nodes if str(node.target) == "aten._assert_scalar.default"]
    values = [node.args[0].meta.get("val") if hasattr(node.args[0], "meta") else node.args[0] for node in nodes]
    return [value.node.expr for value in values if isinstance(value, torch.SymBool)]


def _broken_at(condition: Any, symbols: Sequence["Symbol"]) -> dict[str, int] | None:
    varying = [symbol for symbol in symbols if symbol.expression in condition.free_symbols]
    ranges = [np.arange(symbol.minimum, symbol.maximum + 1) for symbol in varying]
    if len(varying) != len(condition.free_symbols) or math.prod(len(sizes) for sizes in ranges) > MAX_TRIED:
        raise ValueError(condition)
    grid = np.meshgrid(*ranges, indexing="ij")
    numbers = {symbol.expression: sizes for symbol, sizes in zip(varying, grid, strict=True)}
    with np.errstate(divide="ignore", invalid="ignore"):
        result = _value(condition, numbers)
    if result is None:
        raise ValueError(condition)
    if bool(result.all()):
        return None
    place = np.unravel_index(int(np.broadcast_to(result, grid[0].shape).argmin()), grid[0].shape)
    return {symbol.name: int(sizes[place]) for symbol, sizes in zip(varying, grid, strict=True)}


def _value(expression: Any, numbers: Mapping[Any, _Numbers]) -> _Numbers | None:
    """Return an expression's values, or None if it has parts that have no counterpart here."""
    if expression in numbers:
        return numbers[expression]
    if expression.is_Integer or (expression.is_Boolean and not expression.args):
        return np.array(int(expression) if expression.is_Integer else bool(expression))
    parts = [_value(part, numbers) for part in expression.args]
    known = [part for part in parts if part is not None]
    name = type(expression).__name__
    if not known or len(known) != len(parts):
        return None
    if name == "Not":
        return np.logical_not(known[0])
    function = _FUNCTIONS.get(name)
    is_division = function in {np.floor_divide, np.mod}
    if function is None or (is_division and not known[1].all()) or (name == "Pow" and (known[1] < 0).any()):
        return None
    return reduce(function, known)
