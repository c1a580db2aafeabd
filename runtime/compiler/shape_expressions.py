"""Finds how each number of a graph follows from the dynamic sizes, as an expression of them.

A graph is lowered at several sizes; each number that differs between them is found again as an expression of the
symbols: one of torch's own (every size in its graph has one), or a short combination of those.  What was found holds at
every sample; the device evaluates it and checks every operator's rule again with the result.
"""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product
from typing import Any, Final, Literal

import numpy as np
import sympy
from alcove.runtime import _native
from alcove.runtime.compiler.capture import Captured
from alcove.runtime.compiler.distinguishing_sizes import choose_distinguishing_sizes, expressions_of
from numpy.typing import NDArray

_MOST_SCORES: Final = (
    _native.scratch_bytes("attention", length=2**20, span=1, width=1, value_width=1)
    - _native.scratch_bytes("attention", length=0, span=1, width=1, value_width=1)
) // 4
"""Rows of scores that `attention` works on at a time."""

Kind = Literal["constant", "symbol", "add", "sub", "mul", "floordiv", "mod", "min", "max"]


@dataclass(frozen=True)
class Expression:
    """One step of the evaluation of sizes.

    Attributes:
        kind: what it does; "constant" and "symbol" have `a` alone, all others two operands.
        a: a number, the index of a symbol, or an operand.
        b: an operand or None.
    """

    kind: Kind
    a: "int | Expression"
    b: "Expression | None" = None


Vector = NDArray[np.int64]
"""A number's values at all samples."""

_LIMIT: Final = 400  # bases; their pairs are tried too
_FEW: Final = 12  # bases of which sums are tried
_LARGEST_FRACTION: Final = 2**16
_LARGEST_FACTOR: Final = 2**31  # no overflow in the check


@dataclass(frozen=True, eq=False)
class _Term:
    """An expression with its values at the samples."""

    vector: Vector
    expression: Expression

    def times(self, other: "_Term") -> "_Term":
        return _Term(self.vector * other.vector, Expression("mul", self.expression, other.expression))

    def at_most(self, bound: int) -> "_Term":
        capped = Expression("min", self.expression, Expression("constant", bound))
        return _Term(np.minimum(self.vector, bound), capped)

    def in_panels(self) -> "_Term":
        return _Term((self.vector + 15) // 16 * 16, _rounded_up(self.expression, 16))


class ExpressionFitter:
    """Finds expressions for vectors of numbers."""

    def __init__(self, captured: Captured, samples: Sequence[Mapping[str, int]]) -> None:
        """Prepare for numbers at `samples`, each a value for every symbol by name."""
        self._symbols = [symbol.expression for symbol in captured.symbols]
        columns = [[sizes[symbol.name] for sizes in samples] for symbol in captured.symbols]
        self._columns = np.array(columns, dtype=np.int64)
        self._count = len(samples)
        self._bases: dict[bytes, tuple[Vector, Expression]] = {}
        for index in range(len(self._symbols)):
            self._base(self._columns[index], Expression("symbol", index))
        for expression in expressions_of(captured):
            self._torch(expression)
        self._sizes = [_Term(vector, base) for vector, base in self._bases.values()][:_FEW]
        for vector, base in list(self._bases.values()):
            self._base((vector + 15) // 16 * 16, _rounded_up(base, 16))
        self._found: dict[bytes, Expression | None] = {}

    def fit(self, values: Sequence[int]) -> Expression | None:
        """Return an expression with these values at the samples, or None if none was found."""
        vector = np.array(values, dtype=np.int64)
        cache_key = vector.tobytes()
        if cache_key not in self._found:
            self._found[cache_key] = self._search(vector)
        return self._found[cache_key]

    def _base(self, vector: Vector, expression: Expression) -> None:
        if len(self._bases) < _LIMIT:
            self._bases.setdefault(vector.tobytes(), (vector, expression))

    def _torch(self, expression: Any) -> None:
        encoded = self._encode(expression)
        if encoded is None:
            return
        values = [
            int(expression.subs(dict(zip(self._symbols, self._columns[:, at].tolist(), strict=True))))
            for at in range(self._count)
        ]
        self._base(np.array(values, dtype=np.int64), encoded)

    def _encode(self, expression: Any) -> Expression | None:
        """Return one of torch's expressions as ours, or None if it has parts that we lack."""
        if expression.is_Integer:
            return Expression("constant", int(expression))
        if expression in self._symbols:
            return Expression("symbol", self._symbols.index(expression))
        if type(expression).__name__ in {"TruncToInt", "FloorToInt"}:
            return self._match_scale(expression.args[0])
        operands = [self._encode(argument) for argument in expression.args]
        if not operands or any(operand is None for operand in operands):
            return None
        known = [operand for operand in operands if operand is not None]
        if isinstance(expression, sympy.Pow):
            power = expression.args[1]
            return _chain("mul", [known[0]] * int(power)) if power.is_Integer and 1 <= int(power) <= 4 else None
        kind = _KINDS.get(type(expression).__name__)
        return None if kind is None else _chain(kind, known)

    def _match_scale(self, expression: Any) -> Expression | None:
        """Return a size times a fraction, rounded down, or None: what scale factors of images give."""
        factors = [part for part in expression.args if part.is_Number] if expression.is_Mul else []
        sizes = [part for part in expression.args if not part.is_Number]
        if len(factors) != 1 or len(sizes) != 1 or type(sizes[0]).__name__ != "ToFloat":
            return None
        scale, size = Fraction(float(factors[0])), self._encode(sizes[0].args[0])
        if size is None or not 0 < scale.numerator * scale.denominator <= _LARGEST_FRACTION:
            return None  # a product that floats round is no exact fraction
        above = Expression("mul", size, Expression("constant", scale.numerator))
        return Expression("floordiv", above, Expression("constant", scale.denominator))

    def _search(self, vector: Vector) -> Expression | None:
        if (vector == vector[0]).all():
            return Expression("constant", int(vector[0]))
        if vector.tobytes() in self._bases:
            return self._bases[vector.tobytes()][1]
        for base, expression in self._bases.values():
            found = _affine(vector, base, expression)
            if found is not None:
                return found
        for (one, left), (other, right) in combinations_with_replacement(self._bases.values(), 2):
            found = _affine(vector, one * other, Expression("mul", left, right))
            if found is not None:
                return found
        for terms in self._sums():
            found = _combine(vector, terms)
            if found is not None:
                return found
        return None

    def _sums(self) -> Iterator[list[_Term]]:
        """Yield what is worth adding up: where the last of some rows begins, and how much room attention works in."""
        for first, second in combinations(self._sizes, 2):
            yield [first.times(second), first, second]
        for length, span in product(self._sizes, repeat=2):
            yield [length.at_most(_MOST_SCORES).times(span), span.in_panels(), span]


_KINDS: Final[dict[str, Kind]] = {
    "Add": "add",
    "Mul": "mul",
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "Mod": "mod",
    "PythonMod": "mod",
    "Min": "min",
    "Max": "max",
}


def _affine(vector: Vector, base: Vector, expression: Expression) -> Expression | None:
    """Return `a * base + b` with the values of `vector`, or None; a and b are integers, or 1 / a is one."""
    low, high = int(base.argmin()), int(base.argmax())
    run = int(base[high] - base[low])
    if run == 0:
        return None
    rise = int(vector[high] - vector[low])
    if rise % run == 0:
        factor, divisor = rise // run, 1
    elif rise != 0 and run % rise == 0:
        factor, divisor = 1, run // rise
    else:
        return None
    if divisor < 1:
        return None
    offset = int(vector[low] - base[low] * factor // divisor)
    if not (base * factor // divisor + offset == vector).all():
        return None
    result = expression
    if factor != 1:
        result = Expression("mul", result, Expression("constant", factor))
    if divisor != 1:
        result = Expression("floordiv", result, Expression("constant", divisor))
    return result if offset == 0 else Expression("add", result, Expression("constant", offset))


def _combine(vector: Vector, terms: Sequence[_Term]) -> Expression | None:
    """Return a sum of whole multiples of `terms` and of 1 with the values of `vector`, or None."""
    matrix = np.stack([*(term.vector for term in terms), np.ones_like(vector)], axis=1)
    if len(vector) <= matrix.shape[1]:
        return None  # anything fits
    factors = np.rint(np.linalg.lstsq(matrix.astype(np.float64), vector.astype(np.float64), rcond=None)[0])
    if not (np.abs(factors) < _LARGEST_FACTOR).all() or not (matrix @ factors.astype(np.int64) == vector).all():
        return None
    multiples = [
        Expression("mul", term.expression, Expression("constant", int(factor)))
        for term, factor in zip(terms, factors[:-1], strict=True)
        if factor
    ]
    return _chain("add", [*multiples, Expression("constant", int(factors[-1]))])


def _rounded_up(expression: Expression, multiple: int) -> Expression:
    raised = Expression("add", expression, Expression("constant", multiple - 1))
    step = Expression("constant", multiple)
    return Expression("mul", Expression("floordiv", raised, step), step)


def _chain(kind: Kind, operands: Sequence[Expression]) -> Expression:
    result = operands[0]
    for operand in operands[1:]:
        result = Expression(kind, result, operand)
    return result


def evaluate(expression: Expression, sizes: Sequence[int]) -> int:
    """Return the value of an expression where the symbols have `sizes`, as the device computes it."""
    if not isinstance(expression.a, Expression):
        return sizes[expression.a] if expression.kind == "symbol" else expression.a
    operands = [evaluate(operand, sizes) for operand in (expression.a, expression.b) if operand is not None]
    return _FUNCTIONS[expression.kind](*operands)


def evaluate_all(expression: Expression, columns: Sequence[Vector]) -> Vector:
    """Return the values of an expression at many sizes, a column for each symbol."""
    if not isinstance(expression.a, Expression):
        constant = np.full(len(columns[0]), 0 if expression.kind == "symbol" else expression.a, dtype=np.int64)
        return columns[expression.a] if expression.kind == "symbol" else constant
    operands = [evaluate_all(operand, columns) for operand in (expression.a, expression.b) if operand is not None]
    result: Vector = _ON_ARRAYS[expression.kind](*operands)
    return result


_FUNCTIONS: Final[dict[Kind, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
}
_ON_ARRAYS: Final[dict[Kind, Callable[[Any, Any], Any]]] = {**_FUNCTIONS, "min": np.minimum, "max": np.maximum}


def samples_of(captured: Captured) -> list[dict[str, int]]:
    """Return the sizes at which a graph is lowered to find its expressions: the bounds, and values between.

    Each symbol takes its bounds while the others stay in the middle, then all move together by different strides, so
    that no two symbols keep a fixed relation.  A size of 1 is left out where there are others: rules take shortcuts for
    it (`ones_of`).
    """
    bounds = {s.name: (min(max(s.minimum, 2), s.maximum), s.maximum) for s in captured.symbols}
    middle = _middle(captured)
    samples = [{name: high for name, (_, high) in bounds.items()}, {name: low for name, (low, _) in bounds.items()}]
    samples += [middle | {name: bound} for name, pair in bounds.items() for bound in pair]
    for step in range(1, 5):
        samples.append(
            {
                name: low + (high - low) * ((step * (2 * place + 3)) % 11) // 11
                for place, (name, (low, high)) in enumerate(bounds.items())
            }
        )
    samples = _unique(samples)
    return samples + choose_distinguishing_sizes(captured, samples)


def ones_of(captured: Captured) -> list[dict[str, int]]:
    """Return samples with a size of 1: of all symbols that may be 1, and of each by itself; none if none may."""
    ones = {s.name: 1 for s in captured.symbols if s.minimum == 1 < s.maximum}
    return _unique([_middle(captured) | part for part in (ones, *({name: 1} for name in ones)) if part])


def beyond_of(captured: Captured) -> list[dict[str, int]]:
    """Return samples with a size of 3 where only 1 and 2 are allowed: one size by itself shows no rule."""
    pairs = {s.name: 3 for s in captured.symbols if (s.minimum, s.maximum) == (1, 2)}
    others = (_middle(captured), captured.largest())
    return _unique([other | part for part in (pairs, *({name: 3} for name in pairs)) if part for other in others])


def _middle(captured: Captured) -> dict[str, int]:
    return {s.name: (min(max(s.minimum, 2), s.maximum) + s.maximum) // 2 for s in captured.symbols}


def _unique(samples: Sequence[dict[str, int]]) -> list[dict[str, int]]:
    return [sizes for place, sizes in enumerate(samples) if sizes not in samples[:place]]
