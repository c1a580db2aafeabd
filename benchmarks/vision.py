"""Times what frames of cameras cost in a program, on one core: `python -m benchmarks.vision [--runs N] [--large]`.

Frames have 1280 x 720 pixels; with --large also a photo of 12 megapixels is looked up in a table of colors.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.runtime import export, load, vision
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.__main__ import machine
from benchmarks.options import write_json
from benchmarks.sections import Section, table_lines

SECTION: Final = Section("vision", "python -m benchmarks.vision --write docs/performance.md")
HEIGHT, WIDTH = 720, 1280
LARGE: Final = (3000, 4000)
COLORS: Final = 33
BLUR: Final = 24
BOXES: Final = 8400
"""Of a detector at 640 x 640 pixels."""
KEPT: Final = 100
SMOOTH: Final = 33
"""A mask is noise that is smooth over so many pixels: hundreds of pieces with wound edges."""


class Run(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.table = nn.Buffer(vision.identity_lut(COLORS) ** 1.2)
        self.gray, self.colors = vision.GuidedFilter(4, 1e-4), vision.GuidedFilter(2, 1e-4, subsampling=4)

    def forward(self, *inputs: Tensor) -> Any:
        """Return its answer."""
        return self.function(self, *inputs)


def mix_in_steps(_: Run, frame: Tensor, alpha: Tensor, background: Tensor) -> Tensor:
    """Return the composition, written so that the compiler does not see one: signs are turned around."""
    matte = nn.functional.interpolate(alpha, frame.shape[2:], mode="bilinear")
    return background - matte * (background - frame)


def make_cases(*, with_large: bool) -> dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]]:
    """Return by name a function of a `Run` and its inputs, and the inputs."""
    frame, alpha = torch.rand(1, 3, HEIGHT, WIDTH), torch.rand(1, 1, 144, 256)
    luma = torch.randint(0, 256, (HEIGHT, WIDTH), dtype=torch.uint8)
    chroma = torch.randint(0, 256, (HEIGHT // 2, WIDTH // 2, 2), dtype=torch.uint8)
    pixels = torch.randint(0, 256, (HEIGHT, WIDTH, 4), dtype=torch.uint8)
    noise = nn.functional.avg_pool2d(torch.rand(1, 1, HEIGHT, WIDTH), SMOOTH, 1, SMOOTH // 2, count_include_pad=False)
    mask = noise[0] > 0.5
    corners = torch.rand(1, BOXES, 2) * 600
    boxes = torch.cat([corners, corners + 20 + 100 * torch.rand(1, BOXES, 2)], 2)
    cases: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
        "NV12 to red, green, blue": (lambda _, y, uv: vision.nv12_to_rgb(y, uv), (luma, chroma)),
        "red, green, blue to NV12": (lambda _, x: vision.rgb_to_nv12(x * 255), (frame,)),
        "BGRA to red, green, blue": (lambda _, x: vision.bgra_to_rgb(x), (pixels,)),
        "turned right": (lambda _, x: vision.orient(x, 6), (frame,)),
        "composition, alpha of 256 x 144": (
            lambda _, x, a, y: vision.composite(x, a, y),
            (frame, alpha, frame.flip(3)),
        ),
        "the same in four steps": (mix_in_steps, (frame, alpha, frame.flip(3))),
        f"blur of {BLUR} pixels": (lambda _, x: vision.blur(x, BLUR), (frame,)),
        "guided filter, gray guide": (lambda run, x, a: run.gray(x[:, :1], a), (frame, frame[:, :1].flip(3))),
        "guided filter, colors, smaller by 4": (lambda run, x, a: run.colors(x, a), (frame, alpha)),
        "pieces of a mask": (lambda _, x: vision.connected_components(x), (mask,)),
        f"choice of {KEPT} among {BOXES:,} boxes": (
            lambda _, x, y: vision.non_maximum_suppression(x, y, iou_threshold=0.5, max_output=KEPT),
            (boxes, torch.rand(1, BOXES)),
        ),
        f"table of {COLORS} x {COLORS} x {COLORS} colors": (lambda run, x: vision.apply_lut(x, run.table), (frame,)),
    }
    if with_large:
        photo = torch.rand(1, 3, *LARGE)
        cases["table of colors, 12 megapixels"] = (lambda run, x: vision.apply_lut(x, run.table), (photo,))
    return cases


def main() -> int:
    """Time and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.vision", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="of each; median and least are shown (20)")
    parser.add_argument("--large", action="store_true", help="also a photo of 12 megapixels")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the figures into a page")
    options = parser.parse_args()
    torch.manual_seed(0)
    rows, table = [], Table("case", "ms", "least ms")
    for name, (function, inputs) in make_cases(with_large=options.large).items():
        session = load(bytes(export(Run(function).eval(), inputs))).session()
        marks = session.timestamps(tuple(each.numpy() for each in inputs), options.runs)
        took_ms = (marks[:, -1] - marks[:, 0]) / 1e6
        usual_ms, least_ms = float(np.median(took_ms)), float(took_ms.min())
        rows.append({"case": name, "ms": usual_ms, "least_ms": least_ms})
        table.add_row(name, f"{usual_ms:.1f}", f"{least_ms:.1f}")
    Console().print(table)
    write_json(options.json, rows)
    if options.write:
        lines = table_lines(("case", "a frame"), [(str(row["case"]), f"{row['ms']:.1f} ms") for row in rows])
        size = f"Frames of {WIDTH} x {HEIGHT} pixels, on one core."
        page = ["## Frames of cameras in programs", "", f"On {machine()}.", "", size, "", *lines]
        SECTION.write(options.write, "\n".join(page), {})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
