"""Damaged bytes give a ProgramError or a model that runs, and nothing else; every byte, every length."""

import hashlib
import random

import numpy as np
import pytest
from alcove.runtime import InputError, ProgramError, load
from alcove.runtime.format import records
from alcove.runtime.format.records import SectionKind
from alcove.runtime.format.spec import DType
from alcove.runtime.format.writer import write_program
from alcove.runtime.model import Model
from alcove.runtime.testing import NUMPY_TYPES, classifier, patch, reseal, samples, section

VALUES = (0x00, 0x01, 0x7F, 0x80, 0xFF)
SMALL_ARENA_BYTES = 1 << 22


def try_to_run(model: Model) -> None:
    """Run a model on inputs of its own ports; it may refuse them, and nothing else."""
    if model.memory_ceiling_bytes > SMALL_ARENA_BYTES:
        return
    inputs = [
        "Wo ist das?" if port.dtype is DType.TEXT else np.ones(port.shape, NUMPY_TYPES[port.dtype])
        for port in model.inputs
    ]
    try:
        model(*inputs)
    except InputError as error:
        refusal = str(error)
    else:
        return
    assert ", allowed are " in refusal


def outcome(program: bytes) -> str:
    """Return the code that refused the bytes, or "ok"."""
    try:
        model = load(program)
    except ProgramError as error:
        refusal = error
    else:
        try_to_run(model)
        return "ok"
    assert refusal.section in {"file", "header", "table", "program", "certificate", "weights", "methods"}
    assert refusal.code in str(refusal)
    return refusal.code


def test_no_flipped_byte_of_header_table_or_program_passes() -> None:
    """Each byte, each of eight bits, unsealed: the digests (or an earlier check) refuse it."""
    for name, program in samples().items():
        offset, size = section(program, SectionKind.PROGRAM)
        for at in range(offset + size):
            for bit in range(8):
                assert outcome(patch(program, at, "B", program[at] ^ 1 << bit)) != "ok", (name, at, bit)


@pytest.mark.parametrize("name", sorted(samples()))
def test_resealed_bytes_are_refused_or_run(name: str) -> None:
    """Each byte of header, table and PROGRAM takes several values with digests made right: the deep checks decide.

    An accepted one is another valid program: a name changed, an offset moved, an attribute. Never a crash.
    """
    program = samples()[name]
    offset, size = section(program, SectionKind.PROGRAM)
    counts = {"ok": 0}
    for at in range(offset + size):
        old = program[at]
        for value in {*VALUES, old ^ 1, (old + 1) % 256, (old - 1) % 256} - {old}:
            code = outcome(reseal(patch(program, at, "B", value)))
            counts[code] = counts.get(code, 0) + 1
    assert len(counts) > 10
    assert counts["ok"] < sum(counts.values()) / 2


def test_every_truncation_is_refused() -> None:
    """Each length, as it is and with the header's size following; resealed too."""
    program = samples()["every_type"]
    for length in range(len(program)):
        cut = program[:length]
        assert outcome(cut) in {"file_too_small", "header_file_size"}, length
        if length >= records.HEADER.size:
            assert outcome(reseal(patch(cut, 16, "Q", length))) != "ok", length
    whole = samples()["classifier_int8"]
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        assert outcome(reseal(whole[:length])) != "ok"


def test_appended_bytes_are_refused() -> None:
    """Zeros or not, counted by the header or not."""
    for program in samples().values():
        for tail in (b"\0", b"x" * 64):
            longer = program + tail
            assert outcome(longer) == "header_file_size"
            assert outcome(reseal(patch(longer, 16, "Q", len(longer)))) == "trailing_bytes"


def test_counts_of_any_size_are_refused_without_being_believed() -> None:
    """Every count and size field with huge values: a code, at once, and no allocation of that size."""
    program = write_program(classifier())
    offset, _ = section(program, SectionKind.PROGRAM)
    for value in (18, 2**16, 2**24, 2**31, 2**32 - 1):
        assert outcome(reseal(patch(program, 12, "I", value))) in {"section_count", "section_range", "section_kind"}
        for field in (0, 1, 2, 3, 4, 5, 8, 9, 10, 11):
            at = offset + 4 * field
            assert outcome(reseal(patch(program, at, "I", value))) in {"count_limit", "program_size"}, (field, value)
    for value in (2**20, 2**32, 2**63, 2**64 - 1):
        for at in (16, 24):
            assert outcome(reseal(patch(program, at, "Q", value))) != "ok"
        for record in (64, 128):
            for field in (8, 16):
                assert outcome(reseal(patch(program, record + field, "Q", value))) != "ok"


def test_random_bytes_are_refused() -> None:
    """Noise, and noise behind a good header."""
    generator = random.Random(5)
    program = samples()["layers"]
    for _ in range(300):
        noise = generator.randbytes(generator.randrange(3000))
        assert outcome(noise) != "ok"
        assert outcome(reseal(program[:64] + noise)) != "ok"
        assert outcome(reseal(program[:192] + noise[:64] + program[256:])) != "ok"


def test_changed_records_are_refused_or_run() -> None:
    """Numbers at the edges of their types in aligned fields, digests right: both outcomes are common."""
    choose = random.Random(1)
    programs = list(samples().values())
    codes = []
    for _ in range(3000):
        program = choose.choice(programs)
        offset, size = section(program, SectionKind.PROGRAM)
        width = choose.choice([1, 2, 4, 8])
        at = offset + choose.randrange(size // width) * width
        old = int.from_bytes(program[at : at + width], "little")
        value = choose.choice([0, 1, 2, 3, 8, 16, 64, 65, 255, 2**31 - 1, 2**32 - 64, 2**63, old + 1, old - 1, old * 2])
        field = (value % (1 << 8 * width)).to_bytes(width, "little")
        codes.append(outcome(reseal(program[:at] + field + program[at + width :])))
    assert len(set(codes)) >= 25
    assert codes.count("ok") > 300


def test_the_samples_are_untouched_by_resealing() -> None:
    """A test for the tests: what is right stays as it is, and resealing makes a changed name right."""
    for program in samples().values():
        assert reseal(program) == program
    program = write_program(classifier())
    at = program.index(b"label 3")
    renamed = reseal(patch(program, at, "7s", b"label E"))
    assert "label E" in load(renamed).outputs[1].labels
    assert hashlib.sha256(renamed).hexdigest() == load(renamed).digest
