"""Defines the program that stands for each kernel: one operator at a size that mobile models have.

The manifest's optimized kernels have a case here, which the tests and `python -m benchmarks.kernels` go through.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import PLAIN_LINEAR, RELU, Assembly
from alcove.runtime.testing_ops import transform_table

if TYPE_CHECKING:
    from alcove.runtime.format.named_attributes import Attributes
    from numpy.typing import NDArray

F32, I8, I32, I64, U8, BOOL = DType.F32, DType.I8, DType.I32, DType.I64, DType.U8, DType.BOOL
SCRATCH: Final = (U8, (1 << 22,))
PLAIN: Final = (0, 0.0, 0.0)
"""No activation."""
WINDOW: Final = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
"""Kernel, stride, padding, dilation."""
Outputs: TypeAlias = tuple[DType, tuple[int, ...]]


class KernelCase(Assembly):
    """A program of one operator with weights of ordinary numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(17)

    def floats(self, *shape: int) -> int:
        """Add ordinary numbers."""
        values = self.random.standard_normal(shape, np.float32)
        return self.constant(f"floats {shape} {self.random.integers(1 << 30)}", values)

    def layer(self, n: int, k: int) -> int:
        """Add panels of float32, without a bias."""
        weight = self.random.standard_normal((n, k), np.float32) / np.float32(k**0.5)
        return self.panels(f"layer {n}x{k} {self.random.integers(1 << 30)}", weight, np.zeros(n, np.float32))

    def add_packed(self, n: int, k: int) -> int:
        """Add panels of int8: an int32 and a scale of each of 16 outputs, then their weights, four inputs together."""
        head = np.concatenate([np.zeros(16, np.int32).view(np.int8), np.full(16, 1e-3, np.float32).view(np.int8)])
        rows = [np.concatenate([head, self.bytes_of(16 * -(-k // 4) * 4)]) for _ in range(-(-n // 16))]
        return self.constant(f"packed {n}x{k} {self.random.integers(1 << 30)}", np.stack(rows))

    def bytes_of(self, count: int) -> "NDArray[np.int8]":
        """Return numbers of 8 bits."""
        return self.random.integers(-127, 128, count).astype(np.int8)

    def result(
        self, name: str, inputs: list[int], *outputs: Outputs, attributes: "Attributes | tuple[int | float, ...]" = ()
    ) -> bytes:
        """Add the operator, give its first output to the caller, and return the program."""
        self.output("y", self.op(name, inputs, *outputs, attributes=attributes)[0])
        return self.program()


def _bag(dtype: DType) -> bytes:
    case = KernelCase()
    if dtype is I8:
        table = [case.constant("table", case.bytes_of(4096 * 64).reshape(4096, 64)), case.floats(64)]
    else:
        table = [case.floats(4096, 64)]
    ids = case.input("ids", I32, (256,), is_ragged=True)
    return case.result("text_embedding_bag", [ids, *table], (F32, (1, 64)), attributes=(1,))


def _bags() -> bytes:
    case = KernelCase()
    ids = case.input("ids", I64, (32, 16))
    return case.result("embedding_bag_offsets", [ids, case.floats(4096, 64)], (F32, (32, 64)), attributes=(1, -1, 0, 0))


def _rows(name: str, shape: tuple[int, ...], *attributes: float, weights: int = 0) -> bytes:
    case = KernelCase()
    x = case.input("x", F32, shape)
    return case.result(
        name, [x, *(case.floats(shape[-1]) for _ in range(weights))], (F32, shape), attributes=attributes
    )


def _binary() -> bytes:
    case = KernelCase()
    shape = (1, 28, 28, 64)
    x, y = case.input("x", F32, shape), case.input("y", F32, shape)
    return case.result("binary", [x, y], (F32, shape), attributes=(1,))


def _reduce() -> bytes:
    case = KernelCase()
    return case.result("reduce", [case.input("x", F32, (1, 784, 64))], (F32, (1, 64)), attributes=(0, 1, 1))


def _linear(name: str, half: DType | None = None) -> bytes:
    case = KernelCase()
    x, out = case.input("x", F32, (64, 256)), (F32, (64, 256))
    if name == "linear":
        weights = case.layer(256, 256)
        if half is not None:
            case.narrow(weights, half)
        return case.result(name, [x, weights], out, attributes=PLAIN_LINEAR)
    if name == "linear_qd8_qc8w":
        return case.result(name, [x, case.add_packed(256, 256)], out, SCRATCH)
    if name == "linear_f32_qc8w":
        return case.result(name, [x, case.add_packed(256, 256)], out)
    if name == "linear_qd8_qb4w":
        panel = np.concatenate([np.full(128, 0x3A80, np.uint16).view(np.int8), case.bytes_of(8 * 256)])
        return case.result(name, [x, case.constant("int4", np.tile(panel, (16, 1)))], out, SCRATCH, attributes=(32,))
    block = np.concatenate([np.full(16, 1e-3, np.float32).view(np.int8), case.bytes_of(256)])
    weight = case.constant("int4", np.tile(block, (16, 8)))
    return case.result(name, [x, weight], out, attributes=(32,))


def _linear_i8() -> bytes:
    case = KernelCase()
    x = case.input("x", I8, (64, 256))
    return case.result("linear_i8", [x, case.add_packed(256, 256)], (I8, (64, 256)), attributes=(1, -128, 127))


def _matmul() -> bytes:
    case = KernelCase()
    x, y = case.input("x", F32, (4, 64, 64)), case.input("y", F32, (4, 64, 64))
    return case.result("matmul", [x, y], (F32, (4, 64, 64)), SCRATCH, attributes=(1,))


def _attention() -> bytes:
    case = KernelCase()
    shape = (1, 4, 128, 16)
    qkv = [case.input(name, F32, shape) for name in "qkv"]
    return case.result("attention", qkv, (F32, shape), SCRATCH, attributes=(0.25, 0, -np.inf, 0))


def _attention_i8() -> bytes:
    case = KernelCase()
    shape = (1, 4, 128, 16)
    qkv = [case.input(name, I8, shape) for name in "qkv"]
    attributes = (2**-8, 0, -np.inf, 3, -2, 5, 0.75, 4, -128, 127)
    return case.result("attention_i8", qkv, (I8, shape), SCRATCH, attributes=attributes)


def _recurrent(name: str, gates: int, *attributes: int, is_int8: bool = False) -> bytes:
    case = KernelCase()
    x, h = case.input("x", F32, (16, 1, 64)), case.input("h", F32, (1, 64))
    make = case.add_packed if is_int8 else case.layer
    layers = [make(64 * gates, 64), make(64 * gates, 64)]
    state, last = [h], [(F32, (1, 64))]
    if name == "lstm":
        state, last = [h, case.input("c", F32, (1, 64))], [*last, *last]
    return case.result(name, [x, *state, *layers], (F32, (16, 1, 64)), *last, SCRATCH, attributes=attributes)


def _convolution(channels: int, outputs: int) -> bytes:
    case = KernelCase()
    x = case.input("x", F32, (1, 56, 56, channels))
    weight, out = case.layer(outputs, 9 * channels), (F32, (1, 56, 56, outputs))
    return case.result("conv2d", [x, weight], out, SCRATCH, attributes=(*WINDOW, 1, 0, *PLAIN))


def _winograd() -> bytes:
    case = KernelCase()
    x, panels = case.input("x", F32, (1, 56, 56, 32)), 2
    weight = case.floats(panels * 16 + 36 * panels * 16 * (32 + 1))
    out = (F32, (1, 56, 56, 32))
    return case.result("winograd_conv2d", [x, weight], out, SCRATCH, attributes=(1, 1, 1, 1, 0, *PLAIN))


def _pointwise() -> bytes:
    case = KernelCase()
    x, weight = case.input("x", F32, (1, 64, 784)), case.floats(64, 65)
    return case.result("pointwise_conv2d", [x, weight], (F32, (1, 64, 784)), SCRATCH, attributes=PLAIN)


def _groups() -> bytes:
    case = KernelCase()
    x, weight = case.input("x", F32, (1, 28, 28, 64)), case.floats(4, 37, 16)
    return case.result("conv2d", [x, weight], (F32, (1, 28, 28, 64)), SCRATCH, attributes=(*WINDOW, 16, 0, *PLAIN))


def _transpose() -> bytes:
    case = KernelCase()
    x = case.input("x", F32, (1, 64, 784))
    out = (F32, (1, 784, 64))
    return case.result("as_strided_copy", [x], out, attributes=(0, 64 * 784, 1, 784, *(0,) * 5))


def _depthwise() -> bytes:
    case = KernelCase()
    x, out = case.input("x", F32, (1, 56, 56, 64)), (F32, (1, 56, 56, 64))
    return case.result("depthwise_conv2d", [x, case.floats(10, 64)], out, attributes=(*WINDOW, *PLAIN))


def _image(name: str, size: int, *attributes: float) -> bytes:
    case = KernelCase()
    x = case.input("x", F32, (1, 56, 56, 32))
    return case.result(name, [x], (F32, (1, size, size, 32)), attributes=attributes)


def _grid_sample() -> bytes:
    case = KernelCase()
    x, grid = case.input("x", F32, (1, 56, 56, 32)), case.input("grid", F32, (1, 28, 28, 2))
    return case.result("grid_sample", [x, grid], (F32, (1, 28, 28, 32)), attributes=(0, 0, 0))


def _table_of_colors() -> bytes:
    case = KernelCase()
    x, grid = case.input("x", F32, (1, 33, 33, 33, 3)), case.input("grid", F32, (1, 1, 180, 320, 3))
    return case.result("grid_sample3d", [x, grid], (F32, (1, 1, 180, 320, 3)), attributes=(0, 1, 1))


def _mix() -> bytes:
    case = KernelCase()
    images = [case.input(name, F32, (1, 3, 180, 320)) for name in ("background", "frame")]
    alpha = case.input("alpha", F32, (1, 1, 72, 128))
    return case.result("composite", [*images, alpha], (F32, (1, 3, 180, 320)), attributes=(0, 1, 0, 0.0, 0.0))


def _boxes() -> bytes:
    """Those of a detector at 320 by 320 pixels; few overlap, so that many are compared."""
    case = KernelCase()
    inputs = [case.input("boxes", F32, (1, 2100, 4)), case.input("scores", F32, (1, 2100))]
    outputs = ((I64, (1, 300)), (I64, (1,)), SCRATCH)
    return case.result("non_maximum_suppression", inputs, *outputs, attributes=(0.5, 0.0))


def _int8(name: str, *attributes: float, outputs: int = 64, weight: str = "") -> bytes:
    """Add an operator over an int8 image of 28 by 28 pixels and 64 channels."""
    case = KernelCase()
    shape = (1, 28, 28, 64)
    inputs = [case.input("x", I8, shape)]
    scratch = [SCRATCH] if name == "conv2d_i8" else []
    if weight == "same":
        inputs.append(case.input("y", I8, shape))
    elif weight == "table":
        inputs.append(case.constant("table", np.arange(-128, 128).astype(np.int8)))
    elif weight == "packed":
        inputs.append(case.add_packed(outputs, 9 * (1 if name.startswith("depthwise") else 64)))
    out = {"mean_i8": (1, 64), "max_pool2d_i8": (1, 14, 14, 64)}.get(name, (1, 28, 28, outputs))
    return case.result(name, inputs, (I8, out), *scratch, attributes=attributes)


def _depthwise_i8() -> bytes:
    case = KernelCase()
    x, head = case.input("x", I8, (1, 28, 28, 64)), np.zeros(16, np.int32).view(np.int8)
    scales = np.full(16, 1e-3, np.float32).view(np.int8)
    weight = np.stack([np.concatenate([head, scales, case.bytes_of(16 * 9)]) for _ in range(4)])
    inputs, attributes = [x, case.constant("weight", weight)], (*WINDOW, 3, -2, -128, 127)
    return case.result("depthwise_conv2d_i8", inputs, (I8, (1, 28, 28, 64)), attributes=attributes)


def _between(name: str, input_dtype: DType, result_dtype: DType) -> bytes:
    case = KernelCase()
    shape = (1, 28, 28, 64)
    return case.result(name, [case.input("x", input_dtype, shape)], (result_dtype, shape), attributes=(0.03125, 3))


def _embedding_i8() -> bytes:
    case = KernelCase()
    table = case.constant("table", case.bytes_of(4096 * 64).reshape(4096, 64))
    ids = case.input("ids", I64, (256,))
    return case.result("embedding_i8", [ids, table, case.floats(64)], (F32, (256, 64)))


def _transform(name: str) -> bytes:
    """64 frames of 512 points, as of a spectrogram."""
    case = KernelCase()
    is_real = name != "fft"
    width = 257 if name == "irfft" else 512
    parts = [case.input(part, F32, (64, width)) for part in (("re",) if name == "rfft" else ("re", "im"))]
    table = case.constant("table", transform_table(16, 16 if is_real else 32, is_real=is_real))
    row: Outputs = (F32, (64, 257 if name == "rfft" else 512))
    outputs = (row, SCRATCH) if name == "irfft" else (row, SCRATCH, row)
    return case.result(name, [*parts, table], *outputs, attributes=(16, 1.0))


CASES: Final[dict[tuple[str, str], Callable[[], bytes]]] = {
    ("text_embedding_bag", "f32"): partial(_bag, F32),
    ("text_embedding_bag", "i8"): partial(_bag, I8),
    ("embedding_bag_offsets", "f32"): _bags,
    ("embedding_i8", "f32"): _embedding_i8,
    ("unary", "f32"): partial(_rows, "unary", (1, 28, 28, 64), *RELU.numbers()),
    ("binary", "f32"): _binary,
    ("softmax", "f32"): partial(_rows, "softmax", (128, 128), 0),
    ("reduce", "f32"): _reduce,
    ("layer_norm", "f32"): partial(_rows, "layer_norm", (128, 256), 0, 1, 3, 1e-5, *PLAIN, weights=2),
    ("group_norm", "f32"): partial(_rows, "group_norm", (1, 28, 28, 64), 8, 3, 1e-5, *PLAIN, weights=2),
    ("linear", "f32"): partial(_linear, "linear"),
    ("linear", "halves"): partial(_linear, "linear", DType.F16),
    ("linear_i8", "i8"): _linear_i8,
    ("linear_qd8_qc8w", "f32"): partial(_linear, "linear_qd8_qc8w"),
    ("linear_f32_qc8w", "f32"): partial(_linear, "linear_f32_qc8w"),
    ("linear_f32_qc8w", "panels"): partial(_recurrent, "gru", 3, 0, is_int8=True),
    ("linear_f32_qb4w", "f32"): partial(_linear, "linear_f32_qb4w"),
    ("linear_qd8_qb4w", "f32"): partial(_linear, "linear_qd8_qb4w"),
    ("matmul", "f32"): _matmul,
    ("attention", "f32"): _attention,
    ("attention_i8", "i8"): _attention_i8,
    ("fft", "f32"): partial(_transform, "fft"),
    ("rfft", "f32"): partial(_transform, "rfft"),
    ("irfft", "f32"): partial(_transform, "irfft"),
    ("rnn", "f32"): partial(_recurrent, "rnn", 1, 0, 0),
    ("gru", "f32"): partial(_recurrent, "gru", 3, 0),
    ("lstm", "f32"): partial(_recurrent, "lstm", 4, 0),
    ("conv2d", "f32"): partial(_convolution, 32, 32),
    ("conv2d", "narrow"): partial(_convolution, 32, 3),
    ("conv2d", "groups"): _groups,
    ("as_strided_copy", "any"): _transpose,
    ("winograd_conv2d", "f32"): _winograd,
    ("pointwise_conv2d", "f32"): _pointwise,
    ("depthwise_conv2d", "f32"): _depthwise,
    ("pool2d", "f32"): partial(_image, "pool2d", 28, 0, 2, 2, 2, 2, 0, 0, 1, 1, 0, 0, 0),
    ("resize2d", "f32"): partial(_image, "resize2d", 112, 1, 0, 0.0, 0.0),
    ("grid_sample", "f32"): _grid_sample,
    ("grid_sample3d", "f32"): _table_of_colors,
    ("composite", "f32"): _mix,
    ("non_maximum_suppression", "f32"): _boxes,
    ("quantize", "f32"): partial(_between, "quantize", F32, I8),
    ("dequantize", "i8"): partial(_between, "dequantize", I8, F32),
    ("conv2d_i8", "i8"): partial(_int8, "conv2d_i8", *WINDOW, 1, 3, -2, -128, 127, weight="packed"),
    ("depthwise_conv2d_i8", "i8"): _depthwise_i8,
    ("add_i8", "i8"): partial(_int8, "add_i8", 0.5, 0.25, 3, 3, 0, -128, 127, weight="same"),
    ("mul_i8", "i8"): partial(_int8, "mul_i8", 0.5, 3, 3, 0, -128, 127, weight="same"),
    ("lut_i8", "i8"): partial(_int8, "lut_i8", weight="table"),
    ("mean_i8", "i8"): partial(_int8, "mean_i8", 1, 2, 0, 2.0**-10, 3, -2, -128, 127),
    ("max_pool2d_i8", "i8"): partial(_int8, "max_pool2d_i8", 2, 2, 2, 2, 0, 0, 1, 1, 0),
}
"""By the operator and the type that the manifest names; those without an optimized kernel use one that has."""


def optimized_kernels(kernels: Iterable[tuple[str, str, str, str]]) -> set[tuple[str, str]]:
    """Return (op, dtype) of the manifest's kernels that stand in for a scalar one on some instruction set."""
    return {(op, dtype) for op, dtype, isa, _ in kernels if isa != "scalar"}


def operators(program: bytes) -> set[str]:
    """Return the names of the operators of a program."""
    return {op.name for op in read_spec(program).ops}
