"""Builds graphs for lowering rules.

A `Builder` adds nodes and values to the graph in the making.  Movements of constants are computed at once, so a rule
may move a weight as it moves an activation.
"""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from alcove.runtime import _native
from alcove.runtime.compiler.graph import NONE, Array, Node, Origin, TorchNumbers, Value
from alcove.runtime.compiler.sizes import broadcast_shapes, whole
from alcove.runtime.compiler.weights import COMPUTED, toggle_transposed
from alcove.runtime.format.attributes import (
    AsStridedCopyAttributes,
    BinaryAttributes,
    ConcatAttributes,
    UnaryAttributes,
)
from alcove.runtime.format.named_attributes import Attributes
from alcove.runtime.format.spec import DType

NUMPY: Mapping[DType, np.dtype[np.generic]] = {
    DType.F32: np.dtype("<f4"),
    DType.I8: np.dtype("i1"),
    DType.I32: np.dtype("<i4"),
    DType.I64: np.dtype("<i8"),
    DType.U8: np.dtype("u1"),
    DType.BOOL: np.dtype("?"),
}
FOLLOWER = "follower"
"""Op of a node without a rule that is not to blame: `legalize` reports the one it follows."""
_DTYPE_OF = {dtype: kind for kind, dtype in NUMPY.items()}
_CHECKED: Mapping[str, slice] = {
    "index_select": slice(1, 2),
    "gather": slice(1, 2),
    "scatter": slice(1, 2),
    "index_put": slice(1, 2),
    "ravel_multi_index": slice(None),
    "embedding_bag_offsets": slice(0, 1),
}
"""Inputs that end a run where they lie outside a table, by op."""
_DIVISIONS = ("div", "floor_div", "trunc_div", "fmod", "remainder")


@cache
def function_number(op: str, name: str) -> int:
    """Return the number of function `name` of op "unary", "binary" or "special", from the kernels' own list."""
    return int(_native.functions(op)[name])


def unary_attributes(function: str, a: float = 0.0, b: float = 0.0, c: float = 0.0) -> UnaryAttributes:
    """Return the attributes of a unary `function` with its parameters."""
    return UnaryAttributes(function=function_number("unary", function), a=float(a), b=float(b), c=float(c))


def binary_attributes(function: str) -> BinaryAttributes:
    """Return the attributes of a binary `function`."""
    return BinaryAttributes(function=function_number("binary", function))


def has_function(node: Node, op: str, *names: str) -> bool:
    """Return whether `node` is a unary or binary `op` of one of these functions."""
    attributes = node.attributes
    if node.op != op or not isinstance(attributes, UnaryAttributes | BinaryAttributes):
        return False
    return attributes.function in {function_number(op, name) for name in names}


def bounds_of(node: Node) -> tuple[float, float] | None:
    """Return what a relu or clamp keeps within; None for all other nodes."""
    if has_function(node, "unary", "relu"):
        return 0.0, math.inf
    if not has_function(node, "unary", "clamp"):
        return None
    attributes = node.read(UnaryAttributes)
    return (attributes.a, attributes.b) if attributes.a <= attributes.b else None


class Builder:
    """Adds to a graph; one for a whole lowering, its `origin` is set for each torch node."""

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.origin = Origin("")
        self.prefix = ""
        self._count = 0
        self._guard: Value | None = None
        self._constants: dict[tuple[str, bytes, tuple[int, ...]], Value] = {}

    def start(self, prefix: str, origin: Origin) -> None:
        """Say where what follows comes from; `prefix` names the values, unique among torch's nodes."""
        self.prefix, self.origin, self._count = prefix, origin, 0

    # -- values ---------------------------------------------------------------------------------------------------

    def add(self, value: Value) -> Value:
        """Add a value as it is."""
        self.values[value.key] = value
        return value

    def constant(self, array: Array, name: str | None = None, shape: Sequence[int] | None = None) -> Value:
        """Return a constant of a numpy array; equal small ones are one.

        Args:
            array: of a type that a program holds.
            name: a parameter's, if `array` holds its elements in a form that `weights.py` can undo; "" for nothing
                worth a name, such as a bias of zeros.
            shape: the array's, where some of its sizes vary.
        """
        stored = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(array.shape)
        dtype = _DTYPE_OF[stored.dtype]
        sizes = stored.shape if shape is None else tuple(shape)
        cache_key = None
        if name is None and stored.nbytes <= 65536:
            cache_key = (dtype.name, stored.tobytes(), sizes)
            if cache_key in self._constants:
                return self._constants[cache_key]
        key = self._key()
        value = self.add(Value(key, COMPUTED + key if name is None else name, dtype, sizes, constant=stored))
        if cache_key is not None:
            self._constants[cache_key] = value
        return value

    def scalar(self, number: float, dtype: DType, shape: Sequence[int] = ()) -> Value:
        """Return a constant of `shape` with every element `number`, as torch would convert it."""
        return self.constant(np.full(tuple(shape), number).astype(NUMPY[dtype]))

    def varies(self, number: float) -> bool:
        """Return whether a number is another one at other sizes."""
        del number
        return False

    def zeros(self, count: int) -> Value:
        """Return the f32 [count] bias of a product that has none."""
        return self.constant(np.zeros(count, "<f4"), name="")

    # -- nodes ----------------------------------------------------------------------------------------------------

    def ops(
        self,
        op: str,
        inputs: Sequence[Value],
        outputs: Sequence[tuple[DType, Sequence[int]]],
        attributes: Attributes = NONE,
        *,
        ragged: bool = False,
    ) -> tuple[Value, ...]:
        """Add a node and return its outputs.

        Args:
            op: the runtime's name.
            inputs: in the op's order.
            outputs: type and shape of each.
            attributes: of the op's class.
            ragged: whether the first dimension of the outputs is an upper bound.
        """
        if self._guard is not None:
            inputs = self._guard_inputs(op, inputs, attributes, self._guard)
        results = []
        for dtype, shape in outputs:
            key = self._key()
            results.append(self.add(Value(key, key, dtype, tuple(map(whole, shape)), is_ragged=ragged)))
        self.nodes.append(
            Node(
                op,
                tuple(value.key for value in inputs),
                tuple(value.key for value in results),
                attributes,
                self.origin,
            )
        )
        return tuple(results)

    def op(
        self, op: str, inputs: Sequence[Value], dtype: DType, shape: Sequence[int], attributes: Attributes = NONE
    ) -> Value:
        """Add a node with one output and return it."""
        return self.ops(op, inputs, [(dtype, shape)], attributes)[0]

    def add_refused(
        self,
        target: str,
        inputs: Sequence[Value],
        outputs: Sequence[tuple[DType, Sequence[int]]],
        numbers: Sequence[int | float],
        refusal: str,
    ) -> tuple[Value, ...]:
        """Add a node under torch's own name, for `legalize` to report; return its outputs."""
        result = self.ops(target, inputs, outputs, TorchNumbers(given=tuple(numbers)))
        self.nodes[-1] = replace(self.nodes[-1], refusal=refusal)
        return result

    @contextlib.contextmanager
    def guard(self, condition: Value | None) -> Iterator[None]:
        """Let no node that is added meanwhile end a run where `condition` (bool, a scalar) is false.

        Indices are 0 and divisors of whole numbers 1 there; what the nodes compute then means nothing.
        """
        before = self._guard
        if condition is not None:
            self._guard = condition if before is None else self.binary("bitwise_and", before, condition)
        try:
            yield
        finally:
            self._guard = before

    def _guard_inputs(self, op: str, inputs: Sequence[Value], attributes: Attributes, guard: Value) -> Sequence[Value]:
        is_division = op == "binary" and any(
            isinstance(attributes, BinaryAttributes) and attributes.function == function_number("binary", name)
            for name in _DIVISIONS
        )
        if is_division and inputs[1].dtype is not DType.F32:
            checked, safe = slice(1, 2), 1
        elif op in _CHECKED:
            checked, safe = _CHECKED[op], 0
        else:
            return inputs
        safe_inputs = list(inputs)
        safe_inputs[checked] = [
            self.where(guard, value, self.scalar(safe, value.dtype)) for value in safe_inputs[checked]
        ]
        return safe_inputs

    # -- movements ------------------------------------------------------------------------------------------------

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """Return the elements of `x` in row-major order under another shape of as many elements."""
        target = tuple(map(whole, shape))
        if target == x.shape:
            return x
        if x.constant is not None:
            return self.constant(x.constant.reshape(target), shape=target)
        return self.op("reshape", [x], x.dtype, target)

    def copy_strided(self, x: Value, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Value:
        """Return `out[i...] = x.flat[offset + sum(i * stride)]`; strides in elements of row-major `x`, any sign."""
        target = tuple(map(whole, shape))
        if x.constant is not None:
            item = x.constant.itemsize
            view = np.lib.stride_tricks.as_strided(
                x.constant.reshape(-1)[offset:], target, tuple(stride * item for stride in strides)
            )
            return self.constant(view.copy(), shape=target)
        attributes = AsStridedCopyAttributes(offset=offset, strides=tuple(strides))
        return self.op("as_strided_copy", [x], x.dtype, target, attributes)

    def permute(self, x: Value, order: Sequence[int]) -> Value:
        """Return `x` with dimension i taken from dimension `order[i]`."""
        target = tuple(x.shape[axis] for axis in order)
        if tuple(order) == tuple(range(len(order))):
            return x
        if x.constant is not None:
            moved = x.constant.transpose(order)
            is_transpose = len(order) == 2
            name = toggle_transposed(x.name) if is_transpose and not x.name.startswith(COMPUTED) else None
            return self.constant(moved, name=name, shape=target)
        if [axis for axis in order if x.shape[axis] != 1] == [axis for axis in range(len(order)) if x.shape[axis] != 1]:
            return self.reshape(x, target)
        strides = row_major_strides(x.shape)
        return self.copy_strided(x, target, [strides[axis] for axis in order])

    def expand(self, x: Value, shape: Sequence[int]) -> Value:
        """Return `x` broadcast to `shape`, as torch does."""
        target = tuple(map(whole, shape))
        if target == x.shape:
            return x
        padded = (1,) * (len(target) - len(x.shape)) + x.shape
        if math.prod(target) == math.prod(x.shape):
            return self.reshape(x, target)
        strides = row_major_strides(padded)
        return self.copy_strided(
            x, target, [0 if size == 1 else stride for size, stride in zip(padded, strides, strict=True)]
        )

    def slice(self, x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
        """Return `x[start:stop:step]` along `axis`; 0 <= start < stop <= size, step >= 1."""
        size = -((start - stop) // step)
        if size == x.shape[axis]:
            return x
        strides = list(row_major_strides(x.shape))
        offset = start * strides[axis]
        strides[axis] *= step
        return self.copy_strided(x, (*x.shape[:axis], size, *x.shape[axis + 1 :]), strides, offset)

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """Return parts of one type one after the other along `axis`; more than 16 become a tree."""
        parts = [part for part in parts if 0 not in part.shape]
        while len(parts) > 1:
            groups = [parts[start : start + 16] for start in range(0, len(parts), 16)]
            parts = [group[0] if len(group) == 1 else self._concat(group, axis) for group in groups]
        return parts[0]

    def _concat(self, parts: Sequence[Value], axis: int) -> Value:
        size = sum(part.shape[axis] for part in parts)
        shape = (*parts[0].shape[:axis], size, *parts[0].shape[axis + 1 :])
        return self.op("concat", parts, parts[0].dtype, shape, ConcatAttributes(axis=axis))

    # -- arithmetic -----------------------------------------------------------------------------------------------

    def unary(
        self, function: str, x: Value, a: float = 0.0, b: float = 0.0, c: float = 0.0, *, dtype: DType | None = None
    ) -> Value:
        """Return `function(x)` for each element; the numbers `a`, `b` and `c` are its parameters."""
        return self.op("unary", [x], dtype or x.dtype, x.shape, unary_attributes(function, a, b, c))

    def binary(self, function: str, x: Value, y: Value, dtype: DType | None = None) -> Value:
        """Return `function(x, y)` for each pair of elements, broadcast; both of one type."""
        shape = broadcast_shapes(x.shape, y.shape)
        return self.op("binary", [x, y], dtype or x.dtype, shape, binary_attributes(function))

    def where(self, condition: Value, x: Value, y: Value) -> Value:
        """Return x where `condition` (bool) holds, else y; broadcast."""
        shape = broadcast_shapes(condition.shape, x.shape, y.shape)
        return self.op("where", [condition, x, y], x.dtype, shape)

    def cast(self, x: Value, dtype: DType) -> Value:
        """Return `x` in another type."""
        if x.dtype is dtype:
            return x
        if x.constant is not None:
            return self.constant(x.constant.astype(NUMPY[dtype]), shape=x.shape)
        return self.op("cast", [x], dtype, x.shape)

    def _key(self) -> str:
        self._count += 1
        return self.prefix if self._count == 1 else f"{self.prefix}.{self._count - 1}"


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a row-major tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)
