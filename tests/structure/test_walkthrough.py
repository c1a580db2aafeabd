"""Every row of the walkthrough is shown by a test, a verb of make or a script, or says why it was refused."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

EVIDENCE = {"shown by", "held by"}  # the head of a table's last column
CELL = re.compile(r"(?<!\\)\|")
REFUSED = re.compile(r"refused: \S+(?: \S+){2,}")


class Row(NamedTuple):
    """A row of a table: its number ("" where the table has none), what shows it, and the head of that column."""

    number: str
    evidence: str
    head: str


def cells_of(line: str) -> list[str]:
    """The cells of a line of a table; a bar behind a backslash is text."""
    return [cell.strip() for cell in CELL.split(line.strip().removeprefix("|").removesuffix("|"))]


def rows_of(page: str) -> Iterator[Row]:
    """The rows of every table of a page whose last column says what shows them."""
    head: list[str] = []
    for line in page.splitlines():
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells_of(line)
        elif head[-1] in EVIDENCE and set(line) - set("|-: "):
            cells = cells_of(line)
            assert len(cells) == len(head), f"{len(head)} cells are expected in {line!r}"
            yield Row(cells[0] if head[0] == "#" else "", cells[-1], head[-1])


@cache
def find_tests(path: Path) -> frozenset[str]:
    """The names of a file's test functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def fault_of(evidence: str, repository: Path) -> str:
    """Why this shows nothing; "" where it does."""
    if evidence.startswith("refused:"):
        return "" if REFUSED.fullmatch(evidence) else "it was refused without a reason"
    named = re.findall(r"`([^`]+)`", evidence)
    if not named:
        return "nothing shows it"
    rest = re.sub(r"`[^`]+`", "", evidence).replace(",", "").strip()
    faults = [f"{rest!r} is no test, no verb and no reason"] if rest else []
    return "; ".join([*faults, *filter(None, (missing(name, repository) for name in named))])


def missing(name: str, repository: Path) -> str:
    """Why a verb of make, a test or a script is not there; "" where it is."""
    if name.startswith("make "):
        makefile = (repository / "Makefile").read_text(encoding="utf-8")
        is_there = re.search(rf"^{re.escape(name.split()[1])}:", makefile, re.MULTILINE)
        return "" if is_there else f"make has no verb {name.split()[1]!r}"
    file, _, test = name.partition("::")
    if not (repository / file).is_file():
        return f"there is no {file}"
    is_lacking = file.startswith("tests/") and test not in find_tests(repository / file)
    return f"{file} has no test {test!r}" if is_lacking else ""


def pages(repository: Path) -> list[Path]:
    """The pages of the walkthrough that have steps."""
    return [path for path in sorted((repository / "docs/walkthrough").glob("*.md")) if path.name != "README.md"]


def test_every_step_is_shown_by_a_test_or_was_refused_with_a_reason(repository: Path) -> None:
    """File and function exist; a verb of make is one; no row has nothing."""
    faults = []
    for path in pages(repository):
        rows = list(rows_of(path.read_text(encoding="utf-8")))
        assert len(rows) > 8, f"{path.name} has hardly a step"
        found = [(row, fault_of(row.evidence, repository)) for row in rows]
        faults += [f"{path.name}: {row.number}: {fault}: {row.evidence}" for row, fault in found if fault]
    assert not faults, "\n".join(faults)


def test_every_step_has_a_number_of_its_own(repository: Path) -> None:
    """Steps ("shown by") are counted through all pages, messages ("held by") by themselves."""
    for head in EVIDENCE:
        numbers: Counter[str] = Counter()
        for path in pages(repository):
            rows = rows_of(path.read_text(encoding="utf-8"))
            numbers.update(row.number for row in rows if row.head == head and row.number)
        assert [number for number, count in numbers.items() if count > 1] == []
        assert all(number.isdecimal() for number in numbers)


@pytest.mark.parametrize(
    ("evidence", "fault"),
    [
        ("", "nothing shows it"),
        ("we looked at it", "nothing shows it"),
        ("refused:", "without a reason"),
        ("refused: no", "without a reason"),
        ("`make coffee`", "no verb"),
        ("`tests/structure/test_walkthrough.py`", "has no test"),
        ("`tests/structure/test_walkthrough.py::test_that_is_not_there`", "has no test"),
        ("`tests/structure/test_absent.py::test_x`", "there is no"),
        ("`make demo` or so", "is no test"),
    ],
)
def test_a_row_that_shows_nothing_is_found(repository: Path, evidence: str, fault: str) -> None:
    """The search finds what it is for."""
    (row,) = rows_of(f"| # | what is typed | shown by |\n|---|---|---|\n| 1 | `a \\| b` | {evidence} |\n")
    assert fault in fault_of(row.evidence, repository)


def test_what_shows_a_row_is_accepted(repository: Path) -> None:
    """A test, several, a verb, a script, a reason; a table of something else is left alone."""
    here = "`tests/structure/test_walkthrough.py::test_what_shows_a_row_is_accepted`"
    for evidence in (here, f"{here}, `make demo`", "`tools/site.py`", "refused: a way back would be a way around"):
        assert fault_of(evidence, repository) == ""
    assert list(rows_of("| a | b |\n|---|---|\n| 1 | 2 |\n")) == []
