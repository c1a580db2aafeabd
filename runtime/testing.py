"""Builds small programs for tests and the fuzzer, and breaks programs on purpose.

An `Assembly` builds a spec op by op, with every tensor at an offset of its own; `classifier` is a whole text model of a
few kilobytes; `reseal` makes the digests of changed bytes right again, so that the checks behind them are reached.
"""

import functools
import hashlib
import struct
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from alcove.runtime import _native
from alcove.runtime.format import records
from alcove.runtime.format.attributes import (
    ArangeAttributes,
    AsStridedCopyAttributes,
    AsStridedScatterAttributes,
    BinaryAttributes,
    ConcatAttributes,
    EmbeddingBagOffsetsAttributes,
    FillAttributes,
    GatherAttributes,
    IndexPutAttributes,
    IndexSelectAttributes,
    LinearAttributes,
    NgramHashAttributes,
    PadAttributes,
    RavelMultiIndexAttributes,
    ScatterAttributes,
    SearchsortedAttributes,
    SoftmaxAttributes,
    TextEmbeddingBagAttributes,
    TopkAttributes,
    TrilTriuAttributes,
    UnaryAttributes,
)
from alcove.runtime.format.halves import narrow
from alcove.runtime.format.named_attributes import Attributes
from alcove.runtime.format.records import SectionKind, align_up
from alcove.runtime.format.spec import (
    DType,
    ExpressionKind,
    Layout,
    OpSpec,
    PortSpec,
    ProgramSpec,
    StateSpec,
    Storage,
    TensorSpec,
)
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing_sizes import Size, Sizes, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

NUMPY_TYPES: Final[dict[DType, type[np.generic]]] = {
    DType.F32: np.float32,
    DType.I8: np.int8,
    DType.I32: np.int32,
    DType.I64: np.int64,
    DType.U8: np.uint8,
    DType.BOOL: np.bool_,
}
"""What an array of each type is; text has none."""

PLAIN_LINEAR: Final = LinearAttributes(has_residual=0, activation=0, low=0.0, high=0.0)
"""Of a linear without residual and bounds."""

RELU: Final = UnaryAttributes(function=_native.functions("unary")["relu"], a=0.0, b=0.0, c=0.0)
"""Of a unary that is a relu."""

Shape: TypeAlias = tuple[int | Size, ...]
"""Dimensions: numbers, and sizes that come with the inputs."""

_DTYPES = {np.dtype(kind): dtype for dtype, kind in NUMPY_TYPES.items()}


class Assembly:
    """A program in the making. Every method that makes a tensor returns its index."""

    def __init__(self) -> None:
        self._tensors: list[TensorSpec] = []
        self._ops: list[OpSpec] = []
        self._inputs: list[PortSpec] = []
        self._outputs: list[PortSpec] = []
        self._states: list[StateSpec] = []
        self._arena_bytes = 0
        self.sizes = Sizes()

    def constant(self, name: str, values: "NDArray[Any]") -> int:
        """Add weights in row-major order."""
        return self._add(TensorSpec(name, _DTYPES[values.dtype], values.shape, Storage.CONSTANT, data=values.tobytes()))

    def panels(self, name: str, weight: "NDArray[np.float32]", bias: "NDArray[np.float32]") -> int:
        """Add the weight [n, k] and bias [n] of a linear in panels of 16."""
        n, k = weight.shape
        padded = np.zeros((align_up(n, 16), k + 1), np.float32)
        padded[:n, 0] = bias
        padded[:n, 1:] = weight
        data = padded.reshape(-1, 16, k + 1).transpose(0, 2, 1).tobytes()
        return self._add(TensorSpec(name, DType.F32, (n, k), Storage.CONSTANT, Layout.PANEL16, data=data))

    def narrow(self, constant: int, dtype: DType) -> int:
        """Round a constant and store it in F16 or BF16; its operators see it as float32."""
        tensor = self._tensors[constant]
        data = narrow(np.frombuffer(tensor.data, np.float32), dtype).tobytes()
        self._tensors[constant] = replace(tensor, dtype=dtype, data=data)
        return constant

    def state(self, name: str, initial: "NDArray[Any]") -> int:
        """Add what a session keeps from run to run; `update` says what it becomes."""
        constant = self.constant(f"{name}.initial", initial)
        tensor = self._add(TensorSpec(name, _DTYPES[initial.dtype], initial.shape, Storage.STATE))
        self._states.append(StateSpec(name, tensor, constant, -1))
        return tensor

    def update(self, state: int, tensor: int) -> None:
        """Say what a state becomes after a run."""
        at = next(i for i, s in enumerate(self._states) if s.tensor == state)
        self._states[at] = replace(self._states[at], update=tensor)

    def input(self, name: str, dtype: DType, shape: Shape = (), *, is_ragged: bool = False) -> int:
        """Add an input port and its tensor."""
        tensor = self._arena(name, dtype, shape, is_ragged=is_ragged)
        self.sizes.see(len(self._inputs), shape)
        self._inputs.append(PortSpec(name, tensor))
        return tensor

    def op(
        self,
        name: str,
        inputs: Sequence[int],
        *outputs: tuple[DType, Shape],
        attributes: "Attributes | tuple[int | float | Size, ...]" = (),
    ) -> tuple[int, ...]:
        """Add an op and its outputs, each a type and a shape; the ids of a hash are ragged.

        `attributes` are named, or a tuple in the order of the manifest.
        """
        result = tuple(
            self._arena(f"{name}.{len(self._tensors)}", dtype, shape, is_ragged=name == "ngram_hash")
            for dtype, shape in outputs
        )
        values, mask = split(attributes.numbers() if isinstance(attributes, Attributes) else attributes)
        self._ops.append(OpSpec(name, tuple(inputs), result, values, f"{name}.py:1", attribute_dynamic=mask))
        return result

    def output(self, name: str, tensor: int, labels: tuple[str, ...] = ()) -> None:
        """Add an output port."""
        self._outputs.append(PortSpec(name, tensor, labels))

    def spec(self, certificate: bytes = b"") -> ProgramSpec:
        """Return the program so far."""
        buckets = self.sizes.plan(self._tensors)
        tensors = [replace(tensor, offset=0) for tensor in self._tensors] if buckets else self._tensors
        return ProgramSpec(
            tuple(tensors),
            tuple(self._ops),
            tuple(self._inputs),
            tuple(self._outputs),
            buckets[-1].arena_bytes if buckets else self._arena_bytes,
            certificate,
            states=tuple(self._states),
            symbols=tuple(self.sizes.symbols),
            expressions=tuple(self.sizes.expressions),
            buckets=buckets,
        )

    def program(self) -> bytes:
        """Return the bytes of the program so far."""
        return write_program(self.spec())

    def _arena(self, name: str, dtype: DType, shape: Shape, *, is_ragged: bool) -> int:
        offset = 0 if dtype is DType.TEXT else self._arena_bytes
        dims, mask = split(shape)
        tensor = TensorSpec(name, dtype, dims, Storage.ARENA, is_ragged=is_ragged, offset=offset, dynamic_dims=mask)
        self._arena_bytes = align_up(self._arena_bytes + tensor.size_bytes, records.TENSOR_ALIGNMENT)
        return self._add(tensor)

    def _add(self, tensor: TensorSpec) -> int:
        self._tensors.append(tensor)
        return len(self._tensors) - 1


def classifier(
    *,
    buckets: int = 32,
    dim: int = 20,
    hidden: int = 18,
    classes: int = 17,
    capacity: int = 64,
    k: int = 3,
    is_int8: bool = True,
    certificate: bytes = b"",
) -> ProgramSpec:
    """Return a text model with all six operators, fixed weights, a relu in place and labels.

    Tensors: table 0, (scale 1,) hidden weights, output weights, text, ids, bag, hidden, relu, logits, probabilities,
    values, indices. Inputs: "text". Outputs: "values", "labels".
    """
    random = np.random.default_rng(7)
    build = Assembly()
    if is_int8:
        table = [build.constant("table", random.integers(-128, 128, (buckets, dim), np.int8))]
        table.append(build.constant("scale", random.random(dim, np.float32) / 64))
    else:
        table = [build.constant("table", random.standard_normal((buckets, dim), np.float32))]
    first = build.panels("first", random.standard_normal((hidden, dim), np.float32), np.ones(hidden, np.float32))
    second = build.panels(
        "second", random.standard_normal((classes, hidden), np.float32), np.zeros(classes, np.float32)
    )
    text = build.input("text", DType.TEXT)
    (ids,) = build.op(
        "ngram_hash",
        [text],
        (DType.I32, (capacity,)),
        attributes=NgramHashAttributes(min_order=1, max_order=3, buckets=buckets, seed=2**63 + 5),
    )
    (bag,) = build.op(
        "text_embedding_bag", [ids, *table], (DType.F32, (1, dim)), attributes=TextEmbeddingBagAttributes(mode=1)
    )
    (middle,) = build.op("linear", [bag, first], (DType.F32, (1, hidden)), attributes=PLAIN_LINEAR)
    (positive,) = build.op("unary", [middle], (DType.F32, (1, hidden)), attributes=RELU)
    (logits,) = build.op("linear", [positive, second], (DType.F32, (1, classes)), attributes=PLAIN_LINEAR)
    (shares,) = build.op("softmax", [logits], (DType.F32, (1, classes)), attributes=SoftmaxAttributes(is_log=0))
    values, indices = build.op(
        "topk", [shares], (DType.F32, (1, k)), (DType.I64, (1, k)), attributes=TopkAttributes(k=k, is_largest=1)
    )
    build.output("values", values)
    build.output("labels", indices, tuple(f"label {i}" for i in range(classes)))
    spec = build.spec(certificate)
    tensors = list(spec.tensors)
    tensors[positive] = replace(tensors[positive], offset=tensors[middle].offset)
    return replace(spec, tensors=tuple(tensors))


def counter(*, width: int = 5) -> ProgramSpec:
    """Return a program with two states: the total of all x so far, and the x before.

    Input: "x" f32 [width]. Outputs: "total", what it is now, never below 0, and "before", the x of the run before; they
    begin as ones and as twos.
    """
    build = Assembly()
    total = build.state("total", np.ones(width, np.float32))
    before = build.state("before", np.full((1, width), 2, np.float32))
    x = build.input("x", DType.F32, (width,))
    (sums,) = build.op(
        "binary",
        [x, total],
        (DType.F32, (width,)),
        attributes=BinaryAttributes(function=_native.functions("binary")["add"]),
    )
    (positive,) = build.op("unary", [sums], (DType.F32, (width,)), attributes=RELU)
    (row,) = build.op("reshape", [x], (DType.F32, (1, width)))
    (kept,) = build.op("concat", [before], (DType.F32, (1, width)), attributes=ConcatAttributes(axis=0))
    build.update(total, positive)
    build.update(before, row)
    build.output("total", positive)
    build.output("before", kept)
    return build.spec()


def rows() -> ProgramSpec:
    """Return a program of two sizes: "x" f32 [n, 4] and "y" f32 [m, 4], n in 1 ... 256 and m in 2 ... 64.

    Outputs: "both", the rows of x, then those of y; "flat", the softmax of those of x in one row; "halves", every other
    row of y; "backwards", the rows of y from the last. Buckets end at (n, m) = (16, 8), (16, 64) and the greatest.
    """
    build = Assembly()
    sizes = build.sizes
    n, m = sizes.symbol("n", 1, 256), sizes.symbol("m", 2, 64)
    sizes.bounds += [(16, 8), (16, 64)]
    x = build.input("x", DType.F32, (n, 4))
    y = build.input("y", DType.F32, (m, 4))
    build.output(
        "both",
        build.op(
            "concat",
            [x, y],
            (DType.F32, (sizes.combine(ExpressionKind.ADD, n, m), 4)),
            attributes=ConcatAttributes(axis=0),
        )[0],
    )
    (shares,) = build.op("softmax", [x], (DType.F32, (n, 4)), attributes=SoftmaxAttributes(is_log=0))
    whole = sizes.combine(ExpressionKind.MUL, n, 4)
    build.output("flat", build.op("reshape", [shares], (DType.F32, (1, whole)))[0])
    half = sizes.combine(ExpressionKind.FLOORDIV, m, 2)
    build.output(
        "halves",
        build.op(
            "as_strided_copy", [y], (DType.F32, (half, 4)), attributes=AsStridedCopyAttributes(offset=0, strides=(8, 1))
        )[0],
    )
    last = sizes.combine(ExpressionKind.MUL, sizes.combine(ExpressionKind.SUB, m, 1), 4)
    build.output(
        "backwards", build.op("as_strided_copy", [y], (DType.F32, (m, 4)), attributes=(last, -4, 1, *(0,) * 6))[0]
    )
    return build.spec()


def section(program: bytes, kind: SectionKind) -> tuple[int, int]:
    """Return offset and size of a section of a well-framed program; (0, 0) if it has none."""
    count = records.HEADER.unpack_from(program)[3]
    for index in range(count):
        found, _, offset, size, _ = records.SECTION.unpack_from(
            program, records.HEADER.size + index * records.SECTION.size
        )
        if found == kind:
            return offset, size
    return 0, 0


def patch(program: bytes, offset: int, record: str, *values: int | bytes) -> bytes:
    """Return the program with `values`, packed little-endian as `record` says, at `offset`; digests as they were."""
    data = struct.pack("<" + record, *values)
    return program[:offset] + data + program[offset + len(data) :]


def reseal(program: bytes) -> bytes:
    """Return the program with the digests of its sections and header made right, as far as they can be found."""
    data = bytearray(program)
    if len(data) < records.HEADER.size:
        return program
    count = min(records.HEADER.unpack_from(data)[3], (len(data) - records.HEADER.size) // records.SECTION.size)
    for index in range(count):
        start = records.HEADER.size + index * records.SECTION.size
        _, _, offset, size, _ = records.SECTION.unpack_from(data, start)
        if offset + size <= len(data):
            data[start + 24 : start + 56] = hashlib.sha256(data[offset : offset + size]).digest()
    table = data[records.HEADER.size : records.HEADER.size + count * records.SECTION.size]
    data[32:64] = hashlib.sha256(data[: records.DIGESTED_HEADER_BYTES] + table).digest()
    return bytes(data)


@functools.cache
def samples() -> MappingProxyType[str, bytes]:
    """Return small valid programs, by name, that together use every type and kind of port.

    Those of `testing_ops.py` use every operator.
    """
    programs = {
        "classifier_int8": write_program(classifier(certificate=b'{"samples":[]}')),
        "classifier_float32": write_program(classifier(is_int8=False, dim=3, hidden=1, classes=2, k=2)),
        "caller_ids": _caller_ids(),
        "layers": _layers(),
        "every_type": _every_type(),
        "counter": write_program(counter()),
        "rows": write_program(rows()),
        "places": _places(),
    }
    return MappingProxyType(programs)


def _caller_ids() -> bytes:
    """Two bags over ids that the caller gives: the run itself must check them."""
    build = Assembly()
    table = build.constant("table", np.arange(12, dtype=np.float32).reshape(4, 3))
    small = build.constant("small", np.arange(-6, 6, dtype=np.int8).reshape(4, 3))
    scale = build.constant("scale", np.array([1, np.inf, np.nan], np.float32))
    ragged = build.input("ragged", DType.I32, (9,), is_ragged=True)
    fixed = build.input("fixed", DType.I32, (2,))
    build.output(
        "sum",
        build.op(
            "text_embedding_bag", [ragged, table], (DType.F32, (1, 3)), attributes=TextEmbeddingBagAttributes(mode=0)
        )[0],
    )
    build.output(
        "mean",
        build.op(
            "text_embedding_bag",
            [fixed, small, scale],
            (DType.F32, (1, 3)),
            attributes=TextEmbeddingBagAttributes(mode=1),
        )[0],
    )
    return build.program()


def _layers() -> bytes:
    """Several rows through linear, relu, softmax; one input is used twice and is an output too."""
    random = np.random.default_rng(11)
    build = Assembly()
    weight = build.panels("weight", random.standard_normal((33, 5), np.float32), np.full(33, -0.0, np.float32))
    x = build.input("x", DType.F32, (6, 5))
    (wide,) = build.op("linear", [x, weight], (DType.F32, (6, 33)), attributes=PLAIN_LINEAR)
    (positive,) = build.op("unary", [wide], (DType.F32, (6, 33)), attributes=RELU)
    build.output(
        "shares", build.op("softmax", [positive], (DType.F32, (6, 33)), attributes=SoftmaxAttributes(is_log=0))[0]
    )
    build.output("x_positive", build.op("unary", [x], (DType.F32, (6, 5)), attributes=RELU)[0])
    build.output("x", x)
    cube = build.input("cube", DType.F32, (2, 1, 3))
    build.output(
        "cube_shares", build.op("softmax", [cube], (DType.F32, (2, 1, 3)), attributes=SoftmaxAttributes(is_log=0))[0]
    )
    return build.program()


def _places() -> bytes:
    """Every operator that moves elements or goes where indices say, on small tensors of the caller's."""
    build = Assembly()
    x = build.input("x", DType.F32, (4, 3))
    ids = build.input("ids", DType.I64, (2, 3))
    narrow = build.input("narrow", DType.I32, (2, 3))
    pairs = (DType.F32, (2, 3, 3))
    (result,) = build.op("fill", [], (DType.F32, (4, 3)), attributes=FillAttributes(bits=0x3F800000))
    (turned,) = build.op(
        "as_strided_copy", [x], (DType.F32, (3, 4)), attributes=AsStridedCopyAttributes(offset=2, strides=(-1, 3))
    )
    (flat,) = build.op("reshape", [turned], (DType.F32, (4, 3)))
    (wide,) = build.op("concat", [flat, result], (DType.F32, (4, 6)), attributes=ConcatAttributes(axis=1))
    build.output(
        "framed",
        build.op(
            "pad", [wide], (DType.F32, (5, 8)), attributes=PadAttributes(before=(1, 1), after=(0, 1), mode=1, bits=0)
        )[0],
    )
    (numbers,) = build.op("arange", [], (DType.F32, (3,)), attributes=ArangeAttributes(start=0.0, step=1.0))
    (written,) = build.op(
        "as_strided_scatter",
        [result, numbers],
        (DType.F32, (4, 3)),
        attributes=AsStridedScatterAttributes(offset=3, strides=(1,)),
    )
    (lower,) = build.op(
        "tril_triu", [written], (DType.F32, (4, 3)), attributes=TrilTriuAttributes(diagonal=0, is_upper=0)
    )
    (rows,) = build.op("index_select", [lower, ids], pairs, attributes=IndexSelectAttributes(axis=0, wraps=1))
    (summed,) = build.op(
        "index_put",
        [x, narrow, rows],
        (DType.F32, (4, 3)),
        attributes=IndexPutAttributes(axis=0, mode=1, includes_self=1, wraps=0),
    )
    (picked,) = build.op("gather", [summed, ids], (DType.F32, (2, 3)), attributes=GatherAttributes(axis=0))
    build.output(
        "spread",
        build.op(
            "scatter",
            [summed, narrow, picked],
            (DType.F32, (4, 3)),
            attributes=ScatterAttributes(axis=0, mode=3, includes_self=0),
        )[0],
    )
    (places,) = build.op(
        "ravel_multi_index", [ids, narrow], (DType.I64, (2, 3)), attributes=RavelMultiIndexAttributes(bounds=(4, 3))
    )
    build.output("places", places)
    build.output(
        "between",
        build.op("searchsorted", [numbers, x], (DType.I64, (4, 3)), attributes=SearchsortedAttributes(is_right=1))[0],
    )
    build.output(
        "bags",
        build.op(
            "embedding_bag_offsets",
            [ids, x],
            (DType.F32, (2, 3)),
            attributes=EmbeddingBagOffsetsAttributes(mode=1, padding=0, has_offsets=0, has_weights=0),
        )[0],
    )
    return build.program()


def _every_type() -> bytes:
    """No op: what goes in comes out, for each type; scalars, ragged rows, an input that is never used."""
    build = Assembly()
    for dtype in NUMPY_TYPES:
        name = dtype.name.lower()
        build.output(f"{name}_scalar", build.input(f"{name}_scalar", dtype))
        build.output(f"{name}_rows", build.input(f"{name}_rows", dtype, (3, 2), is_ragged=True))
    build.input("unused", DType.F32, (5,))
    build.input("text", DType.TEXT)
    return build.program()
