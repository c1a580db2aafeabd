"""Each rule of the verifier is enforced, by its own code; each case is one change of a valid program, resealed."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.format import records
from alcove.runtime.format.records import SectionKind
from alcove.runtime.format.spec import DType, Layout, PortSpec, ProgramSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import PLAIN_LINEAR, Assembly, classifier, patch, reseal, section

# Tensors and ops of `classifier`.
TABLE, SCALE, FIRST, SECOND, TEXT, IDS, BAG, MIDDLE, POSITIVE, LOGITS, SHARES, BEST, INDICES = range(13)
HASH_OP, BAG_OP, FIRST_OP, RELU_OP, SECOND_OP, SOFTMAX_OP, TOPK_OP = range(7)

Change: TypeAlias = Callable[[], bytes]


def base() -> bytes:
    """A program with all three sections."""
    return write_program(classifier(certificate=b"{}"))


def at(offset: int, record: str, *values: int | bytes) -> Change:
    """A change of header or section table."""
    return lambda: reseal(patch(base(), offset, record, *values))


def table(index: int, field: int, record: str, *values: int | bytes) -> Change:
    """A change of a section record."""
    return at(records.HEADER.size + index * records.SECTION.size + field, record, *values)


def program(offset: int, record: str, *values: int | bytes) -> Change:
    """A change of the PROGRAM section."""
    return lambda: reseal(patch(base(), section(base(), SectionKind.PROGRAM)[0] + offset, record, *values))


def tensor(index: int, field: int, record: str, *values: int | bytes) -> Change:
    """A change of a tensor record."""
    return program(records.PROGRAM.size + index * records.TENSOR.size + field, record, *values)


def op(index: int, field: int, record: str, *values: int | bytes) -> Change:
    """A change of an op record."""
    return program(records.PROGRAM.size + 13 * records.TENSOR.size + index * records.OP.size + field, record, *values)


def port(index: int, field: int, record: str, *values: int | bytes) -> Change:
    """A change of a port record: the input, then two outputs."""
    start = records.PROGRAM.size + 13 * records.TENSOR.size + 7 * records.OP.size
    return program(start + index * records.PORT.size + field, record, *values)


def spec(change: Callable[[ProgramSpec], ProgramSpec]) -> Change:
    """A change of the values, written as any program is."""
    return lambda: write_program(change(classifier(certificate=b"{}")))


def tensors(index: int, **fields: Any) -> Change:
    """Other fields of one tensor."""

    def change(s: ProgramSpec) -> ProgramSpec:
        return replace(s, tensors=(*s.tensors[:index], replace(s.tensors[index], **fields), *s.tensors[index + 1 :]))

    return spec(change)


def ops(index: int, **fields: Any) -> Change:
    """Other fields of one op."""

    def change(s: ProgramSpec) -> ProgramSpec:
        return replace(s, ops=(*s.ops[:index], replace(s.ops[index], **fields), *s.ops[index + 1 :]))

    return spec(change)


def ports(**fields: Any) -> Change:
    """Other ports."""
    return spec(lambda s: replace(s, **fields))


def longer_weights() -> bytes:
    """WEIGHTS with 64 bytes too many: zeros that belong to no constant."""
    whole = base()
    longer = patch(whole + bytes(64), 16, "Q", len(whole) + 64)
    return reseal(patch(longer, 64 + 128 + 16, "Q", section(whole, SectionKind.WEIGHTS)[1] + 64))


def many_ids() -> bytes:
    """A bag of more ids than the cap."""
    build = Assembly()
    weights = build.constant("table", np.zeros((1, 1), np.float32))
    ids = build.input("ids", DType.I32, ((1 << 20) + 1,), is_ragged=True)
    build.output("y", build.op("text_embedding_bag", [ids, weights], (DType.F32, (1, 1)), attributes=(0,))[0])
    return build.program()


def many_operations() -> bytes:
    """A small file whose run would take minutes."""
    build = Assembly()
    weight = build.panels("weight", np.zeros((64, 64), np.float32), np.zeros(64, np.float32))
    x = build.input("x", DType.F32, (1 << 18, 64))
    for _ in range(300):
        (x,) = build.op("linear", [x, weight], (DType.F32, (1 << 18, 64)), attributes=PLAIN_LINEAR)
    build.output("y", x)
    result = build.spec()
    offsets = {i: (i % 2) * (1 << 26) for i, t in enumerate(result.tensors) if not t.data}
    moved = tuple(replace(t, offset=offsets.get(i, 0)) for i, t in enumerate(result.tensors))
    return write_program(replace(result, tensors=moved, arena_bytes=1 << 27))


def free_ids() -> bytes:
    """A hash with one bucket more than the table has rows."""
    result = classifier()
    hashed = replace(result.ops[HASH_OP], attributes=(1, 3, 33, 0))
    return write_program(replace(result, ops=(hashed, *result.ops[1:])))


def large_arena() -> bytes:
    """An arena tensor that ends beyond the cap."""
    result = classifier()
    far = replace(result.tensors[SHARES], offset=1 << 29)
    moved = (*result.tensors[:SHARES], far, *result.tensors[SHARES + 1 :])
    return write_program(replace(result, tensors=moved, arena_bytes=(1 << 29) + 128))


def many_labels() -> bytes:
    """More labels than the cap, in a section of the right size."""
    result = classifier()
    return write_program(replace(result, outputs=(PortSpec("y", BEST, ("",) * 65537),)))


def spread(s: ProgramSpec) -> ProgramSpec:
    """The relu beside its input and no longer in its place, by 64 bytes of 72: neither apart nor the same."""
    changed = list(s.tensors)
    changed[POSITIVE] = replace(changed[POSITIVE], offset=changed[MIDDLE].offset + 64)
    return replace(s, tensors=tuple(changed))


def read_later(s: ProgramSpec) -> ProgramSpec:
    """The input of the relu that runs in its place is an output too: it must stay."""
    return replace(s, outputs=(*s.outputs, PortSpec("middle", MIDDLE)))


BIG = 2**31
CASES: list[tuple[str, Change]] = [
    ("file_too_small", lambda: base()[:63]),
    ("header_magic", at(0, "B", 0x88)),
    ("header_magic", at(4, "2s", b"\n\n")),
    ("header_version", at(8, "H", 0)),
    ("header_version", at(8, "H", 1)),
    ("header_version", at(8, "H", 3)),
    ("header_file_size", at(16, "Q", 1)),
    ("header_digest", lambda: patch(base(), 32, "B", base()[32] ^ 1)),
    ("header_digest", lambda: patch(base(), 24, "B", base()[24] ^ 1)),
    ("header_memory_ceiling", at(24, "Q", 0)),
    ("header_memory_ceiling", at(24, "Q", 2**63)),
    ("section_count", at(12, "I", 0)),
    ("section_count", at(12, "I", 17)),
    ("section_kind", table(0, 0, "I", 0)),
    ("section_kind", table(2, 0, "II", 4, 1)),
    ("section_kind", table(2, 0, "II", 4, 0)),
    ("section_kind", lambda: reseal(patch(patch(base(), 10, "H", 1), 64 + 128, "II", 5, 1))),
    ("section_flags", table(0, 4, "I", 0)),
    ("section_flags", table(1, 4, "I", 1)),
    ("section_flags", table(2, 4, "I", 3)),
    ("section_order", table(1, 0, "II", 1, 1)),
    ("section_range", table(0, 8, "Q", 320)),
    ("section_range", table(2, 8, "Q", 2**64 - 16384)),
    ("section_range", table(2, 16, "Q", 2**30)),
    ("section_range", lambda: reseal(patch(base()[:64], 16, "Q", 64))),
    ("section_size", table(0, 16, "Q", 0)),
    ("section_size", table(0, 16, "Q", (16 << 20) + 1)),
    ("section_size", table(1, 16, "Q", (64 << 10) + 1)),
    ("section_size", table(2, 16, "Q", 2**64 - 1)),
    ("section_size", spec(lambda s: replace(s, certificate=bytes((64 << 10) + 1)))),
    ("padding", table(0, 56, "Q", 1)),
    ("padding", lambda: reseal(patch(base(), 16383, "B", 1))),
    ("trailing_bytes", lambda: reseal(patch(base() + b"\0", 16, "Q", len(base()) + 1))),
    ("count_limit", program(0, "I", 16385)),
    ("count_limit", program(4, "I", 16385)),
    ("count_limit", program(8, "I", 65)),
    ("count_limit", program(12, "I", 65)),
    ("count_limit", many_labels),
    ("program_size", program(0, "I", 12)),
    ("program_size", program(20, "I", 2**32 - 1)),
    ("program_size", program(20, "I", 0)),
    ("program_size", tensor(TABLE, 8, "I", 0)),
    ("padding", program(48, "I", 1)),
    ("string_limit", tensor(TABLE, 8, "I", 256)),
    ("string_limit", op(HASH_OP, 8, "I", 1024)),
    ("string_text", tensors(TABLE, name="a\nb")),
    ("string_text", tensors(TABLE, name="a\x7f")),
    ("string_text", tensors(TABLE, name="a\x9b31m")),
    ("string_text", ops(HASH_OP, source="\0")),
    ("string_text", lambda: reseal(base().replace(b"label 3", b"label \xff"))),
    ("string_text", lambda: reseal(base().replace(b"label 3", b"lab\xed\xa0\x80 "))),
    ("tensor_dtype", tensor(TABLE, 0, "B", 0)),
    ("tensor_dtype", tensor(TABLE, 0, "B", 10)),
    ("tensor_dtype", tensors(IDS, dtype=DType.TEXT, shape=(), is_ragged=False, offset=0)),
    ("tensor_storage", tensor(TABLE, 1, "B", 0)),
    ("tensor_storage", tensor(TABLE, 1, "B", 4)),
    ("tensor_storage", tensor(TEXT, 16, "Q", 64)),
    ("tensor_layout", tensor(TABLE, 2, "B", 0)),
    ("tensor_layout", tensor(TABLE, 2, "B", 2)),
    ("tensor_layout", tensor(BAG, 2, "B", 2)),
    ("tensor_shape", tensor(TABLE, 3, "B", 9)),
    ("tensor_shape", tensor(TABLE, 32, "I", 0)),
    ("tensor_shape", tensor(TABLE, 32, "I", BIG)),
    ("tensor_flags", tensor(TABLE, 12, "I", 1)),
    ("tensor_flags", tensor(IDS, 12, "I", 1)),
    ("tensor_flags", tensor(BAG, 12, "I", 4)),
    ("padding", tensor(TABLE, 40, "I", 1)),
    ("tensor_flags", tensor(IDS, 4, "I", 2)),
    ("tensor_flags", tensor(TABLE, 4, "I", 1)),
    ("tensor_flags", tensor(TEXT, 4, "I", 1)),
    ("tensor_size", tensor(TABLE, 24, "Q", 641)),
    ("tensor_size", tensor(BAG, 32, "II", 2**31 - 1, 2**31 - 1)),
    ("tensor_size", longer_weights),
    ("tensor_offset", tensor(BAG, 16, "Q", 1)),
    ("tensor_offset", tensor(SCALE, 16, "Q", 704)),
    ("tensor_offset", tensor(SCALE, 16, "Q", 2**64 - 64)),
    ("tensor_undefined", ops(BAG_OP, inputs=(BAG, TABLE, SCALE))),
    ("tensor_undefined", ops(HASH_OP, inputs=(LOGITS,))),
    ("tensor_redefined", ops(RELU_OP, outputs=(MIDDLE,))),
    ("tensor_redefined", ops(RELU_OP, outputs=(FIRST,))),
    ("tensor_redefined", ops(RELU_OP, outputs=(TEXT,))),
    ("tensor_redefined", ops(TOPK_OP, outputs=(BEST, BEST))),
    ("tensor_redefined", ports(inputs=(PortSpec("a", TEXT), PortSpec("b", TEXT)))),
    ("tensor_redefined", ports(inputs=(PortSpec("text", TEXT), PortSpec("b", TABLE)))),
    ("tensor_unused", ops(SECOND_OP, inputs=(POSITIVE, FIRST))),
    ("tensor_unused", spec(lambda s: replace(s, ops=s.ops[:TOPK_OP]))),
    ("tensor_index", op(HASH_OP, 16, "I", 13)),
    ("tensor_index", op(HASH_OP, 80, "I", 2**32 - 1)),
    ("tensor_index", port(0, 0, "I", 13)),
    ("padding", port(0, 12, "I", 1)),
    ("op_unknown", op(HASH_OP, 0, "H", 0)),
    ("op_unknown", op(HASH_OP, 0, "H", 9)),
    ("op_unknown", op(HASH_OP, 0, "H", 65535)),
    ("op_arity", op(HASH_OP, 2, "B", 0)),
    ("op_arity", op(HASH_OP, 3, "B", 255)),
    ("op_arity", op(BAG_OP, 4, "B", 0)),
    ("op_arity", ops(BAG_OP, inputs=(IDS, TABLE, SCALE, SCALE))),
    ("padding", op(HASH_OP, 5, "B", 1)),
    ("size_expression", op(HASH_OP, 12, "I", 1)),
    ("size_expression", op(HASH_OP, 12, "I", 8)),
    ("size_expression", op(HASH_OP, 12, "I", 16)),
    ("size_expression", tensor(BAG, 12, "I", 1)),
    ("padding", op(HASH_OP, 20, "I", 1)),
    ("padding", op(HASH_OP, 84, "I", 1)),
    ("padding", op(HASH_OP, 248, "Q", 1)),
    ("op_type", ops(BAG_OP, inputs=(TEXT, TABLE, SCALE))),
    ("op_type", tensors(BAG, is_ragged=True)),
    ("op_type", tensors(IDS, is_ragged=False)),
    ("op_type", tensors(FIRST, layout=Layout.ROW_MAJOR, data=bytes(18 * 20 * 4))),
    ("op_type", ops(SECOND_OP, inputs=(SECOND, SECOND))),
    ("op_type", tensors(TABLE, dtype=DType.U8)),
    ("op_shape", tensors(BAG, shape=(2, 10))),
    ("op_shape", tensors(BAG, shape=(20,))),
    ("op_shape", tensors(POSITIVE, shape=(18, 1))),
    ("op_shape", tensors(POSITIVE, shape=(1, 18, 1))),
    ("op_shape", tensors(SCALE, shape=(19,), data=bytes(76))),
    ("op_shape", ops(TOPK_OP, attributes=(2, 1))),
    ("op_shape", many_ids),
    ("op_attribute", ops(HASH_OP, attributes=(0, 3, 32, 0))),
    ("op_attribute", ops(HASH_OP, attributes=(4, 3, 32, 0))),
    ("op_attribute", ops(HASH_OP, attributes=(1, 9, 32, 0))),
    ("op_attribute", ops(HASH_OP, attributes=(1, 3, 0, 0))),
    ("op_attribute", ops(HASH_OP, attributes=(1, 3, BIG, 0))),
    ("op_attribute", ops(HASH_OP, attributes=(1, 3, -1, 0))),
    ("op_attribute", ops(HASH_OP, attributes=(1 + 2**32, 3, 32, 0))),
    ("op_attribute", ops(BAG_OP, attributes=(2,))),
    ("op_attribute", ops(BAG_OP, attributes=(-1,))),
    ("op_attribute", ops(TOPK_OP, attributes=(0, 1))),
    ("op_attribute", ops(TOPK_OP, attributes=(18, 1))),
    ("index_bound", free_ids),
    ("port_tensor", ports(outputs=())),
    ("port_tensor", ports(outputs=(PortSpec("y", TABLE),))),
    ("port_tensor", ports(outputs=(PortSpec("y", TEXT),))),
    ("port_name", ports(inputs=(PortSpec("", TEXT),))),
    ("port_name", ports(outputs=(PortSpec("y", BEST), PortSpec("y", INDICES)))),
    ("port_labels", ports(outputs=(PortSpec("y", BEST, ("a",) * 17),))),
    ("port_labels", ports(outputs=(PortSpec("y", INDICES, ("a",) * 16),))),
    ("port_labels", ports(inputs=(PortSpec("text", TEXT, ("a",)),))),
    ("port_labels", port(2, 8, "I", 16)),
    ("port_labels", port(2, 8, "I", 2**32 - 1)),
    ("plan_overlap", tensors(BAG, offset=0)),
    ("plan_overlap", tensors(BEST, offset=classifier().tensors[INDICES].offset)),
    ("plan_overlap", tensors(SHARES, offset=classifier().tensors[LOGITS].offset)),
    ("plan_overlap", spec(spread)),
    ("plan_overlap", spec(read_later)),
    ("plan_size", spec(lambda s: replace(s, arena_bytes=s.arena_bytes + 64))),
    ("plan_size", spec(lambda s: replace(s, arena_bytes=0))),
    ("plan_size", large_arena),
    ("plan_size", tensor(SHARES, 16, "Q", 2**64 - 64)),
    ("op_budget", many_operations),
]


@pytest.mark.parametrize(("code", "change"), CASES, ids=[f"{i}-{code}" for i, (code, _) in enumerate(CASES)])
def test_a_broken_rule_gives_its_code(code: str, change: Change) -> None:
    """The verifier names the rule, and says where."""
    with pytest.raises(ProgramError) as caught:
        load(change())
    assert caught.value.code == code, caught.value
    assert caught.value.message
    if code.startswith("op_"):
        assert caught.value.op is not None


def test_the_base_of_all_cases_is_valid() -> None:
    """A test for the tests."""
    load(base()).verify_weights()


def test_every_code_of_kind_program_has_a_case(repository: Path, tmp_path: Path) -> None:
    """No rule without a test: what is missing above is tested here or in test_files.py."""
    source = (repository / "runtime/native/core/codes.inc").read_text(encoding="utf-8")
    codes = set(re.findall(r"^ALCOVE_CODE\((\w+), program", source, re.MULTILINE))
    elsewhere = {"section_digest", "weights_digest", "weights_padding", "file_not_regular", "file_too_large"}
    elsewhere |= {"state_tensor", "size_symbol", "size_bucket"}  # test_size_codes.py
    elsewhere |= {"op_missing"}  # test_selective.py
    elsewhere |= {"method_name", "method_state"}  # test_methods.py
    assert {code for code, _ in CASES} | elsewhere == codes
    large = tmp_path / "large.alc"
    large.touch()
    os.truncate(large, (1 << 30) + 1)
    for path, code in [(large, "file_too_large"), (tmp_path, "file_not_regular")]:
        with pytest.raises(ProgramError) as caught:
            load(path)
        assert (caught.value.code, caught.value.section) == (code, "file")
