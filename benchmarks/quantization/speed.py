"""Times int8 beside float32, one thread, in turns: `python -m benchmarks.quantization.speed [--write PAGE]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from alcove.runtime import export, load
from alcove.runtime.program import Program

from benchmarks.__main__ import machine
from benchmarks.quantization import mobile, models, transformers

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import nn

START: Final = "<!-- speed: written by `python -m benchmarks.quantization.speed --write` -->"
END: Final = "<!-- end of speed -->"
ROUNDS: Final = 40
SAMPLES: Final = 8

NETWORKS: Final[dict[str, tuple[Callable[[], nn.Module], int]]] = {
    "ViT, 64 wide, three blocks": (transformers.VisionTransformer, 32),
    "ViT, 384 wide, two blocks": (lambda: transformers.VisionTransformer(width=384, heads=6, depth=2), 32),
    "ConvNeXt": (transformers.ConvNeXt, 32),
    "MobileNetV2, quarter width": (mobile.mobilenet_v2, 32),
    "ResNet-18, quarter width": (models.ResNet18Quarter, 64),
}
"""Their makers, and the side of their images."""
COLUMNS: Final = ("network, one image", "float32", "int8", "times as fast", "operators in float32")
_INT8: Final = ("_i8", "_qc8w", "quantize", "reshape", "as_strided", "concat", "pad")


def export_both(title: str, folder: Path) -> tuple[bytes, bytes]:
    """Return a network with random weights in float32 and in int8; from a folder, where they are put the first time."""
    paths = [folder / f"{list(NETWORKS).index(title)}-{form}.alc" for form in ("float32", "int8")]
    if not all(path.is_file() for path in paths):
        make, side = NETWORKS[title]
        torch.manual_seed(0)
        module = make().eval()
        samples = [torch.randn(1, 3, side, side) for _ in range(SAMPLES)]
        paths[0].write_bytes(bytes(export(module, (samples[0],))))
        paths[1].write_bytes(bytes(export(module, (samples[0],), quantize="int8", calibration=samples)))
    return paths[0].read_bytes(), paths[1].read_bytes()


def measure(title: str, folder: Path) -> tuple[str, ...]:
    """Return the row of a network under `COLUMNS`; `folder` holds programs."""
    programs = export_both(title, folder)
    side = NETWORKS[title][1]
    x = np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)
    runs = [load(program).session() for program in programs]
    times: list[list[float]] = [[], []]
    for _ in range(ROUNDS):
        for run, found in zip(runs, times, strict=True):
            found.append(_time(run, x))
    plain, small = (float(np.median(found)) for found in times)
    names = [op.name for op in Program(programs[1]).spec.ops]
    others = Counter(name for name in names if not any(part in name for part in _INT8))
    listed = ", ".join(f"{count} {name}" for name, count in sorted(others.items())) or "none"
    return title, f"{1e3 * plain:.2f} ms", f"{1e3 * small:.2f} ms", f"{plain / small:.2f}", listed


def _time(run: Any, x: Any) -> float:
    begun = time.perf_counter()
    run(x)
    return time.perf_counter() - begun


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization.speed", description=__doc__)
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the table between its comments")
    parser.add_argument("--programs", type=Path, metavar="DIR", help="keep the programs, for a second time")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    folder = arguments.programs or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + "---|" * len(COLUMNS)]
    for title in NETWORKS:
        lines.append(f"| {' | '.join(measure(title, folder))} |")
        sys.stdout.write(f"{lines[-1]}\n")
        sys.stdout.flush()
    if arguments.write:
        page = arguments.write.read_text(encoding="utf-8")
        before, rest = page.split(START)
        after = rest.split(END)[1]
        table = "\n".join((START, "", f"Measured on: {machine()}; one thread, random weights.", "", *lines, "", END))
        arguments.write.write_text(before + table + after, encoding="utf-8")


if __name__ == "__main__":
    main()
