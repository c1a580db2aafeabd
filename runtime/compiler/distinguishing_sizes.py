"""Chooses sizes that distinguish the numbers of a graph.

What a rule computes from sizes is, but for the room that kernels work in, a sum of multiples of the graph's *features*:
torch's own expressions, the strides and element counts that follow from its shapes, and products of the symbols.  Two
such sums that agree at sizes whose rows of features span those of all sizes agree everywhere.  So the samples are
chosen to span them: what is found at these holds between them, for quotients and remainders (`x + (n % 37) // 36` is
another number at n = 36 alone) as for any other.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.ranges import ALL_OF_ONE, Rows, rows_of
from alcove.runtime.compiler.symbolic import Numbers, integers_of
from alcove.runtime.errors import ExportError, Finding
from torch import fx

MAX_SAMPLES: Final = 96
"""Samples that are compiled for one program; whose sizes follow more rules is refused."""
_PRIME: Final = 2**31 - 1
"""Rows are compared modulo this: exact, and products stay below 2^62."""
_MOST_NUMBERS: Final = 2**22
_MOST_ROWS: Final = 2**17


def choose_samples(captured: Captured) -> list[dict[str, int]]:
    """Return the sizes at which a graph is lowered: the largest first, the smallest, and what these do not distinguish.

    Raises:
        ExportError: there would be more than `MAX_SAMPLES` of them.
    """
    names = [symbol.name for symbol in captured.symbols]
    samples = [captured.largest(), {symbol.name: symbol.minimum for symbol in captured.symbols}]
    samples = samples[: 1 if samples[0] == samples[1] else 2]
    expressions = expressions_of(captured)
    alone = len(captured.symbols) == 1 and any(map(_is_broken, expressions))
    rows = rows_of(captured.symbols, most=_MOST_ROWS if alone else ALL_OF_ONE)
    inputs = np.array([[sizes[name] for name in names] for sizes in samples], dtype=np.int64)
    rows = np.concatenate([inputs, rows])
    features = _features(captured, expressions, rows)
    most = max(_MOST_NUMBERS // len(features), len(inputs))
    if len(rows) > most:
        spread = np.linspace(0, len(rows) - 1, most).astype(np.int64)
        chosen = np.unique(np.concatenate([np.arange(len(inputs)), spread]))
        rows, features = rows[chosen], [feature[chosen] for feature in features]
    matrix = np.stack([feature % _PRIME for feature in features], 1)
    for index in range(len(inputs)):
        _eliminate(matrix, index)
    found: list[dict[str, int]] = []
    while len(left := np.flatnonzero(matrix.any(axis=1))):
        if len(inputs) + len(found) >= MAX_SAMPLES:
            reason = f"its sizes follow more than {MAX_SAMPLES} rules: fix one of them, or export a program for each"
            raise ExportError([Finding(op="dynamic_shapes", module_path="", source="", suggestion=reason)])
        index = int(left[0])
        found.append(dict(zip(names, rows[index].tolist(), strict=True)))
        _eliminate(matrix, index)
    return samples + found


def _eliminate(matrix: Rows, index: int) -> None:
    """Take the multiples of row `index` from all rows that make its first number 0."""
    row = matrix[index].copy()
    columns = np.flatnonzero(row)
    if len(columns) == 0:
        return
    column = int(columns[0])
    row = row * pow(int(row[column]), -1, _PRIME) % _PRIME
    rows = np.flatnonzero(matrix[:, column])
    matrix[rows] = (matrix[rows] - matrix[rows, column][:, None] * row) % _PRIME


def expressions_of(captured: Captured) -> list[Any]:
    """Return the expressions of all sizes in torch's graph, in order, each once."""
    found: dict[Any, None] = {}
    for node in captured.program.graph.nodes:
        for shape in _shapes(node):
            for size in shape:
                if isinstance(size, torch.SymInt):
                    found[size.node.expr] = None
    return list(found)


def _shapes(node: fx.Node) -> list[list[Any]]:
    """Return the shapes of what a node gives; a size by itself is one of one."""
    value = node.meta.get("val")
    parts = value if isinstance(value, tuple | list) else (value,)
    return [list(part.shape) if isinstance(part, torch.Tensor) else [part] for part in parts]


def _is_broken(expression: Any) -> bool:
    """Return whether an expression has other parts than sums and products."""
    if expression.is_Symbol or expression.is_Integer:
        return False
    return type(expression).__name__ not in {"Add", "Mul", "Pow"} or any(map(_is_broken, expression.args))


def _features(captured: Captured, expressions: Sequence[Any], rows: Rows) -> list[Numbers]:
    """Return the values at `rows` of what numbers of the graph are sums of, each once."""
    numbers = {symbol.expression: rows[:, place] for place, symbol in enumerate(captured.symbols)}
    values = {expression: integers_of(expression, numbers) for expression in expressions}
    symbols = list(numbers.values())
    found: dict[bytes, Numbers] = {}

    def add(vector: Numbers) -> None:
        found.setdefault(vector.tobytes(), vector)

    def value_of(size: Any) -> Any:
        known = values.get(size.node.expr) if isinstance(size, torch.SymInt) else size
        return known if isinstance(known, np.ndarray | int) else 1

    add(np.ones(len(rows), dtype=np.int64))
    for place, one in enumerate(symbols):
        add(one)
        for other in symbols[place:]:
            add(one * other)
    seen: set[tuple[Any, ...]] = set()
    for node in captured.program.graph.nodes:
        inputs = node.all_input_nodes
        starts = [argument for argument in inputs if isinstance(argument.meta.get("val"), torch.SymInt)]
        shapes = _shapes(node) + [shape for argument in inputs if starts for shape in _shapes(argument)]
        for shape in shapes:
            cache_key = (tuple(map(str, shape)), tuple(starts))
            if cache_key in seen:
                continue
            seen.add(cache_key)
            stride: Any = 1
            for size in reversed(shape):
                for start in starts:
                    add(np.broadcast_to(value_of(start.meta["val"]) * stride, (len(rows),)))
                stride = stride * value_of(size)
                add(np.broadcast_to(stride, (len(rows),)))
    return list(found.values())
