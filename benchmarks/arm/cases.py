"""Programs that are counted beside those of `kernel_cases.py`: sizes, strides and functions with loops of their own."""

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
from alcove.runtime.testing import PLAIN_LINEAR
from alcove.runtime.testing_ops import transform_table

from benchmarks.kernel_cases import BOOL, CASES, F32, I64, PLAIN, SCRATCH, KernelCase

_FUNCTIONS: Final = {
    "exp": 13,
    "erf": 32,
    "tanh": 28,
    "sigmoid": 34,
    "gelu": 41,
    "gelu_exp": 57,
    "silu_exp": 59,
    "hardswish": 45,
}


def _unary(function: int) -> bytes:
    case = KernelCase()
    shape = (1, 28, 28, 64)
    return case.result("unary", [case.input("x", F32, shape)], (F32, shape), attributes=(function, 0.0, 0.0, 0.0))


def _depthwise(kernel: int, stride: int, multiplier: int = 1) -> bytes:
    case = KernelCase()
    x, size, channels = case.input("x", F32, (1, 28, 28, 64)), 28 // stride, 64 * multiplier
    window = (kernel, kernel, stride, stride, *[kernel // 2] * 4, 1, 1)
    weight = case.floats(1 + kernel * kernel, channels)
    return case.result("depthwise_conv2d", [x, weight], (F32, (1, size, size, channels)), attributes=(*window, *PLAIN))


def _convolution(inputs: int, outputs: int, stride: int, dilation: int, groups: int) -> bytes:
    case = KernelCase()
    x, size = case.input("x", F32, (1, 28, 28, inputs)), 28 // stride
    window = (3, 3, stride, stride, *[dilation] * 4, dilation, dilation)
    each, taps = outputs // groups, 9 * inputs // groups
    weight = case.layer(outputs, taps) if groups == 1 else case.floats(groups, -(-each // 16), taps + 1, 16)
    out = (F32, (1, size, size, outputs))
    return case.result("conv2d", [x, weight], out, SCRATCH, attributes=(*window, groups, 0, *PLAIN))


def _separable() -> bytes:
    case = KernelCase()
    x, layers = case.input("x", F32, (1, 28, 28, 32)), [case.layer(128, 32), case.floats(10, 128), case.layer(32, 128)]
    attributes = (3, 3, 1, 1, 1, 1, 1, 1, 8, 1, 0, *(1, 0.0, 6.0) * 2, *PLAIN)
    return case.result("separable_conv2d", [x, *layers], (F32, (1, 28, 28, 32)), SCRATCH, attributes=attributes)


def _cached_attention() -> bytes:
    case = KernelCase()
    query = case.input("q", F32, (1, 8, 1, 64))
    keys = [case.input(name, F32, (1, 8, 256, 64)) for name in "kv"]
    mask = case.input("mask", BOOL, (1, 256))
    return case.result(
        "cached_attention", [query, *keys, mask], (F32, (1, 8, 1, 64)), SCRATCH, attributes=(0.125, -np.inf, 0)
    )


def _transform() -> bytes:
    case = KernelCase()
    x, rows = case.input("x", F32, (8, 1024)), (F32, (8, 1024))
    table = case.constant("table", transform_table(32, 32, is_real=False))
    return case.result("fft", [x, x, table], rows, SCRATCH, rows, attributes=(32, 1.0))


def _one_row(name: str) -> bytes:
    case = KernelCase()
    x, out = case.input("x", F32, (1, 512)), (F32, (1, 512))
    if name == "linear":
        return case.result(name, [x, case.layer(512, 512)], out, attributes=PLAIN_LINEAR)
    if name == "linear_qd8_qb4w":
        panel = np.concatenate([np.full(256, 0x3A80, np.uint16).view(np.int8), case.bytes_of(8 * 512)])
        return case.result(name, [x, case.constant("int4", np.tile(panel, (32, 1)))], out, SCRATCH, attributes=(32,))
    scratch = [SCRATCH] if name == "linear_qd8_qc8w" else []
    return case.result(name, [x, case.add_packed(512, 512)], out, *scratch)


def _embedding_panels() -> bytes:
    case = KernelCase()
    at = case.input("at", I64, (16,))
    return case.result("embedding_panels", [at, case.layer(4096, 64)], (F32, (16, 64)), attributes=(4096, 0, 0))


def _special() -> bytes:
    case = KernelCase()
    x = case.input("x", F32, (1, 4096))
    return case.result("special", [x], (F32, (1, 4096)), attributes=(1,))


MORE: Final[dict[tuple[str, str], Callable[[], bytes]]] = {
    **{("unary", name): partial(_unary, function) for name, function in _FUNCTIONS.items()},
    ("special", "lgamma"): _special,
    ("fft", "8 x 1,024 points"): _transform,
    ("linear", "one row"): partial(_one_row, "linear"),
    ("linear_qd8_qc8w", "one row"): partial(_one_row, "linear_qd8_qc8w"),
    ("linear_f32_qc8w", "one row"): partial(_one_row, "linear_f32_qc8w"),
    ("linear_qd8_qb4w", "one row"): partial(_one_row, "linear_qd8_qb4w"),
    ("cached_attention", "one query"): _cached_attention,
    ("embedding_panels", "f32"): _embedding_panels,
    ("conv2d", "3 inputs, stride 2"): partial(_convolution, 3, 16, 2, 1, 1),
    ("conv2d", "dilation 2"): partial(_convolution, 32, 32, 1, 2, 1),
    ("conv2d", "4 groups"): partial(_convolution, 64, 64, 1, 1, 4),
    ("separable_conv2d", "f32"): _separable,
    ("depthwise_conv2d", "3x3, stride 2"): partial(_depthwise, 3, 2),
    ("depthwise_conv2d", "5x5"): partial(_depthwise, 5, 1),
    ("depthwise_conv2d", "5x5, stride 2"): partial(_depthwise, 5, 2),
    ("depthwise_conv2d", "7x7"): partial(_depthwise, 7, 1),
    ("depthwise_conv2d", "2 outputs a channel"): partial(_depthwise, 3, 1, 2),
}
"""By the operator and what is special about the case."""

ALL: Final = CASES | MORE
