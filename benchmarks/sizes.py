"""Measures the native libraries that an app carries: `python -m benchmarks.sizes [--write docs/compatibility.md]`."""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import alcove.runtime._native as native

from benchmarks.figures import Figure
from benchmarks.sections import Section, table_lines
from tools import selective

SECTION = Section("sizes", "python -m benchmarks.sizes --write docs/compatibility.md")
LANGUAGE_ID = selective.ROOT / "features/language_id/programs/language_id-1.0.0.alc"
SUCCESSOR = LANGUAGE_ID.with_name("language_id-4.1.0.alc")
CHOSEN_LEVELS = (("scalar",), ("avx2", "neon"), ("avx2", "avx512", "neon"))
"""Instruction sets of the libraries that are built for language_id alone; each has the scalar kernels too."""


def measure() -> list[Figure]:
    """Return the sizes of the native libraries, stripped; those for chosen programs are built for it, in a minute."""
    module = Path(native.__file__)
    return [
        Figure("runtime library libalcove.so", stripped_bytes(module.parent / "libalcove.so"), "bytes", "stripped"),
        Figure("Python module of the runtime", stripped_bytes(module), "bytes", "stripped; statically holds the same"),
        *(selective_size(levels) for levels in CHOSEN_LEVELS),
    ]


def selective_size(levels: tuple[str, ...], program: Path = LANGUAGE_ID) -> Figure:
    """Return the size of a library with the operators of a program and kernels of these levels."""
    manifest = selective.MANIFEST.read_text(encoding="utf-8")
    parts = selective.choose(selective.operators_of([program]), levels, manifest)
    size = stripped_bytes(selective.build(parts))
    return Figure(f"the same for language_id alone, {' and '.join(levels)}", size, "bytes", "python -m tools.selective")


def stripped_bytes(library: Path) -> int:
    """Return the size of a library without its symbols."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / library.name
        subprocess.run(["strip", "-o", copy, library], check=True)
        return copy.stat().st_size


def as_markdown() -> str:
    """Return the section of the page: the whole library, and those for a program alone."""
    whole = stripped_bytes(Path(native.__file__).parent / "libalcove.so")
    rows = [["all operators", "all", f"{whole:,}"]]
    for program, each in ((LANGUAGE_ID, CHOSEN_LEVELS), (SUCCESSOR, CHOSEN_LEVELS[1:2])):
        for levels in each:
            size = int(selective_size(levels, program).value)
            rows.append([f"`{program.stem}` alone", " and ".join(dict.fromkeys(("scalar", *levels))), f"{size:,}"])
    return "\n".join(table_lines(("libalcove.so for", "kernels named", "bytes, stripped"), rows))


def main() -> None:
    """Build, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this page")
    options = parser.parse_args()
    text = as_markdown()
    print(text)
    if options.write:
        SECTION.write(options.write, text, {})


if __name__ == "__main__":
    main()
