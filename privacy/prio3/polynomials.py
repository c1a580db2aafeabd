"""Computes with polynomials that are given by their values at the powers of a root of unity.

A polynomial of n values has degree below n; value i is at the i-th power of the principal n-th root of unity.

Source: draft-irtf-cfrg-vdaf, section 6.1.3; derivations in Faz-Hernandez, "Polynomials in the Lagrange basis" (2025).
"""

from collections.abc import Sequence
from functools import lru_cache

from alcove.privacy.prio3.fields import Field


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is at least `n` (>= 1)."""
    return 1 << (n - 1).bit_length()


def ntt(field: Field, coefficients: Sequence[int], n: int) -> list[int]:
    """Return the values of the polynomial with these coefficients (at most `n`, lowest first) at the `n` points.

    After a step for size s, value i of the polynomial of coefficients r, r + n / s, r + 2 n / s … is at i n / s + r.
    """
    modulus = field.modulus
    values = [*coefficients, *[0] * (n - len(coefficients))]
    for evens, odds in _butterflies(field, n):
        turned = [values[place] * root % modulus for place, root in odds]
        low = [(values[place] + other) % modulus for place, other in zip(evens, turned, strict=True)]
        high = [(values[place] - other) % modulus for place, other in zip(evens, turned, strict=True)]
        values = low + high
    return values


@lru_cache(maxsize=64)
def _butterflies(field: Field, n: int) -> tuple[tuple[tuple[int, ...], tuple[tuple[int, int], ...]], ...]:
    """Return for each step of `ntt` where the even parts are, and where the odd parts and the roots they turn by."""
    steps = []
    size = 1
    while size < n:
        roots, count = field.root_powers(2 * size), n // size // 2
        pairs = [(2 * i * count + r, roots[i]) for i in range(size) for r in range(count)]
        steps.append((tuple(place for place, _ in pairs), tuple((place + count, root) for place, root in pairs)))
        size *= 2
    return tuple(steps)


def inverse_ntt(field: Field, values: Sequence[int]) -> list[int]:
    """Return the coefficients of the polynomial with these values, as many as values."""
    n = len(values)
    turned = ntt(field, values, n)
    scale = field.invert(n)
    # The inverse transform is the transform at the inverse roots: the same values in reverse order after the first.
    return [value * scale % field.modulus for value in (turned[:1] + turned[:0:-1])]


def odd_values(field: Field, values: Sequence[int]) -> list[int]:
    """Return the values at the odd powers of the principal 2n-th root of unity, n being the number of `values`.

    With `values`, which are those at the even powers, they are all values at the 2n points.
    """
    n = len(values)
    shifts = field.root_powers(2 * n)
    coefficients = inverse_ntt(field, values)
    moved = [coefficient * shift % field.modulus for coefficient, shift in zip(coefficients, shifts, strict=False)]
    return ntt(field, moved, n)


def extend_to_power_of_2(field: Field, values: Sequence[int]) -> list[int]:
    """Return the given values of a polynomial of degree below len(values), and the rest of those at 2^k points."""
    n = next_power_of_2(len(values))
    modulus = field.modulus
    return [*values, *(dot(row, values) % modulus for row in _extension_rows(field, len(values), n))]


def weights_at(field: Field, n: int, point: int) -> list[int]:
    """Return the n weights whose dot product with a polynomial's n values is its value at `point`.

    `point` must be no n-th root of unity: there the value would say what the polynomial's own values are.
    """
    modulus = field.modulus
    roots = field.root_powers(n)
    differences = [(point - root) % modulus for root in roots]
    # Weight i is root_i (point^n - 1) / (n (point - root_i)).
    scale = (pow(point, n, modulus) - 1) * field.invert(n) % modulus
    inverses = _invert_all(field, differences)
    return [root * scale % modulus * inverse % modulus for root, inverse in zip(roots, inverses, strict=True)]


def dot(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the sum of products, not reduced by a modulus."""
    return sum(one * other for one, other in zip(left, right, strict=True))


def _invert_all(field: Field, elements: list[int]) -> list[int]:
    """Return the inverses, none of the elements being 0, with one inversion (Montgomery's trick)."""
    modulus = field.modulus
    products = [1]
    for element in elements:
        products.append(products[-1] * element % modulus)
    running = field.invert(products[-1])
    inverses = [0] * len(elements)
    for index in range(len(elements) - 1, -1, -1):
        inverses[index] = running * products[index] % modulus
        running = running * elements[index] % modulus
    return inverses


@lru_cache(maxsize=64)
def _extension_rows(field: Field, given: int, n: int) -> tuple[tuple[int, ...], ...]:
    """Return a row for each missing value: its dot product with the `given` first values is the value."""
    modulus = field.modulus
    points = field.root_powers(n)
    known = points[:given]
    scales = [1] * given
    for index, point in enumerate(known):
        for other in known[:index] + known[index + 1 :]:
            scales[index] = scales[index] * (point - other) % modulus
    rows = []
    for point in points[given:]:
        differences = [(point - each) % modulus for each in known]
        product = 1
        for difference in differences:
            product = product * difference % modulus
        inverses = _invert_all(field, [a * b % modulus for a, b in zip(differences, scales, strict=True)])
        rows.append(tuple(product * inverse % modulus for inverse in inverses))
    return tuple(rows)
