"""Mutates programs at random with knowledge of the format, so that the verifier's deep checks are reached."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from alcove.runtime import _native
from alcove.runtime.format import records
from alcove.runtime.format.records import SectionKind, aligned
from alcove.runtime.format.spec import (
    BucketSpec,
    DType,
    ExpressionKind,
    ExpressionSpec,
    Layout,
    OpSpec,
    ProgramSpec,
    Storage,
    TensorSpec,
)
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import reseal, section

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBERS = [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 1023, 1024, 16384, 2**20, 2**20 + 1, 2**24, 2**31 - 1]
NUMBERS += [2**31, 2**32 - 64, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 64, 2**64 - 1]
SHARE_UNSEALED = 0.05
_NAMES = [op.name for op in _native.manifest()]


class Mutator:
    """Makes endless variants of some programs; the same seed makes the same variants.

    Args:
        programs: valid programs, and the specs that they were made of.
        seed: start of the random numbers.
    """

    def __init__(self, programs: list[tuple[bytes, ProgramSpec]], seed: int) -> None:
        self._programs = programs
        self._random = random.Random(seed)

    def next(self) -> bytes:
        """Return a variant."""
        choose = self._random
        program, spec = choose.choice(self._programs)
        if choose.random() < 0.5:
            program = self._changed_spec(spec) or program
        for _ in range(choose.choice([0, 1, 1, 1, 2, 3])):
            program = choose.choice(self._BYTES)(self, program)
        return program if choose.random() < SHARE_UNSEALED else reseal(program)

    # Changes of bytes.

    def _flip(self, program: bytes) -> bytes:
        data = bytearray(program)
        start, size = self._range(program)
        if size > 0:
            data[start + self._random.randrange(size)] ^= 1 << self._random.randrange(8)
        return bytes(data)

    def _number(self, program: bytes) -> bytes:
        """Write a telling number into an aligned field."""
        start, size = self._range(program)
        width = self._random.choice([1, 2, 4, 4, 4, 8])
        if size < width:
            return program
        at = start + self._random.randrange(size // width) * width
        old = int.from_bytes(program[at : at + width], "little")
        value = self._random.choice([*NUMBERS, old + 1, old - 1, old * 2, old ^ 1])
        return program[:at] + (value & (1 << 8 * width) - 1).to_bytes(width, "little") + program[at + width :]

    def _copy(self, program: bytes) -> bytes:
        """Copy a record-sized piece over another."""
        start, size = self._range(program)
        width = self._random.choice([4, 16, 64, 128])
        if size < 2 * width:
            return program
        source, target = (start + self._random.randrange(size // width) * width for _ in range(2))
        return program[:target] + program[source : source + width] + program[target + width :]

    def _length(self, program: bytes) -> bytes:
        """Cut the end off, or add to it; mostly the header's file size follows."""
        size = self._random.choice([self._random.randrange(len(program) + 1), len(program) + 1, len(program) - 1])
        data = bytearray(program[:size] + bytes(max(0, size - len(program))))
        if len(data) >= records.HEADER.size and self._random.random() < 0.8:
            data[16:24] = len(data).to_bytes(8, "little")
        return bytes(data)

    _BYTES: tuple[Callable[[Mutator, bytes], bytes], ...] = (_flip, _number, _number, _number, _copy, _length)

    def _range(self, program: bytes) -> tuple[int, int]:
        """Offset and size of what to change: mostly PROGRAM, else header and table, weights, certificate."""
        head = records.HEADER.size
        if len(program) < head:
            return 0, len(program)
        count = min(records.HEADER.unpack_from(program)[3], 16, (len(program) - head) // records.SECTION.size)
        whole = program[:12] + count.to_bytes(4, "little") + program[16:]
        kind = self._random.choices([SectionKind.PROGRAM, None, *SectionKind], [12, 3, 1, 1, 2])[0]
        if kind is None:
            return 0, head + count * records.SECTION.size
        offset, size = section(whole, kind)
        return (offset, size) if offset + size <= len(program) else (0, len(program))

    # Changes of the spec, which stay well-framed.

    def _changed_spec(self, spec: ProgramSpec) -> bytes | None:
        for _ in range(self._random.choice([1, 1, 2, 3])):
            spec = self._random.choice(self._SPECS)(self, spec)
        try:
            return write_program(spec)
        except (ValueError, MemoryError):
            return None

    def _shape(self, spec: ProgramSpec) -> ProgramSpec:
        """Another dimension, with data of the new size; others keep theirs, or follow where they had the same."""
        old = self._random.choice([d for t in spec.tensors for d in t.shape] or [1])
        new = self._random.choice([1, old + 1, max(1, old - 1), old * 2, 16, 17, 33, 64, 65, 257])
        follows = self._random.random() < 0.7
        chosen = self._random.randrange(len(spec.tensors))
        tensors = [
            self._resized(t, tuple(new if d == old else d for d in t.shape)) if follows or i == chosen else t
            for i, t in enumerate(spec.tensors)
        ]
        attributes = [tuple(new if follows and a == old else a for a in op.attributes) for op in spec.ops]
        ops = [replace(op, attributes=a) for op, a in zip(spec.ops, attributes, strict=True)]
        changed = replace(spec, tensors=tuple(tensors), ops=tuple(ops))
        return changed if spec.symbols else self._planned(changed)

    def _resized(self, tensor: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
        changed = replace(tensor, shape=shape)
        if tensor.storage is not Storage.CONSTANT or shape == tensor.shape or changed.size_bytes > 2**16:
            return changed if tensor.storage is Storage.ARENA else tensor
        return replace(
            changed, data=(tensor.data * (changed.size_bytes // max(1, len(tensor.data)) + 1))[: changed.size_bytes]
        )

    def _planned(self, spec: ProgramSpec) -> ProgramSpec:
        """A new plan for a program of known sizes: one tensor after the other, or with overlaps."""
        shift = self._random.choice([1, 1, 1, 0, 0.5])
        end, arena, tensors = 0, 0, []
        for tensor in spec.tensors:
            moved = tensor
            if tensor.storage is Storage.ARENA and tensor.dtype is not DType.TEXT:
                moved = replace(tensor, offset=end)
                arena = max(arena, end + moved.size_bytes)
                end = aligned(end + int(moved.size_bytes * shift), records.TENSOR_ALIGNMENT)
            tensors.append(moved)
        return replace(spec, tensors=tuple(tensors), arena_bytes=aligned(arena, records.TENSOR_ALIGNMENT))

    def _offset(self, spec: ProgramSpec) -> ProgramSpec:
        """Move one arena tensor to where another is; in one bucket, if there are several."""
        if spec.buckets:
            return self._place(spec)
        arena = [i for i, t in enumerate(spec.tensors) if t.storage is Storage.ARENA and t.dtype is not DType.TEXT]
        moved, target = self._random.choice(arena), self._random.choice(arena)
        tensors = list(spec.tensors)
        tensors[moved] = replace(tensors[moved], offset=tensors[target].offset)
        ends = [tensors[i].offset + tensors[i].size_bytes for i in arena]
        return replace(spec, tensors=tuple(tensors), arena_bytes=aligned(max(ends), records.TENSOR_ALIGNMENT))

    def _place(self, spec: ProgramSpec) -> ProgramSpec:
        at = self._random.randrange(len(spec.buckets))
        places = list(spec.buckets[at].places)
        moved, target = self._random.randrange(len(places)), self._random.randrange(len(places))
        size = self._random.choice([places[moved][1], places[moved][1], places[target][1], places[moved][1] * 2])
        places[moved] = (places[target][0], size)
        return self._with_bucket(spec, at, replace(spec.buckets[at], places=tuple(places)))

    def _with_bucket(self, spec: ProgramSpec, at: int, bucket: BucketSpec) -> ProgramSpec:
        """Another bucket in the place of one, with the arena that its places need."""
        end = max((sum(place) for place in bucket.places), default=0)
        fitted = replace(bucket, arena_bytes=aligned(end, records.TENSOR_ALIGNMENT))
        buckets = (*spec.buckets[:at], fitted, *spec.buckets[at + 1 :])
        return replace(spec, buckets=buckets, arena_bytes=buckets[-1].arena_bytes)

    def _sizes(self, spec: ProgramSpec) -> ProgramSpec:
        """Other bounds of a symbol or a bucket, another expression, another dimension or attribute that is one."""
        choose = self._random
        if not spec.symbols:
            return self._states(spec)
        change = choose.choice(["symbol", "bucket", "expression", "expression", "dimension", "attribute"])
        if change == "symbol":
            at = choose.randrange(len(spec.symbols))
            field = choose.choice(["min", "max", "input", "dim"])
            other: dict[str, Any] = {field: choose.choice([0, 1, 2, 3, 16, 256, 2**31 - 1])}
            symbol = replace(spec.symbols[at], **other)
            return replace(spec, symbols=(*spec.symbols[:at], symbol, *spec.symbols[at + 1 :]))
        if change == "bucket":
            at = choose.randrange(len(spec.buckets))
            bounds = tuple(max(1, b + choose.choice([-1, 0, 1])) for b in spec.buckets[at].bounds)
            return self._with_bucket(spec, at, replace(spec.buckets[at], bounds=bounds))
        if change == "expression":
            at = choose.randrange(len(spec.expressions))
            return replace(
                spec, expressions=(*spec.expressions[:at], self._expression(at), *spec.expressions[at + 1 :])
            )
        if change == "dimension":
            at = choose.randrange(len(spec.tensors))
            mask = choose.randrange(1 << len(spec.tensors[at].shape))
            tensor = replace(spec.tensors[at], dynamic_dims=mask)
            return replace(spec, tensors=(*spec.tensors[:at], tensor, *spec.tensors[at + 1 :]))
        at = choose.randrange(len(spec.ops))
        mask = choose.randrange(1 << len(spec.ops[at].attributes))
        op = replace(spec.ops[at], attribute_dynamic=mask)
        return replace(spec, ops=(*spec.ops[:at], op, *spec.ops[at + 1 :]))

    def _expression(self, at: int) -> ExpressionSpec:
        kind = self._random.choice(list(ExpressionKind))
        if kind is ExpressionKind.CONSTANT:
            return ExpressionSpec(kind, self._random.choice([*NUMBERS[:28], -1, -(2**63)]))
        return ExpressionSpec(kind, self._random.randrange(max(1, at)), self._random.randrange(max(1, at)))

    def _states(self, spec: ProgramSpec) -> ProgramSpec:
        """Other tensors of a state."""
        if not spec.states:
            return spec
        at = self._random.randrange(len(spec.states))
        field = self._random.choice(["tensor", "initial", "update"])
        other: dict[str, Any] = {field: self._random.randrange(len(spec.tensors))}
        state = replace(spec.states[at], **other)
        return replace(spec, states=(*spec.states[:at], state, *spec.states[at + 1 :]))

    def _field(self, spec: ProgramSpec) -> ProgramSpec:
        """Another type, layout, storage or raggedness of one tensor."""
        index = self._random.randrange(len(spec.tensors))
        tensor = spec.tensors[index]
        change = self._random.choice(["dtype", "layout", "storage", "is_ragged"])
        if change == "dtype":
            tensor = replace(tensor, dtype=self._random.choice(list(DType)))
        elif change == "layout" and len(tensor.shape) == 2:
            tensor = replace(tensor, layout=self._random.choice(list(Layout)))
        elif change == "storage" and tensor.storage is not Storage.CONSTANT:
            tensor = replace(tensor, storage=self._random.choice([Storage.ARENA, Storage.STATE]))
        else:
            tensor = replace(tensor, is_ragged=not tensor.is_ragged)
        if tensor.storage is Storage.CONSTANT:
            data = spec.tensors[index].data
            tensor = replace(tensor, data=(data * (tensor.size_bytes // max(1, len(data)) + 1))[: tensor.size_bytes])
        return replace(spec, tensors=(*spec.tensors[:index], tensor, *spec.tensors[index + 1 :]))

    def _wiring(self, spec: ProgramSpec) -> ProgramSpec:
        """Another tensor for an op or a port, or another attribute."""
        if not spec.ops or self._random.random() < 0.3:
            side = self._random.choice(["inputs", "outputs"])
            ports = list(getattr(spec, side))
            if ports:
                index = self._random.randrange(len(ports))
                ports[index] = replace(ports[index], tensor=self._random.randrange(len(spec.tensors)))
            return replace(spec, inputs=tuple(ports)) if side == "inputs" else replace(spec, outputs=tuple(ports))
        index = self._random.randrange(len(spec.ops))
        return replace(spec, ops=(*spec.ops[:index], self._rewired(spec, spec.ops[index]), *spec.ops[index + 1 :]))

    def _rewired(self, spec: ProgramSpec, op: OpSpec) -> OpSpec:
        part = self._random.choice(["inputs", "outputs", "attributes", "name"])
        if part == "attributes" and op.attributes:
            values = list(op.attributes)
            value = self._random.choice(NUMBERS[:22])
            values[self._random.randrange(len(values))] = self._random.choice([value, -value])
            return replace(op, attributes=tuple(values))
        if part == "name":
            return replace(op, name=self._random.choice(_NAMES))
        indices = list(op.outputs if part == "outputs" else op.inputs)
        if not indices:
            return op
        indices[self._random.randrange(len(indices))] = self._random.randrange(len(spec.tensors))
        return replace(op, outputs=tuple(indices)) if part == "outputs" else replace(op, inputs=tuple(indices))

    def _order(self, spec: ProgramSpec) -> ProgramSpec:
        """Swap, repeat or leave out ops."""
        ops = list(spec.ops)
        if not ops:
            return spec
        one, other = self._random.randrange(len(ops)), self._random.randrange(len(ops))
        change = self._random.randrange(3)
        if change == 0:
            ops[one], ops[other] = ops[other], ops[one]
        elif change == 1:
            ops.insert(other, ops[one])
        else:
            del ops[one]
        return replace(spec, ops=tuple(ops))

    def _weights(self, spec: ProgramSpec) -> ProgramSpec:
        """Any bits at all in the weights: no byte of them may matter to safety."""
        tensors = [
            replace(t, data=self._random.randbytes(len(t.data))) if t.storage is Storage.CONSTANT else t
            for t in spec.tensors
        ]
        return replace(spec, tensors=tuple(tensors))

    _SPECS: tuple[Callable[[Mutator, ProgramSpec], ProgramSpec], ...] = (
        _shape,
        _shape,
        _offset,
        _field,
        _wiring,
        _wiring,
        _order,
        _weights,
        _sizes,
        _sizes,
    )
