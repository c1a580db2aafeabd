"""Small programs of one quantized operator each, with inputs that reach every tail and corner."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from alcove.runtime import _native
from alcove.runtime.compiler.quantize import packing
from alcove.runtime.compiler.quantize.scales import quantize_rows, weight_scales
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray

Array = NDArray[Any]
Case = tuple[bytes, list[Array]]

SPECIAL = np.array([0.0, -0.0, 1e-45, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan], np.float32)


def int8s(random: np.random.Generator, *shape: int) -> NDArray[np.int8]:
    """All values, the two ends more often."""
    values = random.integers(-128, 128, shape).astype(np.int8)
    values[random.random(shape) < 0.1] = -128
    values[random.random(shape) < 0.1] = 127
    return values


def floats(random: np.random.Generator, *shape: int, special: float = 0.0) -> NDArray[np.float32]:
    """Numbers around 1; a share of them zeros, denormals, huge, infinite and NaN."""
    values = random.standard_normal(shape, np.float32)
    odd = random.random(shape) < special
    values[odd] = random.choice(SPECIAL, int(odd.sum()))
    return values


def panels(random: np.random.Generator, n: int, k: int) -> NDArray[np.int8]:
    """Packed weights, all int8 values; scales that bring sums into the range of int8 and some beyond."""
    scales = (random.random(n, np.float32) + np.float32(0.01)) / np.float32(40 * np.sqrt(k))
    words = random.integers(-5000, 5000, n).astype(np.int32)
    if n > 2:
        words[1], scales[1] = 2**31 - 1, np.float32(2.0**-24)
        scales[2] = np.nan
    return packing.panels_i8(int8s(random, n, k), words, scales)


def one_op(
    op: str,
    inputs: Sequence[tuple[Array, bool]],
    outputs: Sequence[tuple[DType, tuple[int, ...]]],
    attributes: Sequence[int | float] = (),
) -> Case:
    """A program of one operator; inputs that are constant lie in its weights."""
    build = Assembly()
    dtypes = {np.dtype(np.int8): DType.I8, np.dtype(np.float32): DType.F32, np.dtype(np.int64): DType.I64}
    dtypes[np.dtype(np.int32)] = DType.I32
    argument, tensors = [], []
    for index, (array, is_constant) in enumerate(inputs):
        if is_constant:
            tensors.append(build.constant(f"c{index}", array))
        else:
            tensors.append(build.input(f"x{index}", dtypes[array.dtype], array.shape))
            argument.append(array)
    result = build.op(op, tensors, *outputs, attributes=tuple(attributes))
    build.output("y", result[0])
    return build.program(), argument


def cases() -> dict[str, Case]:
    """All of them, by name."""
    random = np.random.default_rng(90)
    makers = (_convert, _linear, _convolutions, _depthwise, _binary, _simple, _float_linear)
    return {name: case for maker in makers for name, case in maker(random)}


Named = Iterator[tuple[str, Case]]


def _convert(random: np.random.Generator) -> Named:
    for count in (1, 15, 16, 33, 130):
        x = floats(random, 2, count, special=0.1)
        for scale, zero in ((0.25, 3), (2.0**-100, -128), (2.0**100, 127), (float(np.float32(0.1)), 0)):
            case = one_op("quantize", [(x, False)], [(DType.I8, x.shape)], (scale, zero))
            yield f"quantize {count} {scale} {zero}", case
            q = int8s(random, 2, count)
            yield (
                f"dequantize {count} {scale} {zero}",
                one_op("dequantize", [(q, False)], [(DType.F32, q.shape)], (scale, zero)),
            )
    ties = np.arange(-20, 20, dtype=np.float32) * np.float32(0.5)
    yield "quantize ties", one_op("quantize", [(ties, False)], [(DType.I8, ties.shape)], (1.0, -1))


def _linear(random: np.random.Generator) -> Named:
    sizes = [(m, n, 7) for m in (1, 2, 3, 4, 5, 8, 9, 13) for n in (1, 16, 33, 64, 70)]
    sizes += [(17, 70, 9), (64, 18, 20), (130, 33, 21)]
    sizes += [(5, 18, k) for k in (1, 2, 3, 4, 5, 8, 31, 300)]
    for m, n, k in sizes:
        for low, high, zero in ((-128, 127, 5), (-10, 90, -128)):
            inputs = [(int8s(random, 1, m, k), False), (panels(random, n, k), True)]
            case = one_op("linear_i8", inputs, [(DType.I8, (1, m, n))], (zero, low, high))
            yield f"linear_i8 {m}x{n}x{k} {low}", case


def _out(size: int, kernel: int, stride: int, pads: int, dilation: int) -> int:
    return (size + pads - (kernel - 1) * dilation - 1) // stride + 1


def _convolutions(random: np.random.Generator) -> Named:
    windows = [
        (1, 1, 1, 1, 0, 0, 0, 0, 1, 1),
        (3, 3, 1, 1, 1, 1, 1, 1, 1, 1),
        (3, 2, 2, 1, 0, 1, 1, 0, 1, 2),
        (5, 5, 2, 3, 2, 2, 2, 2, 1, 1),
        (1, 3, 1, 1, 0, 4, 0, 3, 1, 2),
        (1, 1, 2, 2, 0, 0, 0, 0, 1, 1),
    ]
    for window in windows:
        # A wide line of few channels doesn't fit a kernel's buffer.
        for groups, c_in, c_out, width in (
            (1, 3, 5, 11),
            (1, 16, 17, 11),
            (2, 8, 6, 11),
            (3, 3, 48, 11),
            (1, 3, 40, 390),
        ):
            kh, kw, sh, sw, top, left, bottom, right, dh, dw = window
            x = int8s(random, 2, 9, width, c_in)
            shape = (2, _out(9, kh, sh, top + bottom, dh), _out(width, kw, sw, left + right, dw), c_out)
            k = kh * kw * c_in // groups
            packed = np.concatenate([panels(random, c_out // groups, k) for _ in range(groups)])
            scratch = (DType.U8, (_native.scratch_bytes("conv2d_i8", patch=k),))
            attributes = (*window, groups, -7, 4, -128, 100)
            case = one_op("conv2d_i8", [(x, False), (packed, True)], [(DType.I8, shape), scratch], attributes)
            yield f"conv2d_i8 {window} {groups} {c_in} {c_out} {width}", case


def _depthwise(random: np.random.Generator) -> Named:
    windows = [
        (3, 3, 1, 1, 1, 1, 1, 1, 1, 1),
        (5, 3, 2, 2, 2, 1, 2, 1, 1, 1),
        (3, 3, 1, 2, 0, 3, 1, 3, 2, 2),
        (1, 1, 1, 1, 0, 0, 0, 0, 1, 1),
        (5, 5, 1, 1, 2, 2, 2, 2, 1, 1),
        (5, 5, 2, 2, 2, 2, 1, 1, 1, 1),
    ]
    for window in windows:
        # Wide ones don't fit a kernel's buffer of columns, nor their rows a cache.
        for channels, width in ((1, 13), (8, 13), (16, 13), (17, 13), (40, 13), (33, 290)):
            kh, kw, sh, sw, top, left, bottom, right, dh, dw = window
            x = int8s(random, 2, 8, width, channels)
            shape = (2, _out(8, kh, sh, top + bottom, dh), _out(width, kw, sw, left + right, dw), channels)
            scales = (random.random(channels, np.float32) + np.float32(0.01)) / np.float32(200)
            words = random.integers(-5000, 5000, channels).astype(np.int32)
            packed = packing.depthwise_panels_i8(int8s(random, kh * kw, channels), words, scales)
            case = one_op(
                "depthwise_conv2d_i8", [(x, False), (packed, True)], [(DType.I8, shape)], (*window, 9, -3, -100, 127)
            )
            yield f"depthwise_conv2d_i8 {window} {channels} {width}", case


def _binary(random: np.random.Generator) -> Named:
    shapes = [((3, 33), (3, 33)), ((2, 4, 5, 18), (2, 1, 1, 18)), ((4, 1), (1, 7)), ((5,), (2, 5)), ((6, 1), (6, 17))]
    shapes += [((1,), (130,)), ((), (3,)), ((), ()), ((300, 5), (5,)), ((5,), (300, 5)), ((3, 70, 16), (3, 1, 16))]
    shapes += [((301, 16), (16,)), ((150,), (7, 150))]
    for a, b in shapes:
        inputs = [(int8s(random, *a), False), (int8s(random, *b), False)]
        out = [(DType.I8, np.broadcast_shapes(a, b))]
        ratios = (float(np.float32(0.7)), float(np.float32(0.3)))
        yield f"add_i8 {a} {b}", one_op("add_i8", inputs, out, (*ratios, 5, -9, 2, -128, 127))
        yield f"add_i8 clamped {a} {b}", one_op("add_i8", inputs, out, (*ratios, 5, -9, 2, 2, 50))
        yield f"mul_i8 {a} {b}", one_op("mul_i8", inputs, out, (float(np.float32(0.011)), -128, 7, -5, -128, 127))
    both = int8s(random, 2, 40)
    constant = [(both, False), (int8s(random, 1, 40), True)]
    yield "add_i8 constant", one_op("add_i8", constant, [(DType.I8, (2, 40))], (0.5, 0.25, 0, 1, 2, -128, 127))


def _simple(random: np.random.Generator) -> Named:
    table = int8s(random, 256)
    for count in (1, 31, 32, 63, 64, 210, 256):
        x = int8s(random, count) if count < 256 else np.arange(-128, 128).astype(np.int8)
        yield f"lut_i8 {count}", one_op("lut_i8", [(x, False), (table, True)], [(DType.I8, x.shape)])
    means = (((2, 7, 7, 65), 1, 2), ((2, 7, 5, 16), 1, 2), ((1, 9, 32), 1, 1), ((3, 11, 1), 1, 1))
    for shape, first, count in (*means, ((2, 5), 1, 1), ((4, 130), 0, 1), ((2, 3, 4), 0, 3)):
        for keeps in (0, 1):
            kept = [1 if first <= d < first + count else size for d, size in enumerate(shape)]
            dims = tuple(kept) if keeps else (*shape[:first], *shape[first + count :])
            attributes = (first, count, keeps, float(np.float32(1.3 / np.prod(shape))), 11, -4, -128, 127)
            case = one_op("mean_i8", [(int8s(random, *shape), False)], [(DType.I8, dims)], attributes)
            yield f"mean_i8 {shape} {first} {count} {keeps}", case
    for window, out in (((3, 3, 2, 2, 1, 1, 1, 1, 0), (4, 5)), ((2, 3, 2, 1, 0, 0, 1, 2, 1), (4, 5))):
        image = int8s(random, 2, 8, 9, 19)
        case = one_op("max_pool2d_i8", [(image, False)], [(DType.I8, (2, *out, 19))], window)
        yield f"max_pool2d_i8 {window}", case
    for dtype in (np.int32, np.int64):
        ids = random.integers(0, 11, (2, 3)).astype(dtype)
        for dim in (1, 20):
            inputs = [(ids, False), (int8s(random, 11, dim), True), (floats(random, dim, special=0.2), True)]
            yield f"embedding_i8 {dtype.__name__} {dim}", one_op("embedding_i8", inputs, [(DType.F32, (2, 3, dim))])


def _float_linear(random: np.random.Generator) -> Named:
    sizes = [(m, n, 9) for m in (1, 3, 4, 5, 8, 9) for n in (1, 16, 33)] + [(3, 270, 6)]
    sizes += [(5, 18, k) for k in (1, 2, 3, 4, 7, 8, 33, 64, 100)]
    for m, n, k in sizes:
        weight, bias = floats(random, n, k), floats(random, n, special=0.1)
        scales = weight_scales(weight, np.zeros(n), 1.0)
        rows = quantize_rows(weight, scales)
        packed = packing.panels_i8(rows, rows.astype(np.int32).sum(axis=1), scales)
        for special in (0.0, 0.02):
            x = floats(random, m, k, special=special)
            x[-1] = 0
            out = [(DType.F32, (m, n))]
            for name in ("bias", "plain"):
                biases: list[tuple[Array, bool]] = [(bias, True)] if name == "bias" else []
                inputs: list[tuple[Array, bool]] = [(x, False), (packed, True), *biases]
                case = f"{m}x{n}x{k} {special} {name}"
                for block in {min(m, 8), m, m - m % 2}:  # in blocks of so many, as far as the kernel takes them
                    scratch = (DType.U8, (_native.scratch_bytes("linear_qd8_qc8w", inputs=k, rows=block),))
                    yield f"linear_qd8_qc8w {case} {block}", one_op("linear_qd8_qc8w", inputs, [*out, scratch])
                yield f"linear_f32_qc8w {case}", one_op("linear_f32_qc8w", inputs, out)
                for group in packing.GROUPS:
                    narrow = packing.panels_i4(*packing.quantize_i4(weight, group), group)
                    inputs = [(x, False), (narrow, True), *biases]
                    yield f"linear_f32_qb4w {case} {group}", one_op("linear_f32_qb4w", inputs, out, (group,))
                    halves = packing.quantize_i4(weight, group, has_half_scales=True)
                    inputs = [(x, False), (packing.panels_qb4(*halves, group), True), *biases]
                    scratch = (DType.U8, (_native.scratch_bytes("linear_qd8_qb4w", inputs=k, group=group),))
                    yield (
                        f"linear_qd8_qb4w {case} {group}",
                        one_op("linear_qd8_qb4w", inputs, [*out, scratch], (group,)),
                    )
