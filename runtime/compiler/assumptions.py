"""Checks that what torch assumed of dynamic sizes holds for all of them.

Torch proves little of quotients and remainders: what it cannot prove it writes down as an assertion.  The sizes are
bounded, so each is tried.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from alcove.runtime.compiler.symbolic import values_of

if TYPE_CHECKING:
    from alcove.runtime.compiler.capture import Symbol

MAX_TRIED: Final = 2**22
"""Sizes, or pairs of sizes, that are tried for one assertion."""


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
        result = values_of(condition, numbers)
    if result is None:
        raise ValueError(condition)
    if bool(result.all()):
        return None
    place = np.unravel_index(int(np.broadcast_to(result, grid[0].shape).argmin()), grid[0].shape)
    return {symbol.name: int(sizes[place]) for symbol, sizes in zip(varying, grid, strict=True)}
