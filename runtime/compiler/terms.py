"""Defines terms: what a number of a graph follows from, as an expression of sizes that vary and by its values.

Terms are one if their values are: at every size where the rows are all sizes, and as polynomials where they are not.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import sympy
from alcove.runtime.compiler.expressions import FUNCTIONS, ON_ARRAYS, Expression, Kind, Vector
from alcove.runtime.compiler.ranges import rows_of
from alcove.runtime.compiler.symbolic import integers_of
from alcove.runtime.errors import ExportError, Finding

if TYPE_CHECKING:
    from alcove.runtime.compiler.capture import Symbol

_LARGEST: Final = 2**62
"""Beyond this a number is not computed with: a device refuses what overflows 64 bits."""
_LARGEST_POWER: Final = 4
_LARGEST_DENOMINATORS: Final = (2, 4, 8, 10, 16, 32, 100, 128, 1000, 1024, 10000)
"""Of fractions that stand for a float: a scale of 0.7 is one of 7 / 10 wherever both round down to the same."""
_KINDS: Final[Mapping[str, Kind]] = {
    "Add": "add",
    "Mul": "mul",
    "FloorDiv": "floordiv",
    "CleanDiv": "floordiv",
    "Mod": "mod",
    "PythonMod": "mod",
    "Min": "min",
    "Max": "max",
}
"""By the name of sympy's or torch's function."""
_ROUNDINGS: Final = ("FloorToInt", "CeilToInt", "TruncToInt", "RoundToInt")
"""Torch's functions of a real number, such as a quotient of sizes (`math.ceil(n / 4)`)."""
_LARGEST_QUOTIENT: Final = 2**52 - 1
"""Numerators up to it have float64 quotients that are as far from a whole or half number as the true ones."""
_Monomial = tuple[int, ...]
_Polynomial = Mapping[_Monomial, int]


class Term:
    """What a size follows from, one for all sizes that have the same values.

    Attributes:
        space: of all terms that it may meet.
        expression: in the symbols; None where no program can compute it.
        values: at the rows of the space; of a constant, one.
        low: no value is less, at any size.
        high: no value is more.
        polynomial: in symbols, quotients, remainders and bounds; () where the rows are all sizes.
    """

    __slots__ = ("expression", "high", "low", "polynomial", "space", "values")

    def __init__(
        self,
        space: "Space",
        expression: Expression | None,
        values: Vector,
        bounds: tuple[int, int],
        polynomial: _Polynomial,
    ) -> None:
        self.space = space
        self.expression = expression
        self.values = values
        self.low, self.high = bounds
        self.polynomial = polynomial

    @property
    def is_constant(self) -> bool:
        """Whether it is one number at all sizes."""
        return self.low == self.high


class Space:
    """All terms of one program's symbols.

    Attributes:
        symbols: what varies, in order.
        rows: choices of sizes, a column for each symbol.
        is_complete: whether the rows are all choices.
        expressions: the symbols as torch has them.
        guards: orders that rules asked for and that are not the same at all rows, with the answers at these.
    """

    def __init__(self, symbols: "Sequence[Symbol]", borders: Sequence[Sequence[int]] = ()) -> None:
        """Prepare for sizes within the bounds of `symbols`; `borders` are rows around which the rows are close."""
        self.symbols = tuple(symbols)
        self.rows = rows_of(symbols, borders)
        self.is_complete = len(self.rows) == prod(symbol.maximum - symbol.minimum + 1 for symbol in symbols)
        self.guards: dict[tuple[int, int], Any] = {}
        self._by_values: dict[Any, Term] = {}
        self._made: dict[tuple[Kind, int, int], Term] = {}
        self._constants: dict[int, Term] = {}
        self._read: dict[Any, Term | None] = {}
        self._atoms: dict[Any, int] = {}
        self._atom_bounds: list[tuple[int, int]] = []
        self._native: dict[Any, Term] = {}
        self.expressions = {symbol.expression for symbol in symbols}
        self._columns = {symbol.expression: self.rows[:, place] for place, symbol in enumerate(symbols)}
        for place, symbol in enumerate(symbols):
            atom = self._atom(("symbol", place), (symbol.minimum, symbol.maximum))
            expression = Expression("symbol", place)
            term = self._unite(expression, self.rows[:, place], (symbol.minimum, symbol.maximum), {(atom,): 1})
            self._read[symbol.expression] = term

    # -- terms ----------------------------------------------------------------------------------------------------

    def constant(self, number: int) -> Term:
        """Return the term of a number."""
        found = self._constants.get(number)
        if found is None:
            expression = Expression("constant", number)
            found = Term(self, expression, np.array(number, np.int64), (number, number), {(): number} if number else {})
            self._constants[number] = found
        return found

    def make(self, kind: Kind, a: Term, b: Term) -> Term:
        """Return the term of two terms.

        Raises:
            ExportError: its values may have more than 62 bits.
        """
        cache_key = (kind, id(a), id(b))
        found = self._made.get(cache_key)
        if found is None:
            found = self._made[cache_key] = self._make(kind, a, b)
        return found

    def _make(self, kind: Kind, a: Term, b: Term) -> Term:
        if kind in {"min", "max"} and (a.high <= b.low or b.high <= a.low):
            return a if (a.high <= b.low) == (kind == "min") else b
        is_division = kind in {"floordiv", "mod"}
        bounds = _bounds(kind, (a.low, a.high), (b.low, b.high))
        if max(map(abs, bounds)) > _LARGEST:
            reason = "a number that follows from the sizes has more than 62 bits: let the Dims be closer"
            raise ExportError([Finding(op="dynamic_shapes", module_path="", source="", suggestion=reason)])
        with np.errstate(divide="ignore", invalid="ignore"):
            values: Vector = ON_ARRAYS[kind](a.values, b.values)
        is_known = a.expression is not None and b.expression is not None and not (is_division and b.low < 1)
        expression = Expression(kind, a.expression, b.expression) if is_known and a.expression is not None else None
        polynomial = {} if self.is_complete else self._polynomial(kind, a, b, bounds)
        return self._unite(expression, values, bounds, polynomial)

    def _unite(
        self, expression: Expression | None, values: Vector, bounds: tuple[int, int], polynomial: _Polynomial
    ) -> Term:
        """Return the one term of these values."""
        if self.is_complete:
            bounds = int(values.min()), int(values.max())
        elif not set(polynomial) - {()}:
            bounds = polynomial.get((), 0), polynomial.get((), 0)
        else:
            low, high = self._bounds_of(polynomial)
            bounds = max(low, bounds[0]), min(high, bounds[1])
        if bounds[0] == bounds[1]:
            return self.constant(bounds[0])
        values = np.broadcast_to(values, (len(self.rows),))
        cache_key = values.tobytes() if self.is_complete else frozenset(polynomial.items())
        found = self._by_values.get(cache_key)
        if found is None:
            found = self._by_values[cache_key] = Term(self, expression, values, bounds, polynomial)
        elif found.expression is None:
            found.expression = expression
        return found

    # -- polynomials ----------------------------------------------------------------------------------------------

    def _atom(self, name: Any, bounds: tuple[int, int]) -> int:
        if name not in self._atoms:
            self._atoms[name] = len(self._atoms)
            self._atom_bounds.append(bounds)
        return self._atoms[name]

    def _polynomial(self, kind: Kind, a: Term, b: Term, bounds: tuple[int, int]) -> _Polynomial:
        """Return the polynomial of two terms; what is no sum or product of them is one unknown more."""
        result: dict[_Monomial, int] = {}
        if kind in {"add", "sub"}:
            result = dict(a.polynomial)
            for monomial, factor in b.polynomial.items():
                result[monomial] = result.get(monomial, 0) + (factor if kind == "add" else -factor)
        elif kind == "mul":
            for one, factor in a.polynomial.items():
                for other, second in b.polynomial.items():
                    both = tuple(sorted(one + other))
                    result[both] = result.get(both, 0) + factor * second
        elif kind in {"floordiv", "mod"} and b.is_constant and b.low > 0:
            whole = {monomial: factor // b.low for monomial, factor in a.polynomial.items() if factor % b.low == 0}
            rest = {monomial: factor for monomial, factor in a.polynomial.items() if factor % b.low}
            if not rest or set(rest) == {()}:
                result = whole | ({(): rest[()] // b.low} if rest else {})
                if kind == "mod":
                    result = {(): rest[()] % b.low} if rest else {}
            else:
                divided = (kind, frozenset(a.polynomial.items()), b.low)
                result = {(self._atom(divided, bounds),): 1}
        else:
            left, right = frozenset(a.polynomial.items()), frozenset(b.polynomial.items())
            name: Any = (kind, left, right)
            if kind in {"min", "max"}:
                name = (kind, frozenset({left, right}))
            result = {(self._atom(name, bounds),): 1}
        return {monomial: factor for monomial, factor in result.items() if factor}

    def _bounds_of(self, polynomial: _Polynomial) -> tuple[int, int]:
        low = high = 0
        for monomial, factor in polynomial.items():
            ends = (1, 1)
            for atom in monomial:
                ends = _bounds("mul", ends, self._atom_bounds[atom])
            ends = _bounds("mul", ends, (factor, factor))
            low, high = low + ends[0], high + ends[1]
        return low, high

    # -- what torch says ------------------------------------------------------------------------------------------

    def read(self, expression: Any) -> Term | None:
        """Return the term of one of torch's expressions (sympy); None if it has other symbols, or no integer values."""
        if expression not in self._read:
            self._read[expression] = self._parse(expression)
        return self._read[expression]

    def _parse(self, expression: Any) -> Term | None:
        if expression.is_Integer:
            return self.constant(int(expression))
        if not expression.free_symbols or expression.free_symbols - set(self._columns):
            return None
        kind = _KINDS.get(type(expression).__name__)
        if kind is not None:
            return self._chain(kind, [self.read(part) for part in expression.args])
        rounding = type(expression).__name__
        if rounding in _ROUNDINGS and type(expression.args[0]).__name__ == "IntTrueDiv":
            quotient = self._quotient(rounding, *map(self.read, expression.args[0].args))
            if quotient is not None:
                return quotient
        if isinstance(expression, sympy.Pow):
            base, power = expression.args
            if power.is_Integer and 1 <= int(power) <= _LARGEST_POWER:
                return self._chain("mul", [self.read(base)] * int(power))
        values = integers_of(expression, self._columns)
        return None if values is None else self._of_values(expression, values)

    def _chain(self, kind: Kind, terms: Sequence[Term | None]) -> Term | None:
        result = terms[0]
        for term in terms[1:]:
            if result is None or term is None:
                return None
            result = self.make(kind, result, term)
        return result

    def _quotient(self, rounding: str, a: Term | None, b: Term | None) -> Term | None:
        """Return the rounded quotient of two terms; None where whole numbers may round otherwise."""
        if a is None or b is None or b.low < 1 or max(abs(a.low), abs(a.high)) > _LARGEST_QUOTIENT:
            return None
        one = self.constant(1)
        if rounding == "FloorToInt" or (rounding == "TruncToInt" and a.low >= 0):
            return self.make("floordiv", a, b)
        if rounding == "CeilToInt":
            return self.make("floordiv", self.make("add", a, self.make("sub", b, one)), b)
        if rounding == "TruncToInt":
            return None
        # To the nearest, and of two to the even one: (2 a + b) // (2 b), less 1 where there is no rest and it is odd.
        two = self.constant(2)
        twice, whole = self.make("add", self.make("mul", two, a), b), self.make("mul", two, b)
        upper = self.make("floordiv", twice, whole)
        is_between = self.make("sub", one, self.make("min", one, self.make("mod", twice, whole)))
        return self.make("sub", upper, self.make("mul", is_between, self.make("mod", upper, two)))

    def _of_values(self, expression: Any, values: Vector) -> Term:
        """Return the term of an expression that a program lacks: a size times a fraction, rounded, where it is one."""
        name = self._atom(("torch", expression), (int(values.min()), int(values.max())))
        opaque = self._unite(None, values, (int(values.min()), int(values.max())), {(name,): 1})
        if opaque.expression is None and not opaque.is_constant:
            opaque.expression = self._fraction(expression, values)
        return opaque

    def _fraction(self, expression: Any, values: Vector) -> Expression | None:
        """Return a size times a whole number by another, with an addend, rounded down, that has these values."""
        numbers = [float(part) for part in expression.atoms(sympy.Float, sympy.Rational) if part != 0]
        factors = numbers + [1 / number for number in numbers]  # n / 2.5 has the number 2.5
        sizes = [part.args[0] for part in expression.atoms(sympy.Function) if type(part).__name__ == "ToFloat"]
        for size in {term for part in sizes or expression.free_symbols if (term := self.read(part)) is not None}:
            for factor in factors:
                for denominator in _LARGEST_DENOMINATORS:
                    scale = Fraction(abs(factor)).limit_denominator(denominator)
                    if scale <= 0 or size.expression is None:
                        continue
                    rests = values * scale.denominator - size.values * scale.numerator
                    if rests.max() - rests.min() >= scale.denominator:
                        continue
                    # values = (size * p + r) // q for every r in [q * values - p * size, ... + q - 1]
                    term = self.make("mul", size, self.constant(scale.numerator))
                    term = self.make("add", term, self.constant(int(rests.max())))
                    return self.make("floordiv", term, self.constant(scale.denominator)).expression
        return None

    # -- what kernels say -----------------------------------------------------------------------------------------

    def tabulate(self, name: str, function: Callable[..., int], terms: Mapping[str, Term]) -> Term:
        """Return the term of a function of terms, by its values; a program cannot compute it.

        Args:
            name: the function's, with all else that it is given.
            function: takes numbers by the names of the terms.
            terms: at least one that varies.
        """
        cache_key = (name, tuple((key, id(term)) for key, term in terms.items()))
        if cache_key not in self._native:
            table = np.stack([np.broadcast_to(term.values, (len(self.rows),)) for term in terms.values()], 1)
            rows, places = np.unique(table, axis=0, return_inverse=True)
            found = [function(**dict(zip(terms, row, strict=True))) for row in rows.tolist()]
            values = np.array(found, dtype=np.int64)[places.reshape(-1)]
            bounds = int(values.min()), int(values.max())
            atom = self._atom(("native", cache_key), bounds)
            self._native[cache_key] = self._unite(None, values, bounds, {(atom,): 1})
        return self._native[cache_key]

    # -- orders ---------------------------------------------------------------------------------------------------

    def is_less(self, a: Term, b: Term) -> bool | None:
        """Return whether `a` is less than `b`; None, and a guard, if that is not the same at all sizes."""
        if a is b:
            return False
        if a.high < b.low or a.low >= b.high:
            return a.high < b.low
        less = np.broadcast_to(a.values < b.values, (len(self.rows),))
        if less.all() or not less.any():
            return bool(less[0])
        self.guards.setdefault((id(a), id(b)), less)
        return None


def _bounds(kind: Kind, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """Return bounds of what a step gives of numbers within bounds."""
    if kind == "mod":
        return (0, max(b[1] - 1, 0)) if b[0] > 0 and not (a[0] >= 0 and a[1] < b[0]) else a if b[0] > 0 else _widest(a)
    if kind == "floordiv" and b[0] < 1:
        return _widest(a)
    if kind == "sub":
        return a[0] - b[1], a[1] - b[0]
    ends = [FUNCTIONS[kind](one, other) for one in a for other in b]
    return min(ends), max(ends)


def _widest(a: tuple[int, int]) -> tuple[int, int]:
    most = max(map(abs, a))
    return -most - 1, most + 1
