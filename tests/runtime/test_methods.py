"""Several methods of one program share weights and states; each is verified, and none is silently another."""

from dataclasses import replace

import numpy as np
import pytest
from alcove.runtime import ArgumentError, InputError, ProgramError, load
from alcove.runtime.format import records
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.records import SectionKind
from alcove.runtime.format.spec import ProgramSpec, Storage
from alcove.runtime.format.writer import write_program
from alcove.runtime.model import Model
from alcove.runtime.testing import patch, reseal, section
from alcove.runtime.testing_methods import ROWS, WIDTH, prefill_and_decode
from numpy.typing import NDArray

VALUES = (0x00, 0x01, 0x7F, 0x80, 0xFF)
FOUR, ONE = np.arange(4), np.array([4])


def ones(rows: int, value: float = 1.0) -> NDArray[np.float32]:
    """Rows to write."""
    return np.full((rows, WIDTH), value, np.float32)


def refusal(program: bytes) -> str:
    """The code that refuses a program, "" if it opens."""
    try:
        load(program)
    except ProgramError as error:
        return error.code
    return ""


def with_second(spec: ProgramSpec, **fields: object) -> bytes:
    """The program with fields of its second method replaced."""
    return write_program(replace(spec, others=(replace(spec.others[0], **fields),)))  # type: ignore[arg-type]


def test_methods_share_what_a_session_keeps() -> None:
    """Rows that one writes the other sees, and both count."""
    model = load(write_program(prefill_and_decode()))
    assert model.methods == ("prefill", "decode")
    assert model.states == ("cache", "count")
    session = model.session()
    seen, count = session(FOUR, ones(4))
    assert count.tolist() == [1]
    both, more, scores = session.run("decode", ONE, ones(1, 2))
    assert more.tolist() == [2]
    assert both[:4].tobytes() == seen[:4].tobytes()
    assert both[4].any()
    assert scores.shape == (1, 5)
    again, third = session.method("prefill")(FOUR, ones(4, 3))
    assert third.tolist() == [3]
    assert again[4].tobytes() == both[4].tobytes()
    session.reset()
    assert session.run("decode", ONE, ones(1))[1].tolist() == [1]


def test_a_failed_run_of_one_method_is_seen_by_none() -> None:
    """A row that there is not ends the run; the other method finds what was there."""
    session = load(write_program(prefill_and_decode())).session()
    before = session(FOUR, ones(4))[0].tobytes()
    with pytest.raises(InputError, match="allowed are 0 to 5"):
        session.run("decode", np.array([ROWS]), ones(1, 9))
    with pytest.raises(InputError):
        session(np.array([0, 1, 2, ROWS]), ones(4, 9))
    assert session.run("decode", np.array([3]), ones(1))[0].tobytes() == before


def test_a_model_of_another_method_is_that_methods_model() -> None:
    """Its ports, its runs; what was given for one method is not run as the other's."""
    model = load(write_program(prefill_and_decode()))
    decode = model.method("decode")
    assert [port.shape for port in decode.inputs] == [(1,), (1, WIDTH)]
    assert [port.name for port in decode.outputs] == ["seen", "count", "scores"]
    assert len(decode(ONE, ones(1))) == 3
    session = decode.session()
    assert len(session(ONE, ones(1))) == 3
    assert len(session.run("prefill", FOUR, ones(4))) == 2
    with pytest.raises(InputError):
        session(FOUR, ones(4))
    for call in (lambda: model.method("train"), lambda: session.run("train"), lambda: session.method("train")):
        with pytest.raises(ArgumentError, match="has no method 'train'; it has prefill, decode"):
            call()
    assert session.timestamps([FOUR, ones(4)], 2, "prefill").shape == (2, len(prefill_and_decode().ops) + 2)


def test_a_session_of_one_method_takes_the_largest_arena_alone() -> None:
    """The ceiling is the tables of all, the states once, and one arena."""
    spec = prefill_and_decode()
    model = load(write_program(spec))
    tables = sum(-(-16 * len(method.tensors) // 64) * 64 for method in spec.methods)
    states = 2 * 64 + 64
    assert model.memory_ceiling_bytes == tables + states + max(method.arena_bytes for method in spec.methods)
    session = model.session(memory_limit_bytes=model.memory_ceiling_bytes)
    session(FOUR, ones(4))
    session.run("decode", ONE, ones(1))
    assert session.memory_bytes == model.memory_ceiling_bytes


def test_equal_constants_are_stored_once() -> None:
    """The second method brings its own matrix and nothing else."""
    spec = prefill_and_decode()
    sizes = [section(write_program(one), SectionKind.WEIGHTS)[1] for one in (replace(spec, others=()), spec)]
    assert sizes[1] - sizes[0] <= 64 * 5 + 64
    load(write_program(spec)).verify_weights()


def test_bytes_and_values_are_one_another() -> None:
    """Both ways; a program with a method has minor version 1."""
    program = write_program(prefill_and_decode())
    assert read_spec(program) == prefill_and_decode()
    assert write_program(read_spec(program)) == program
    assert records.HEADER.unpack_from(program)[2] == 1
    old = reseal(patch(program, 10, "H", 0))
    assert refusal(old) == "section_kind"


@pytest.mark.parametrize("name", ["", "prefill", "x" * 256, "new\nline"])
def test_a_name_that_is_no_methods_own_is_refused(name: str) -> None:
    """None is empty, another's, too long or unprintable."""
    assert refusal(with_second(prefill_and_decode(), method=name)) in {"method_name", "string_limit", "string_text"}


def test_methods_that_disagree_about_a_state_are_refused() -> None:
    """Another shape, another beginning, a name that is another's or none."""
    spec = prefill_and_decode()
    second = spec.others[0]
    cache = second.states[0]
    tensors = list(second.tensors)
    tensors[cache.initial] = replace(tensors[cache.initial], data=np.ones((ROWS, WIDTH), np.float32).tobytes())
    assert refusal(with_second(spec, tensors=tuple(tensors))) == "method_state"
    for name in ("", "count"):
        states = (replace(cache, name=name), second.states[1])
        assert refusal(with_second(spec, states=states)) == "method_state"
    wide = prefill_and_decode().others[0]
    kept = [replace(state, name="count" if state.name == "cache" else "cache") for state in wide.states]
    assert refusal(with_second(spec, states=tuple(kept))) == "method_state"
    apart = (replace(cache, name="other"), second.states[1])
    assert load(with_second(spec, states=apart)).memory_ceiling_bytes == (
        load(write_program(spec)).memory_ceiling_bytes + 128
    )


def test_a_method_is_proved_as_the_first_is() -> None:
    """What refuses it names it, its operator and its section."""
    spec = prefill_and_decode()
    ops = list(spec.others[0].ops)
    ops[0] = replace(ops[0], attributes=(0, 9, 0.0, 0.0))
    with pytest.raises(ProgramError, match="method decode: linear") as refused:
        load(with_second(spec, ops=tuple(ops)))
    assert (refused.value.section, refused.value.op, refused.value.code) == ("methods", 0, "op_attribute")
    moved = [
        replace(tensor, offset=0) if tensor.storage is Storage.ARENA else tensor for tensor in spec.others[0].tensors
    ]
    assert refusal(with_second(spec, tensors=tuple(moved))) in {"plan_overlap", "plan_size"}


def test_too_many_methods_are_refused() -> None:
    """Sixteen in all."""
    spec = prefill_and_decode()
    one = spec.others[0]
    for count, code in ((15, ""), (16, "count_limit")):
        others = tuple(replace(one, method=f"m{i}") for i in range(count))
        assert refusal(write_program(replace(spec, others=others))) == code


def try_all(model: Model) -> None:
    """Run every method of a damaged program that opened; it may refuse the inputs, and nothing else."""
    if model.memory_ceiling_bytes > 1 << 22:
        return
    session = model.session()
    for name in model.methods:
        try:
            session.run(name, *(np.ones(port.shape, port_type(port.dtype.name)) for port in model.method(name).inputs))
        except InputError:
            continue


def port_type(name: str) -> type[np.generic]:
    """The numpy type of a port."""
    return {"F32": np.float32, "I64": np.int64, "I32": np.int32, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_}[name]


def test_no_flipped_byte_of_the_section_passes() -> None:
    """The digest refuses each."""
    program = write_program(prefill_and_decode())
    offset, size = section(program, SectionKind.METHODS)
    for at in range(offset, offset + size):
        assert refusal(patch(program, at, "B", program[at] ^ 1 << at % 8)) == "section_digest", at


def test_resealed_bytes_of_the_section_are_refused_or_run() -> None:
    """Each byte takes several values with digests made right: never a crash."""
    program = write_program(prefill_and_decode())
    offset, size = section(program, SectionKind.METHODS)
    counts: dict[str, int] = {}
    for at in range(offset, offset + size):
        old = program[at]
        for value in {*VALUES, old ^ 1, (old + 1) % 256} - {old}:
            damaged = reseal(patch(program, at, "B", value))
            try:
                model = load(damaged)
            except ProgramError as error:
                code = error.code
            else:
                code = "ok"
                try_all(model)
            counts[code] = counts.get(code, 0) + 1
    assert len(counts) > 10
    assert counts["ok"] < sum(counts.values()) / 2


def test_counts_and_sizes_of_any_value_are_refused() -> None:
    """Every number of the section's head, huge ones too, without an allocation of that size."""
    program = write_program(prefill_and_decode())
    offset, _ = section(program, SectionKind.METHODS)
    for value in (0, 2, 17, 2**16, 2**31, 2**32 - 1):
        assert refusal(reseal(patch(program, offset, "I", value))) in {"count_limit", "program_size", "padding"}, value
        for at in (4, 16):
            assert refusal(reseal(patch(program, offset + at, "I", value))) != "", (at, value)
    for size in (0, 1, 2**20, 2**63, 2**64 - 1):
        assert refusal(reseal(patch(program, offset + 24, "Q", size))) == "program_size", size


def test_every_truncation_of_the_section_is_refused() -> None:
    """With the header's size and the section's following."""
    program = write_program(prefill_and_decode())
    offset, size = section(program, SectionKind.METHODS)
    count = records.HEADER.unpack_from(program)[3]
    record = records.HEADER.size + (count - 1) * records.SECTION.size
    for length in range(1, size, 7):
        cut = patch(program[: offset + length], 16, "Q", offset + length)
        assert refusal(reseal(patch(cut, record + 16, "Q", length))) == "program_size", length
