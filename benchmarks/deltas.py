"""Compares the size of a program packed by itself with its deltas to a base, and with a binary diff.

    python -m benchmarks.deltas --pair NAME BASE.alc NEXT.alc [--pair …] [--write docs/performance.md] [--json FILE]

For each pair: the program packed by itself, as differences and as references to the base (`registry/delta.py` keeps the
smaller of the two), and as a binary diff where `bsdiff4` is installed, for comparison.
"""

from __future__ import annotations

import argparse
import importlib.util
from dataclasses import asdict, dataclass
from pathlib import Path

from alcove.registry.delta import DIFFERENCES, LEVEL, REFERENCES, apply_delta, make_delta, make_delta_by
from alcove.registry.zstd import zstd

from benchmarks.options import wide_console, write_json
from benchmarks.sections import Section, table_lines

GOAL = 0.2
SECTION = Section("deltas", "python -m benchmarks.deltas --pair NAME BASE NEXT --write docs/performance.md")


@dataclass(frozen=True)
class Row:
    """What one pair takes, in bytes.

    Attributes:
        pair: its name.
        program: the next program.
        packed: the same, packed by itself.
        references: as references to the base.
        differences: as differences from the base.
        diff: as a binary diff; None where `bsdiff4` is not installed.
        kept: the delta that is signed.
    """

    pair: str
    program: int
    packed: int
    references: int
    differences: int
    diff: int | None
    kept: int


def measure(name: str, base: bytes, program: bytes) -> Row:
    """Return the figures of a pair, after applying its delta.

    Raises:
        AssertionError: the delta does not make the program.
    """
    delta = make_delta(base, program)
    if apply_delta(base, delta, len(program)) != program:
        raise AssertionError(f"the delta of {name} makes something else")
    diff = None
    if importlib.util.find_spec("bsdiff4") is not None:
        diff = len(importlib.import_module("bsdiff4").diff(base, program))
    return Row(
        pair=name,
        program=len(program),
        packed=len(zstd.compress(program, LEVEL)),
        references=len(make_delta_by(REFERENCES, base, program)),
        differences=len(make_delta_by(DIFFERENCES, base, program)),
        diff=diff,
        kept=len(delta),
    )


def as_markdown(rows: list[Row]) -> str:
    """Return the section of the page."""

    def share(size: int | None, row: Row) -> str:
        return "–" if size is None else f"{100 * size / row.program:.1f} %"

    cells = [
        [
            row.pair,
            f"{row.program:,} bytes",
            *(share(size, row) for size in (row.packed, row.references, row.differences, row.diff)),
            f"**{share(row.kept, row)}**",
        ]
        for row in rows
    ]
    head = ("pair", "program", "packed by itself", "references", "differences", "binary diff", "kept")
    return "\n".join(
        [
            "## Deltas",
            "",
            f"Of the program's size; the goal for a step of training is {100 * GOAL:.0f} %.",
            "",
            *table_lines(head, cells),
        ]
    )


def main() -> None:
    """Measure the pairs, print, and write where asked."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.deltas", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pair", nargs=3, action="append", required=True, metavar=("NAME", "BASE", "NEXT"))
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section of a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what is measured as JSON")
    options = parser.parse_args()
    rows = [measure(name, Path(base).read_bytes(), Path(program).read_bytes()) for name, base, program in options.pair]
    wide_console().print(as_markdown(rows))
    write_json(options.json, [asdict(row) for row in rows])
    if options.write:
        SECTION.write(options.write, as_markdown(rows), {})


if __name__ == "__main__":
    main()
