"""Specializes a program whose sizes come with its inputs to one set of sizes, so that all are known."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from alcove.runtime.format.spec import (
    BucketSpec,
    ExpressionKind,
    ExpressionSpec,
    OpSpec,
    ProgramSpec,
    Storage,
    TensorSpec,
)

__all__ = ["at_sizes", "sizes_of"]

_COMBINES: Final[dict[ExpressionKind, Callable[[int, int], int]]] = {
    ExpressionKind.ADD: operator.add,
    ExpressionKind.SUB: operator.sub,
    ExpressionKind.MUL: operator.mul,
    ExpressionKind.FLOORDIV: operator.floordiv,
    ExpressionKind.MOD: operator.mod,
    ExpressionKind.MIN: min,
    ExpressionKind.MAX: max,
}


def at_sizes(spec: ProgramSpec, sizes: Sequence[int]) -> ProgramSpec:
    """Return the program at these sizes, with the memory plan that a session takes for them.

    Args:
        spec: of any program; one without symbols comes back as it is.
        sizes: of each symbol, in order.

    Raises:
        ValueError: there are not as many sizes as symbols, or one is out of its symbol's bounds.
    """
    if len(sizes) != len(spec.symbols):
        raise ValueError(f"the program has {len(spec.symbols)} sizes, got {len(sizes)}")
    for symbol, size in zip(spec.symbols, sizes, strict=True):
        if not symbol.min <= size <= symbol.max:
            raise ValueError(f"{symbol.name} is {size}, allowed are {symbol.min} to {symbol.max}")
    if not spec.symbols:
        return spec
    values: list[int] = []
    for expression in spec.expressions:
        values.append(_value(expression, sizes, values))
    bucket = next(b for b in spec.buckets if all(s <= most for s, most in zip(sizes, b.bounds, strict=True)))
    return replace(
        spec,
        tensors=tuple(_tensor(tensor, index, values, bucket) for index, tensor in enumerate(spec.tensors)),
        ops=tuple(_op(op, values) for op in spec.ops),
        arena_bytes=bucket.arena_bytes,
        symbols=(),
        expressions=(),
        buckets=(),
    )


def sizes_of(spec: ProgramSpec, shapes: Sequence[Sequence[int]]) -> list[int]:
    """Return the sizes that inputs of these shapes bring, in the order of the symbols."""
    return [shapes[symbol.input][symbol.dim] for symbol in spec.symbols]


def _tensor(tensor: TensorSpec, index: int, values: Sequence[int], bucket: BucketSpec) -> TensorSpec:
    shape = tuple(values[dim] if tensor.dynamic_dims >> d & 1 else dim for d, dim in enumerate(tensor.shape))
    offset = bucket.places[index][0] if tensor.storage is Storage.ARENA else tensor.offset
    return replace(tensor, shape=shape, offset=offset, dynamic_dims=0)


def _op(op: OpSpec, values: Sequence[int]) -> OpSpec:
    attributes = tuple(
        values[int(argument)] if op.attribute_dynamic >> a & 1 else argument for a, argument in enumerate(op.attributes)
    )
    return replace(op, attributes=attributes, attribute_dynamic=0)


def _value(expression: ExpressionSpec, sizes: Sequence[int], values: Sequence[int]) -> int:
    if expression.kind is ExpressionKind.CONSTANT:
        return expression.a
    if expression.kind is ExpressionKind.SYMBOL:
        return sizes[expression.a]
    return _COMBINES[expression.kind](values[expression.a], values[expression.b])
