"""How large is what an app carries?"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import alcove.runtime._native as native

from benchmarks.figures import Figure
from tools import selective

LANGUAGE_ID = selective.ROOT / "features/language_id/programs/language_id-1.0.0.alc"
CHOSEN_LEVELS = (("scalar",), ("avx2", "neon"), ("avx2", "avx512", "neon"))
"""Instruction sets of the libraries that are built for language_id alone; each has the scalar kernels too."""


def measure() -> list[Figure]:
    """Return the sizes of the native libraries, stripped; those for chosen programs are built for it, in a minute."""
    module = Path(native.__file__)
    return [
        Figure("runtime library libalcove.so", stripped_bytes(module.parent / "libalcove.so"), "bytes", "stripped"),
        Figure("Python module of the runtime", stripped_bytes(module), "bytes", "stripped; statically holds the same"),
        *(chosen(levels) for levels in CHOSEN_LEVELS),
    ]


def chosen(levels: tuple[str, ...]) -> Figure:
    """Return the size of a library with the operators of language_id and kernels of these levels."""
    manifest = selective.MANIFEST.read_text(encoding="utf-8")
    parts = selective.choose(selective.operators_of([LANGUAGE_ID]), levels, manifest)
    size = stripped_bytes(selective.build(parts))
    return Figure(f"the same for language_id alone, {' and '.join(levels)}", size, "bytes", "python -m tools.selective")


def stripped_bytes(library: Path) -> int:
    """Return the size of a library without its symbols."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / library.name
        subprocess.run(["strip", "-o", copy, library], check=True)
        return copy.stat().st_size
