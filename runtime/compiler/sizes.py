"""Defines sizes that vary: whole numbers that carry what they follow from.

A graph is lowered at given sizes, and a `Size` is the number that it has there, together with its term (`terms.py`).
Arithmetic keeps terms.  Two sizes are equal if they are equal at all sizes, so that no rule takes a shortcut that holds
at some of them alone; an order that is not the same at all sizes is recorded (`Space.guards`), and each answer to it is
lowered once.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from alcove.runtime.compiler.expressions import FUNCTIONS, Kind
from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.terms import Space, Term


class Size(int):
    """A whole number that follows from sizes: the number that it is now, with its term."""

    term: Term

    def __new__(cls, number: int, term: Term) -> "Size":
        """Return `number` with its term."""
        size = super().__new__(cls, number)
        size.term = term
        return size

    def __deepcopy__(self, _memo: object) -> "Size":
        """Return it: terms are one."""
        return self

    def __eq__(self, other: object) -> bool:
        """Whether they are equal at all sizes."""
        if isinstance(other, Size):
            return self.term is other.term
        return NotImplemented if not isinstance(other, int) else False

    def __ne__(self, other: object) -> bool:
        """Whether they differ at some sizes."""
        return not self == other

    __hash__ = int.__hash__

    def __bool__(self) -> bool:
        """Whether it is other than 0 at some sizes."""
        return True

    def __lt__(self, other: int) -> bool:
        """Whether it is less now."""
        return _is_less(self, other, int.__lt__(self, other))

    def __gt__(self, other: int) -> bool:
        """Whether it is more now."""
        return _is_less(other, self, int.__gt__(self, other))

    def __le__(self, other: int) -> bool:
        """Whether it is no more now."""
        return not _is_less(other, self, int.__gt__(self, other))

    def __ge__(self, other: int) -> bool:
        """Whether it is no less now."""
        return not _is_less(self, other, int.__lt__(self, other))

    def __neg__(self) -> int:
        """Return 0 less it."""
        return _combine("sub", 0, self)

    def __pos__(self) -> int:
        """Return it."""
        return self

    def __abs__(self) -> int:
        """Return its distance from 0."""
        return largest(self, -self)

    def __divmod__(self, other: int) -> tuple[int, int]:
        """Return quotient and remainder."""
        return self // other, self % other

    def __rdivmod__(self, other: int) -> tuple[int, int]:
        """Return quotient and remainder."""
        return other // self, other % self


def _is_less(one: Any, other: Any, now: Any) -> bool:
    space = one.term.space if isinstance(one, Size) else other.term.space if isinstance(other, Size) else None
    if space is None or not isinstance(one, int) or not isinstance(other, int):
        return bool(now)  # beside a float it is a number of bytes or of steps, which costs are made of
    known = space.is_less(term_of(space, one), term_of(space, other))
    return bool(now) if known is None else known


def term_of(space: Space, number: int) -> Term:
    """Return the term of a number."""
    return number.term if isinstance(number, Size) else space.constant(number)


def size_of(space: Space, expression: Any, number: int) -> int:
    """Return `number`, what one of torch's expressions (sympy) is now, with its term."""
    term = space.read(expression)
    return number if term is None or term.is_constant else Size(number, term)


def _combine(kind: Kind, a: int, b: int) -> int:
    space = a.term.space if isinstance(a, Size) else b.term.space if isinstance(b, Size) else None
    number = FUNCTIONS[kind](int.__int__(a), int.__int__(b))
    if space is None:
        return number
    term = space.make(kind, term_of(space, a), term_of(space, b))
    return term.low if term.is_constant else Size(number, term)


def _operators(kind: Kind) -> tuple[Callable[[int, Any], Any], Callable[[int, Any], Any]]:
    """Return the methods for `self kind other` and `other kind self`."""

    def forward(self: int, other: Any) -> Any:
        return _combine(kind, self, other) if isinstance(other, int) else NotImplemented

    def backward(self: int, other: Any) -> Any:
        return _combine(kind, other, self) if isinstance(other, int) else NotImplemented

    return forward, backward


for _kind in ("add", "sub", "mul", "floordiv", "mod"):
    _forward, _backward = _operators(_kind)
    setattr(Size, f"__{_kind}__", _forward)
    setattr(Size, f"__r{_kind}__", _backward)


def whole(number: Any) -> int:
    """Return a number as a whole one, as `int` does; a size stays what it is."""
    return number if isinstance(number, Size) else int(number)


def smallest(one: int, other: int) -> int:
    """Return the smaller of two numbers, at every size."""
    return _pick("min", one, other)


def largest(one: int, other: int) -> int:
    """Return the larger of two numbers, at every size."""
    return _pick("max", one, other)


def _pick(kind: Kind, one: int, other: int) -> int:
    if isinstance(one, Size) or isinstance(other, Size):
        return _combine(kind, one, other)
    return FUNCTIONS[kind](one, other)


def is_at_most(one: int, other: int) -> bool:
    """Return whether a number is no more than another, at all sizes; it asks nothing that changes with them."""
    space = one.term.space if isinstance(one, Size) else other.term.space if isinstance(other, Size) else None
    if space is None:
        return one <= other
    a, b = term_of(space, one), term_of(space, other)
    return a.high <= b.low or (a.low <= b.high and bool((a.values <= b.values).all()))


def call_with_sizes(name: str, function: Callable[..., int], **numbers: int) -> int:
    """Return what a function of the kernels gives for numbers of which some may be sizes."""
    plain = {key: int.__int__(number) for key, number in numbers.items()}
    result = function(**plain)
    terms = {key: number.term for key, number in numbers.items() if isinstance(number, Size)}
    if not terms:
        return result
    fixed = {key: number for key, number in plain.items() if key not in terms}
    space = next(iter(terms.values())).space
    term = space.tabulate(f"{name} {fixed}", lambda **varying: function(**fixed, **varying), terms)
    return term.low if term.is_constant else Size(result, term)


def values_where_equal(one: int, other: int) -> list[int]:
    """Return the values of `one` at those of all sizes where it is equal to `other`, each once."""
    space = one.term.space if isinstance(one, Size) else other.term.space if isinstance(other, Size) else None
    if space is None:
        return [one] if one == other else []
    a, b = (np.broadcast_to(term_of(space, number).values, (len(space.rows),)) for number in (one, other))
    return [int(value) for value in np.unique(a[a == b])]


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which shapes are broadcast; torch has checked that they can be."""
    rank = max(map(len, shapes), default=0)
    result = []
    for axis in range(rank):
        sizes = [shape[axis - rank] for shape in shapes if axis - rank >= -len(shape)]
        wide = [size for size in sizes if size != 1]
        result.append(next((size for size in wide if isinstance(size, Size)), wide[0] if wide else 1))
    return tuple(result)


def without_terms(graph: Graph) -> Graph:
    """Return the graph with the numbers that its sizes are now, for what is chosen by cost."""
    values = {key: replace(value, shape=tuple(map(int, value.shape))) for key, value in graph.values.items()}
    return replace(graph, values=values)
