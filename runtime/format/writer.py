"""Encodes a program as bytes: one program has one encoding, so that equal programs have equal digests."""

import hashlib
import struct
from collections.abc import Iterable, Sequence

from alcove.runtime import _native
from alcove.runtime.format import records
from alcove.runtime.format.records import SectionKind, align_up
from alcove.runtime.format.spec import HALVES, Data, OpSpec, PortSpec, ProgramSpec, Storage, TensorSpec


def write_program(spec: ProgramSpec) -> bytes:
    """Return the canonical `.alc` encoding of `spec`.

    What `spec` says is written as it is; whether it is a valid program is for the verifier to say, on every load.

    Raises:
        ValueError: a name, count, dimension or attribute does not fit its record, an op is not in the manifest, or a
            constant's data has not the size of its shape.
    """
    weights = _Weights(shares=bool(spec.others))
    try:
        places = [weights.place(method) for method in spec.methods]
        programs = [_program(method, offsets) for method, offsets in zip(spec.methods, places, strict=True)]
    except struct.error as error:
        raise ValueError(f"a number does not fit its record: {error}") from error
    sections: list[tuple[SectionKind, Sequence[Data]]] = [(SectionKind.PROGRAM, [programs[0]])]
    if spec.certificate:
        sections.append((SectionKind.CERTIFICATE, [spec.certificate]))
    if weights.size_bytes:
        sections.append((SectionKind.WEIGHTS, weights.parts))
    if spec.others:
        sections.append((SectionKind.METHODS, [_methods(spec, programs[1:])]))
    return _file(sections, session_bytes(spec) + _widened_bytes(spec, places), minor_version(spec))


def minor_version(spec: ProgramSpec) -> int:
    """Return the minor version of the format that a program needs."""
    if any(tensor.dtype in HALVES for method in spec.methods for tensor in method.tensors):
        return records.MINOR
    is_in_place = any(state.update == state.tensor for method in spec.methods for state in method.states)
    return records.METHODS_MINOR if spec.others or is_in_place else 0


def session_bytes(spec: ProgramSpec) -> int:
    """Return what a session allocates by itself at most, in bytes: tables of all methods, states, the largest arena."""
    states: dict[object, int] = {}
    for place, method in enumerate(spec.methods):
        names = {state.tensor: state.name for state in method.states if spec.others}
        for index, tensor in enumerate(method.tensors):
            if tensor.storage is Storage.STATE:
                key = names.get(index, (place, index))
                states[key] = align_up(tensor.size_bytes, records.TENSOR_ALIGNMENT)
    tables = sum(_table_bytes(method) for method in spec.methods)
    return tables + sum(states.values()) + max(method.arena_bytes for method in spec.methods)


def _widened_bytes(spec: ProgramSpec, places: list[dict[int, int]]) -> int:
    """Return the bytes of float32 that constants of 16 bits become when the file is opened, each aligned."""
    sizes = {
        offsets[index]: align_up(2 * method.tensors[index].size_bytes, records.TENSOR_ALIGNMENT)
        for method, offsets in zip(spec.methods, places, strict=True)
        for index in method.widened
    }
    return sum(sizes.values())


def _table_bytes(spec: ProgramSpec) -> int:
    kept = len(spec.tensors) * records.STATE_BYTES
    if spec.symbols:
        kept += len(spec.tensors) * records.BOUND_TENSOR_BYTES + len(spec.ops) * records.BOUND_OP_BYTES
        kept += len(spec.expressions) * records.BOUND_EXPRESSION_BYTES + len(spec.inputs) * records.BOUND_INPUT_BYTES
    return align_up(kept, records.TENSOR_ALIGNMENT)


class _Weights:
    """The WEIGHTS section in the making: the constants of each method that no earlier one has.

    Constants are hashed where methods may share them, and copied once: where all parts of the file are joined.

    Attributes:
        parts: what the section is made of so far.
        size_bytes: of all parts.
    """

    def __init__(self, *, shares: bool) -> None:
        self.parts: list[Data] = []
        self.size_bytes = 0
        self._shares = shares
        self._shared: dict[bytes, int] = {}  # digest of a constant of an earlier method: its offset
        self._digests: dict[int, tuple[Data, bytes]] = {}  # by identity, with what has it, so that it stays
        self._initial: dict[str, tuple[int, bytes]] = {}  # name of an earlier state: where what it begins as is

    def place(self, spec: ProgramSpec) -> dict[int, int]:
        """Return the offset of each constant and state of a method, by the tensor's index."""
        offsets: dict[int, int] = {}
        mine: dict[bytes, int] = {}
        states_end = 0
        begins = {state.initial: state.name for state in spec.states}
        for index, tensor in enumerate(spec.tensors):
            if tensor.storage is Storage.STATE:
                offsets[index] = align_up(states_end, records.TENSOR_ALIGNMENT)
                states_end = offsets[index] + tensor.size_bytes
            if tensor.storage is not Storage.CONSTANT:
                continue
            if len(tensor.data) != tensor.size_bytes:
                raise ValueError(
                    f"constant {tensor.name!r} of shape {tensor.shape} takes {tensor.size_bytes} bytes, "
                    f"got {len(tensor.data)}"
                )
            if not self._shares:
                offsets[index] = self._append(tensor.data)
                continue
            digest = self._digest(tensor)
            known, initial = self._initial.get(begins.get(index, ""), (None, b""))
            if initial != digest:
                known = self._shared.get(digest)
            offsets[index] = self._append(tensor.data) if known is None else known
            mine.setdefault(digest, offsets[index])
        self._shared = mine | self._shared
        for state in spec.states:
            if self._shares and state.initial in offsets:
                digest = self._digest(spec.tensors[state.initial])
                self._initial.setdefault(state.name, (offsets[state.initial], digest))
        return offsets

    def _digest(self, tensor: TensorSpec) -> bytes:
        """Return what two constants share that may lie in one place; what several methods have is hashed once."""
        data = tensor.data
        if id(data) not in self._digests:
            self._digests[id(data)] = data, hashlib.sha256(data).digest()
        return self._digests[id(data)][1] + bytes([tensor.dtype if tensor.dtype in HALVES else 0])

    def _append(self, data: Data) -> int:
        offset = align_up(self.size_bytes, records.TENSOR_ALIGNMENT)
        self.parts += [bytes(offset - self.size_bytes), data]
        self.size_bytes = offset + len(data)
        return offset


def _methods(spec: ProgramSpec, programs: list[bytes]) -> bytes:
    """Return the METHODS section: header, records, the programs but the first, then the names of all."""
    names = bytearray()
    body = records.METHODS.pack(len(programs), _string(spec.method, names))
    for method, program in zip(spec.others, programs, strict=True):
        body += records.METHOD.pack(_string(method.method, names), len(program))
    return body + b"".join(programs) + bytes(names)


def _program(spec: ProgramSpec, offsets: dict[int, int]) -> bytes:
    """Return the PROGRAM section: header, records, then all strings in the order of the records that own them."""
    codes = {op.name: op for op in _native.manifest()}
    body = bytearray()
    strings = bytearray()
    for index, tensor in enumerate(spec.tensors):
        body += _tensor(tensor, offsets.get(index, tensor.offset), strings, is_static=not spec.symbols)
    for op in spec.ops:
        if op.name not in codes:
            raise ValueError(f"the manifest has no op {op.name!r}; it has {', '.join(sorted(codes))}")
        body += _op(op, codes[op.name], strings)
    for port in (*spec.inputs, *spec.outputs):
        body += _port(port, strings)
    labels = [label for port in (*spec.inputs, *spec.outputs) for label in port.labels]
    for label in labels:
        body += records.LABEL.pack(_string(label, strings))
    body += _sizes(spec, strings)
    counts = (len(spec.tensors), len(spec.ops), len(spec.inputs), len(spec.outputs), len(labels), len(strings))
    sizes = (len(spec.states), len(spec.symbols), len(spec.expressions), len(spec.buckets))
    return records.PROGRAM.pack(*counts, spec.arena_bytes, *sizes) + bytes(body) + bytes(strings)


def _sizes(spec: ProgramSpec, strings: bytearray) -> bytes:
    """Return the records of what sessions keep and size."""
    body = bytearray()
    for state in spec.states:
        body += records.STATE.pack(state.tensor, state.initial, state.update, _string(state.name, strings))
    for symbol in spec.symbols:
        body += records.SYMBOL.pack(symbol.min, symbol.max, symbol.input, symbol.dim, _string(symbol.name, strings))
    for expression in spec.expressions:
        body += records.EXPRESSION.pack(expression.kind, expression.a, expression.b)
    for bucket in spec.buckets:
        body += records.BUCKET.pack(
            bucket.arena_bytes, *_slots(bucket.bounds, records.MAX_SYMBOLS, "bounds of a bucket")
        )
    for bucket in spec.buckets:
        if len(bucket.places) != len(spec.tensors):
            raise ValueError(f"a bucket has {len(bucket.places)} places for {len(spec.tensors)} tensors")
        body += b"".join(records.PLACE.pack(*place) for place in bucket.places)
    return bytes(body)


def _tensor(tensor: TensorSpec, offset: int, strings: bytearray, *, is_static: bool) -> bytes:
    has_size = is_static or tensor.storage is not Storage.ARENA
    flags = records.RAGGED if tensor.is_ragged else 0
    return records.TENSOR.pack(
        tensor.dtype,
        tensor.storage,
        tensor.layout,
        len(tensor.shape),
        flags,
        _string(tensor.name, strings),
        tensor.dynamic_dims,
        offset,
        tensor.size_bytes if has_size else 0,
        *_slots(tensor.shape, records.MAX_RANK, f"dimensions of {tensor.name!r}"),
    )


def _op(op: OpSpec, info: "_native.OpInfo", strings: bytearray) -> bytes:
    if len(op.attributes) != len(info.attributes):
        names = ", ".join(name for name, _ in info.attributes)
        raise ValueError(f"{op.name} takes the attributes ({names}), got {op.attributes}")
    attributes = [
        _attribute(value, kind, f"{op.name}: {name}")
        for value, (name, kind) in zip(op.attributes, info.attributes, strict=True)
    ]
    return records.OP.pack(
        info.code,
        len(op.inputs),
        len(op.outputs),
        len(op.attributes),
        _string(op.source, strings),
        op.attribute_dynamic,
        *_slots(op.inputs, records.MAX_OP_INPUTS, f"inputs of {op.name}"),
        *_slots(op.outputs, records.MAX_OP_OUTPUTS, f"outputs of {op.name}"),
        *_slots(attributes, records.MAX_OP_ATTRIBUTES, f"attributes of {op.name}"),
    )


def _attribute(value: float, kind: str, what: str) -> int:
    """Return the 64 bits of an attribute."""
    code = {"i64": "<q", "u64": "<Q", "f64": "<d"}[kind]
    if kind != "f64" and not isinstance(value, int):
        raise ValueError(f"{what} must be an integer, got {value!r}")
    bits: int = struct.unpack("<Q", struct.pack(code, value))[0]
    return bits


def _port(port: PortSpec, strings: bytearray) -> bytes:
    return records.PORT.pack(port.tensor, _string(port.name, strings), len(port.labels), 0)


def _string(text: str, strings: bytearray) -> int:
    """Append `text` to the strings; return its length in bytes."""
    data = text.encode("utf-8")
    strings += data
    return len(data)


def _slots(values: Iterable[int], count: int, what: str) -> list[int]:
    """Return `values` with zeros up to `count`."""
    slots = list(values)
    if len(slots) > count:
        raise ValueError(f"{what}: {len(slots)}, a record holds {count}")
    return slots + [0] * (count - len(slots))


def _file(sections: Sequence[tuple[SectionKind, Sequence[Data]]], memory_ceiling_bytes: int, minor: int) -> bytes:
    end = records.HEADER.size + len(sections) * records.SECTION.size
    body: list[Data] = []
    table = bytearray()
    for kind, parts in sections:
        alignment = records.WEIGHTS_ALIGNMENT if kind is SectionKind.WEIGHTS else records.SECTION_ALIGNMENT
        offset = align_up(end, alignment)
        flags = 0 if kind is SectionKind.CERTIFICATE else records.CRITICAL
        size, content = sum(map(len, parts)), hashlib.sha256()
        for part in parts:
            content.update(part)
        table += records.SECTION.pack(kind, flags, offset, size, content.digest())
        body += [bytes(offset - end), *parts]
        end = offset + size
    fields = (records.MAGIC, records.MAJOR, minor, len(sections), end, memory_ceiling_bytes)
    header = records.HEADER.pack(*fields, bytes(32))
    digest = hashlib.sha256(header[: records.DIGESTED_HEADER_BYTES] + table).digest()
    return b"".join([records.HEADER.pack(*fields, digest), table, *body])
