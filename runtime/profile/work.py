"""Counts an operator's work: multiply-adds, and bytes in and out.

Pure counting from shapes and attributes, of a program whose sizes are all known (`format/fixed.py`).  Multiply-adds are
those of products, as the operator computes them: Winograd's form counts its own, and what gathers, compares or adds
counts none and is judged by its bytes.  Bytes are of each operand once: weights as they are stored, of a table the
rows that are picked, of scratch nothing.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from alcove.runtime import _native
from alcove.runtime.format.spec import (
    DTYPE_BYTES,
    HALVES,
    READS_HALVES,
    DType,
    OpSpec,
    ProgramSpec,
    Storage,
    TensorSpec,
)

__all__ = ["PRODUCTS", "Work", "has_scratch", "work_of"]

TILE: Final = 4
"""Side of Winograd's tiles, in pixels; each takes 6 x 6 products of a channel and an output."""
_TILE_PRODUCTS: Final = 36


@dataclass(frozen=True)
class Work:
    """What one run of an operator takes.

    Attributes:
        multiply_adds: of its products.
        arithmetic: the peak that they are compared with, "f32" or "i8"; "" without products.
        weight_bytes: of constants that are read.
        activation_bytes: of other tensors that are read or written.
    """

    multiply_adds: int
    arithmetic: str
    weight_bytes: int
    activation_bytes: int

    @property
    def flops(self) -> int:
        """Operations: two for each multiply-add."""
        return 2 * self.multiply_adds

    @property
    def bytes_moved(self) -> int:
        """All of its bytes."""
        return self.weight_bytes + self.activation_bytes


@dataclass(frozen=True)
class _Seen:
    """An operator with its tensors and named attributes."""

    op: OpSpec
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    attributes: Mapping[str, int | float]

    def whole(self, name: str) -> int:
        return int(self.attributes[name])


_ATTRIBUTES: Final = {op.name: [name for name, _ in op.attributes] for op in _native.manifest()}


def work_of(spec: ProgramSpec, op: OpSpec, rows: Mapping[int, int] | None = None) -> Work:
    """Return what an operator takes.

    Args:
        spec: a program without symbols.
        op: one of its operators.
        rows: of ragged tensors, how many rows are in use; a tensor that is absent has its greatest number.
    """
    tensors = [_with_rows(spec.tensors[index], (rows or {}).get(index)) for index in (*op.inputs, *op.outputs)]
    seen = _Seen(
        op,
        tuple(tensors[: len(op.inputs)]),
        tuple(tensors[len(op.inputs) :]),
        dict(zip(_ATTRIBUTES[op.name], op.attributes, strict=True)),
    )
    count = PRODUCTS.get(op.name)
    weights, activations = _bytes(spec, seen)
    return Work(
        multiply_adds=count(seen) if count else 0,
        arithmetic=("i8" if _is_int8(seen) else "f32") if count else "",
        weight_bytes=weights,
        activation_bytes=activations,
    )


def has_scratch(op: str) -> bool:
    """Return whether the last output of an operator is scratch: memory of its own, which is no result."""
    return op in _SCRATCH


def _with_rows(tensor: TensorSpec, rows: int | None) -> TensorSpec:
    if rows is None or not tensor.is_ragged:
        return tensor
    return TensorSpec(tensor.name, tensor.dtype, (rows, *tensor.shape[1:]), tensor.storage, tensor.layout)


def _is_int8(seen: _Seen) -> bool:
    if seen.op.name in _RECURRENT:  # rank 1: packed for products of bytes; other int8 weights are made floats
        weights = seen.inputs[_RECURRENT[seen.op.name][1]]
        return weights.dtype is DType.I8 and len(weights.shape) == 1
    return seen.op.name.endswith("_i8") or seen.op.name.startswith("linear_qd8_")


def _elements(tensor: TensorSpec) -> int:
    return math.prod(tensor.shape)


# -- multiply-adds ----------------------------------------------------------------------------------------------------


def _linear(seen: _Seen) -> int:
    return _elements(seen.outputs[0]) * seen.inputs[0].shape[-1]


def _attention(seen: _Seen) -> int:
    query, key, value = seen.inputs[:3]
    scores = _elements(seen.outputs[0]) // max(1, value.shape[-1]) * key.shape[-2]
    return scores * (query.shape[-1] + value.shape[-1])


def _taps(seen: _Seen) -> int:
    return seen.whole("kernel_h") * seen.whole("kernel_w")


def _conv2d(seen: _Seen) -> int:
    return _elements(seen.outputs[0]) * _taps(seen) * (seen.inputs[0].shape[-1] // seen.whole("groups"))


def _depthwise(seen: _Seen) -> int:
    return _elements(seen.outputs[0]) * _taps(seen)


def _conv_transpose2d(seen: _Seen) -> int:
    return _elements(seen.inputs[0]) * _taps(seen) * (seen.outputs[0].shape[-1] // seen.whole("groups"))


def _winograd(seen: _Seen) -> int:
    batch, rows, columns, outputs = seen.outputs[0].shape
    tiles = batch * -(-rows // TILE) * -(-columns // TILE)
    return tiles * _TILE_PRODUCTS * seen.inputs[0].shape[-1] * outputs


def _separable(seen: _Seen) -> int:
    image, output = seen.inputs[0], seen.outputs[0]
    has_expand = seen.whole("has_expand")
    channels = seen.inputs[1 + has_expand].shape[1]
    pixels = _elements(output) // output.shape[-1]
    expand = _elements(image) * channels if has_expand else 0
    return expand + pixels * channels * (_taps(seen) + output.shape[-1])


def _squeeze_excite(seen: _Seen) -> int:
    image, output = seen.inputs[0], seen.outputs[0]
    gates = image.shape[0] * 2 * math.prod(seen.inputs[1].shape)
    return gates + _elements(output) * image.shape[-1]


def _pointwise(seen: _Seen) -> int:
    return _elements(seen.outputs[0]) * seen.inputs[0].shape[1]


_RECURRENT: Final = {"rnn": (1, 2), "gru": (3, 2), "lstm": (4, 3)}
"""Gates of each, and which input has the weights of x."""


def _recurrent(seen: _Seen) -> int:
    gates, _ = _RECURRENT[seen.op.name]
    steps, batch, features = seen.inputs[0].shape
    width = seen.inputs[1].shape[1]
    hidden = seen.inputs[2].shape[1] if seen.op.name == "lstm" else width
    projection = hidden * width if seen.op.name == "lstm" and len(seen.inputs) > 5 else 0
    return steps * batch * (gates * hidden * (features + width) + projection)


PRODUCTS: Final[dict[str, Callable[[_Seen], int]]] = {
    "linear": _linear,
    "linear_i8": _linear,
    "linear_qd8_qc8w": _linear,
    "linear_qd8_qb4w": _linear,
    "linear_f32_qc8w": _linear,
    "linear_f32_qb4w": _linear,
    "matmul": _linear,
    "attention": _attention,
    "cached_attention": _attention,
    "attention_i8": _attention,
    "conv2d": _conv2d,
    "conv2d_i8": _conv2d,
    "depthwise_conv2d": _depthwise,
    "depthwise_conv2d_i8": _depthwise,
    "conv_transpose2d": _conv_transpose2d,
    "winograd_conv2d": _winograd,
    "separable_conv2d": _separable,
    "squeeze_excite_conv2d": _squeeze_excite,
    "pointwise_conv2d": _pointwise,
    "rnn": _recurrent,
    "gru": _recurrent,
    "lstm": _recurrent,
}
"""Operators with products; all others have none."""


# -- bytes ------------------------------------------------------------------------------------------------------------

_SCRATCH: Final = frozenset({
    "matmul", "attention", "cached_attention", "conv2d", "conv_transpose2d", "winograd_conv2d", "separable_conv2d",
    "squeeze_excite_conv2d", "rnn", "gru", "lstm", "conv2d_i8", "linear_qd8_qc8w", "linear_qd8_qb4w", "sort",
    "attention_i8", "pointwise_conv2d",
})  # fmt: skip
_PICKS: Final = {"index_select": 0, "gather": 0, "as_strided_copy": 0, "embedding_i8": 1}
"""Operators that read as much of an input as they write, and which input that is."""


def _bytes(spec: ProgramSpec, seen: _Seen) -> tuple[int, int]:
    op = seen.op
    if op.name == "reshape" and _place(spec, op.inputs[0]) == _place(spec, op.outputs[0]):
        return 0, 0  # a view
    outputs = seen.outputs[:-1] if has_scratch(op.name) else seen.outputs
    reads = [_read_bytes(seen, at, outputs[0]) for at in range(len(seen.inputs))]
    is_constant = [tensor.storage is Storage.CONSTANT for tensor in seen.inputs]
    weights = sum(size for size, constant in zip(reads, is_constant, strict=True) if constant)
    return weights, sum(reads) - weights + sum(tensor.size_bytes for tensor in outputs)


def _read_bytes(seen: _Seen, at: int, output: TensorSpec) -> int:
    tensor, name = seen.inputs[at], seen.op.name
    if tensor.dtype in HALVES and READS_HALVES.get(name) != at:
        tensor = replace(tensor, dtype=DType.F32)  # widened when the file was opened
    if _PICKS.get(name) == at:
        return min(tensor.size_bytes, _elements(output) * DTYPE_BYTES[tensor.dtype])
    if name in {"text_embedding_bag", "embedding_bag_offsets"} and at == 1:
        return _elements(seen.inputs[0]) * tensor.shape[-1] * DTYPE_BYTES[tensor.dtype]
    return tensor.size_bytes


def _place(spec: ProgramSpec, index: int) -> int:
    tensor = spec.tensors[index]
    return tensor.offset if tensor.storage is Storage.ARENA else -1 - index
