"""Times what sound costs in a program, one hop at a time on one core: `python -m benchmarks.sound [--runs N]`.

Transforms there and back stand beside the same as products with constant matrices. A hop is all that a session does:
window, transforms, overlap-add, states. The last column is the share of the time that the hop lasts.
"""

import argparse
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.runtime import export, load
from alcove.runtime.audio import LogMel, MelFilterbank, Resample, StreamingIstft, StreamingStft, ctc_beam
from alcove.runtime.audio.stft import root_hann
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from benchmarks.__main__ import machine
from benchmarks.options import write_json
from benchmarks.sections import Section, table_lines

SECTION: Final = Section("sound", "python -m benchmarks.sound --write docs/performance.md")
COLUMNS: Final = ("case", "µs", "of real time")
RATE = 16_000
GEOMETRIES = ((64, 32), (128, 64), (256, 128), (320, 160), (400, 160), (512, 128), (512, 256), (1024, 512))
RATES = ((48_000, 16_000), (44_100, 16_000), (16_000, 48_000), (16_000, 44_100), (8_000, 16_000))


class ThereAndBack(nn.Module):
    """To spectra and back by the modules of alcove.runtime.audio."""

    def __init__(self, size: int, hop: int) -> None:
        super().__init__()
        self.stft, self.istft = StreamingStft(size, hop), StreamingIstft(size, hop)

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [1, hop]."""
        made: Tensor = self.istft(self.stft(samples))
        return made


class ByMatrices(nn.Module):
    """The same by products with cosines and sines, the window inside."""

    def __init__(self, size: int, hop: int) -> None:
        super().__init__()
        self.hop = hop
        angles = 2 * math.pi / size * torch.outer(torch.arange(size // 2 + 1), torch.arange(size)).double()
        window = root_hann(size).double()
        there = torch.cat([angles.cos(), -angles.sin()]) * window
        weights = torch.full((size // 2 + 1, 1), 2.0 / size, dtype=torch.float64)
        weights[[0, -1]] = 1.0 / size
        back = torch.cat([weights * angles.cos(), -weights * angles.sin()]).T
        istft = StreamingIstft(size, hop)
        back = back * istft.get_buffer("weights").double()[:, None]
        self.register_buffer("there", there.float())
        self.register_buffer("back", back.float().contiguous())
        self.register_buffer("past", torch.zeros(1, size - hop))
        self.register_buffer("sums", torch.zeros(1, size - hop))

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [1, hop]."""
        past, sums = self.get_buffer("past"), self.get_buffer("sums")
        frame = torch.cat([past, samples], -1)
        past.copy_(frame[:, self.hop :])
        total = F.pad(sums, (0, self.hop)) + F.linear(
            F.linear(frame, self.get_buffer("there")), self.get_buffer("back")
        )
        sums.copy_(total[:, self.hop :])
        return total[:, : self.hop]


class Beam(nn.Module):
    """A beam search of ten prefixes."""

    def forward(self, scores: Tensor) -> tuple[Tensor, ...]:
        """Return labelings."""
        return ctc_beam(scores.log_softmax(-1), 10, 0)


def time_hop(module: nn.Module, example: Tensor, runs: int) -> float:
    """Return the median microseconds of a run in a session."""
    session = load(bytes(export(module.eval(), (example,)))).session()
    marks = session.timestamps((example.numpy(),), runs)[runs // 4 :]
    return float(np.median(marks[:, -1] - marks[:, 0])) / 1e3


def make_cases() -> dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float]]:
    """Return by name what makes a module, the shape that it takes, and the seconds that this lasts."""
    cases: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float]] = {}
    for size, hop in GEOMETRIES:
        for name, kind in (("there and back", ThereAndBack), ("by matrices", ByMatrices)):
            cases[f"{size} points every {hop}, {name}"] = partial(kind, size, hop), (1, hop), hop / RATE
    mel = partial(lambda: LogMel(512, 160, MelFilterbank(40, 512, RATE)))
    cases["40 logarithms of mel bands, 512 points every 160"] = mel, (1, 160), 160 / RATE
    for rate, to_rate in RATES:
        cases[f"{rate} to {to_rate} samples a second"] = partial(Resample, rate, to_rate), (1, rate // 100), 0.01
    cases["CTC, 120 frames of 111 classes, ten prefixes"] = Beam, (1, 120, 111), math.nan
    return cases


def main() -> int:
    """Time and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sound", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="of each; the median counts")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the figures into a page")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows, cells, table = [], [], Table(*COLUMNS)
    for name, (make, shape, seconds) in make_cases().items():
        took = time_hop(make(), torch.randn(shape), options.runs)
        rows.append({"case": name, "us": took, "hop_s": None if math.isnan(seconds) else seconds})
        cells.append((name, f"{took:.1f}", "" if math.isnan(seconds) else f"{took / seconds / 1e4:.3f} %"))
        table.add_row(*cells[-1])
    Console().print(table)
    write_json(options.json, rows)
    if options.write:
        page = ["## Sound in programs", "", f"On {machine()}.", "", "A hop of a stream, on one core.", ""]
        SECTION.write(options.write, "\n".join([*page, *table_lines(COLUMNS, cells)]), {})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
