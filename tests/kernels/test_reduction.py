"""Do reductions and norms compute what docs/format.md says, with the same bits on every instruction set?

Written again from that page in numpy's float32, whose single steps round as IEEE 754 does; sums are by sixteen lanes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from alcove.runtime import _native, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray

Floats = NDArray[np.float32]
FOLDS = ("sum", "mean", "prod", "max", "min", "argmax", "argmin")
LENGTHS = (1, 2, 15, 16, 17, 31, 33, 64, 100)
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
        made = build.op("layer_norm", [x, *affine], (DType.F32, shape), attributes=(is_rms, 1, mask, EPS, *bounds))
        build.output(f"layer {is_rms}", made[0])
    made = build.op("group_norm", [x, *affine], (DType.F32, shape), attributes=(groups, mask, EPS, *bounds))
    build.output("group", made[0])
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


def test_norms_are_sums_by_lanes_and_single_steps() -> None:
    """Bit for bit: groups of one channel, smaller and larger than a block of columns."""
    random = np.random.default_rng(33)
    for channels, groups in [(1, 1), (6, 3), (40, 40), (130, 2), (70, 35), (192, 1), (66, 66)]:
        for mask in range(4):
            weight, bias = floats(random, channels), floats(random, channels)
            x = floats(random, 2, 21, channels)
            layer, rms, group = load(norm_program(x.shape, groups, mask, weight, bias))(x)
            scale = weight if mask & 1 else np.ones_like(weight)
            shift = bias if mask & 2 else np.zeros_like(bias)
            eps, n = np.float32(EPS), np.float32(channels)
            rows = np.moveaxis(x, 2, 0)
            mean = lanes_sum(rows) / n
            r = np.float32(1) / np.sqrt(lanes_sum((rows - mean) ** 2) / n + eps)
            assert (layer == (x - mean[..., None]) * r[..., None] * scale + shift).all(), (channels, mask)
            r = np.float32(1) / np.sqrt(lanes_sum(rows**2) / n + eps)
            assert (rms == x * r[..., None] * scale + shift).all(), (channels, mask)
            assert (group == group_norm(x, groups, scale, shift)).all(), (channels, groups, mask)


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


def group_norm(x: Floats, groups: int, scale: Floats, shift: Floats) -> Floats:
    """The op's answer, step by step."""
    samples, positions, channels = x.shape
    size = channels // groups
    n = np.float32(positions * size)

    def total(part: Floats) -> Floats:
        return lanes_sum(lanes_sum(part).reshape(groups, size).T)

    made = np.empty_like(x)
    for sample in range(samples):
        mean = np.repeat(total(x[sample]) / n, size)
        squares = total((x[sample] - mean) ** 2)
        r = np.repeat(np.float32(1) / np.sqrt(squares / n + np.float32(EPS)), size)
        made[sample] = (x[sample] - mean) * (r * scale) + shift
    return made


def isa_cases() -> "dict[str, Any]":
    """Folds and norms of every length and width, of numbers of every kind."""
    random = np.random.default_rng(34)
    strange = np.array([0.0, -0.0, 1e-45, 1e-39, 3e38, np.inf, -np.inf, np.nan, 1.0], np.float32)
    made: dict[str, Any] = {}
    for n in LENGTHS:
        for inner in COLUMNS:
            program = fold_program((2, n, inner), 1, 1)
            weight, bias = floats(random, inner), floats(random, inner)
            groups = max(g for g in (1, 2, 5, 16, 65) if inner % g == 0)
            norms = norm_program((2, n, inner), groups, 3, weight, bias, (n % 2, -0.5, 0.75))
            plain = floats(random, 2, n, inner)
            odd = np.where(random.random(plain.shape) < 0.1, random.choice(strange, plain.shape), plain)
            for kind, x in (("plain", plain), ("odd", odd)):
                made[f"fold {n} {inner} {kind}"] = (program, [x])
                made[f"norm {n} {inner} {kind}"] = (norms, [x])
    return made


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
