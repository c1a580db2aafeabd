"""Counts the instructions of the hot kernels: `python -m benchmarks.instructions [--write]`.

Counts don't depend on how busy a machine is, so a test can hold them against the bounds in `instructions.json`, which
--write replaces.  Callgrind counts, with the kernels of AVX2: valgrind knows no AVX-512.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.table import Table

from benchmarks.models.alcove import compile_native

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BOUNDS: Final = Path(__file__).with_name("instructions.json")
SLACK: Final = 1.08
"""Compilers differ a little; a kernel that falls off its fast path takes several times as many."""
_COLLECTED = re.compile(r"Collected : (\d+)")


class NoValgrindError(RuntimeError):
    """There is no valgrind on this machine."""


def programs() -> Mapping[str, Callable[[], bytes]]:
    """Return a small program for each hot kernel; made when called, for that needs torch."""
    import torch
    from alcove.runtime import Quantization, export
    from torch import nn

    # A program's last layer would quantize its rows as they come, which is the kernel of "int8 dynamic".
    static = Quantization("int8", layers={"0": "int8"})

    def of(module: nn.Module, *shape: int, quantize: str | Quantization | None = None, growth_bytes: int = 0) -> bytes:
        torch.manual_seed(0)
        x = torch.randn(shape)
        calibration = None if quantize in (None, "int8_dynamic") else [(x,)]
        return bytes(export(module.eval(), (x,), quantize=quantize, calibration=calibration, growth_bytes=growth_bytes))

    return {
        "linear, 49 rows": lambda: of(nn.Linear(96, 192), 49, 96),
        "linear, one row": lambda: of(nn.Linear(256, 256), 1, 256),
        "conv2d 1x1": lambda: of(nn.Conv2d(24, 72, 1), 1, 24, 14, 14),
        "conv2d 3x3": lambda: of(nn.Conv2d(16, 32, 3, padding=1), 1, 16, 28, 28),
        "winograd conv2d": lambda: of(nn.Conv2d(16, 32, 3, padding=1), 1, 16, 28, 28, growth_bytes=1 << 20),
        "conv2d 5x5, 3 outputs": lambda: of(nn.Conv2d(8, 3, 5, padding=2), 1, 8, 32, 32),
        "depthwise 3x3": lambda: of(nn.Conv2d(64, 64, 3, padding=1, groups=64), 1, 64, 14, 14),
        "depthwise 5x5": lambda: of(nn.Conv2d(64, 64, 5, padding=2, groups=64), 1, 64, 14, 14),
        "gru": lambda: of(nn.GRU(64, 64), 4, 1, 64),
        "layer norm": lambda: of(nn.LayerNorm(128), 32, 128),
        "softmax": lambda: of(nn.Softmax(-1), 32, 128),
        "sigmoid": lambda: of(nn.Sigmoid(), 4096),
        "linear, int8": lambda: of(nn.Sequential(nn.Linear(96, 192)), 49, 96, quantize=static),
        "linear, int8 dynamic": lambda: of(nn.Linear(96, 192), 49, 96, quantize="int8_dynamic"),
        "conv2d 3x3, int8": lambda: of(nn.Conv2d(16, 32, 3, padding=1), 1, 16, 14, 14, quantize="int8"),
        "depthwise 5x5, int8": lambda: of(nn.Conv2d(64, 64, 5, padding=2, groups=64), 1, 64, 14, 14, quantize="int8"),
    }


def count(program: bytes, executable: Path) -> int:
    """Return the instructions of one run of a program.

    Raises:
        NoValgrindError: nothing can count them.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise NoValgrindError("instructions are counted by valgrind: apt-get install valgrind")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.alc"
        path.write_bytes(program)
        tool = [valgrind, "--tool=callgrind", "--toggle-collect=counted_run", f"--callgrind-out-file={folder}/out"]
        environment = {**os.environ, "ALCOVE_ISA": "avx2"}
        completed = subprocess.run(
            [*tool, str(executable), str(path)], check=True, capture_output=True, text=True, env=environment
        )
    found = _COLLECTED.search(completed.stderr)
    if found is None:
        raise RuntimeError(f"callgrind collected nothing: {completed.stderr[-300:]}")
    return int(found[1])


def bounds() -> dict[str, int]:
    """Return the most instructions that each kernel may take."""
    stored: dict[str, int] = json.loads(BOUNDS.read_text(encoding="utf-8"))
    return stored


def main() -> int:
    """Count, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {BOUNDS.name}: the counts and {SLACK - 1:.0%}")
    options = parser.parse_args()
    executable = compile_native("run_twice")
    console = Console()
    table = Table("kernel", "instructions", "bound")
    stored = bounds() if BOUNDS.exists() else {}
    counted: dict[str, int] = {}
    for name, make in programs().items():
        with console.status(f"counting {name}"):
            counted[name] = count(make(), executable)
        table.add_row(name, f"{counted[name]:,}", f"{stored[name]:,}" if name in stored else "–")
    console.print(table)
    if options.write:
        results = {name: round(number * SLACK) for name, number in counted.items()}
        BOUNDS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
        return 0
    return int(any(number > stored.get(name, 0) for name, number in counted.items()))


if __name__ == "__main__":
    raise SystemExit(main())
