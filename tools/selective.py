"""Builds a runtime for some programs only: `python -m tools.selective A.alc B.alc [--isa avx2] [--out DIR]`.

Builds libalcove.so with the operators of these programs alone: the manifest's lines of the operators that they use, of
those whose kernels these call, and of the instruction sets that are named (the scalar kernels are always there, and
right on every machine). All else is left out by the linker. A program that needs more is refused when it is opened,
with the code `op_missing` and the operator's name; nothing that a program may do depends on what was left out.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parent.parent
MANIFEST = ROOT / "kernels/manifest.inc"
BUILD = ROOT / "build/selective"
LEVELS = ("scalar", "avx2", "avx512", "avx512_vnni", "avx512_vbmi", "neon", "neon_dotprod", "neon_i8mm")


@dataclass(frozen=True)
class Chosen:
    """What a build is to hold.

    Attributes:
        operators: what programs may use.
        dependencies: operators whose kernels those call; programs may not use them, unless they are in both.
        levels: instruction sets whose kernels are built; always with "scalar".
    """

    operators: frozenset[str]
    dependencies: frozenset[str]
    levels: frozenset[str]


def find_dependencies(operators: Iterable[str], manifest: str) -> frozenset[str]:
    """Return the operators whose kernels a run of these also calls, as the manifest's ALCOVE_DEPENDS lines say."""
    wanted = set(operators)
    pairs = re.findall(r"^ALCOVE_DEPENDS\((\w+), (\w+)\)$", manifest, re.MULTILINE)
    return frozenset(other for operator, other in pairs if operator in wanted)


def choose(operators: Iterable[str], levels: Iterable[str], manifest: str) -> Chosen:
    """Return what a build needs to run programs of these operators.

    Args:
        operators: names as in the manifest.
        levels: of `LEVELS`.
        manifest: text of kernels/manifest.inc.

    Raises:
        ValueError: an operator or level that there is not; names it.
    """
    wanted, chosen_levels = frozenset(operators), frozenset(levels) | {"scalar"}
    known = set(re.findall(r"^ALCOVE_OP\(\d+, (\w+),", manifest, re.MULTILINE))
    if wanted - known:
        raise ValueError(f"no operator {', '.join(sorted(wanted - known))} in the manifest")
    if chosen_levels - set(LEVELS):
        raise ValueError(f"no level {', '.join(sorted(chosen_levels - set(LEVELS)))}; known are {', '.join(LEVELS)}")
    return Chosen(wanted, find_dependencies(wanted, manifest), chosen_levels)


def filter_manifest(manifest: str, chosen: Chosen) -> str:
    """Return the manifest with the lines of what was chosen; which processor a kernel is for still stands around it."""
    kept: list[str] = []
    is_dropped = False
    for line in manifest.splitlines():
        if operator := re.match(r"ALCOVE_OP\(\d+, (\w+),", line):
            is_dropped = operator[1] not in chosen.operators
        elif kernel := re.match(r"ALCOVE_KERNEL\((\w+), \w+, (\w+), \w+\)$", line):
            is_dropped = kernel[1] not in chosen.operators | chosen.dependencies or kernel[2] not in chosen.levels
        elif not line.startswith(" "):  # a line of attributes goes with its operator
            is_dropped = line.startswith(("//", "ALCOVE_DEPENDS")) or not line
        if not is_dropped:
            kept.append(line)
    return "\n".join(
        ["// Written by tools/selective.py: the lines of kernels/manifest.inc that some programs need.", *kept, ""]
    )


def operators_of(programs: Iterable[Path]) -> frozenset[str]:
    """Return the names of all operators of some program files.

    Raises:
        ValueError: a file is no program, or cannot be read as one.
        OSError: a file cannot be read.
    """
    from alcove.runtime.format.reader import read_spec  # noqa: PLC0415 - `choose` and `filter_manifest` need no runtime

    return frozenset(
        op.name for program in programs for method in read_spec(program.read_bytes()).methods for op in method.ops
    )


def cmake() -> str:
    """Return the command: this environment's, or the system's."""
    beside = Path(sys.executable).parent / "cmake"
    return str(beside) if beside.exists() else "cmake"


def build(chosen: Chosen, *, folder: Path = BUILD) -> Path:
    """Return the library, built from these sources and stripped; a second build in the folder is quick.

    Raises:
        subprocess.CalledProcessError: the build failed; what it said went to the standard error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = filter_manifest(MANIFEST.read_text(encoding="utf-8"), chosen)
    lines = folder / "chosen.inc"
    if not lines.exists() or lines.read_text(encoding="utf-8") != text:
        lines.write_text(text, encoding="utf-8")
    options = [f"-DALCOVE_CHOSEN={lines}", "-DCMAKE_BUILD_TYPE=MinSizeRel"]
    for command in (
        [cmake(), "-S", str(ROOT), "-B", str(folder), *options],
        [cmake(), "--build", str(folder), "--target", "alcove", "alcove_run", "--parallel", "2"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "runtime/native/libalcove.so"


def main() -> None:
    """Choose, build, say how large it is."""
    parser = argparse.ArgumentParser(prog="python -m tools.selective", description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", metavar="PROGRAM.alc")
    parser.add_argument("--isa", default="avx2,neon", help="levels with kernels of their own, by commas (avx2,neon)")
    parser.add_argument("--out", type=Path, help="folder that gets libalcove.so")
    options = parser.parse_args()
    try:
        chosen = choose(operators_of(options.programs), options.isa.split(","), MANIFEST.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        parser.error(str(error))
    library = build(chosen)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        library = Path(shutil.copy2(library, options.out))
    levels = sorted(chosen.levels, key=LEVELS.index)
    print(f"{library}: {library.stat().st_size:,} bytes; {len(chosen.operators)} operators; {', '.join(levels)}")


if __name__ == "__main__":
    main()
