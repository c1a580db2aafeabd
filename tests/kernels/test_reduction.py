"""Reductions and norms compute what docs/format.md says, with the same bits on every instruction set.

Written again from that page in numpy's float32, whose single steps round as IEEE 754 does; sums are by sixteen lanes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray

Floats = NDArray[np.float32]
FOLDS = ("sum", "mean", "prod", "max", "min", "argmax", "argmin")
LENGTHS = (1, 2, 4, 5, 15, 16, 17, 31, 33, 64, 100)
COLUMNS = (1, 2, 3, 16, 63, 64, 65, 130)
EPS = 0.01


def floats(random: np.random.Generator, *shape: int) -> Floats:
    """Numbers of very different sizes, so that every rounding counts."""
    return (random.standard_normal(shape) * 2.0 ** random.integers(-8, 8, shape)).astype(np.float32)


def lanes_sum(x: Floats) -> Floats:
    """The sum over axis 0 as the page says: sixteen lanes, then a tree."""
    lanes = np.zeros((16, *x.shape[1:]), np.float32)
    for i, row in enumerate(x):
        lanes[i % 16] += row
    for width in (8, 4, 2, 1):
        lanes = lanes[:width] + lanes[width : 2 * width]
    return np.asarray(lanes[0], np.float32)


def fold_program(shape: tuple[int, ...], first: int, count: int, dtype: DType = DType.F32) -> bytes:
    """Every function of the op reduce that the type allows."""
    build = Assembly()
    x = build.input("x", dtype, shape)
    kept = (*shape[:first], *shape[first + count :])
    for number, name in enumerate(FOLDS):
        if (name == "mean" and dtype is not DType.F32) or (number < 3 and dtype not in {DType.F32, DType.I64}):
            continue
        output = DType.I64 if name.startswith("arg") else dtype
        build.output(name, build.op("reduce", [x], (output, kept), attributes=(number, first, count))[0])
    return build.program()


FREE = (0, 0.0, 0.0)


def norm_program(  # noqa: PLR0917 - what the three operators take
    shape: tuple[int, int, int],
    groups: int,
    mask: int,
    weight: Floats,
    bias: Floats,
    bounds: tuple[int, float, float] = FREE,
) -> bytes:
    """A layer norm, a root mean square norm and a group norm with the same weights."""
    build = Assembly()
    x = build.input("x", DType.F32, shape)
    affine = [build.constant("weight", weight)] if mask & 1 else []
    affine += [build.constant("bias", bias)] if mask & 2 else []
    for is_rms in (0, 1):
        result = build.op("layer_norm", [x, *affine], (DType.F32, shape), attributes=(is_rms, 1, mask, EPS, *bounds))
        build.output(f"layer {is_rms}", result[0])
    result = build.op("group_norm", [x, *affine], (DType.F32, shape), attributes=(groups, mask, EPS, *bounds))
    build.output("group", result[0])
    return build.program()


def test_folds_are_lanes_and_a_tree() -> None:
    """Bit for bit, rows and columns."""
    random = np.random.default_rng(31)
    for n in LENGTHS:
        for inner in COLUMNS:
            x = floats(random, 2, n, inner)
            answers = dict(zip(FOLDS, load(fold_program(x.shape, 1, 1))(x), strict=True))
            total = np.stack([lanes_sum(part) for part in x])
            assert (answers["sum"] == total).all(), (n, inner)
            assert (answers["mean"] == total / np.float32(n)).all()
            assert (answers["max"] == x.max(1)).all()
            assert (answers["min"] == x.min(1)).all()
            assert (answers["argmax"] == x.argmax(1)).all()
            assert (answers["argmin"] == x.argmin(1)).all()


def test_folds_of_integers_wrap_around() -> None:
    """Sums and products modulo 2^64; extremes of every type at its ends."""
    random = np.random.default_rng(32)
    x = random.integers(-(2**63), 2**63, (3, 40, 5), np.int64)
    total, product, greatest, *_ = load(fold_program(x.shape, 1, 1, DType.I64))(x)
    with np.errstate(over="ignore"):
        assert (total == x.sum(1)).all()
        assert (product == x.prod(1)).all()
    assert (greatest == x.max(1)).all()
    for dtype, kind in ((DType.I32, np.int32), (DType.I8, np.int8), (DType.U8, np.uint8)):
        ends = np.iinfo(kind)
        y = random.choice(np.array([ends.min, 0, ends.max], kind), (3, 5, 40))
        answers = load(fold_program(y.shape, 2, 1, dtype))(y)
        for answer, name in zip(answers, FOLDS[3:], strict=True):
            assert (answer == getattr(y, name)(2)).all(), (dtype, name)


def test_norms_are_moments_and_fused_steps() -> None:
    """Bit for bit: groups of one channel, smaller and larger than a block of columns, series of several blocks."""
    random = np.random.default_rng(33)
    shapes = [
        (1, 21, 1),
        (6, 21, 3),
        (40, 5, 40),
        (130, 70, 2),
        (70, 21, 35),
        (192, 21, 1),
        (66, 101, 66),
        (770, 3, 1),
        (8, 1, 2),
    ]
    for channels, positions, groups in shapes:
        for mask in range(4):
            weight, bias = floats(random, channels), floats(random, channels)
            x = floats(random, 2, positions, channels)
            layer, rms, group = load(norm_program(x.shape, groups, mask, weight, bias))(x)
            scale = weight if mask & 1 else np.ones_like(weight)
            shift = bias if mask & 2 else np.full_like(bias, -0.0)
            assert (layer == layer_norm(x, scale, shift)).all(), (channels, mask)
            r = np.float32(1) / np.sqrt(lanes_sum(np.moveaxis(x, 2, 0) ** 2) / np.float32(channels) + np.float32(EPS))
            assert (rms == fma(x * r[..., None], scale, shift)).all(), (channels, mask)
            assert (group == group_norm(x, groups, scale, shift)).all(), (channels, groups, mask)


def test_long_rows_keep_what_roundings_take() -> None:
    """A row of more than 4096 elements, bit for bit."""
    x = floats(np.random.default_rng(36), 1, 2, 20011)
    one, none = np.ones(20011, np.float32), np.full(20011, -0.0, np.float32)
    assert (load(norm_program(x.shape, 1, 0, one, none))(x)[0] == layer_norm(x, one, none)).all()


UNKIND = ("offset 1e4", "offset 1e6", "first 1000 sigma off", "some 1000 sigma off", "ramp", "two values")


@pytest.mark.parametrize("kind", UNKIND)
@pytest.mark.parametrize(("positions", "channels"), [(3, 768), (1, 5000), (4000, 16), (200, 80)])
def test_norms_of_unkind_numbers_are_as_exact_as_those_of_kind_ones(kind: str, positions: int, channels: int) -> None:
    """Four units in the last place of an element of size 1, in any order; two sweeps were 0.1 off at 1e6."""
    random = np.random.default_rng(37)
    x = random.standard_normal((1, positions, channels))
    for axis, count in ((2, channels), (1, positions)):
        some = np.arange(count).reshape(-1, *(1 for _ in range(2 - axis)))
        x += {
            "offset 1e4": 1e4 / 2,
            "offset 1e6": 1e6 / 2,
            "first 1000 sigma off": 1000 * (some == 0),
            "some 1000 sigma off": 1000 * (some < 40) * (count > 40),
            "ramp": some,
            "two values": (random.random(x.shape) < 0.3) * 1.1 - x * (axis == 2),
        }[kind]
    x = x.astype(np.float32)
    one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    layer, _, group = load(norm_program((1, positions, channels), channels // 8, 0, one, zero))(x)
    exact = x.astype(np.float64)
    by_group = exact.reshape(positions, channels // 8, -1)
    expected = (by_group - by_group.mean((0, 2), keepdims=True)) / np.sqrt(by_group.var((0, 2), keepdims=True) + EPS)
    for result, wanted in (
        (layer, (exact - exact.mean(2, keepdims=True)) / np.sqrt(exact.var(2, keepdims=True) + EPS)),
        (group, expected.reshape(x.shape)),
    ):
        assert (np.abs(result - wanted) / (1 + np.abs(wanted))).max() < 2.0**-21


@pytest.mark.parametrize("value", [0.0, 1.1, -3e7, 1e-42, 3e36])
def test_constant_numbers_give_exactly_the_bias(value: float) -> None:
    """Whatever the length; so do rows and series of one element."""
    for positions, channels in ((1, 1), (1, 17), (5, 100), (100, 3), (33, 70), (1, 5000)):
        bias = floats(np.random.default_rng(38), channels)
        x = np.full((2, positions, channels), value, np.float32)
        layer, _, group = load(norm_program(x.shape, 1, 3, np.ones_like(bias), bias))(x)
        assert (layer == bias).all()
        assert (group == bias).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_or_group_that_is_not_finite_is_nan_and_no_other(bad: float) -> None:
    """As in torch; wherever the element stands."""
    for positions, channels in ((1, 5), (9, 16), (40, 100), (2, 5000)):
        one, zero = np.ones(channels, np.float32), np.zeros(channels, np.float32)
        program = load(norm_program((2, positions, channels), channels, 0, one, zero))
        for at in ((0, 0, 0), (1, positions - 1, channels - 1), (0, positions // 2, channels // 2)):
            x = floats(np.random.default_rng(39), 2, positions, channels)
            x[at] = bad
            layer, _, group = program(x)
            assert (np.isnan(layer) == np.isnan(x).any(2, keepdims=True) | np.isinf(x).any(2, keepdims=True)).all()
            assert (np.isnan(group) == np.isnan(x).any(1, keepdims=True) | np.isinf(x).any(1, keepdims=True)).all()


def test_denormal_numbers_are_not_lost() -> None:
    """Differences of denormals are exact; eps decides the rest."""
    x = (np.random.default_rng(40).integers(1, 1000, (1, 40, 33)) * 2.0**-149).astype(np.float32)
    one = np.full(33, 2.0**100, np.float32)
    layer, _, group = load(norm_program(x.shape, 33, 1, one, one))(x)
    exact = x.astype(np.float64)
    for result, axis in ((layer, 2), (group, 1)):
        wanted = (exact - exact.mean(axis, keepdims=True)) / np.sqrt(EPS) * 2.0**100
        assert np.abs(result - wanted).max() < 2.0**-149 * 2.0**100 * 20


def test_norms_keep_within_bounds_and_nan_stays() -> None:
    """A norm with bounds is a norm, then a clamp; the bounds of activation 0 count for nothing."""
    random = np.random.default_rng(35)
    for channels in (6, 70, 130):
        weight, bias, x = floats(random, channels), floats(random, channels), floats(random, 2, 5, channels)
        x[1, 2, 3] = np.nan
        for mask in range(4):
            free = load(norm_program(x.shape, 2, mask, weight, bias, (0, 1.0, 2.0)))(x)
            for low, high in ((0.0, np.inf), (-0.25, 0.5), (-np.inf, 0.125)):
                kept = load(norm_program(x.shape, 2, mask, weight, bias, (1, low, high)))(x)
                for one, other in zip(kept, free, strict=True):
                    np.testing.assert_array_equal(one, np.clip(other, low, high))
                    assert np.isnan(one).any()


def fma(a: Any, b: Any, c: Any) -> Floats:
    """One multiplication and one addition, rounded once: the sum in float64 is rounded to odd first."""
    product, c = np.float64(a) * np.float64(b), np.float64(c)
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    bits = np.asarray(total).view(np.int64)
    away = np.where((lost > 0) == (total > 0), 1, -1)
    odd = np.where((lost != 0) & (bits & 1 == 0), bits + np.where(away > 0, 1, -1), bits)
    return np.asarray(np.asarray(odd, np.int64).view(np.float64).astype(np.float32))


def shift_sums(k: Floats, s: Floats, q: Floats, count: Any, to: Any) -> tuple[Floats, Floats]:
    """The sums of `count` elements about k, about another shift."""
    e = k - to
    t = fma(count, e, s)
    return t, fma(e, s + t, q)


def moments(x: Floats, is_long: bool) -> tuple[Floats, Floats, Floats]:
    """k, S and Q of the series along axis 0."""
    n, k = len(x), x[0]
    s = q = lost = np.zeros_like(k)
    first, end = 0, 4
    while True:
        block_s = block_q = np.zeros_like(k)
        for row in x[first : min(end, n)]:
            d = row - k
            block_s, block_q = block_s + d, fma(d, d, block_q)
        s = s + block_s
        found = block_q + lost if is_long else q + block_q
        if end >= n:
            return k, s, q + found if is_long else found
        to = fma(s, np.float32(1) / np.float32(end), k)
        s, added = shift_sums(k, s, found, np.float32(end), to)
        if is_long:
            total = np.clip(q + added, np.float32(0), np.finfo(np.float32).max)
            lost, q = added - (total - q), total
        else:
            q = added
        k, first, end = to, end, end + min(end, 32)


def merge(k: Floats, s: Floats, q: Floats, counts: Any, total: np.float32) -> tuple[Floats, Floats, Floats]:
    """The series along axis 0 as one."""
    mean = fma(lanes_sum(fma(counts, k - k[0], s)), np.float32(1) / total, k[0])
    s, q = shift_sums(k, s, q, counts, mean)
    return mean, lanes_sum(s), lanes_sum(q)


def scale_of(s: Floats, q: Floats, total: np.float32) -> tuple[Floats, Floats]:
    """r, and what the mean is beside k."""
    part = np.float32(1) / total
    rest = s * part
    variance = np.maximum(fma(-s, rest, q) * part, np.float32(0))
    return np.float32(1) / np.sqrt(variance + np.float32(EPS)), rest


def layer_norm(x: Floats, scale: Floats, shift: Floats) -> Floats:
    """The op's answer, step by step: lane l takes elements l, l + 16, ..., the last lanes what is left."""
    rows, n = np.moveaxis(x, 2, 0), x.shape[2]
    whole, tail = divmod(n, 16)
    if whole == 0:
        k, s, q, counts = rows, np.zeros_like(rows), np.zeros_like(rows), np.ones((n, 1, 1), np.float32)
    else:
        k, s, q = moments(rows[: whole * 16].reshape(whole, 16, *x.shape[:2]), n > 4096)
        d = rows[n - 16 :] - k
        d[: 16 - tail] = 0
        s, q = s + d, fma(d, d, q)
        counts = np.float32(whole) + (np.arange(16) >= 16 - tail).astype(np.float32).reshape(16, 1, 1)
    k, s, q = merge(k, s, q, counts, np.float32(n))
    r, rest = scale_of(s, q, np.float32(n))
    return fma(fma(x - k[..., None], r[..., None], -(rest * r)[..., None]), scale, shift)


def group_norm(x: Floats, groups: int, scale: Floats, shift: Floats) -> Floats:
    """The op's answer, step by step."""
    samples, positions, channels = x.shape
    size = channels // groups
    n = np.float32(positions * size)
    result = np.empty_like(x)
    for sample in range(samples):
        of_channels = np.stack(moments(x[sample], is_long=True)).reshape(3, groups, size)
        k, s, q = np.moveaxis(of_channels, 2, 1)
        if size == 1:
            k, s, q = k[0], s[0], q[0]
        else:
            parts = []
            for c in range(0, size, 64):
                part = slice(c, c + 64)
                count = np.float32(positions * len(k[part]))
                parts.append((count, merge(k[part], s[part], q[part], np.float32(positions), count)))
            so_far, (k, s, q) = parts[0]
            for count, (k2, s2, q2) in parts[1:]:
                total = so_far + count
                mean = fma(s + fma(count, k2 - k, s2), np.float32(1) / total, k)
                (s, q), (t, u) = shift_sums(k, s, q, so_far, mean), shift_sums(k2, s2, q2, count, mean)
                k, s, q, so_far = mean, s + t, q + u, total
        r, rest = scale_of(s, q, n)
        k, r, rest = (np.repeat(v, size) for v in (k, r, rest))
        result[sample] = fma(x[sample] - k, r * scale, fma(-rest, r * scale, shift))
    return result


def isa_cases() -> "dict[str, Any]":
    """Folds and norms of every length and width, of numbers of every kind."""
    random = np.random.default_rng(34)
    strange = np.array([0.0, -0.0, 1e-45, 1e-39, 3e38, np.inf, -np.inf, np.nan, 1.0], np.float32)
    results: dict[str, Any] = {}
    for n in LENGTHS:
        for inner in COLUMNS:
            program = fold_program((2, n, inner), 1, 1)
            weight, bias = floats(random, inner), floats(random, inner)
            groups = max(g for g in (1, 2, 5, 16, 65) if inner % g == 0)
            norms = norm_program((2, n, inner), groups, 3, weight, bias, (n % 2, -0.5, 0.75))
            plain = floats(random, 2, n, inner)
            odd = np.where(random.random(plain.shape) < 0.1, random.choice(strange, plain.shape), plain)
            for kind, x in (("plain", plain), ("odd", odd)):
                results[f"fold {n} {inner} {kind}"] = (program, [x])
                results[f"norm {n} {inner} {kind}"] = (norms, [x])
    return results


def test_every_instruction_set_gives_the_same_bits(run_with: Callable[..., Any]) -> None:
    """Tails of lanes and of columns, infinities and NaN; only the canonical NaN comes out."""
    cases = isa_cases()
    reference = run_with("scalar", cases)
    for isa in [name for name in _native.machine_isas() if name != "scalar"]:
        answers = run_with(isa, cases)
        differ = [name for name in cases if answers[name] != reference[name]]
        assert not differ, f"{isa} differs in {len(differ)} of {len(cases)} cases: {differ[:10]}"
    nans = 0
    for name in cases:
        for output in reference[name][: 5 if name.startswith("fold") else 3]:
            bits = np.frombuffer(output, np.uint32)
            found = bits[np.isnan(bits.view(np.float32))]
            assert (found == 0x7FC00000).all(), name
            nans += found.size
    assert nans > 1000
