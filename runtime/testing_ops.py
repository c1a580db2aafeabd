"""Builds small programs that use every operator of the manifest, for tests of the verifier and for the fuzzer.

Each is some kilobytes, takes float32 "x" and what else its operators need, and gives every operator's outputs; numbers
are telling for the rules (odd sizes, several heads and groups, padding), not for anyone who looks at the answers.
"""

import functools
from collections.abc import Callable
from types import MappingProxyType
from typing import Final

import numpy as np
from alcove.runtime.format.spec import DType
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly
from alcove.runtime.testing_methods import prefill_and_decode
from alcove.runtime.testing_tokens import tokens
from numpy.typing import NDArray

F32, I8, I32, I64, U8, BOOL = DType.F32, DType.I8, DType.I32, DType.I64, DType.U8, DType.BOOL
SCRATCH: Final = (U8, (1 << 18,))
"""More than any operator here needs."""
STRIDES: Final = 8


class _Program(Assembly):
    """An assembly that gives the first output of each operator to the caller."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(5)

    def show(
        self,
        name: str,
        inputs: list[int],
        *outputs: tuple[DType, tuple[int, ...]],
        attributes: tuple[int | float, ...] = (),
    ) -> int:
        """Add an operator and an output for each of its results but scratch; return the first."""
        result = self.op(name, inputs, *outputs, attributes=attributes)
        for tensor, output in zip(result, outputs, strict=True):
            if output != SCRATCH:
                self.output(f"{name} {tensor}", tensor)
        return result[0]

    def floats(self, name: str, *shape: int) -> int:
        """Add float32 weights."""
        return self.constant(name, self.random.standard_normal(shape, np.float32))

    def bytes_of(self, name: str, *shape: int) -> int:
        """Add int8 weights, any bits."""
        return self.constant(name, self.random.integers(-128, 128, shape, np.int8))

    def layer(self, name: str, n: int, k: int) -> int:
        """Add a matrix in panels."""
        return self.panels(name, self.random.standard_normal((n, k), np.float32), np.ones(n, np.float32))


def _strided_attributes(offset: int, *strides: int) -> tuple[int, ...]:
    return (offset, *strides, *(0,) * (STRIDES - len(strides)))


def elements() -> bytes:
    """Return a program of functions of one and two elements, choices and casts."""
    build = _Program()
    x = build.input("x", F32, (3, 1, 5))
    row = build.input("row", F32, (4, 1))
    whole = build.input("whole", I64, (4, 5))
    for function in (2, 13, 16, 20, 28, 32, 37, 41, 50):
        build.show("unary", [x], (F32, (3, 1, 5)), attributes=(function, 0.5, 2.0, -1.0))
    is_nan = build.show("unary", [x], (BOOL, (3, 1, 5)), attributes=(51, 0.0, 0.0, 0.0))
    build.show("unary", [whole], (I64, (4, 5)), attributes=(1, 0.0, 0.0, 0.0))
    for function in (1, 4, 8, 9, 14):
        build.show("binary", [x, row], (F32, (3, 4, 5)), attributes=(function,))
    is_less = build.show("binary", [x, row], (BOOL, (3, 4, 5)), attributes=(25,))
    build.show("binary", [whole, whole], (I64, (4, 5)), attributes=(21,))
    build.show("where", [is_less, x, row], (F32, (3, 4, 5)))
    build.show("where", [is_nan, x, row], (F32, (3, 4, 5)))
    for dtype in (I8, DType.I32, I64, U8, BOOL):
        build.show("cast", [x], (dtype, (3, 1, 5)))
    build.show("cast", [whole], (F32, (4, 5)))
    return build.program()


def movement() -> bytes:
    """Return a program that copies, joins, pads, views and makes tensors."""
    build = _Program()
    x = build.input("x", F32, (2, 3, 4))
    small = build.input("small", F32, (2, 2))
    build.show("as_strided_copy", [x], (F32, (4, 3, 2)), attributes=_strided_attributes(0, 1, 4, 12))
    build.show("as_strided_copy", [x], (F32, (3, 5)), attributes=_strided_attributes(8, -4, 0))
    build.show("as_strided_scatter", [x, small], (F32, (2, 3, 4)), attributes=_strided_attributes(1, 12, 2))
    build.show("concat", [x, x, x], (F32, (2, 9, 4)), attributes=(1,))
    for mode in range(4):
        margins = (0, 1, 2, *(0,) * 5, 0, 2, 1, *(0,) * 5)
        build.show("pad", [x], (F32, (2, 6, 7)), attributes=(*margins, mode, 0x3F800000 if mode == 0 else 0))
    flat = build.show("reshape", [x], (F32, (24,)))
    build.show("reshape", [flat], (F32, (1, 24)))
    build.show("arange", [], (F32, (7,)), attributes=(0.5, -0.25))
    build.show("arange", [], (I64, (7,)), attributes=(3.0, 2.0))
    build.show("fill", [], (F32, (2, 2)), attributes=(0x7FC00000,))
    for is_upper in (0, 1):
        build.show("tril_triu", [x], (F32, (2, 3, 4)), attributes=(1 - is_upper, is_upper))
    return build.program()


def indices() -> bytes:
    """Return a program whose caller gives indices, offsets and ids."""
    build = _Program()
    x = build.input("x", F32, (4, 3))
    at = build.input("at", I64, (2, 2))
    rows = build.input("rows", DType.I32, (5,))
    offsets = build.input("offsets", I64, (3,))
    table = build.floats("table", 8, 3)
    update = build.input("update", F32, (2, 2))
    many = build.input("many", F32, (5, 3))
    build.show("index_select", [x, at], (F32, (2, 2, 3)), attributes=(0, 1))
    build.show("gather", [x, at], (F32, (2, 2)), attributes=(0,))
    for mode in range(5):
        build.show("scatter", [x, at, update], (F32, (4, 3)), attributes=(1, mode, 1))
        build.show("index_put", [x, rows, many], (F32, (4, 3)), attributes=(0, mode, int(mode > 1), 1))
    build.show("ravel_multi_index", [at, at], (I64, (2, 2)), attributes=(4, 3, *(0,) * 6))
    build.show("searchsorted", [build.floats("boundaries", 9), x], (I64, (4, 3)), attributes=(1,))
    build.show("embedding_bag_offsets", [at, table], (F32, (2, 3)), attributes=(2, -1, 0, 0))
    build.show("embedding_bag_offsets", [rows, table, offsets], (F32, (3, 3)), attributes=(1, 0, 1, 0))
    shared = build.layer("shared", 8, 3)
    build.show("embedding_panels", [at, shared], (F32, (2, 2, 3)), attributes=(8, 0, 0))
    for form, size in ((1, 128 + 64), (2, 64 + 256), (3, 64 + 256)):
        table = build.constant(f"form {form}", build.random.integers(1, 60, (1, size), np.int8))
        build.show("embedding_panels", [at, table], (F32, (2, 2, 3)), attributes=(8, form, 32 if form > 1 else 0))
    build.show("embedding_i8", [at, build.bytes_of("int8", 8, 3), build.floats("scale", 3)], (F32, (2, 2, 3)))
    return build.program()


def caches() -> bytes:
    """Return a program that writes rows of its states in place, and reads them after that."""
    build = _Program()
    x = build.input("x", F32, (1, 2, 3, 4))
    at, numbers = build.input("rows", I64, (3,)), build.input("numbers", U8, (1, 2, 2, 5))
    narrow = build.input("narrow", I32, (2,))
    keys = build.state("keys", build.random.standard_normal((1, 2, 6, 4), np.float32))
    ring = build.state("ring", np.arange(30, dtype=np.uint8).reshape(1, 2, 3, 5))
    build.update(keys, keys)
    build.update(ring, ring)
    build.show("concat", [ring], (U8, (1, 2, 3, 5)), attributes=(2,))
    build.op("write_rows", [keys, at, x], (F32, (1, 2, 3, 4)), attributes=(2, 0))
    build.op("write_rows", [ring, narrow, numbers], (U8, (1, 2, 2, 5)), attributes=(2, 1))
    build.show("concat", [keys, x], (F32, (1, 2, 9, 4)), attributes=(2,))
    build.show("concat", [ring], (U8, (1, 2, 3, 5)), attributes=(2,))
    build.op("write_rows", [keys, at, x], (F32, (1, 2, 3, 4)), attributes=(2, 1))
    return build.program()


def reductions() -> bytes:
    """Return a program that folds, scans, sorts and normalises."""
    build = _Program()
    x = build.input("x", F32, (2, 17, 6))
    for function in range(7):
        dtype = I64 if function > 4 else F32
        build.show("reduce", [x], (dtype, (2, 6)), attributes=(function, 1, 1))
    for function in range(3):
        build.show("scan", [x], (F32, (2, 17, 6)), attributes=(function, 1))
    build.show("scan_extreme", [x], (F32, (2, 17, 6)), (I64, (2, 17, 6)), attributes=(1, 2))
    build.show("sort", [x], (F32, (2, 17, 6)), (I64, (2, 17, 6)), SCRATCH, attributes=(1,))
    build.show("topk", [x], (F32, (2, 17, 4)), (I64, (2, 17, 4)), attributes=(4, 0))
    build.show("softmax", [x], (F32, (2, 17, 6)), attributes=(1,))
    weight, bias = build.floats("weight", 6), build.floats("bias", 6)
    build.show("layer_norm", [x, weight, bias], (F32, (2, 17, 6)), attributes=(0, 1, 3, 1e-5, 1, 0.0, np.inf))
    build.show("layer_norm", [x], (F32, (2, 17, 6)), attributes=(1, 2, 0, 0.0, 0, 0.0, 0.0))
    build.show("group_norm", [x, bias], (F32, (2, 17, 6)), attributes=(3, 2, 1e-5, 1, -1.0, 0.5))
    return build.program()


def products() -> bytes:
    """Return a program of matrix products and attention."""
    build = _Program()
    x = build.input("x", F32, (2, 3, 5))
    y = build.input("y", F32, (4, 1, 7, 5))
    build.show("matmul", [x, build.floats("right", 5, 18)], (F32, (2, 3, 18)), SCRATCH, attributes=(0,))
    build.show("matmul", [x, y], (F32, (4, 2, 3, 7)), SCRATCH, attributes=(1,))
    mask = build.input("mask", BOOL, (3, 7))
    query = build.input("query", F32, (1, 4, 3, 5))
    key, value = build.input("key", F32, (1, 2, 7, 5)), build.input("value", F32, (1, 2, 7, 6))
    shape = (F32, (1, 4, 3, 6))
    build.show("attention", [query, key, value], shape, SCRATCH, attributes=(0.25, 1, -np.inf, 0))
    build.show("attention", [query, key, value, mask], shape, SCRATCH, attributes=(0.5, 0, -1e4, 1))
    build.show("cached_attention", [query, key, value, mask], shape, SCRATCH, attributes=(0.5, -1e30, 0))
    layer = build.layer("layer", 19, 5)
    wide = build.show("linear", [x, layer], (F32, (2, 3, 19)), attributes=(0, 1, -1.0, 1.0))
    build.show("linear", [x, layer, wide], (F32, (2, 3, 19)), attributes=(1, 0, 0.0, 0.0))
    return build.program()


def recurrent() -> bytes:
    """Return a program of the recurrent layers."""
    build = _Program()
    x = build.input("x", F32, (3, 2, 5))
    h, c = build.input("h", F32, (2, 4)), build.input("c", F32, (2, 4))
    steps, last = (F32, (3, 2, 4)), (F32, (2, 4))
    for name, gates, attributes in (("rnn", 1, (1, 0)), ("gru", 3, (0,))):
        layers = [build.layer(f"{name}.x", 4 * gates, 5), build.layer(f"{name}.h", 4 * gates, 4)]
        build.show(name, [x, h, *layers], steps, last, SCRATCH, attributes=attributes)
    int8 = [build.bytes_of("int8.x", 1, 128 + 64 * 2), build.bytes_of("int8.h", 1, 128 + 64)]
    build.show("gru", [x, h, *int8], steps, last, SCRATCH, attributes=(1,))
    dynamic = [build.bytes_of("dynamic.x", 192 + 64 * 2), build.bytes_of("dynamic.h", 192 + 64)]
    build.show("gru", [x, h, *dynamic], steps, last, SCRATCH, attributes=(0,))
    layers = [build.layer("lstm.x", 16, 5), build.layer("lstm.h", 16, 4)]
    build.show("lstm", [x, h, c, *layers], steps, last, last, SCRATCH, attributes=(1,))
    small = build.input("small", F32, (2, 3))
    layers = [build.layer("projected.x", 16, 5), build.layer("projected.h", 16, 3), build.layer("projection", 3, 4)]
    build.show("lstm", [x, small, c, *layers], (F32, (3, 2, 3)), (F32, (2, 3)), last, SCRATCH, attributes=(0,))
    return build.program()


def images() -> bytes:
    """Return a program of convolutions, pooling and sampling."""
    build = _Program()
    x = build.input("x", F32, (1, 6, 7, 4))
    window = (3, 3, 2, 1, 1, 1, 1, 1, 1, 1)  # kernel, stride, padding, dilation
    plain = (0, 0.0, 0.0)
    out = (F32, (1, 3, 7, 6))
    two = build.floats("two groups", 2, 1, 19, 16)
    first = build.show("conv2d", [x, two], out, SCRATCH, attributes=(*window, 2, 0, *plain))
    one = build.layer("one group", 6, 36)
    # Groups side by side in a vector; pixels that look outside, and more than are computed at once.
    for width in (4, 8):
        many = build.input(f"groups of {width}", F32, (1, 4, 13, 16))
        beside = build.show(
            "conv2d",
            [many, build.floats(f"weights of {width}", 1, 9 * width + 1, 16)],
            (F32, (1, 4, 13, 16)),
            SCRATCH,
            attributes=(3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 16 // width, 0, *plain),
        )
        build.show(
            "conv2d",
            [many, build.floats(f"rows of {width}", 1, 3 * width + 1, 16), beside],
            (F32, (1, 4, 13, 16)),
            SCRATCH,
            attributes=(3, 1, 1, 1, 2, 0, 2, 0, 2, 1, 16 // width, 1, 2, 0.0, 0.0),
        )
    build.show("conv2d", [x, one, first], out, SCRATCH, attributes=(*window, 1, 1, 1, -1.0, 1.0))
    build.show(
        "depthwise_conv2d", [x, build.floats("depthwise", 10, 8)], (F32, (1, 3, 7, 8)), attributes=(*window, *plain)
    )
    # Lines that are read in place, and outputs few enough for lanes to be pixels; hard gates.
    wide = build.input("wide", F32, (1, 5, 20, 2))
    same = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
    for outputs, gate in ((3, 2), (18, 3)):
        weight = build.layer(f"{outputs} outputs", outputs, 18)
        attributes = (*same, 1, 0, gate, 0.0, 0.0)
        build.show("conv2d", [wide, weight], (F32, (1, 5, 20, outputs)), SCRATCH, attributes=attributes)
    # Tiles that end beyond the image, channels that fill no vector.
    weight = build.floats("winograd", 32 + 36 * 2 * 3 * 16)
    sums = build.show(
        "winograd_conv2d", [wide, weight], (F32, (1, 7, 18, 18)), SCRATCH, attributes=(2, 0, 2, 0, 0, 2, 0.0, 0.0)
    )
    build.show(
        "winograd_conv2d",
        [wide, weight, sums],
        (F32, (1, 7, 18, 18)),
        SCRATCH,
        attributes=(2, 0, 2, 0, 1, 1, -1.0, 1.0),
    )
    # With and without an expansion and a residual; rows at a time that do not divide the image.
    depthwise, project = build.floats("separable depthwise", 10, 5), build.layer("project", 2, 5)
    gates = (1, 0.0, 6.0, 2, 0.0, 0.0, 3, 0.0, 0.0)
    expanded = (3, 3, 1, 1, 1, 1, 1, 1, 2, 1, 1, *gates)
    build.show(
        "separable_conv2d",
        [wide, build.layer("expand", 5, 2), depthwise, project, wide],
        (F32, (1, 5, 20, 2)),
        SCRATCH,
        attributes=expanded,
    )
    plain_input = (3, 3, 2, 2, 1, 1, 1, 1, 2, 0, 0, *gates)
    alone = [wide, build.floats("separable alone", 10, 2), build.layer("alone", 18, 2)]
    build.show("separable_conv2d", alone, (F32, (1, 3, 10, 18)), SCRATCH, attributes=plain_input)
    # Both functions of a gate, with and without a residual.
    squeezed = [build.layer("squeeze", 3, 2), build.layer("excite", 2, 3)]
    none = (0, 0.0, 0.0)
    excited = build.show(
        "squeeze_excite_conv2d",
        [wide, *squeezed, build.layer("excited", 18, 2)],
        (F32, (1, 5, 20, 18)),
        SCRATCH,
        attributes=(0, *none, 43, *none, 34, 2, 0.0, 0.0),
    )
    build.show(
        "squeeze_excite_conv2d",
        [wide, *squeezed, build.layer("excited again", 18, 2), excited],
        (F32, (1, 5, 20, 18)),
        SCRATCH,
        attributes=(1, 1, 0.0, 6.0, 0, 3, 0.0, 0.0, 0, *none),
    )
    # Pixels that fill no panel, fewer and more than a block.
    for pixels, gate in ((7, 0), (150, 1)):
        planes, rows = build.floats(f"{pixels} pixels", 2, 3, pixels), build.floats(f"weights {pixels}", 5, 4)
        build.show("pointwise_conv2d", [planes, rows], (F32, (2, 5, pixels)), SCRATCH, attributes=(gate, -0.5, 0.5))
    for side, stride in ((3, 1), (5, 2)):
        columns = 20 // stride
        weight = build.floats(f"depthwise {side}", side * side + 1, 2)
        pads = [side // 2] * 4
        steps = (side, side, stride, stride, *pads, 1, 1, 2, 0.0, 0.0)
        build.show("depthwise_conv2d", [wide, weight], (F32, (1, -(-5 // stride), columns, 2)), attributes=steps)
    transposed = build.floats("transposed", 592)
    build.show(
        "conv_transpose2d", [x, transposed], (F32, (1, 8, 9, 2)), SCRATCH, attributes=(3, 3, 1, 1, 0, 0, 1, 1, 1)
    )
    for mode in (0, 1):
        build.show("pool2d", [x], (F32, (1, 3, 4, 4)), attributes=(mode, 2, 2, 2, 2, 0, 1, 1, 1, 1, 0, 0))
        build.show("adaptive_pool2d", [x], (F32, (1, 4, 3, 4)), attributes=(mode,))
    build.show("max_pool2d_indices", [x], (I64, (1, 3, 3, 4)), attributes=(0, 2, 2, 2, 2, 0, 0, 1, 1, 0))
    for mode in range(4):
        build.show("resize2d", [x], (F32, (1, 9, 5, 4)), attributes=(mode, int(mode == 2), 0.0, 0.0))
    grid = build.input("grid", F32, (1, 3, 2, 2))
    for mode in range(3):
        build.show("grid_sample", [x, grid], (F32, (1, 3, 2, 4)), attributes=(mode, mode, mode % 2))
    return build.program()


def mixes() -> bytes:
    """Return a program that mixes images by mattes: channels first and last, resized and of the images' size."""
    build = _Program()
    for channel, shape in ((1, (2, 3, 5, 21)), (3, (2, 5, 21, 3)), (3, (1, 4, 7, 5))):
        images = [build.input(f"{name} {shape}", F32, shape) for name in ("background", "frame")]
        for size in (shape[:channel] + shape[channel + 1 :], (shape[0], 3, 4), (shape[0], 9, 30)):
            alpha = build.input(f"alpha {shape} {size}", F32, (*size[:channel], 1, *size[channel:]))
            is_resized = int(size[2] in {4, 30})
            attributes = (int(channel == 3), is_resized, int(size[2] == 4), 0.0, 0.0)
            build.show("composite", [*images, alpha], (F32, shape), attributes=attributes)
    return build.program()


def volumes() -> bytes:
    """Return a program that samples a volume, by each mode."""
    build = _Program()
    volume, places = build.input("volume", F32, (1, 3, 2, 4, 3)), build.input("places", F32, (1, 2, 2, 3, 3))
    for mode in range(2):
        attributes = (mode, 2 * mode, 1 - mode)
        build.show("grid_sample3d", [volume, places], (F32, (1, 2, 2, 3, 3)), attributes=attributes)
    return build.program()


def quantization() -> bytes:
    """Return a program of int8 and int4 operators."""
    build = _Program()
    x = build.input("x", F32, (1, 6, 7, 4))
    image = (1, 6, 7, 4)
    q = build.show("quantize", [x], (I8, image), attributes=(0.03125, 3))
    build.show("dequantize", [q], (F32, image), attributes=(0.03125, 3))
    packed = build.bytes_of("packed", 2, 128 + 64)
    build.show("linear_i8", [q, packed], (I8, (1, 6, 7, 18)), attributes=(1, -100, 127))
    window = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
    build.show(
        "conv2d_i8", [q, build.bytes_of("kernel", 1, 128 + 64 * 9)], (I8, (1, 6, 7, 5)), SCRATCH,
        attributes=(*window, 1, 3, -2, -128, 127),
    )  # fmt: skip
    build.show(
        "depthwise_conv2d_i8", [q, build.bytes_of("depthwise", 1, 128 + 16 * 9)], (I8, image),
        attributes=(*window, 3, -2, -128, 127),
    )  # fmt: skip
    build.show("add_i8", [q, q], (I8, image), attributes=(0.5, 0.25, 3, 3, 0, -128, 127))
    build.show("mul_i8", [q, q], (I8, image), attributes=(0.5, 3, 3, 0, -128, 127))
    build.show("lut_i8", [q, build.bytes_of("table", 256)], (I8, image))
    build.show("mean_i8", [q], (I8, (1, 4)), attributes=(1, 2, 0, 0.5, 3, -2, -128, 127))
    build.show("max_pool2d_i8", [q], (I8, (1, 3, 3, 4)), attributes=(2, 2, 2, 2, 0, 0, 1, 1, 0))
    row = build.show("reshape", [x], (F32, (2, 84)))
    bias = build.floats("bias", 18)
    layer = build.bytes_of("layer", 2, 128 + 64 * 21)
    build.show("linear_qd8_qc8w", [row, layer, bias], (F32, (2, 18)), SCRATCH)
    build.show("linear_f32_qc8w", [row, layer], (F32, (2, 18)))
    build.show("linear_f32_qb4w", [row, build.bytes_of("int4", 2, 3 * 320), bias], (F32, (2, 18)), attributes=(32,))
    groups = build.bytes_of("groups", 2, 2 * 64 + 3 * 256)
    build.show("linear_qd8_qb4w", [row, groups, bias], (F32, (2, 18)), SCRATCH, attributes=(32,))
    query = build.input("query", I8, (1, 4, 3, 5))
    key, value = build.input("key", I8, (1, 2, 7, 5)), build.input("value", I8, (1, 2, 7, 6))
    mask = build.input("mask", BOOL, (3, 7))
    shape = (I8, (1, 4, 3, 6))
    numbers = (3, -2, 5, 0.75, 4, -100, 127)
    build.show("attention_i8", [query, key, value], shape, SCRATCH, attributes=(2**-10, 1, -np.inf, *numbers))
    build.show("attention_i8", [query, key, value, mask], shape, SCRATCH, attributes=(2**-11, 0, -1e4, *numbers))
    return build.program()


def special() -> bytes:
    """Return a program of special functions and of bits as another type."""
    build = _Program()
    x = build.input("x", F32, (3, 5))
    shape = (F32, (3, 5))
    for function in (1, 5, 6, 10, 13, 17, 19):
        build.show("special", [x], shape, attributes=(function,))
    build.show("special", [build.show("unary", [x], shape, attributes=(13, 0.0, 0.0, 0.0)), x], shape, attributes=(4,))
    bits = build.show("bitcast", [x], (DType.I32, (3, 5)))
    build.show("bitcast", [bits], shape)
    return build.program()


def transform_table(first: int, second: int, *, is_real: bool) -> NDArray[np.float32]:
    """Return the table of a transform of first * second points, as fft.h says."""
    points = first * second
    turns = [np.outer(np.arange(first), np.arange(second)).ravel() / points]
    turns += [np.arange(size) / size for size in (first, second)]
    turns += [np.arange(points) / (2 * points)] * is_real
    waves: NDArray[np.complex128] = np.exp(-2j * np.pi * np.concatenate(turns))
    return np.stack([waves.real, waves.imag]).astype(np.float32)


def transforms() -> bytes:
    """Return a program of Fourier transforms, by columns and by rows."""
    build = _Program()
    x = build.input("x", F32, (3, 60))
    half = build.input("half", F32, (3, 31))
    long = build.input("long", F32, (2, 280))
    rows, halves, long_rows = (F32, (3, 60)), (F32, (3, 31)), (F32, (2, 280))
    tables = {
        name: build.constant(name, transform_table(first, second, is_real=name.startswith("real")))
        for name, first, second in (("short", 1, 60), ("long", 14, 20), ("real short", 1, 30), ("real", 5, 6))
    }
    build.show("fft", [x, x, tables["short"]], rows, SCRATCH, rows, attributes=(1, 0.5))
    build.show("fft", [long, long, tables["long"]], long_rows, SCRATCH, long_rows, attributes=(14, 1.0))
    build.show("rfft", [x, tables["real"]], halves, SCRATCH, halves, attributes=(5, 2.0))
    build.show("irfft", [half, half, tables["real short"]], rows, SCRATCH, attributes=(1, 1.0))
    return build.program()


def decoding() -> bytes:
    """Return a program that finds labelings of frames, fewer than it keeps and one of one."""
    build = _Program()
    x = build.input("x", F32, (2, 9, 5))
    for paths, width, blank in ((3, 6, 4), (1, 1, 0)):
        rows = (2, paths)
        outputs = ((I64, (*rows, 9)), (I64, rows), (F32, rows), SCRATCH)
        build.show("ctc_beam", [x], *outputs, attributes=(width, blank))
    return build.program()


def regions() -> bytes:
    """Return a program of pieces of masks, and of boxes with and without classes."""
    build = _Program()
    shape = (2, 7, 21)
    masks = [build.input("mask", BOOL, shape), build.input("bytes", U8, shape)]
    for mask, connectivity in zip(masks, (4, 8), strict=True):
        outputs = ((I32, shape), (I32, shape), SCRATCH)
        build.show("connected_components", [mask], *outputs, attributes=(connectivity,))
    boxes, scores = build.input("boxes", F32, (2, 40, 4)), build.input("scores", F32, (2, 40))
    classes = build.input("classes", I64, (2, 40))
    for inputs, most, iou, score in (([boxes, scores], 33, 0.05, -np.inf), ([boxes, scores, classes], 5, 0.0, -0.5)):
        kept = ((I64, (2, most)), (I64, (2,)), SCRATCH)
        build.show("non_maximum_suppression", inputs, *kept, attributes=(iou, score))
    return build.program()


def halves() -> bytes:
    """Return a program of constants of 16 bits: panels, a table, a window's weights, what a state begins as."""
    build = _Program()
    x = build.input("x", F32, (3, 40))
    row = build.input("row", F32, (1, 40))
    ids = build.input("ids", I64, (5,))
    image = build.input("image", F32, (1, 6, 7, 21))
    none = (0, 0, -np.inf, np.inf)
    for dtype in (DType.F16, DType.BF16):
        panels = build.narrow(build.layer(f"{dtype.name} panels", 37, 40), dtype)
        table = build.narrow(build.floats(f"{dtype.name} table", 9, 40), dtype)
        window = build.narrow(build.floats(f"{dtype.name} window", 10, 21), dtype)
        bias = build.narrow(build.constant(f"{dtype.name} bias", np.linspace(-1, 1, 40, dtype=np.float32)), dtype)
        build.show("linear", [x, panels], (F32, (3, 37)), attributes=none)
        build.show("linear", [row, panels], (F32, (1, 37)), attributes=none)
        build.show("index_select", [table, ids], (F32, (5, 40)), attributes=(0, 0))
        build.show("embedding_panels", [ids, panels], (F32, (5, 40)), attributes=(37, 0, 0))
        build.show("binary", [x, bias], (F32, (3, 40)), attributes=(1,))
        build.show(
            "depthwise_conv2d",
            [image, window],
            (F32, (1, 6, 7, 21)),
            attributes=(3, 3, 1, 1, 1, 1, 1, 1, 1, 1, *none[1:]),
        )
    state = build.state("kept", build.random.standard_normal((3, 40), np.float32))
    build.narrow(state - 1, DType.F16)
    build.update(state, build.show("binary", [x, state], (F32, (3, 40)), attributes=(1,)))
    return build.program()


FAMILIES: Final[tuple[Callable[[], bytes], ...]] = (
    elements,
    movement,
    indices,
    caches,
    reductions,
    products,
    recurrent,
    images,
    mixes,
    volumes,
    quantization,
    special,
    transforms,
    decoding,
    regions,
    halves,
)


@functools.cache
def op_samples() -> MappingProxyType[str, bytes]:
    """Return the programs by name, one of two methods, and one that reads a text."""
    programs = {family.__name__: family() for family in FAMILIES}
    return MappingProxyType(programs | {"methods": write_program(prefill_and_decode()), "tokens": tokens()})
