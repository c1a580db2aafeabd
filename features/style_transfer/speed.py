"""Measures what a size of the network costs, before anything is trained: milliseconds a frame on one core, bytes.

    python -m alcove.features.style_transfer.speed --width 16 24 32 48 --blocks 5 --rows 360 --columns 640

Weights are random: time and size do not depend on them.  Time is that of the processor, the median of the frames, so
that other programs on the machine count less.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from statistics import median

import numpy as np
import torch
from alcove.features.style_transfer.config import COLUMNS, ROWS, STYLES, ModelConfig
from alcove.features.style_transfer.network import StyleModule, StyleNetwork, one_style
from alcove.runtime import export, load

__all__ = ["Cost", "example", "export_program", "measure"]

WARM_UP = 3
"""Frames before the first that counts."""


@dataclass(frozen=True)
class Cost:
    """Of one program.

    Attributes:
        config: of the network.
        form: "float32" or "int8".
        frame_ms: processor time of a frame, the median.
        size_bytes: of the program.
    """

    config: ModelConfig
    form: str
    frame_ms: float
    size_bytes: int

    @property
    def frames_per_s(self) -> float:
        """Frames a second of one core."""
        return 1000.0 / self.frame_ms


def example(rows: int, columns: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return inputs of a program: a frame of noise, the first style, full strength."""
    pixels = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3), np.uint8)
    return torch.from_numpy(pixels), one_style(0), torch.ones(1)


def export_program(module: StyleModule, form: str, rows: int, columns: int) -> bytes:
    """Return the program of a module, "float32" or "int8"; the latter is calibrated on noise, for times alone.

    Raises:
        ExportError: see `alcove.runtime.export`.
    """
    inputs = example(rows, columns)
    if form == "float32":
        return bytes(export(module, inputs, growth_bytes=0))
    return bytes(export(module, inputs, quantize="int8", calibration=[inputs, example(rows, columns, 1)]))


def measure(config: ModelConfig, form: str, *, rows: int, columns: int, frames: int) -> Cost:
    """Return what a network of a size costs."""
    torch.manual_seed(0)
    data = export_program(StyleModule(StyleNetwork(config)).eval(), form, rows, columns)
    session = load(data).session()
    inputs = [each.numpy() for each in example(rows, columns)]
    times_ms = []
    for _ in range(WARM_UP + frames):
        began_s = time.process_time()
        session(*inputs)
        times_ms.append(1000.0 * (time.process_time() - began_s))
    return Cost(config, form, median(times_ms[WARM_UP:]), len(data))


def main() -> None:
    """Print a table of all sizes that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, nargs="+", default=[16, 24, 32, 48])
    parser.add_argument("--blocks", type=int, nargs="+", default=[5])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, default=COLUMNS)
    parser.add_argument("--frames", type=int, default=15)
    arguments = parser.parse_args()
    sys.stdout.write(f"{arguments.columns} x {arguments.rows}, {len(STYLES)} styles, one core\n")
    for width in arguments.width:
        for blocks in arguments.blocks:
            for form in ("float32", "int8"):
                size = {"rows": arguments.rows, "columns": arguments.columns}
                cost = measure(ModelConfig(width, blocks), form, frames=arguments.frames, **size)
                sys.stdout.write(
                    f"width {width}, {blocks} blocks, {form}: {cost.frame_ms:.1f} ms, "
                    f"{cost.frames_per_s:.0f} frames/s, {cost.size_bytes / 1e6:.2f} MB\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
