"""docs/coverage.md is what the command wrote, and its numbers add up."""

import re
from pathlib import Path

from benchmarks.coverage.names import EXCLUDED, core_overloads, counted_names

GOAL = 140


def table(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the rows below a table's heading row."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(heading)) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def test_page_lists_every_core_operator_once(repository: Path) -> None:
    """What is checked and what is left out are together the core operators, with all their overloads."""
    text = (repository / "docs/coverage.md").read_text(encoding="utf-8")
    rows = table(text, "| name | overloads")
    assert [row[0] for row in rows] == list(counted_names())
    for name, overloads, *_ in rows:
        assert tuple(overloads.replace("*", "").split(", ")) == core_overloads()[name]
    assert dict(table(text, "| name | reason |")) == EXCLUDED
    names, overloads = re.search(r"Of (\d+) names \((\d+) overloads\)", text).groups()  # type: ignore[union-attr]
    assert int(names) == len(core_overloads())
    assert int(overloads) == sum(map(len, core_overloads().values()))


def test_page_counts_what_its_table_says(repository: Path) -> None:
    """The summary is the count of the rows, nothing is wrong, and the goal is met."""
    text = (repository / "docs/coverage.md").read_text(encoding="utf-8")
    rows = table(text, "| name | overloads")
    statuses = [row[2] for row in rows]
    (numbers,) = table(text, "| passed | partly | refused | wrong |")
    assert [int(number) for number in numbers[:4]] == [
        statuses.count(status) for status in ("passed", "partly", "refused", "wrong")
    ]
    assert statuses.count("wrong") == 0
    assert statuses.count("passed") + statuses.count("partly") >= GOAL
    assert int(numbers[5]) == sum(int(row[3].split("/")[0]) for row in rows)
    for name, _, status, _, reason in rows:
        assert bool(reason) == (status != "passed"), name
