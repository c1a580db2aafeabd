"""Sizes keep what they follow from through arithmetic, and are equal only if they are equal at all sizes."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
from alcove.runtime.compiler.capture import Symbol
from alcove.runtime.compiler.expressions import Expression, evaluate, evaluate_all
from alcove.runtime.compiler.sizes import (
    Size,
    broadcast_shapes,
    call_with_sizes,
    is_at_most,
    largest,
    size_of,
    smallest,
    values_where_equal,
    whole,
)
from alcove.runtime.compiler.terms import Space

N, M = sympy.Symbol("n", integer=True, positive=True), sympy.Symbol("m", integer=True, positive=True)


def make(n: int = 7, m: int = 5, most: int = 33) -> tuple[Space, int, int]:
    """Return a space of two symbols with the sizes that they have now."""
    space = Space([Symbol("n", 1, most, "x", 0, N), Symbol("m", 2, 9, "y", 0, M)])
    return space, size_of(space, N, n), size_of(space, M, m)


FORMULAS: dict[str, Callable[[int, int], int]] = {
    "sum": lambda n, m: 3 + n + m - 1,
    "product": lambda n, m: 2 * n * m,
    "quotient": lambda n, _: (n + 3) // 4,
    "remainder of a negative": lambda n, m: -n % m,
    "divmod": lambda n, m: divmod(n, m)[0] * 10 + divmod(n, m)[1],
    "distance": lambda n, m: abs(n - m),
    "bounds": lambda n, m: smallest(largest(n - 4, 0), m),
    "elements": lambda n, m: math.prod((2, n, m)) + sum((n, m, 1)),
}


@pytest.mark.parametrize("most", [33, 100_000])
@pytest.mark.parametrize("name", FORMULAS)
def test_arithmetic_has_the_values_of_its_expression(name: str, most: int) -> None:
    """The number now, the values at all rows and what a device evaluates are one."""
    space, n, m = make(most=most)
    found = FORMULAS[name](n, m)
    assert isinstance(found, Size)
    assert int(found) == FORMULAS[name](7, 5)
    expected = [FORMULAS[name](*row) for row in space.rows.tolist()]
    assert found.term.values.tolist() == expected
    assert found.term.low <= min(expected) <= max(expected) <= found.term.high
    assert found.term.expression is not None
    assert evaluate(found.term.expression, (7, 5)) == int(found)
    columns = [space.rows[:, 0], space.rows[:, 1]]
    assert evaluate_all(found.term.expression, columns).tolist() == expected


@pytest.mark.parametrize("most", [33, 100_000])
def test_equal_means_at_all_sizes(most: int) -> None:
    """Not the number that it is now, and not another size that is as large now."""
    _, n, m = make(5, 5, most)
    assert n + n == 2 * n
    assert (n * 2) // 2 == n
    assert (n + 1) * (n - 1) == n * n - 1
    assert n not in (5, m)
    assert (n, 3) != (5, 3)
    assert n - n == 0
    assert type(n - n) is int
    assert n != 1
    assert bool(n - 5)


def test_orders_that_differ_are_recorded_with_their_answers() -> None:
    """Those that hold at all sizes, or at none, are not."""
    space, n, m = make()
    assert n > 0
    assert n < n + 1
    assert m >= 2
    assert not m < 2
    assert not space.guards
    assert n < 8
    assert not n < m
    answers = list(space.guards.values())
    assert [answer.tolist() for answer in answers] == [
        (space.rows[:, 0] < 8).tolist(),
        (space.rows[:, 0] < space.rows[:, 1]).tolist(),
    ]


def test_order_at_all_sizes_asks_nothing() -> None:
    """For what is chosen once for a whole program."""
    space, n, m = make()
    assert is_at_most(n, n * m)
    assert not is_at_most(n, m)
    assert is_at_most(3, 4)
    assert not space.guards


def test_torchs_expressions_are_read() -> None:
    """Also those of floats, where a fraction has the same values."""
    space, n, _ = make()
    from torch.utils._sympy.functions import FloorDiv, FloorToInt, Mod, ToFloat

    assert size_of(space, FloorDiv(N + 1, 2), 4) == (n + 1) // 2
    assert size_of(space, Mod(N, 3), 1) == n % 3
    scaled = size_of(space, FloorToInt(ToFloat(N) * 0.7), 4)
    assert isinstance(scaled, Size)
    assert scaled.term.expression is not None
    columns = [space.rows[:, 0], space.rows[:, 1]]
    assert evaluate_all(scaled.term.expression, columns).tolist() == [int(n * 0.7) for n in space.rows[:, 0].tolist()]
    other = sympy.Symbol("u", integer=True)
    assert type(size_of(space, other, 3)) is int


@pytest.mark.parametrize("most", [33, 100_000])
def test_rounded_quotients_have_the_values_of_python(most: int) -> None:
    """Of one size and of two, negative ones too; ties go to the even number."""
    from torch.utils._sympy.functions import CeilToInt, FloorToInt, IntTrueDiv, RoundToInt, TruncToInt

    space, _, _ = make(most=most)
    roundings: dict[Any, Callable[[float], int]] = {
        FloorToInt: math.floor,
        CeilToInt: math.ceil,
        RoundToInt: round,
        TruncToInt: math.trunc,
    }
    quotients: list[Callable[[Any, Any], tuple[Any, Any]]] = [
        lambda n, _: (n, 2),
        lambda n, _: (3 * n + 1, 4),
        lambda n, m: (n, m),
        lambda n, _: (n - 40, 6),
    ]
    columns = [space.rows[:, 0], space.rows[:, 1]]
    for symbolic, plain in roundings.items():
        for quotient in quotients:
            term = space.read(symbolic(IntTrueDiv(*quotient(N, M))))
            assert term is not None
            expected = [plain(above / below) for above, below in (quotient(*row) for row in space.rows.tolist())]
            assert term.values.tolist() == expected
            if term.expression is not None:
                assert evaluate_all(term.expression, columns).tolist() == term.values.tolist()


def test_functions_of_kernels_have_values_and_no_expression() -> None:
    """By all that they are given; one that does not vary is a number."""
    space, n, m = make()
    found = call_with_sizes("room", lambda a, b: a**2 + b, a=n, b=3)
    assert isinstance(found, Size)
    assert found == call_with_sizes("room", lambda a, b: a**2 + b, a=n, b=3)
    assert found != call_with_sizes("room", lambda a, b: a**2 + b, a=n, b=4)
    assert found.term.expression is None
    assert found.term.values.tolist() == [row[0] ** 2 + 3 for row in space.rows.tolist()]
    assert type(call_with_sizes("room", lambda a: min(a, 1), a=m)) is int


def test_shapes_broadcast_to_the_size_that_varies() -> None:
    """One gives way."""
    _, n, m = make()
    assert broadcast_shapes((n, 1), (m,), (1, 1, 1)) == (1, n, m)


def test_where_two_sizes_meet() -> None:
    """The values there, each once."""
    _, n, m = make()
    assert values_where_equal(n, 2 * m) == [4, 6, 8, 10, 12, 14, 16, 18]
    assert values_where_equal(3, 3) == [3]


def test_size_stays_what_it_is_when_it_is_copied_and_made_whole() -> None:
    """`int` and numpy make numbers of it."""
    _, n, _ = make()
    copied: Any = copy.deepcopy((n,))[0]
    assert copied.term.expression == Expression("symbol", 0)
    assert whole(n) is n
    assert type(int(n)) is int
    assert np.zeros(n).shape == (7,)
    assert n / 2 == 3.5
