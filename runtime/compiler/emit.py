"""Emits a planned graph as a `ProgramSpec`, with its tensors in a fixed order.

Constants first, by first use; then states, inputs and what the operators write, in order.  So every operator refers
backwards, and the same graph gives the same bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from alcove.runtime.compiler.capture import Symbol
from alcove.runtime.compiler.dynamic_shapes import Dynamic
from alcove.runtime.compiler.expressions import Expression
from alcove.runtime.compiler.graph import Array, Graph, Value
from alcove.runtime.compiler.plan import Plan, size_bytes
from alcove.runtime.compiler.source import short
from alcove.runtime.compiler.weights import COPY
from alcove.runtime.format.named_attributes import Attributes
from alcove.runtime.format.spec import (
    BucketSpec,
    DType,
    ExpressionKind,
    ExpressionSpec,
    OpSpec,
    PortSpec,
    ProgramSpec,
    StateSpec,
    Storage,
    SymbolSpec,
    TensorSpec,
)

_STORED: Final = {DType.F32: "<f4", DType.I8: "i1", DType.I32: "<i4", DType.I64: "<i8", DType.U8: "u1", DType.BOOL: "?"}
_KINDS: Final = {kind.name.lower(): kind for kind in ExpressionKind}


def emit(graph: Graph, plans: Sequence[Plan], dynamic: Dynamic | None = None) -> ProgramSpec:
    """Return the program of a legal, packed and planned graph.

    Args:
        graph: at its only sizes, or at the largest.
        plans: one, or one for each bucket of `dynamic`.
        dynamic: how the sizes vary; None if they don't.
    """
    keys = order_of(graph)
    index = {key: position for position, key in enumerate(keys)}
    sizes = _Sizes(graph, dynamic)
    states = {state.value for state in graph.states}
    offsets = plans[-1].offsets if dynamic is None else {}
    names = _names(graph, keys)
    tensors = tuple(_tensor(graph.values[key], names[key], states, offsets, sizes) for key in keys)
    ops = []
    for position, node in enumerate(graph.nodes):
        attributes, mask = sizes.attributes(position, node.attributes)
        ops.append(
            OpSpec(
                name=node.op,
                inputs=tuple(index[key] for key in node.inputs),
                outputs=tuple(index[key] for key in node.outputs),
                attributes=attributes,
                source=short(node.origin.source),
                attribute_dynamic=mask,
            )
        )
    ports = [port.name for port in graph.inputs]
    return ProgramSpec(
        tensors=tensors,
        ops=tuple(ops),
        inputs=tuple(PortSpec(port.name, index[port.value]) for port in graph.inputs),
        outputs=tuple(PortSpec(port.name, index[port.value], port.labels) for port in graph.outputs),
        arena_bytes=plans[-1].arena_bytes,
        states=tuple(
            StateSpec(state.name, index[state.value], index[state.initial], index[state.update])
            for state in graph.states
        ),
        symbols=tuple(
            SymbolSpec(
                symbol.dimension_name,
                symbol.dimension(symbol.minimum),
                symbol.dimension(symbol.maximum),
                ports.index(symbol.port),
                symbol.dim,
            )
            for symbol in (dynamic.symbols if dynamic else ())
        ),
        expressions=tuple(sizes.expressions),
        buckets=_buckets(keys, plans, dynamic) if dynamic else (),
    )


def order_of(graph: Graph) -> list[str]:
    """Return the keys of a graph's values in the order of the program's tensors."""
    order: list[str] = []
    for node in graph.nodes:
        order += [key for key in node.inputs if graph.values[key].constant is not None]
    order += [state.initial for state in graph.states]
    order += [state.value for state in graph.states]
    order += [port.value for port in graph.inputs]
    for node in graph.nodes:
        order += node.outputs
    return list(dict.fromkeys(order))


def _names(graph: Graph, keys: Sequence[str]) -> dict[str, str]:
    """Return a name for each value: its own, numbered where it is not the first of that name."""
    seen: dict[str, int] = {}
    names = {}
    for key in keys:
        name = graph.values[key].name
        seen[name] = seen.get(name, 0) + 1
        names[key] = name if seen[name] == 1 else f"{name}{COPY}{seen[name]}"
    return names


class _Sizes:
    """Writes what varies as indices of expressions."""

    def __init__(self, graph: Graph, dynamic: Dynamic | None) -> None:
        self._graph = graph
        self._dims = dynamic.dims if dynamic else {}
        self._attributes = dynamic.attributes if dynamic else {}
        self.expressions: list[ExpressionSpec] = []
        self._index: dict[Expression, int] = {}
        self._symbols = dynamic.symbols if dynamic else ()
        for place, symbol in enumerate(self._symbols):
            if (symbol.factor, symbol.addend) == (1, 0):
                continue
            # A program's symbol is the dimension itself, which all that equals it is then.
            port = next(port.value for port in graph.inputs if port.name == symbol.port)
            self.expressions.append(ExpressionSpec(ExpressionKind.SYMBOL, place, 0))
            self._index[self._dims[port, symbol.dim]] = len(self.expressions) - 1
            self._index[Expression("symbol", place)] = self._quotient(len(self.expressions) - 1, symbol)

    def shape(self, key: str) -> tuple[tuple[int, ...], int]:
        """Return the shape of a value and the mask of its dynamic dimensions."""
        shape, mask = list(self._graph.values[key].shape), 0
        for axis in range(len(shape)):
            expression = self._dims.get((key, axis))
            if expression is not None:
                shape[axis] = self._put(expression)
                mask |= 1 << axis
        return tuple(shape), mask

    def attributes(self, node: int, original: Attributes) -> tuple[tuple[int | float, ...], int]:
        """Return the attributes of a node, by position from here on, and the mask of the dynamic ones."""
        written, mask = list(original.numbers()), 0
        for place, (name, _) in enumerate(original.items()):
            expression = self._attributes.get((node, name))
            if expression is not None:
                written[place] = self._put(expression)
                mask |= 1 << place
        return tuple(written), mask

    def _quotient(self, dimension: int, symbol: Symbol) -> int:
        """Add the size of a symbol whose dimension is a multiple of it; a device refuses to divide where it is none."""

        def add(kind: ExpressionKind, a: int, b: int = 0) -> int:
            self.expressions.append(ExpressionSpec(kind, a, b))
            return len(self.expressions) - 1

        factor, addend = add(ExpressionKind.CONSTANT, symbol.factor), add(ExpressionKind.CONSTANT, symbol.addend)
        one = add(ExpressionKind.CONSTANT, 1)
        multiple = add(ExpressionKind.SUB, dimension, addend)
        rest = add(ExpressionKind.MIN, add(ExpressionKind.MOD, multiple, factor), one)
        divisor = add(ExpressionKind.MUL, factor, add(ExpressionKind.SUB, one, rest))
        return add(ExpressionKind.FLOORDIV, multiple, divisor)

    def _put(self, expression: Expression) -> int:
        if expression not in self._index:
            a, b = expression.a, expression.b
            first = self._put(a) if isinstance(a, Expression) else a
            second = self._put(b) if b is not None else 0
            self.expressions.append(ExpressionSpec(_KINDS[expression.kind], first, second))
            self._index[expression] = len(self.expressions) - 1
        return self._index[expression]


def _tensor(value: Value, name: str, states: set[str], offsets: Mapping[str, int], sizes: _Sizes) -> TensorSpec:
    if value.constant is not None:
        return TensorSpec(
            name=name,
            dtype=value.dtype,
            shape=value.shape,
            storage=Storage.CONSTANT,
            layout=value.layout,
            data=_encode_constant(value.constant, value.dtype),
        )
    if value.key in states:
        return TensorSpec(name=name, dtype=value.dtype, shape=value.shape, storage=Storage.STATE)
    shape, mask = sizes.shape(value.key)
    return TensorSpec(
        name=name,
        dtype=value.dtype,
        shape=shape,
        storage=Storage.ARENA,
        is_ragged=value.is_ragged,
        offset=offsets.get(value.key, 0),
        dynamic_dims=mask,
    )


def _buckets(keys: Sequence[str], plans: Sequence[Plan], dynamic: Dynamic) -> tuple[BucketSpec, ...]:
    return tuple(
        BucketSpec(
            tuple(symbol.dimension(bound) for symbol, bound in zip(dynamic.symbols, bounds, strict=True)),
            planned.arena_bytes,
            tuple((planned.offsets[key], size_bytes(graph, key)) if key in planned.offsets else (0, 0) for key in keys),
        )
        for planned, (bounds, graph) in zip(plans, dynamic.buckets, strict=True)
    )


def _encode_constant(constant: Array, dtype: DType) -> memoryview:
    """Return the bytes of a constant as they lie in a program: little-endian, row-major or packed; no copy if so."""
    return np.ascontiguousarray(constant, dtype=_STORED[dtype]).reshape(-1).view(np.uint8).data.toreadonly()
