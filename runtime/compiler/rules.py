"""Which torch operators does a program have, in which forms, and what do they become?

One rule an operator.  A rule gets the call's arguments by name and returns what to emit, or raises `Refused` with the
nearest form that would do.  `NEAREST` answers for operators without a rule.  The authority on operators is the manifest
of the kernels; a test compares.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.weights import toggle_transposed
from alcove.runtime.format.spec import DType

TEXT_ONLY: Final = "a text can only be read, whole, by alcove::ngram_hash"


class Refused(Exception):  # noqa: N818 - an answer of a rule, not an error of the exporter
    """A rule does not take a call; the text names the nearest form that it takes."""


@dataclass(frozen=True, eq=False)
class Operand:
    """A tensor argument: the value, and the shape (upper bounds) and type under which torch sees it here."""

    value: Value
    shape: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Call:
    """One call of a torch operator: arguments by name (tensors as `Operand`) and the first result's shape and type."""

    arguments: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self, name: str) -> Operand:
        """Return the tensor argument `name`."""
        operand = self.arguments[name]
        if not isinstance(operand, Operand):
            raise Refused(f"{name} must be a tensor")
        return operand

    def numbers(self, name: str) -> Value:
        """Return the f32 argument `name` as [rows, columns]; refuse anything else."""
        operand = self.tensor(name)
        value = operand.value
        if value.dtype is DType.TEXT:
            raise Refused(TEXT_ONLY)
        if operand.dtype is not torch.float32:
            raise Refused(f"{name} is {operand.dtype}; use float32")
        if value.constant is not None:
            raise Refused(f"{name} is a constant; only what depends on an input is computed on the device")
        if canonical_shape(operand.shape) != value.shape:
            raise Refused(
                f"{name} was reshaped from {list(value.shape)} to {list(operand.shape)}; keep [rows, columns]"
            )
        return value


@dataclass(frozen=True, eq=False)
class Emitted:
    """One node of ours: inputs, of which new ones are added to the graph; (type, shape, is_ragged) of each output."""

    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[tuple[DType, tuple[int, ...], bool], ...]
    attributes: tuple[int | float, ...] = ()


def canonical_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return [rows, columns]: all dimensions but the last as one."""
    return (math.prod(shape[:-1]), shape[-1]) if shape else (1, 1)


def _constant(operand: Operand, what: str) -> Value:
    """Return a constant f32 operand; refuse what is computed, of another type or not finite."""
    value = operand.value
    if value.constant is None:
        raise Refused(f"{what} must be a parameter or a constant, not something computed from an input")
    if operand.dtype is not torch.float32:
        raise Refused(f"{what} is {operand.dtype}; use float32 (module.float())")
    if not np.isfinite(value.constant).all():
        raise Refused(f"{what} {value.name!r} holds a value that is not finite")
    return value


def _transposed(value: Value) -> Value:
    array = np.ascontiguousarray(value.array.T)
    return replace(value, key=value.key + "^T", name=toggle_transposed(value.name), shape=array.shape, constant=array)


def _linear_node(x: Value, weight: Value, bias: Value | None) -> Emitted:
    """Return the node for `x @ weight.T + bias`; weight [n, k]."""
    if len(weight.shape) != 2:
        raise Refused(f"the weight has shape {list(weight.shape)}; use [outputs, inputs]")
    inputs: tuple[Value, ...] = (x, weight)
    if bias is not None:
        flat = canonical_shape(bias.shape)
        if flat != (1, weight.shape[0]):
            raise Refused(f"the bias has shape {list(bias.shape)}; use [{weight.shape[0]}]")
        inputs = (x, weight, bias)
    return Emitted("linear", inputs, ((DType.F32, (x.shape[0], weight.shape[0]), False),))


def _linear(call: Call) -> Emitted:
    bias = call.arguments.get("bias")
    return _linear_node(
        call.numbers("input"),
        _constant(call.tensor("weight"), "the weight"),
        None if bias is None else _constant(bias, "the bias"),
    )


def _addmm(call: Call) -> Emitted:
    if call.arguments["alpha"] != 1 or call.arguments["beta"] != 1:
        raise Refused("addmm with alpha = beta = 1 (scale the weight instead)")
    weight = _transposed(_matrix(call.tensor("mat2")))
    return _linear_node(call.numbers("mat1"), weight, _constant(call.tensor("self"), "the bias"))


def _matmul(other: str) -> Callable[[Call], Emitted]:
    def rule(call: Call) -> Emitted:
        weight = _matrix(call.tensor(other))
        return _linear_node(call.numbers("self"), _transposed(weight), None)

    return rule


def _matrix(operand: Operand) -> Value:
    value = _constant(operand, "the second factor")
    if len(value.shape) != 2:
        raise Refused(f"the second factor has shape {list(value.shape)}; use a matrix [inputs, outputs]")
    return value


def _embedding_bag(call: Call) -> Emitted:
    arguments = call.arguments
    mode = arguments["mode"]
    if mode not in (0, 1):
        raise Refused("embedding_bag with mode='sum' or mode='mean'")
    if arguments.get("per_sample_weights") is not None:
        raise Refused("embedding_bag without per_sample_weights")
    if arguments.get("padding_idx") not in (None, -1):
        raise Refused("embedding_bag without padding_idx")
    if arguments.get("include_last_offset"):
        raise Refused("embedding_bag with include_last_offset=False")
    offsets = call.tensor("offsets").value.constant
    if offsets is None or offsets.tolist() != [0]:
        raise Refused("embedding_bag of one bag: 1-D ids with constant offsets [0]")
    ids = call.tensor("indices")
    if len(ids.shape) != 1 or ids.value.dtype is not DType.I32 or ids.value.shape != ids.shape:
        raise Refused("embedding_bag of 1-D ids that come from alcove::ngram_hash or from an int32 input")
    table = _constant(call.tensor("weight"), "the table")
    return Emitted("embedding_bag", (ids.value, table), ((DType.F32, (1, table.shape[1]), False),), (mode,))


def _relu(call: Call) -> Emitted:
    x = call.numbers("self")
    return Emitted("relu", (x,), ((DType.F32, x.shape, False),))


def _softmax(call: Call) -> Emitted:
    x = call.numbers("self")
    rank = len(call.tensor("self").shape)
    if call.arguments["dim"] not in (-1, rank - 1):
        raise Refused("softmax over the last dimension")
    if call.arguments.get("dtype") not in (None, torch.float32) or call.arguments.get("half_to_float"):
        raise Refused("softmax in float32")
    return Emitted("softmax", (x,), ((DType.F32, x.shape, False),))


def _topk(call: Call) -> Emitted:
    x = call.numbers("self")
    rank = len(call.tensor("self").shape)
    if call.arguments["dim"] not in (-1, rank - 1):
        raise Refused("topk over the last dimension")
    if not call.arguments["largest"]:
        raise Refused("topk with largest=True (negate the weights before it)")
    if x.shape[0] != 1:
        raise Refused(f"topk of one row, not of {x.shape[0]}")
    k = call.arguments["k"]
    return Emitted("topk", (x,), ((DType.F32, (1, k), False), (DType.I32, (1, k), False)), (k,))


def _ngram_hash(call: Call) -> Emitted:
    text = call.tensor("utf8").value
    if text.dtype is not DType.TEXT:
        raise Refused("alcove::ngram_hash of a text: pass a str as the example argument, use it as it comes")
    attributes = tuple(call.arguments[name] for name in ("min_order", "max_order", "buckets", "seed"))
    return Emitted("ngram_hash", (text,), ((DType.I32, (call.arguments["capacity"],), True),), attributes)


RULES: Final[Mapping[str, Callable[[Call], Emitted]]] = {
    "alcove.ngram_hash.default": _ngram_hash,
    "aten.linear.default": _linear,
    "aten.addmm.default": _addmm,
    "aten.mm.default": _matmul("mat2"),
    "aten.matmul.default": _matmul("other"),
    "aten.embedding_bag.default": _embedding_bag,
    "aten.embedding_bag.padding_idx": _embedding_bag,
    "aten._embedding_bag.default": _embedding_bag,
    "aten._embedding_bag_forward_only.default": _embedding_bag,
    "aten.relu.default": _relu,
    "aten.softmax.int": _softmax,
    "aten._softmax.default": _softmax,
    "aten.topk.default": _topk,
}


def alias_of(call: Call) -> str:
    """Return the key of the value that a call hands on unchanged; refuse where elements would move or change."""
    name = "self" if "self" in call.arguments else "input"
    operand = call.tensor(name)
    value = operand.value
    if value.dtype is DType.TEXT:
        raise Refused(TEXT_ONLY)
    is_index = value.dtype is DType.I32 and call.dtype in (torch.int32, torch.int64)
    if call.dtype is not operand.dtype and not is_index:
        raise Refused(f"no conversion from {operand.dtype} to {call.dtype}; stay in float32")
    shape = canonical_shape(call.shape) if value.dtype is DType.F32 else call.shape
    if shape != value.shape:
        raise Refused(
            f"reshaping {list(operand.shape)} to {list(call.shape)} moves rows and columns; only dimensions of size 1 "
            "in front can come and go"
        )
    return value.key


ALIASES: Final[frozenset[str]] = frozenset(
    {
        "aten._to_copy.default",
        "aten._unsafe_view.default",
        "aten.alias.default",
        "aten.clone.default",
        "aten.contiguous.default",
        "aten.detach.default",
        "aten.dropout.default",
        "aten.expand.default",
        "aten.flatten.using_ints",
        "aten.reshape.default",
        "aten.squeeze.default",
        "aten.squeeze.dim",
        "aten.squeeze.dims",
        "aten.to.dtype",
        "aten.to.dtype_layout",
        "aten.unsqueeze.default",
        "aten.view.default",
    }
)
"""Operators that hand on their input wherever no element moves."""

NEAREST: Final[Mapping[str, str]] = {
    "add": "a constant vector can be added right after a linear; two computed values cannot be added",
    "argmax": "topk with k=1",
    "avg_pool2d": "none yet; reduce before the program",
    "batch_norm": "fold it into the linear before it (torch.nn.utils.fusion)",
    "_native_batch_norm_legit": "fold it into the linear before it (torch.nn.utils.fusion)",
    "_native_batch_norm_legit_functional": "module.eval(), and fold it into the linear before it",
    "bmm": "linear with a constant weight",
    "cat": "one linear over one wider input",
    "conv1d": "linear over a fixed window",
    "conv2d": "linear over a fixed window",
    "elu": "relu",
    "embedding": "embedding_bag with mode='sum' of one id",
    "gelu": "relu",
    "hardswish": "relu",
    "hardtanh": "relu",
    "layer_norm": "none; normalise the inputs of training instead",
    "leaky_relu": "relu",
    "log_softmax": "softmax; take the logarithm outside the program",
    "max": "topk with k=1",
    "mean": "embedding_bag with mode='mean' for ids; a linear with weights 1/n for numbers",
    "mul": "scale the weight of the linear before or after it",
    "native_dropout": "call module.eval() before export",
    "native_layer_norm": "none; normalise the inputs of training instead",
    "prelu": "relu",
    "sigmoid": "softmax over [0, x] gives the same probability",
    "silu": "relu",
    "sort": "topk",
    "sub": "a constant vector can be added right after a linear; add its negative",
    "sum": "embedding_bag with mode='sum' for ids; a linear with weights 1 for numbers",
    "tanh": "relu",
}
"""The nearest supported form of common operators that have no rule, by torch's name without namespace and overload."""
