"""The tables of docs/format.md (operators, limits, constants, codes, records) agree with the sources."""

import re
from pathlib import Path

import pytest
from alcove.runtime import _native
from alcove.runtime.format import records


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    """The document."""
    return (repository / "docs/format.md").read_text(encoding="utf-8")


def rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first column is called `heading`."""
    start = page.index(f"\n| {heading} |") + 1
    lines = page[start:].split("\n\n", maxsplit=1)[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def number(text: str) -> int:
    """Value of an integer constant of C++, as limits.h writes them: 64, 0x7FFFFFFF, 1u << 20, 16ull << 20."""
    base, _, shift = re.sub(r"u(ll)?\b", "", text).partition("<<")
    return int(base, 0) << int(shift or "0", 0)


def test_operators_are_those_of_the_manifest(page: str) -> None:
    """Code, name, arity, attributes and sharing of each operator."""
    written = rows(page, "code | operator")
    expected = []
    for op in _native.manifest():
        inputs = str(op.min_inputs) if op.min_inputs == op.max_inputs else f"{op.min_inputs}–{op.max_inputs}"
        attributes = " ".join(f"{name}:{kind}" for name, kind in op.attributes)
        expected.append([str(op.code), op.name, inputs, str(op.outputs), attributes, op.sharing])
    assert written == expected


def test_limits_are_those_of_the_verifier(page: str, repository: Path) -> None:
    """Name and value of each cap, in the order of limits.h, each with a reason."""
    source = (repository / "runtime/native/core/limits.h").read_text(encoding="utf-8")
    found = re.findall(r"constexpr uint\d+_t (k\w+) = ([^;]+);", source)
    values = [(name, number(text)) for name, text in found]
    written = rows(page, "limit")
    assert [(name, int(value)) for name, value, _ in written] == values
    assert all(reason for _, _, reason in written)


def test_codes_are_those_of_the_verifier(page: str, repository: Path) -> None:
    """Name and meaning of each code of kind `program`, in the order of codes.inc."""
    source = (repository / "runtime/native/core/codes.inc").read_text(encoding="utf-8")
    codes = re.findall(r'^ALCOVE_CODE\((\w+), program, "(.*)"\)$', source, re.MULTILINE)
    assert len(codes) == source.count(", program, ")
    assert [tuple(row) for row in rows(page, "code | the file is refused because")] == codes


def test_constants_of_the_exponential_are_those_of_the_kernel(page: str, repository: Path) -> None:
    """Each constant as the kernels' header has it."""
    source = (repository / "kernels/math/exp.h").read_text(encoding="utf-8")
    assert [tuple(row) for row in rows(page, "constant")] == re.findall(r"float (k\w+) = ([-\d.e]+)f;", source)


@pytest.mark.parametrize(("op", "operands"), [("unary", "x"), ("binary", "x and y")])
def test_functions_of_elements_are_those_of_the_kernels(page: str, repository: Path, op: str, operands: str) -> None:
    """Number, name and types of each function, in order; those that answer with a bool say so."""
    source = (repository / f"kernels/microkernels/{op}/functions.inc").read_text(encoding="utf-8")
    words = {
        "f32": "float32",
        "angle": "float32",
        "number": "float32, integers",
        "integer": "integers",
        "bool": "bool",
        "logic": "integers, bool",
        "any": "float32, integers, bool",
    }
    found = re.findall(rf"^ALCOVE_{op.upper()}\((\d+), (\w+), (\w+), (\w+)\)$", source, re.MULTILINE)
    written = rows(page, f"function | name | takes | of {operands}")
    assert [row[:3] for row in written] == [[number, name, words[types]] for number, name, types, _ in found]
    assert all(row[3].startswith("bool") for row, (*_, result) in zip(written, found, strict=True) if result == "bool")


def test_special_functions_are_those_of_the_kernel(page: str, repository: Path) -> None:
    """Number, name and count of operands of each, in order."""
    source = (repository / "kernels/microkernels/special/functions.inc").read_text(encoding="utf-8")
    found = re.findall(r"^ALCOVE_SPECIAL\((\d+), (\w+), (\d)\)$", source, re.MULTILINE)
    assert [tuple(row[:3]) for row in rows(page, "function | name | operands | of x, or x and y")] == found


def test_records_have_the_offsets_of_the_writer(page: str) -> None:
    """Fields tile each record, which has the size and the fields of the writer's struct."""
    heads = {
        "header": records.HEADER,
        "section record": records.SECTION,
        "program header": records.PROGRAM,
        "tensor record": records.TENSOR,
        "op record": records.OP,
        "port record": records.PORT,
        "state record": records.STATE,
        "symbol record": records.SYMBOL,
        "expression record": records.EXPRESSION,
        "bucket record": records.BUCKET,
        "place record": records.PLACE,
    }
    for what, record in heads.items():
        end = 0
        for offset, size, _, _ in rows(page, f"offset | size | {what} field"):
            assert int(offset) == end, f"{what}: {offset}"
            end += int(size)
        assert end == record.size, what
    assert records.LABEL.size == 4
