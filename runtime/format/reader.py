"""Parses the bytes of a program back to values, for tools and for continued training.

The native verifier judges the bytes first; this module only takes apart what it accepted.
"""

import struct
from collections.abc import Iterator
from dataclasses import replace

from alcove.runtime import _native
from alcove.runtime.format import records
from alcove.runtime.format.records import SectionKind
from alcove.runtime.format.spec import (
    ONLY_METHOD,
    BucketSpec,
    DType,
    ExpressionKind,
    ExpressionSpec,
    Layout,
    OpSpec,
    PortSpec,
    ProgramSpec,
    StateSpec,
    Storage,
    SymbolSpec,
    TensorSpec,
)


def read_spec(program: bytes) -> ProgramSpec:
    """Return the spec that `write_program` turns into these bytes; its constants are views of them.

    Raises:
        ProgramError: the bytes are no valid program.
    """
    _native.open_bytes(program)
    places = dict(_sections(program))
    sections = {kind: program[place] for kind, place in places.items() if kind != SectionKind.WEIGHTS}
    weights = memoryview(program)[places.get(SectionKind.WEIGHTS, slice(0, 0))]
    name, others = _methods(sections.get(SectionKind.METHODS, b""), weights)
    certificate = sections.get(SectionKind.CERTIFICATE, b"")
    first = _program(sections[SectionKind.PROGRAM], weights)
    return replace(first, certificate=certificate, method=name, others=others)


def _methods(section: bytes, weights: memoryview) -> tuple[str, tuple[ProgramSpec, ...]]:
    """Return the name of the first method, and the others."""
    if not section:
        return ONLY_METHOD, ()
    count, name_bytes = records.METHODS.unpack_from(section)
    heads = [records.METHOD.unpack_from(section, records.METHODS.size + i * records.METHOD.size) for i in range(count)]
    start = records.METHODS.size + count * records.METHOD.size
    names_at = start + sum(size for _, size in heads)
    name = section[names_at : names_at + name_bytes].decode("utf-8")
    names_at += name_bytes
    others = []
    for length, size in heads:
        method = section[names_at : names_at + length].decode("utf-8")
        others.append(replace(_program(section[start : start + size], weights), method=method))
        start, names_at = start + size, names_at + length
    return name, tuple(others)


def _program(section: bytes, weights: memoryview) -> ProgramSpec:
    counts = records.PROGRAM.unpack_from(section)
    tensor_count, op_count, input_count, output_count, label_count, string_bytes, arena_bytes, *sizes = counts
    state_count, symbol_count, expression_count, bucket_count = sizes
    cursor = _Cursor(section, records.PROGRAM.size, len(section) - string_bytes)
    tensors = tuple(_tensor(cursor, weights) for _ in range(tensor_count))
    by_code = {op.code: op for op in _native.manifest()}
    ops = tuple(_op(cursor, by_code) for _ in range(op_count))
    inputs = [_port(cursor) for _ in range(input_count)]
    outputs = [_port(cursor) for _ in range(output_count)]
    labels = iter([cursor.string(cursor.next(records.LABEL)[0]) for _ in range(label_count)])
    states = tuple(_state(cursor) for _ in range(state_count))
    symbols = tuple(_symbol(cursor) for _ in range(symbol_count))
    expressions = tuple(_expression(cursor) for _ in range(expression_count))
    return ProgramSpec(
        tensors=tensors,
        ops=ops,
        inputs=tuple(_attach_labels(port, labels) for port in inputs),
        outputs=tuple(_attach_labels(port, labels) for port in outputs),
        arena_bytes=arena_bytes,
        states=states,
        symbols=symbols,
        expressions=expressions,
        buckets=_buckets(cursor, bucket_count, symbol_count, tensor_count),
    )


class _Cursor:
    """Reads records in order, and the strings that belong to them from the end of the section."""

    def __init__(self, data: bytes, position: int, strings: int) -> None:
        self._data = data
        self._position = position
        self._string = strings

    def next(self, record: struct.Struct) -> tuple[int, ...]:
        fields = record.unpack_from(self._data, self._position)
        self._position += record.size
        return fields

    def string(self, size_bytes: int) -> str:
        start = self._string
        self._string += size_bytes
        return self._data[start : self._string].decode("utf-8")


def _sections(program: bytes) -> Iterator[tuple[int, slice]]:
    count = records.HEADER.unpack_from(program)[3]
    for index in range(count):
        kind, _, offset, size, _ = records.SECTION.unpack_from(
            program, records.HEADER.size + index * records.SECTION.size
        )
        yield kind, slice(offset, offset + size)


def _tensor(cursor: _Cursor, weights: memoryview) -> TensorSpec:
    dtype, storage, layout, rank, flags, name_bytes, dynamic, offset, size, *dims = cursor.next(records.TENSOR)
    is_constant = storage == Storage.CONSTANT
    return TensorSpec(
        name=cursor.string(name_bytes),
        dtype=DType(dtype),
        shape=tuple(dims[:rank]),
        storage=Storage(storage),
        layout=Layout(layout),
        is_ragged=bool(flags & records.RAGGED),
        data=weights[offset : offset + size] if is_constant else b"",
        offset=offset if storage == Storage.ARENA else 0,
        dynamic_dims=dynamic,
    )


def _op(cursor: _Cursor, by_code: "dict[int, _native.OpInfo]") -> OpSpec:
    code, input_count, output_count, _, source_bytes, dynamic, *slots = cursor.next(records.OP)
    info = by_code[code]
    inputs = slots[: records.MAX_OP_INPUTS]
    outputs = slots[records.MAX_OP_INPUTS : records.MAX_OP_INPUTS + records.MAX_OP_OUTPUTS]
    bits = slots[records.MAX_OP_INPUTS + records.MAX_OP_OUTPUTS :]
    return OpSpec(
        name=info.name,
        inputs=tuple(inputs[:input_count]),
        outputs=tuple(outputs[:output_count]),
        attributes=tuple(_value(raw, kind) for raw, (_, kind) in zip(bits, info.attributes, strict=False)),
        source=cursor.string(source_bytes),
        attribute_dynamic=dynamic,
    )


def _value(bits: int, kind: str) -> int | float:
    code = {"i64": "<q", "u64": "<Q", "f64": "<d"}[kind]
    value: int | float = struct.unpack(code, struct.pack("<Q", bits))[0]
    return value


def _port(cursor: _Cursor) -> tuple[str, int, int]:
    tensor, name_bytes, label_count, _ = cursor.next(records.PORT)
    return cursor.string(name_bytes), tensor, label_count


def _attach_labels(port: tuple[str, int, int], labels: Iterator[str]) -> PortSpec:
    name, tensor, label_count = port
    return PortSpec(name, tensor, tuple(next(labels) for _ in range(label_count)))


def _state(cursor: _Cursor) -> StateSpec:
    tensor, initial, update, name_bytes = cursor.next(records.STATE)
    return StateSpec(cursor.string(name_bytes), tensor, initial, update)


def _symbol(cursor: _Cursor) -> SymbolSpec:
    least, greatest, port, dim, name_bytes = cursor.next(records.SYMBOL)
    return SymbolSpec(cursor.string(name_bytes), least, greatest, port, dim)


def _expression(cursor: _Cursor) -> ExpressionSpec:
    kind, a, b = cursor.next(records.EXPRESSION)
    return ExpressionSpec(ExpressionKind(kind), a, b)


def _buckets(cursor: _Cursor, count: int, symbols: int, tensors: int) -> tuple[BucketSpec, ...]:
    heads = [cursor.next(records.BUCKET) for _ in range(count)]
    places = [tuple(_place(cursor) for _ in range(tensors)) for _ in range(count)]
    return tuple(
        BucketSpec(head[1 : symbols + 1], head[0], of_bucket) for head, of_bucket in zip(heads, places, strict=True)
    )


def _place(cursor: _Cursor) -> tuple[int, int]:
    offset, size = cursor.next(records.PLACE)
    return offset, size
