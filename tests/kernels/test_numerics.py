"""Linear, embedding bags, softmax, relu and top-k compute what docs/format.md says, by a reference written from it.

In exact fractions, with one rounding for each step that rounds. The machine's best kernels answer here; that the others
give the same bits is shown by test_isa_agreement.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from alcove.runtime import load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import PLAIN_LINEAR, RELU, Assembly
from numpy.typing import NDArray

Floats = NDArray[np.float32]
CANONICAL_NAN = 0x7FC00000


def to_f32(value: Fraction) -> np.float32:
    """The float32 nearest to `value`, ties to even; infinite beyond the range."""
    if value == 0:
        return np.float32(0)
    exponent = max(math.floor(math.log2(abs(value))) - 23, -149)
    while abs(value) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    while abs(value) < Fraction(2) ** (exponent + 23) and exponent > -149:
        exponent -= 1
    steps = round(value / Fraction(2) ** exponent)
    with np.errstate(over="ignore"):
        return np.float32(math.ldexp(steps, exponent))


def exact(value: np.float32) -> Fraction:
    """A finite float as a fraction."""
    return Fraction(float(value))


def add(a: np.float32, b: np.float32) -> np.float32:
    """One rounded addition."""
    return to_f32(exact(a) + exact(b))


def multiply(a: np.float32, b: np.float32) -> np.float32:
    """One rounded multiplication."""
    return to_f32(exact(a) * exact(b))


def fma(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """One multiplication and one addition, rounded once."""
    return to_f32(exact(a) * exact(b) + exact(c))


def random_floats(random: np.random.Generator, *shape: int) -> Floats:
    """Numbers of very different sizes, so that every rounding counts."""
    return (random.standard_normal(shape) * 2.0 ** random.integers(-12, 12, shape)).astype(np.float32)


def same(ours: Floats, expected: Sequence[np.float32] | Floats) -> bool:
    """Equal values; the sign of a zero is compared by its bits."""
    return bool((ours.ravel().view(np.uint32) == np.array(expected, np.float32).ravel().view(np.uint32)).all())


def test_rounding_of_the_tests_is_that_of_the_processor() -> None:
    """A test for the test: products and sums of doubles that float32 arithmetic rounds once."""
    random = np.random.default_rng(3)
    a, b = random_floats(random, 2000), random_floats(random, 2000)
    tiny = (random.standard_normal(200) * 2.0 ** random.integers(-150, -120, 200)).astype(np.float32)
    assert same(a * b, [multiply(x, y) for x, y in zip(a, b, strict=True)])
    assert same(a + b, [add(x, y) for x, y in zip(a, b, strict=True)])
    assert (tiny * np.float32(0.37) == [multiply(x, np.float32(0.37)) for x in tiny]).all()


def test_linear_is_bias_then_fma_in_order() -> None:
    """One accumulator per output."""
    random = np.random.default_rng(4)
    for m, n, k in [(1, 1, 1), (1, 17, 9), (5, 3, 20)]:
        weight, bias, x = random_floats(random, n, k), random_floats(random, n), random_floats(random, m, k)
        build = Assembly()
        packed = build.panels("weight", weight, bias)
        build.output(
            "y",
            build.op(
                "linear", [build.input("x", DType.F32, (m, k)), packed], (DType.F32, (m, n)), attributes=PLAIN_LINEAR
            )[0],
        )
        (ours,) = load(build.program())(x)
        for row in range(m):
            for column in range(n):
                y = bias[column]
                for j in range(k):
                    y = fma(x[row, j], weight[column, j], y)
                assert ours[row, column] == y, (row, column)


def bag(table: "NDArray[np.generic]", scale: Floats | None, mode: int, ids: Sequence[int]) -> Floats:
    """What a text_embedding_bag of this table answers."""
    build = Assembly()
    inputs = [build.constant("table", table)]
    if scale is not None:
        inputs.append(build.constant("scale", scale))
    argument = build.input("ids", DType.I32, (1 << 20,), is_ragged=True)
    outputs = build.op("text_embedding_bag", [argument, *inputs], (DType.F32, (1, table.shape[1])), attributes=(mode,))
    build.output("bag", outputs[0])
    answer: Floats = load(build.program())(np.array(ids, np.int32))[0]
    return answer


def test_float_bags_add_rows_in_the_order_of_the_ids() -> None:
    """Plain adds from +0; the mean is one product with the rounded reciprocal."""
    random = np.random.default_rng(5)
    table = random_floats(random, 6, 5)
    for ids in ([], [3], [0, 1, 2, 3, 4, 5, 5, 0], [5, 5, 5], list(random.integers(0, 6, 300))):
        sums = []
        for column in range(5):
            total = np.float32(0)
            for i in ids:
                total = add(total, table[i, column])
            sums.append(total)
        assert same(bag(table, None, 0, ids), sums), ids
        factor = to_f32(Fraction(1, max(1, len(ids))))
        assert same(bag(table, None, 1, ids), [multiply(s, factor) for s in sums]), ids


def test_int8_bags_are_exact_up_to_a_million_rows() -> None:
    """The sum is an exact integer, also where float32 could not hold it; then conversion and products."""
    table = np.array([[-128, 127, 1, -1], [127, -128, 0, 1]], np.int8)
    scale = np.array([0.125, 3.1, 1e-3, -7.0], np.float32)
    for ids in ([], [0], [0] * 255, [1] * 256, [0, 1] * 300, [0] * (1 << 20), [1] * ((1 << 20) - 3) + [0] * 3):
        sums = [sum(int(table[i, c]) * ids.count(i) for i in (0, 1)) for c in range(4)]
        scaled = [multiply(to_f32(Fraction(s)), f) for s, f in zip(sums, scale, strict=True)]
        factor = to_f32(Fraction(1, max(1, len(ids))))
        expected = {0: scaled, 1: [multiply(s, factor) for s in scaled]}
        for mode in (0, 1):
            ours = bag(table, scale, mode, ids)
            if not ids:
                assert not ours.view(np.uint32).any()
            else:
                assert (ours.ravel() == np.array(expected[mode])).all(), (len(ids), mode)


def exponential(x: np.float32) -> np.float32:
    """exp(x) for x <= 0, step by step as the page says."""
    log2e, magic = np.float32(1.44269504088896341), np.float32(12582912.0)
    high, low = np.float32(0.693359375), np.float32(-2.12194440e-4)
    first, *rest = np.array(
        [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1],
        np.float32,
    )
    if x < -87:
        return np.float32(0)
    n = add(fma(x, log2e, magic), np.float32(-magic))
    r = fma(n, np.float32(-low), fma(n, np.float32(-high), x))
    p = first
    for c in rest:
        p = fma(p, r, c)
    y = add(fma(p, multiply(r, r), r), np.float32(1))
    return to_f32(exact(y) * Fraction(2) ** int(n))


def softmax(x: Floats, *, is_log: bool = False) -> Floats:
    """What the operator answers for rows [rows, n]."""
    build = Assembly()
    argument = build.input("x", DType.F32, x.shape)
    build.output("y", build.op("softmax", [argument], (DType.F32, x.shape), attributes=(int(is_log),))[0])
    answer: Floats = load(build.program())(x)[0]
    return answer


def test_softmax_is_the_polynomial_the_tree_and_one_division() -> None:
    """Sixteen lanes, then + 8, + 4, + 2, + 1."""
    random = np.random.default_rng(6)
    for count in (1, 2, 15, 16, 17, 40):
        x = (random.standard_normal(count) * 20).astype(np.float32)
        greatest = x.max()
        e = [exponential(add(value, np.float32(-greatest))) for value in x]
        lanes = [np.float32(0)] * 16
        for i, value in enumerate(e):
            lanes[i % 16] = add(lanes[i % 16], value)
        for width in (8, 4, 2, 1):
            lanes = [add(lanes[i], lanes[i + width]) for i in range(width)]
        expected = [to_f32(exact(value) / exact(lanes[0])) for value in e]
        assert same(softmax(x.reshape(1, -1)), expected), count


@pytest.mark.parametrize("chunk", range(4))
def test_exponential_is_within_two_units_in_the_last_place(chunk: int) -> None:
    """Below -17.4 the other element's 1 swallows exp(x), the sum is 1, and the quotient is exp(x) itself."""
    edges = np.linspace(-87.0, -17.4, 5)
    x = np.linspace(edges[chunk], edges[chunk + 1], 150_000).astype(np.float32)
    rows = np.stack([np.zeros_like(x), x], axis=1)
    ours = softmax(rows)
    assert (ours[:, 0] == 1).all()
    true = np.exp(x.astype(np.float64))
    units = np.abs(ours[:, 1] - true) / np.spacing(true.astype(np.float32))
    assert units.max() < 2.0, f"{units.max()} at {x[units.argmax()]}"


def test_exponential_ends_at_minus_87() -> None:
    """Exactly zero beyond, not a denormal."""
    edge = np.float32(-87)
    ours = softmax(np.array([[0, edge], [0, np.nextafter(edge, np.float32(-100))], [0, -np.inf]], np.float32))
    assert ours[0, 1] > 1e-38
    assert not ours[1:, 1].view(np.uint32).any()


def test_softmax_of_an_impossible_row_is_nan() -> None:
    """NaN, +inf, or nothing but -inf: as in torch; the other rows are not touched."""
    inf, nan = np.inf, np.nan
    x = np.array([[nan, 0, 1], [inf, 0, 1], [-inf, -inf, -inf], [-inf, 0, -inf], [inf, inf, inf]], np.float32)
    ours = softmax(x)
    assert (ours[[0, 1, 2, 4]].view(np.uint32) == CANONICAL_NAN).all()
    assert ours[3].tolist() == [0, 1, 0]


def test_relu_keeps_what_is_not_negative_and_makes_plus_zero() -> None:
    """Denormals and -0 stay, as in eager; negative numbers become +0, NaN the canonical one."""
    bits = np.array([0x80000000, 1, 0x80000001, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345, 0x3F800000], np.uint32)
    build = Assembly()
    x = build.input("x", DType.F32, (8,))
    build.output("y", build.op("unary", [x], (DType.F32, (8,)), attributes=RELU)[0])
    (ours,) = load(build.program())(bits.view(np.float32))
    expected = [0x80000000, 1, 0, 0x7F800000, 0, CANONICAL_NAN, CANONICAL_NAN, 0x3F800000]
    assert ours.view(np.uint32).tolist() == expected


def test_log_softmax_takes_the_logarithm_of_the_sum_off() -> None:
    """Within two units of the exact value; exactly (x - M) - log(S) where S is known."""
    random = np.random.default_rng(9)
    for count in (1, 2, 15, 16, 17, 40):
        x = (random.standard_normal((3, count)) * 20).astype(np.float32)
        wide = x.astype(np.float64)
        true = wide - wide.max(1, keepdims=True)
        true -= np.log(np.exp(true).sum(1, keepdims=True))
        assert np.abs(softmax(x, is_log=True) - true).max() < 1e-5
    for count in range(1, 70):
        x = np.zeros((1, count), np.float32)
        assert (softmax(x, is_log=True) == -np.float32(math.log(count))).all(), count


def test_topk_orders_ties_by_index_and_takes_nan_for_the_greatest() -> None:
    """For random rows with ties, zeros of both signs, infinities and NaN, every k, the greatest and the least."""
    random = np.random.default_rng(8)
    pool = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 3.0], np.float32)
    for n in (1, 2, 5, 12, 40):
        for k in range(1, n + 1):
            x = random.choice(pool, (2, n))
            build = Assembly()
            argument = build.input("x", DType.F32, (2, n))
            for largest in (0, 1):
                both = build.op("topk", [argument], (DType.F32, (2, k)), (DType.I64, (2, k)), attributes=(k, largest))
                build.output(f"values {largest}", both[0])
                build.output(f"indices {largest}", both[1])
            answers = load(build.program())(x)
            for row in range(2):
                for largest in (0, 1):
                    sign = -1 if largest else 1
                    keys = [
                        (sign * bool(np.isnan(v)), sign * np.nan_to_num(v, nan=0.0), i) for i, v in enumerate(x[row])
                    ]
                    order = [i for _, _, i in sorted(keys)][:k]
                    values, indices = answers[2 * largest][row], answers[2 * largest + 1][row]
                    assert indices.tolist() == order, (x, k, largest)
                    expected = np.where(np.isnan(x), np.float32(np.nan), x)[row, order]
                    assert (values.view(np.uint32) == expected.view(np.uint32)).all()
