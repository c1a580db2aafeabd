"""Bounds of sizes hold at every size of a range, also where no sample would show it."""

import itertools

import numpy as np
import pytest
from alcove.runtime.compiler.boxes import interval_of, most_elements
from alcove.runtime.compiler.capture import Symbol
from alcove.runtime.compiler.expressions import Expression, Kind, evaluate
from alcove.runtime.compiler.ranges import rows_of

N, M, K = (Expression("symbol", place) for place in range(3))


def number(value: int) -> Expression:
    """Return the expression of a number."""
    return Expression("constant", value)


def make(kind: Kind, a: Expression, b: Expression | int) -> Expression:
    """Return the expression of two operands."""
    return Expression(kind, a, number(b) if isinstance(b, int) else b)


def test_most_of_a_product_that_peaks_inside_is_exact() -> None:
    """N (100,001 - n) has its most at 50,000 and 50,001."""
    assert most_elements([N, Expression("sub", number(100_001), N)], [1], [100_000]) == 50_000 * 50_001


def test_one_size_of_many_thousands_is_found() -> None:
    """A thousand times as long where n % 50,021 is 50,020, which no row of the sample is."""
    longer = make("floordiv", make("mod", N, 50_021), 50_020)
    length = make("add", make("mul", longer, 999), 1)
    rows = rows_of([Symbol("n", 1, 90_000, "x", 0, None)])
    assert not (rows % 50_021 == 50_020).any()
    assert most_elements([length, 4], [1], [90_000]) == 4000


def test_monotone_sizes_of_three_symbols_have_their_most_at_the_bounds() -> None:
    """Halves, sums and what is left, in the first box or the few beside the corner."""
    half = make("sub", N, make("floordiv", N, 2))
    sizes: list[Expression | int] = [half, Expression("add", M, K), make("floordiv", make("add", K, 7), 8), 3]
    assert most_elements(sizes, [1, 1, 1], [100_000] * 3) == 50_000 * 200_000 * 12_500 * 3


def test_three_symbols_that_peak_inside_have_a_bound_close_above() -> None:
    """No size exceeds it, and it is less than a tenth too much."""
    sizes = [make("add", make("mul", make("sub", number(1001), each), each), 1) for each in (N, M, K)]
    exact = (500 * 501 + 1) ** 3
    found = most_elements(sizes, [1, 1, 1], [1000] * 3)
    assert exact * (1 - 1e-9) <= found <= exact * 1.1


@pytest.mark.parametrize("kind", ["add", "sub", "mul", "floordiv", "mod", "min", "max"])
def test_interval_holds_every_value_of_its_box(kind: Kind) -> None:
    """Of each kind, with numbers below 0 too."""
    expression = Expression(
        kind, make("sub", N, 5), make("add", M, 1) if kind in {"floordiv", "mod"} else make("sub", M, 3)
    )
    for low, high in [((1, 1), (9, 6)), ((4, 2), (4, 2)), ((2, 3), (8, 3))]:
        least, most = interval_of(expression, np.array([low]), np.array([high]))
        spans = [range(one, last + 1) for one, last in zip(low, high, strict=True)]
        values = [evaluate(expression, sizes) for sizes in itertools.product(*spans)]
        assert least[0] <= min(values) <= max(values) <= most[0]
