"""Builds test programs whose sizes come with their inputs, and memory plans for them.

`Sizes` collects symbols and expressions; an `Assembly` (testing.py) takes a `Size` wherever a shape or an attribute has
a number, and asks here for the buckets: every tensor after the one before, as large as the bucket's bounds make it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from alcove.runtime.format import records
from alcove.runtime.format.records import align_up
from alcove.runtime.format.spec import (
    DTYPE_BYTES,
    BucketSpec,
    DType,
    ExpressionKind,
    ExpressionSpec,
    Storage,
    SymbolSpec,
    TensorSpec,
)

Number = TypeVar("Number", bound=float)


@dataclass(frozen=True)
class Size:
    """A number that is known when the inputs are: the index of an expression."""

    index: int


class Sizes:
    """Symbols and expressions in the making; equal expressions are one."""

    def __init__(self) -> None:
        self.symbols: list[SymbolSpec] = []
        self.expressions: list[ExpressionSpec] = []
        self.bounds: list[tuple[int, ...]] = []

    def symbol(self, name: str, least: int, greatest: int) -> Size:
        """Return a size that the first input which has it brings along."""
        self.symbols.append(SymbolSpec(name, least, greatest, -1, 0))
        return self._expression(ExpressionKind.SYMBOL, len(self.symbols) - 1)

    def combine(self, kind: ExpressionKind, a: "Size | int", b: "Size | int") -> Size:
        """Return what `kind` makes of two sizes or numbers."""
        return self._expression(kind, self._index(a), self._index(b))

    def see(self, port: int, shape: Sequence["Size | int"]) -> None:
        """Say which dimensions an input has: a symbol's first place is its own."""
        for dim, size in enumerate(shape):
            if not isinstance(size, Size) or self.expressions[size.index].kind is not ExpressionKind.SYMBOL:
                continue
            symbol = self.symbols[self.expressions[size.index].a]
            if symbol.input < 0:
                self.symbols[self.symbols.index(symbol)] = SymbolSpec(symbol.name, symbol.min, symbol.max, port, dim)

    def plan(self, tensors: Sequence[TensorSpec]) -> tuple[BucketSpec, ...]:
        """Return a bucket for each of `bounds`, and one for the symbols' greatest values; none without symbols."""
        if not self.symbols:
            return ()
        greatest = tuple(symbol.max for symbol in self.symbols)
        return tuple(self._bucket(tensors, bounds) for bounds in [*self.bounds, greatest])

    def _bucket(self, tensors: Sequence[TensorSpec], bounds: tuple[int, ...]) -> BucketSpec:
        values = self._values(bounds)
        places: list[tuple[int, int]] = []
        end = 0
        for tensor in tensors:
            if tensor.storage is not Storage.ARENA or tensor.dtype is DType.TEXT:
                places.append((0, 0))
                continue
            dims = [values[size] if tensor.dynamic_dims >> d & 1 else size for d, size in enumerate(tensor.shape)]
            places.append((end, math.prod(dims) * DTYPE_BYTES[tensor.dtype]))
            end = align_up(sum(places[-1]), records.TENSOR_ALIGNMENT)
        return BucketSpec(bounds, end, tuple(places))

    def _values(self, bounds: tuple[int, ...]) -> list[int]:
        values: list[int] = []
        for expression in self.expressions:
            a, b = expression.a, expression.b
            if expression.kind is ExpressionKind.CONSTANT:
                values.append(a)
            elif expression.kind is ExpressionKind.SYMBOL:
                values.append(bounds[a])
            else:
                values.append(_combine(expression.kind, values[a], values[b]))
        return values

    def _index(self, size: "Size | int") -> int:
        return size.index if isinstance(size, Size) else self._expression(ExpressionKind.CONSTANT, size).index

    def _expression(self, kind: ExpressionKind, a: int, b: int = 0) -> Size:
        expression = ExpressionSpec(kind, a, b)
        if expression not in self.expressions:
            self.expressions.append(expression)
        return Size(self.expressions.index(expression))


def _combine(kind: ExpressionKind, a: int, b: int) -> int:
    return {
        ExpressionKind.ADD: lambda: a + b,
        ExpressionKind.SUB: lambda: a - b,
        ExpressionKind.MUL: lambda: a * b,
        ExpressionKind.FLOORDIV: lambda: a // b,
        ExpressionKind.MOD: lambda: a % b,
        ExpressionKind.MIN: lambda: min(a, b),
        ExpressionKind.MAX: lambda: max(a, b),
    }[kind]()


def split(values: Sequence["Size | Number"]) -> tuple[tuple[int | Number, ...], int]:
    """Return the numbers of a shape or an op, with the index of an expression for each size, and the mask of those."""
    mask = sum(1 << at for at, value in enumerate(values) if isinstance(value, Size))
    return tuple(value.index if isinstance(value, Size) else value for value in values), mask
