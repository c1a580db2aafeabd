"""Constants of 16 bits are float32 to the operators, whatever their bits, and nothing else may have these types."""

from dataclasses import replace

import numpy as np
import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.format.halves import narrow, narrow_constants, round_to, widen, widen_constant, widen_constants
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import HALVES, DType, ProgramSpec, Storage, TensorSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly, patch, reseal
from alcove.runtime.testing_methods import prefill_and_decode
from alcove.runtime.testing_ops import op_samples

EVERY = np.arange(1 << 16, dtype=np.uint16)
ADD = 1


@pytest.fixture
def spec() -> ProgramSpec:
    """Of the sample."""
    return read_spec(op_samples()["halves"])


def refusal(program: bytes) -> str:
    """The code that names why."""
    with pytest.raises(ProgramError) as caught:
        load(program)
    return caught.value.code


def all_halves(dtype: DType) -> bytes:
    """A program that gives each of the 65,536 numbers of a type, as operators see them."""
    build = Assembly()
    table = build.constant("every", np.zeros(1 << 16, np.float32))
    zero = build.input("zero", DType.I64, (1,))
    build.output("y", build.op("index_select", [table, zero], (DType.F32, (1,)), attributes=(0, 0))[0])
    spec = build.spec()
    tensors = list(spec.tensors)
    tensors[table] = replace(tensors[table], dtype=dtype, shape=(1, 1 << 16), data=EVERY.tobytes())
    out = len(tensors) - 1
    tensors[out] = replace(tensors[out], shape=(1, 1 << 16))
    return write_program(replace(spec, tensors=tuple(tensors), arena_bytes=64 + (4 << 16)))


@pytest.mark.parametrize("dtype", HALVES)
def test_every_number_of_16_bits_is_the_float32_that_numpy_gives(dtype: DType) -> None:
    """Subnormal, infinite and negative ones too; every NaN is the canonical one."""
    (seen,) = load(all_halves(dtype))(np.zeros(1, np.int64))
    np.testing.assert_array_equal(seen[0].view(np.uint32), widen(EVERY, dtype).view(np.uint32))
    is_number = ~np.isnan(seen[0])
    np.testing.assert_array_equal(narrow(seen[0], dtype)[is_number], EVERY[is_number])


def test_rounding_to_bfloat16_takes_the_even_neighbor() -> None:
    """Halfway between two; just above; what rounds up to infinity."""
    bits = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF7FFFFF, 0x00008000, 0x7F800001], np.uint32)
    wanted = [0x3F800000, 0x3F820000, 0x3F810000, 0x7F800000, 0xFF800000, 0x00000000, 0x7FC00000]
    assert round_to(bits.view(np.float32), DType.BF16).view(np.uint32).tolist() == wanted


def test_a_program_in_16_bits_gives_the_bits_of_the_same_in_float32(spec: ProgramSpec) -> None:
    """Several runs, for the state; it is smaller, and its ceiling says what widening takes."""
    wide = widen_constants(spec)
    programs = [write_program(spec), write_program(wide)]
    random = np.random.default_rng(3)
    x, row, image = (random.standard_normal(shape, np.float32) for shape in ((3, 40), (1, 40), (1, 6, 7, 21)))
    ids = np.array([0, 8, 3, 3, 1])
    sessions = [load(program).session(threads=threads) for program in programs for threads in (1, 3)]
    for _ in range(2):
        answers = [session(x, row, ids, image) for session in sessions]
        for outputs in answers[1:]:
            for seen, wanted in zip(outputs, answers[0], strict=True):
                np.testing.assert_array_equal(seen.view(np.uint32), wanted.view(np.uint32))
    assert len(programs[0]) < 0.75 * len(programs[1])
    ceilings = [load(program).memory_ceiling_bytes for program in programs]
    assert ceilings[0] - ceilings[1] >= 2 * sum(len(spec.tensors[index].data) for index in spec.widened) > 0
    assert [load(program).session().memory_bytes for program in programs] == ceilings


def test_only_what_loses_nothing_is_narrowed(spec: ProgramSpec) -> None:
    """Widened and narrowed again a program is what it was, but for those that are of another type."""
    again = narrow_constants(widen_constants(spec), DType.BF16)
    for before, after in zip(spec.tensors, again.tensors, strict=True):
        assert after == (widen_constant(before) if before.dtype is DType.F16 else before)


def test_types_of_16_bits_are_for_constants_of_files_of_version_2_2(spec: ProgramSpec) -> None:
    """Not in the arena, not in a state, not in an earlier version, and their size is that of 16 bits."""
    program = write_program(spec)
    assert refusal(reseal(patch(program, 10, "H", 1))) == "tensor_dtype"
    for storage in (Storage.ARENA, Storage.STATE):
        at = next(i for i, tensor in enumerate(spec.tensors) if tensor.storage is storage)
        tensors = [replace(t, dtype=DType.F16) if i == at else t for i, t in enumerate(spec.tensors)]
        assert refusal(write_program(replace(spec, tensors=tuple(tensors)))) == "tensor_dtype"
    at = next(i for i, tensor in enumerate(spec.tensors) if tensor.dtype is DType.BF16)
    half, wide = spec.tensors[at], widen_constants(spec).tensors[at]
    program = write_program(replace(spec, tensors=(*spec.tensors[:at], wide, *spec.tensors[at + 1 :])))
    record = program.index(bytes([DType.F32, Storage.CONSTANT, half.layout, len(half.shape)]), 192)
    assert refusal(reseal(patch(program, record, "B", DType.BF16))) in {"tensor_size", "tensor_offset"}


def test_unused_columns_of_panels_of_16_bits_are_zero(spec: ProgramSpec) -> None:
    """`verify_weights` looks at them as at those of float32."""
    at = next(i for i, tensor in enumerate(spec.tensors) if tensor.dtype is DType.F16)
    tensor = spec.tensors[at]
    data = bytearray(tensor.data)
    data[-1] = 1  # the last column of the last panel: 37 outputs, 11 unused columns
    tensors = (*spec.tensors[:at], replace(tensor, data=bytes(data)), *spec.tensors[at + 1 :])
    with pytest.raises(ProgramError) as caught:
        load(write_program(replace(spec, tensors=tensors))).verify_weights()
    assert (caught.value.code, caught.value.tensor) == ("weights_padding", at)


def test_methods_share_constants_of_16_bits() -> None:
    """They lie once in the file and once in memory, and give the bits of float32."""
    whole = prefill_and_decode()
    wide = replace(
        whole,
        tensors=tuple(round_constants(whole)),
        others=tuple(replace(other, tensors=tuple(round_constants(other))) for other in whole.others),
    )
    half = replace(
        narrow_constants(wide, DType.F16),
        others=tuple(narrow_constants(other, DType.F16) for other in wide.others),
    )
    models = [load(write_program(spec)) for spec in (wide, half)]
    assert len(write_program(half)) < len(write_program(wide))
    assert any(tensor.dtype is DType.F16 for tensor in half.tensors)
    assert read_spec(write_program(half)) == half
    for method in models[0].methods:
        inputs = [np.ones(port.shape, np.float32) for port in models[0].method(method).inputs]
        inputs = [
            np.zeros(port.shape, np.int64) if port.dtype is DType.I64 else value
            for port, value in zip(models[0].method(method).inputs, inputs, strict=True)
        ]
        wanted, got = (model.session().run(method, *inputs) for model in models)
        for one, other in zip(wanted, got, strict=True):
            np.testing.assert_array_equal(one, other)


def round_constants(spec: ProgramSpec) -> list[TensorSpec]:
    """Its tensors, with float32 constants rounded to float16."""
    return [
        replace(t, data=round_to(np.frombuffer(t.data, np.float32), DType.F16).tobytes())
        if t.storage is Storage.CONSTANT and t.dtype is DType.F32
        else t
        for t in spec.tensors
    ]
