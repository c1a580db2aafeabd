"""How large is what an app carries?"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import alcove.runtime._native as native

from benchmarks.figures import Figure


def measure() -> list[Figure]:
    """Return the sizes of the native libraries, stripped."""
    module = Path(native.__file__)
    return [
        Figure("runtime library libalcove.so", stripped_bytes(module.parent / "libalcove.so"), "bytes", "stripped"),
        Figure("Python module of the runtime", stripped_bytes(module), "bytes", "stripped; statically holds the same"),
    ]


def stripped_bytes(library: Path) -> int:
    """Return the size of a library without its symbols."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / library.name
        subprocess.run(["strip", "-o", copy, library], check=True)
        return copy.stat().st_size
