"""Computes the constants of a graph that follow from sizes, at any sizes.

A program holds the largest one and reads its beginning (`dynamic_shapes.py`).  Whether the others are that beginning is
asked here of torch's own operators, at every size: `torch.arange(n)` is, `torch.arange(n).sum() % 37 // 36` is not.
"""

import operator
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.graph import Origin
from alcove.runtime.compiler.lower import FACTORIES, UNWRITTEN
from alcove.runtime.compiler.lowering.nodes import origin_of
from alcove.runtime.compiler.ranges import Rows
from alcove.runtime.compiler.symbolic import integers_of
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.export.graph_signature import InputKind

MAX_ELEMENTS: Final = 2**28
"""Elements that are computed in all; what has more is computed at some of the sizes."""


class GrownConstants:
    """The constants of one captured module that follow from sizes."""

    def __init__(self, captured: Captured) -> None:
        """Find them."""
        self._captured = captured
        self._stored = _list_stored(captured)
        self._kept: dict[fx.Node, Any] = {}  # and what follows from these alone
        self._symbols = [symbol.expression for symbol in captured.symbols]
        constant: set[fx.Node] = set(self._stored)
        varying: dict[fx.Node, None] = {}
        for node in captured.program.graph.nodes:
            if not _is_folded(node, constant):
                continue
            constant.add(node)
            if any(_is_varying(part) for part in (node, *node.all_input_nodes)) or any(
                argument in varying for argument in node.all_input_nodes
            ):
                varying[node] = None
        self._varying = list(varying)
        self._fixed = [node for node in captured.program.graph.nodes if node in constant and node not in varying]
        self._read = [node for node in varying if any(user not in constant for user in node.users)]

    def first_wrong(self, rows: Rows, samples: Rows) -> tuple[int, Origin] | None:
        """Return the first of `rows`, its index, at which a constant is not the beginning of the largest; or None.

        Args:
            rows: choices of sizes.
            samples: sizes at which the graph has been compiled, the largest first; a constant that is no beginning
                there is none that a program reads as such.
        """
        read = [node for node in self._read if isinstance(node.meta["val"], Tensor)]
        if not read:
            return None
        largest, *others = self._at(samples)
        read = [node for node in read if all(_begins(largest[node], other[node]) for other in others)]
        asked = self._distinct(rows) if read else []
        tensors = [leaf for leaf in pytree.tree_leaves(list(largest.values())) if isinstance(leaf, Tensor)]
        step = 1 + sum(tensor.numel() for tensor in tensors) * len(asked) // MAX_ELEMENTS
        asked = asked[::step]
        for index, found in zip(asked, self._at(rows[asked]), strict=True):
            wrong = next((node for node in read if not _begins(largest[node], found[node])), None)
            if wrong is not None:
                return index, origin_of(wrong)
        return None

    def _distinct(self, rows: Rows) -> list[int]:
        """Return the first of the rows that are alike in all symbols that the constants follow from."""
        free = {
            symbol
            for part in self._list_size_nodes()
            for size in _numbers_of(part)
            for symbol in size.node.expr.free_symbols
        }
        columns = [place for place, symbol in enumerate(self._symbols) if symbol in free]
        if not columns:
            return [0]
        _, first = np.unique(rows[:, columns], axis=0, return_index=True)
        return sorted(first.tolist())

    def _list_size_nodes(self) -> list[fx.Node]:
        """Return the nodes whose sizes the constants follow from."""
        return list(dict.fromkeys(part for node in self._varying for part in (node, *node.all_input_nodes)))

    def _at(self, rows: Rows) -> Iterator[dict[fx.Node, Any]]:
        """Yield the constants at some sizes, by node."""
        numbers = self._numbers(rows)
        if not self._kept:
            self._kept = dict(self._stored)
            for node in self._fixed:
                if node not in self._kept:
                    with torch.no_grad():
                        self._kept[node] = _compute(node, self._kept, {}, 0)
        for index in range(len(rows)):
            known = dict(self._kept)
            with torch.no_grad():
                for node in self._varying:
                    known[node] = _compute(node, known, numbers, index)
            yield {node: known[node] for node in self._varying}

    def _numbers(self, rows: Rows) -> dict[Any, Sequence[float]]:
        """Return the values of every expression that the constants follow from, at `rows`."""
        columns = {symbol: rows[:, place] for place, symbol in enumerate(self._symbols)}
        texts = {
            symbol: np.full(len(rows), size)
            for symbol, size in self._captured.substitution(self._captured.largest()).items()
            if symbol not in columns
        }
        found: dict[Any, Sequence[float]] = {}
        for size in (size for part in self._list_size_nodes() for size in _numbers_of(part)):
            expression = size.node.expr
            if expression in found:
                continue
            whole = integers_of(expression, columns | texts) if isinstance(size, torch.SymInt) else None
            found[expression] = whole.tolist() if whole is not None else self._one_by_one(expression, rows)
        return found

    def _one_by_one(self, expression: Any, rows: Rows) -> Sequence[float]:
        symbols = self._symbols
        return [float(expression.subs(dict(zip(symbols, row, strict=True)))) for row in rows.tolist()]


def _list_stored(captured: Captured) -> dict[fx.Node, Any]:
    """Return the parameters and the buffers that no method changes, by their node."""
    program = captured.program
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"]
    found: dict[fx.Node, Any] = {}
    for node, spec in zip(nodes, program.graph_signature.input_specs, strict=True):
        if spec.kind in {InputKind.USER_INPUT, InputKind.TOKEN} or spec.target in captured.states:
            continue
        tensor = program.state_dict.get(str(spec.target), program.constants.get(str(spec.target)))
        if isinstance(tensor, Tensor):
            found[node] = tensor.detach()
    return found


def _is_folded(node: fx.Node, constant: set[fx.Node]) -> bool:
    """Return whether a node's result follows from constants and sizes alone."""
    if node.op != "call_function" or not _has_tensors(node):
        return False
    target = node.target
    tensors = [argument for argument in node.all_input_nodes if _has_tensors(argument)]
    if target is operator.getitem:
        return tensors[0] in constant
    if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded in target.tags:
        return False
    return str(target) in FACTORIES or all(argument in constant for argument in tensors)


def _has_tensors(node: fx.Node) -> bool:
    value = node.meta.get("val")
    parts = value if isinstance(value, tuple | list) else (value,)
    return any(isinstance(part, Tensor) for part in parts)


def _numbers_of(node: fx.Node) -> list[Any]:
    """Return the symbolic numbers of a node's result: its sizes, or the number itself."""
    value = node.meta.get("val")
    parts = value if isinstance(value, tuple | list) else (value,)
    numbers = [size for part in parts for size in (part.shape if isinstance(part, Tensor) else (part,))]
    return [size for size in numbers if isinstance(size, torch.SymInt | torch.SymFloat | torch.SymBool)]


def _is_varying(node: fx.Node) -> bool:
    return bool(_numbers_of(node))


def _compute(node: fx.Node, known: dict[fx.Node, Any], numbers: dict[Any, Sequence[float]], index: int) -> Any:
    """Return what a node gives, from what is known of its arguments."""

    def number(size: Any) -> Any:
        return numbers[size.node.expr][index] if isinstance(size, torch.SymInt | torch.SymFloat) else size

    def argument(part: fx.Node) -> Any:
        fake = part.meta["val"]
        if part in known:
            return known[part]
        if isinstance(fake, Tensor):  # of which a factory takes shape and type
            return torch.empty([int(number(size)) for size in fake.shape], dtype=fake.dtype)
        return number(fake)

    args, kwargs = fx.node.map_arg((node.args, node.kwargs), argument)
    target: Any = node.target
    result = target(*args, **kwargs)
    if str(target).startswith(UNWRITTEN):
        result.zero_()
    return result


def _begins(whole: Tensor, part: Tensor) -> bool:
    if whole.dim() != part.dim() or whole.dtype != part.dtype:
        return False
    begin = whole[tuple(slice(0, size) for size in part.shape)]
    return begin.shape == part.shape and torch.equal(begin.nan_to_num(nan=0.25), part.nan_to_num(nan=0.25))
