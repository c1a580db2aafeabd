"""Defines the values that describe a program before it is bytes.

Pure values: the exporter builds them, `writer.py` turns them into the one canonical `.alc` encoding and `reader.py`
gives them back. They check nothing by themselves; the authority on what is a valid program is the native verifier
(`docs/format.md`).
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

Data: TypeAlias = bytes | memoryview
"""The bytes of a constant: its own, or part of what holds several, or the memory of an array that nobody changes."""


class DType(IntEnum):
    """Type of a tensor's elements; the numbers are those of the file format."""

    F32 = 1
    I8 = 2
    I32 = 3
    I64 = 4
    U8 = 5
    BOOL = 6
    TEXT = 7
    """UTF-8 bytes of one string; only an input of a program can be of this type, and its shape is ()."""
    F16 = 8
    """Of constants alone: 16 bits in the file, widened to float32 for the operators."""
    BF16 = 9
    """As F16; the upper half of a float32."""


class Storage(IntEnum):
    """Where a tensor's bytes live while a program runs."""

    CONSTANT = 1
    """In the file's WEIGHTS section, read-only."""
    ARENA = 2
    """At a planned offset of the session's arena; inputs and outputs too.

    A TEXT input has no place there: its offset is 0 and it takes no bytes.
    """
    STATE = 3
    """With the session, from its first run to its end; ops only read it. Each has a `StateSpec`."""


class ExpressionKind(IntEnum):
    """How a size is made; the numbers are those of the file format."""

    CONSTANT = 1
    SYMBOL = 2
    ADD = 3
    SUB = 4
    MUL = 5
    FLOORDIV = 6
    """Rounded down, as Python's `//`; the divisor is at least 1."""
    MOD = 7
    """As Python's `%`; the divisor is at least 1."""
    MIN = 8
    MAX = 9


class Layout(IntEnum):
    """Order of a tensor's elements in memory."""

    ROW_MAJOR = 1
    PANEL16 = 2
    """f32 weights of a linear, logical shape [N, K]: `ceil(N/16)` panels of `[K + 1][16]`.

    Row 0 of a panel is the bias, row 1 + k holds column k of 16 outputs; what lies beyond N is zero.
    """


DTYPE_BYTES: Final[dict[DType, int]] = {
    DType.F32: 4,
    DType.I8: 1,
    DType.I32: 4,
    DType.I64: 8,
    DType.U8: 1,
    DType.BOOL: 1,
    DType.TEXT: 0,
    DType.F16: 2,
    DType.BF16: 2,
}
"""Size of one element in bytes; text takes no bytes of the arena."""

HALVES: Final = (DType.F16, DType.BF16)
"""Types of constants in the file that operators see as float32."""

READS_HALVES: Final = {"linear": 1, "embedding_panels": 1, "index_select": 0}
"""Operators that read 16 bits as they are in the file, and as which input."""

PANEL_COLUMNS: Final = 16


ONLY_METHOD: Final = "forward"
"""What the only entry point of a program is called."""


@dataclass(frozen=True)
class TensorSpec:
    """One tensor of a program.

    Attributes:
        name: for people and errors; a constant's name is its module parameter's name. At most 255 UTF-8 bytes.
        dtype: type of the elements.
        shape: logical shape; () for TEXT. Where `dynamic_dims` says so, an entry is the index of an expression.
        storage: constant, arena or state.
        layout: order of the elements.
        is_ragged: the leading dimension is an upper bound; how much is used is known when the program runs.
        data: raw bytes in `layout`, for a CONSTANT, a view of bytes where it is one; empty otherwise.
        offset: byte offset in the arena, a multiple of 64, for an ARENA tensor of a program without symbols; else 0.
        dynamic_dims: bit d: `shape[d]` is the index of an expression. ARENA tensors that are not ragged only. What
            an op overwrites in its place has the very same expressions.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    storage: Storage
    layout: Layout = Layout.ROW_MAJOR
    is_ragged: bool = False
    data: Data = b""
    offset: int = 0
    dynamic_dims: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes that the elements take in `layout`; meaningless with dynamic dimensions."""
        if self.layout is Layout.PANEL16:
            rows, columns = self.shape
            panels = -(-rows // PANEL_COLUMNS)
            return panels * (columns + 1) * PANEL_COLUMNS * DTYPE_BYTES[self.dtype]
        return math.prod(self.shape) * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class OpSpec:
    """One step of a program.

    Attributes:
        name: as in the manifest, `kernels/manifest.inc`.
        inputs: tensor indices, in the op's order.
        outputs: tensor indices, in the op's order; each tensor is written by at most one op.
        attributes: in the order of the manifest; integers and floats as the manifest says.
        source: "file.py:line" of the module that asked for it; may be empty.
        attribute_dynamic: bit a: `attributes[a]`, of type i64, is the index of an expression.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: tuple[int | float, ...] = ()
    source: str = ""
    attribute_dynamic: int = 0


@dataclass(frozen=True)
class PortSpec:
    """A named input or output of a program.

    Attributes:
        name: what the caller sees; unique among the inputs, and among the outputs.
        tensor: index of an ARENA tensor.
        labels: for an I32 or I64 output of indices: the name of each index; empty for every other port.
    """

    name: str
    tensor: int
    labels: tuple[str, ...] = ()


@dataclass(frozen=True)
class StateSpec:
    """What a run leaves for the next run of the same session.

    Attributes:
        name: for people.
        tensor: index of a STATE tensor, which ops read.
        initial: index of the CONSTANT that it begins as, of the same type and shape.
        update: index of the ARENA tensor that is copied into it after a run that succeeded; same type and shape, and
            neither dynamic nor ragged. Several states may have the same one. Or `tensor` itself: operators write rows
            of it in place, or nothing changes it.
    """

    name: str
    tensor: int
    initial: int
    update: int


@dataclass(frozen=True)
class SymbolSpec:
    """A size that comes with an input.

    Attributes:
        name: what errors call it.
        min: least value, at least 1.
        max: greatest value.
        input: index of the input port whose dimension it is; that entry of its shape is an expression of kind SYMBOL.
        dim: which dimension.
    """

    name: str
    min: int
    max: int
    input: int
    dim: int


@dataclass(frozen=True)
class ExpressionSpec:
    """A size made of symbols and numbers.

    Attributes:
        kind: what is made of `a` and `b`.
        a: value of a CONSTANT; index of a SYMBOL; index of an earlier expression otherwise.
        b: index of an earlier expression; 0 for CONSTANT and SYMBOL.
    """

    kind: ExpressionKind
    a: int
    b: int = 0


@dataclass(frozen=True)
class BucketSpec:
    """A memory plan for all sizes up to some bounds.

    Attributes:
        bounds: greatest value of each symbol; those of the last bucket are the symbols' `max`.
        arena_bytes: size of its arena, a multiple of 64; not less than that of the bucket before.
        places: (offset, size) in bytes of each tensor, in order; (0, 0) for what is not in the arena. The size must
            hold the tensor at all sizes that this bucket is for.
    """

    bounds: tuple[int, ...]
    arena_bytes: int
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class ProgramSpec:
    """A whole program.

    Attributes:
        tensors: all tensors, constants first or mixed; ops and ports refer to them by index.
        ops: in the order in which they run; an op reads only what is constant, an input, or written before it.
        inputs: what the caller passes, in order.
        outputs: what the caller gets, in order.
        arena_bytes: size of the arena, a multiple of 64: the end of the last planned tensor, rounded up; that of the
            last bucket if there are symbols.
        certificate: content of the CERTIFICATE section; empty if there is none.
        states: one for each STATE tensor.
        symbols: sizes that come with the inputs; a program without has no expressions and no buckets.
        expressions: what dynamic dimensions and attributes refer to, each made of earlier ones.
        buckets: memory plans by rising arena, for a program with symbols.
        method: name of this entry point; kept where there are others.
        others: further entry points over the same weights and states, each a program without a certificate and without
            others. Their states are this program's where they have the same name: type, shape and beginning are equal.
    """

    tensors: tuple[TensorSpec, ...]
    ops: tuple[OpSpec, ...]
    inputs: tuple[PortSpec, ...]
    outputs: tuple[PortSpec, ...]
    arena_bytes: int
    certificate: bytes = b""
    states: tuple[StateSpec, ...] = ()
    symbols: tuple[SymbolSpec, ...] = ()
    expressions: tuple[ExpressionSpec, ...] = ()
    buckets: tuple[BucketSpec, ...] = ()
    method: str = ONLY_METHOD
    others: tuple["ProgramSpec", ...] = ()

    @property
    def widened(self) -> frozenset[int]:
        """Constants of 16 bits, by index, that this method needs as float32 from when the file is opened."""
        needed = {index for op in self.ops for at, index in enumerate(op.inputs) if READS_HALVES.get(op.name) != at} | {
            state.initial for state in self.states
        }
        return frozenset(
            index
            for index, tensor in enumerate(self.tensors)
            if index in needed and tensor.dtype in HALVES and tensor.storage is Storage.CONSTANT
        )

    @property
    def methods(self) -> tuple["ProgramSpec", ...]:
        """All entry points, this one first."""
        return (self, *self.others)

    def find_method(self, name: str) -> "ProgramSpec":
        """Return the entry point of this name.

        Raises:
            KeyError: there is none.
        """
        return {method.method: method for method in self.methods}[name]
