"""Makes malformed programs of each class of weakness, and measures refusing them: `python -m benchmarks.malformed`.

One row for each class of weakness (the numbers are those of CWE); each of its programs is valid but for one field, with
digests right.  `--programs FOLDER` makes a folder of files for each row, `--measure` prints the longest time and most
memory that refusing one takes, and `--write FILE` puts that into a document.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from alcove.runtime import ProgramError, _native, load
from alcove.runtime.format import records
from alcove.runtime.format.attributes import NgramHashAttributes
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.records import SectionKind
from alcove.runtime.format.spec import DType, Storage
from alcove.runtime.testing import RELU, Assembly, patch, reseal, samples, section
from alcove.runtime.testing_ops import op_samples

from benchmarks.sections import Section

if TYPE_CHECKING:
    from collections.abc import Iterator

Case = tuple[str, bytes]

SECTION: Final = Section("malformed", "python -m benchmarks.malformed --write docs/robustness.md")

_TENSOR: Final = 64
_OP: Final = 256
_HEAD: Final = 64


class _Sample:
    """A valid program, and how to change one field of it."""

    def __init__(self, name: str) -> None:
        self.bytes = (samples() | op_samples())[name]
        self.spec = read_spec(self.bytes)
        self.start = section(self.bytes, SectionKind.PROGRAM)[0]
        self.ops_at = self.start + _HEAD + _TENSOR * len(self.spec.tensors)
        self.inputs_at = self.ops_at + _OP * len(self.spec.ops)

    def at(self, offset: int, record: str, *values: int | bytes) -> bytes:
        """Return it with values at an offset of the file."""
        return reseal(patch(self.bytes, offset, record, *values))

    def tensor(self, index: int, offset: int, record: str, *values: int | bytes) -> bytes:
        """Return it with another field of a tensor."""
        return self.at(self.start + _HEAD + _TENSOR * index + offset, record, *values)

    def op(self, index: int, offset: int, record: str, *values: int | bytes) -> bytes:
        """Return it with another field of an op."""
        return self.at(self.ops_at + _OP * index + offset, record, *values)

    def attribute(self, op: str, name: str, value: int | float) -> bytes:
        """Return it with another attribute of the first op of a name."""
        index = next(i for i, each in enumerate(self.spec.ops) if each.name == op)
        info = next(each for each in _native.manifest() if each.name == op)
        names = [each for each, _ in info.attributes]
        packed = struct.pack("<d", value) if isinstance(value, float) else struct.pack("<q", value)
        bits = int.from_bytes(packed, "little")
        return self.op(index, 96 + 8 * names.index(name), "Q", bits)

    def of(self, storage: Storage) -> int:
        """Return the index of the first tensor of a storage that has dimensions."""
        return next(i for i, each in enumerate(self.spec.tensors) if each.storage is storage and each.shape)


def _overflow() -> Iterator[Case]:
    layers = _Sample("layers")
    constant, arena = layers.of(Storage.CONSTANT), layers.of(Storage.ARENA)
    for index in (constant, arena):
        yield f"dimensions of tensor {index}", layers.tensor(index, 32, "8I", *[2**31 - 1] * 8)
        yield f"rank of tensor {index}", layers.tensor(index, 3, "B", 8)
        yield f"zero hides, tensor {index}", layers.tensor(index, 32, "3I", 2**31 - 1, 2, 0)
        for value in (2**64 - 64, 2**63, 2**32):
            yield f"offset {value} of tensor {index}", layers.tensor(index, 16, "Q", value)
            yield f"size {value} of tensor {index}", layers.tensor(index, 24, "Q", value)
    for value in (2**64 - 64, 2**64 - 1, 2**63):
        for field in (8, 16):
            yield f"section field {field} is {value}", layers.at(64 + field, "Q", value)
    yield "arena", layers.at(layers.start + 24, "Q", 2**64 - 64)
    yield "ceiling", layers.at(24, "Q", 2**64 - 1)


def _size_mismatch() -> Iterator[Case]:
    for name in ("layers", "classifier_int8"):
        sample = _Sample(name)
        constant = sample.of(Storage.CONSTANT)
        shape = sample.spec.tensors[constant].shape
        yield f"{name}: more rows than bytes", sample.tensor(constant, 32, "I", shape[0] + 1)
        yield (
            f"{name}: fewer rows than bytes",
            sample.tensor(constant, 32, "I", max(1, shape[0] - 1) if shape[0] > 1 else 2),
        )
        yield f"{name}: twice the size", sample.tensor(constant, 24, "Q", 2 * sample.spec.tensors[constant].size_bytes)
        offset, size = section(sample.bytes, SectionKind.WEIGHTS)
        cut = sample.bytes[: offset + size - 4]
        count = records.HEADER.unpack_from(cut)[3]
        cut = patch(cut, 64 + 64 * (count - 1) + 16, "Q", size - 4)
        yield f"{name}: weights cut", reseal(patch(cut, 16, "Q", len(cut)))


def _index() -> Iterator[Case]:
    layers = _Sample("layers")
    for value in (len(layers.spec.tensors), 2**31, 2**32 - 1):
        yield f"input of an op is {value}", layers.op(0, 16, "I", value)
        yield f"output of an op is {value}", layers.op(0, 80, "I", value)
        yield f"input port is {value}", layers.at(layers.inputs_at, "I", value)
        yield f"output port is {value}", layers.at(layers.inputs_at + 16 * len(layers.spec.inputs), "I", value)
    counter = _Sample("counter")
    outputs = 16 * (len(counter.spec.inputs) + len(counter.spec.outputs))
    labels = 4 * sum(len(port.labels) for port in counter.spec.outputs)
    for field in (0, 4, 8):
        for value in (len(counter.spec.tensors), 2**32 - 1):
            yield (
                f"state field {field} is {value}",
                counter.at(counter.inputs_at + outputs + labels + field, "I", value),
            )
    for op, sample in (
        ("concat", "movement"),
        ("index_select", "indices"),
        ("gather", "indices"),
        ("sort", "reductions"),
    ):
        for value in (-1, 8, 2**31, 2**63 - 1):
            if op != "sort":
                yield f"axis of {op} is {value}", _Sample(sample).attribute(op, "axis", value)


def _data_dependent_index() -> Iterator[Case]:
    for name in ("classifier_int8", "classifier_float32"):
        sample = _Sample(name)
        hashing = next(each for each in sample.spec.ops if each.name == "ngram_hash")
        buckets = NgramHashAttributes.from_numbers(hashing.attributes).buckets
        for value in (buckets + 1, 2**31 - 1):
            yield f"{name}: {value} buckets", sample.attribute("ngram_hash", "buckets", value)


def _division() -> Iterator[Case]:
    images = _Sample("images")
    for op in ("conv2d", "depthwise_conv2d", "pool2d"):
        for name in ("kernel_h", "stride_h", "stride_w", "dilation_w"):
            yield f"{name} of {op}", images.attribute(op, name, 0)
    yield "groups", images.attribute("conv2d", "groups", 0)
    yield "groups of a norm", _Sample("reductions").attribute("group_norm", "groups", 0)
    yield "buckets", _Sample("classifier_int8").attribute("ngram_hash", "buckets", 0)


def _absent() -> Iterator[Case]:
    layers = _Sample("layers")
    for at, name in ((2, "inputs"), (3, "outputs"), (4, "attributes")):
        yield f"no {name} of an op", layers.op(0, at, "B", 0)
    yield "no outputs", layers.at(layers.start + 12, "I", 0)
    yield "no inputs", layers.at(layers.start + 8, "I", 0)
    yield "no operator of this code", layers.op(0, 0, "H", 255)
    yield "no PROGRAM", layers.at(64, "I", 2)
    yield "nothing", layers.bytes[:64]


def _loops() -> Iterator[Case]:
    layers = _Sample("layers")
    last = layers.spec.ops[-1].outputs[0]
    yield "an op reads what a later one writes", layers.op(0, 16, "I", last)
    yield "an op reads what it writes", layers.op(0, 16, "I", layers.spec.ops[0].outputs[0])
    yield "an op writes its input", layers.op(0, 80, "I", layers.spec.ops[0].inputs[0])
    rows = _Sample("rows")
    spec = rows.spec
    at = rows.inputs_at + 16 * (len(spec.inputs) + len(spec.outputs)) + 4 * sum(len(p.labels) for p in spec.outputs)
    at += 16 * len(spec.states) + 24 * len(spec.symbols)
    for index in range(len(spec.expressions)):
        for value in (index, index + 1, -1):
            yield f"expression {index} of expression {value}", rows.at(at + 24 * index, "B7xqq", 3, value, value)


def _counts() -> Iterator[Case]:
    sample = _Sample("layers")
    for value in (2**16, 2**24, 2**31, 2**32 - 1):
        yield f"{value} sections", sample.at(12, "I", value)
        for field in (0, 1, 2, 3, 4, 5, 8, 9, 10, 11):
            yield f"count {field} is {value}", sample.at(sample.start + 4 * field, "I", value)
        yield f"a name of {value} bytes", sample.tensor(0, 8, "I", value)
    yield "file of an exabyte", reseal(patch(sample.bytes, 16, "Q", 2**60))


def _type_confusion() -> Iterator[Case]:
    layers = _Sample("layers")
    for index in range(len(layers.spec.tensors)):
        for dtype in (0, 10, 255, 7, 3):
            if dtype != layers.spec.tensors[index].dtype:
                yield f"type {dtype} of tensor {index}", layers.tensor(index, 0, "B", dtype)
        yield f"storage of tensor {index}", layers.tensor(index, 1, "B", 3)
        yield f"layout of tensor {index}", layers.tensor(index, 2, "B", 3)


def _negative() -> Iterator[Case]:
    images, movement = _Sample("images"), _Sample("movement")
    for name in ("pad_top", "pad_right", "stride_h", "kernel_w"):
        for value in (-1, -(2**63)):
            yield f"{name} is {value}", images.attribute("conv2d", name, value)
    for value in (-1, -(2**31), -(2**63)):
        yield f"padding before is {value}", movement.attribute("pad", "before0", value)
        yield f"stride is {value}", movement.attribute("as_strided_copy", "stride0", value)
        yield f"offset is {value}", movement.attribute("as_strided_copy", "offset", value)
    yield "k is -1", _Sample("classifier_int8").attribute("topk", "k", -1)


def _stack() -> Iterator[Case]:
    layers = _Sample("layers")
    for value in (9, 16, 255):
        yield f"rank {value}", layers.tensor(0, 3, "B", value)
        yield f"{value + 8} inputs", layers.op(0, 2, "B", min(255, value + 8))
        yield f"{value} outputs", layers.op(0, 3, "B", value)
        yield f"{min(255, value + 12)} attributes", layers.op(0, 4, "B", min(255, value + 12))


def _aliasing() -> Iterator[Case]:
    for name in ("layers", "elements", "classifier_int8"):
        sample = _Sample(name)
        arena = [(i, t) for i, t in enumerate(sample.spec.tensors) if t.storage is Storage.ARENA and t.size_bytes > 0]
        argument = {port.tensor for port in sample.spec.outputs}
        both = [index for index, _ in arena if index in argument][:2]
        if len(both) == 2:
            yield (
                f"{name}: two outputs in one place",
                sample.tensor(both[1], 16, "Q", sample.spec.tensors[both[0]].offset),
            )
        op = sample.spec.ops[-1]
        read = [i for i in op.inputs if i in dict(arena)]
        if read:
            yield (
                f"{name}: output over input",
                sample.tensor(op.outputs[0], 16, "Q", sample.spec.tensors[read[0]].offset),
            )


def _unwritten() -> Iterator[Case]:
    layers = _Sample("layers")
    other = layers.spec.ops[0].outputs[0]
    for index in range(1, len(layers.spec.ops)):
        yield f"op {index} writes another's", layers.op(index, 80, "I", other)
    counter = _Sample("counter")
    for index, each in enumerate(counter.spec.tensors):
        if each.storage is Storage.STATE:
            yield f"arena tensor {index} that nothing writes", counter.tensor(index, 1, "B", 2)


def _float_traps() -> Iterator[Case]:
    sample = _Sample("quantization")
    for value in (float("nan"), float("inf"), float("-inf"), 0.0, -1.0, 1e-320, 1e300):
        yield f"scale is {value}", sample.attribute("quantize", "scale", value)
    for value in (-129, 128, 2**31, -(2**63)):
        yield f"zero point is {value}", sample.attribute("quantize", "zero_point", value)


def _nested_cases() -> Iterator[Case]:
    sample = _Sample("classifier_int8")
    _, size = section(sample.bytes, SectionKind.PROGRAM)
    yield "text that is not UTF-8", sample.at(sample.start + size - 1, "B", 0xFF)
    yield "a control character", sample.at(sample.start + size - 1, "B", 0x1B)
    yield "strings shorter than their owners", sample.tensor(0, 8, "I", 1)
    yield "certificate that must be understood", sample.at(64 + 64 + 4, "I", 1)
    yield "certificate without bytes", sample.at(64 + 64 + 16, "Q", 0)


ROWS: Final = {
    "cwe_190_680_overflow_in_size": _overflow,
    "cwe_131_122_size_mismatch": _size_mismatch,
    "cwe_125_787_index": _index,
    "data_dependent_index": _data_dependent_index,
    "cwe_369_division": _division,
    "cwe_476_absent_field": _absent,
    "cwe_674_835_400_loops": _loops,
    "cwe_770_789_counts": _counts,
    "cwe_843_type_confusion": _type_confusion,
    "cwe_191_sign": _negative,
    "cwe_121_stack": _stack,
    "cwe_416_aliasing": _aliasing,
    "cwe_908_not_written": _unwritten,
    "cwe_617_float_traps": _float_traps,
    "nested_blob": _nested_cases,
}
"""Names of folders, and what makes their programs."""


def near_caps() -> Iterator[Case]:
    """Give the largest programs that the caps allow, wrong in what is checked last.

    Each of their 16,000 operators frees what the one before it wrote, far below what it writes itself: the sweep over
    the memory plan looks as far as it ever does.
    """
    for plans in (1, 16):
        build = Assembly()
        size = build.sizes.symbol("n", 1, plans) if plans > 1 else 1
        build.sizes.bounds += [(bound,) for bound in range(1, plans)]
        tensor = build.input("x", DType.F32, (size, 1))
        for _ in range(16_000):
            (tensor,) = build.op("unary", [tensor], (DType.F32, (size, 1)), attributes=RELU)
        build.output("y", tensor)
        program = build.program()
        (ceiling,) = struct.unpack_from("<Q", program, 24)
        yield f"16,000 operators, {plans} memory plans", reseal(patch(program, 24, "Q", ceiling - 64))


def write(folder: Path) -> None:
    """Write every program of every row."""
    for row, cases in ROWS.items():
        place = folder / row
        place.mkdir(parents=True, exist_ok=True)
        for name, program in cases():
            (place / f"{name.replace(' ', '-').replace(':', '')}.alc").write_bytes(program)


def refuse(program: bytes) -> ProgramError | None:
    """Return what refused a program, or None if nothing did."""
    try:
        load(program)
    except ProgramError as error:
        return error
    return None


_ALLOCATE: Final = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
_RELEASE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class _Allocator(ctypes.Structure):
    _fields_: ClassVar = [
        ("struct_bytes", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("allocate", _ALLOCATE),
        ("release", _RELEASE),
    ]


class _Options(ctypes.Structure):
    _fields_: ClassVar = [("struct_bytes", ctypes.c_uint32), ("allocator", ctypes.POINTER(_Allocator))]


def most_bytes(program: bytes) -> int:
    """Return how much memory the C interface held at most while it refused a program, its copy of the bytes included.

    Raises:
        RuntimeError: it took nothing from the allocator that it was given, or accepted the program.
    """
    library = ctypes.CDLL(str(Path(_native.__file__).with_name("libalcove.so")))
    held: dict[int, ctypes.Array[ctypes.c_char]] = {}
    most = 0

    def allocate(_: int | None, size: int, alignment: int) -> int:
        nonlocal most
        block = ctypes.create_string_buffer(size + alignment)
        address = -(-ctypes.addressof(block) // alignment) * alignment
        held[address] = block
        most = max(most, sum(len(each) for each in held.values()))
        return address

    def release(_: int | None, memory: int, __: int) -> None:
        del held[memory]

    allocator = _Allocator(ctypes.sizeof(_Allocator), None, _ALLOCATE(allocate), _RELEASE(release))
    options = _Options(ctypes.sizeof(_Options), ctypes.pointer(allocator))
    model = ctypes.c_void_p()
    status = library.alcove_model_open_bytes_with(
        program, ctypes.c_size_t(len(program)), ctypes.byref(options), ctypes.byref(model)
    )
    if status == 0 or most == 0:
        msg = f"status {status}, {most} bytes"
        raise RuntimeError(msg)
    return most


def time_ms(program: bytes) -> float:
    """Return how long refusing a program takes, the median of five."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        refuse(program)
        times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times)


def table() -> str:
    """Return one line for each row: programs, the longest time, the most memory beside the file's size."""
    lines = ["| row | programs | slowest, ms | most memory, times the file |", "|---|--:|--:|--:|"]
    for row, cases in {**ROWS, "near the caps": near_caps}.items():
        programs = [program for _, program in cases()]
        slowest = max(time_ms(program) for program in programs)
        most = max(most_bytes(program) / len(program) for program in programs)
        lines.append(f"| {row} | {len(programs)} | {slowest:.2f} | {most:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Write or measure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.malformed", description=__doc__)
    parser.add_argument("--programs", type=Path, metavar="FOLDER")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--write", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.programs:
        write(options.programs)
    if not (options.measure or options.write):
        return
    measured = table()
    print(measured)
    if options.write:
        SECTION.write(options.write, measured, {})


if __name__ == "__main__":
    main()
