"""Builds the committed programs of published weights and fitted needs.

    python -m alcove.features.photo_enhance.build --weights FOLDER --photos FOLDER

Ranges of int8 are observed on photos whose license allows it.  The methods are compiled one by one, so that
super-resolution alone is int8, and joined; both scales share its weights.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.photo_enhance.config import (
    BLOCK_COLUMNS,
    BLOCK_ROWS,
    DEFAULT_VERSION,
    DETAIL,
    HALO_PX,
    SCALE,
    SIZE,
    STEPS,
    TILE_PX,
    VARIANTS,
)
from alcove.features.photo_enhance.contract import program_path
from alcove.features.photo_enhance.dataset import photos
from alcove.features.photo_enhance.fit import NEEDS_FILE
from alcove.features.photo_enhance.model import Analysis, Apply, Upscale
from alcove.features.photo_enhance.networks.residual_features import ResidualLocalFeatures
from alcove.features.photo_enhance.weights import load_networks
from alcove.runtime import CertificateError, Method, Quantization, export
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.compiler.certify import certify
from alcove.runtime.compiler.codegen import Emitted
from alcove.runtime.compiler.methods import Compiled, join_methods
from alcove.runtime.compiler.tiling import TilingNumbers, plan_tiles
from alcove.runtime.program import Program
from numpy.typing import NDArray
from torch import nn

RANGES: Final = Quantization("int8")
"""How super-resolution is made int8."""
CALIBRATION: Final = 4
SAMPLES: Final = 4
"""Of the certificate."""


def load_analysis(weights: Path) -> tuple[Analysis, ResidualLocalFeatures]:
    """Return the analysis, with the needs of `needs.json`, and the network of super-resolution.

    Raises:
        FileNotFoundError: a file is missing.
    """
    light, table, features = load_networks(weights)
    analysis = Analysis(light, table)
    fitted = json.loads(NEEDS_FILE.read_text(encoding="utf-8"))
    analysis.needs.weight.data = torch.tensor(fitted["weights"])
    analysis.needs.bias.data = torch.tensor(fitted["bias"])
    return analysis.eval().requires_grad_(requires_grad=False), features


def _methods(
    weights: Path, tiles: Sequence[NDArray[np.uint8]], variant: str
) -> Iterator[tuple[str, nn.Module, Program]]:
    """Yield each method: its name, its module and a program of it alone."""
    analysis, features = load_analysis(weights)
    small, detail = (torch.zeros(side, side, 3, dtype=torch.uint8) for side in (SIZE, DETAIL))
    yield "forward", analysis, export(analysis, (small, detail))
    block = torch.zeros(BLOCK_ROWS, BLOCK_COLUMNS, 3)
    table = torch.zeros(3, STEPS, STEPS, STEPS)
    yield "apply", Apply(), export(Apply(), (block.to(torch.uint8), block, table, torch.zeros(2)))
    options: dict[str, Any] = {"growth_bytes": 0}
    if variant == "int8":
        options |= {"quantize": RANGES, "calibration": [(torch.from_numpy(each),) for each in tiles]}
    tile = torch.from_numpy(tiles[0])
    for scale in (2, SCALE):
        module = Upscale(features, halves=scale < SCALE).eval()
        yield f"upscale{scale}", module, export(module, (tile,), **options)
        numbers = TilingNumbers(
            plan_tiles(module, tile, tile_px=TILE_PX, least_px=TILE_PX, halo_px=HALO_PX, axes=(0, 1), scale=scale)
        )
        yield f"tiling{scale}", numbers, export(numbers, ())


def build(weights: Path, tiles: Sequence[NDArray[np.uint8]], variant: str) -> tuple[Program, Mapping[str, Method]]:
    """Return the program of a variant, and the modules of its methods.

    Args:
        weights: folder of the published weights.
        tiles: uint8 [128, 128, 3], which int8 ranges are observed on.
        variant: one of `config.VARIANTS`.

    Raises:
        ExportError: a method cannot become a program.
    """
    made = list(_methods(weights, tiles, variant))
    compiled = ((name, Compiled(Emitted(program.spec, ()), (), program.quantization)) for name, _, program in made)
    joined = join_methods(compiled, {name: module for name, module, _ in made}, lambda _: None)
    return joined, {name: Method(module, ()) for name, module, _ in made}


def certificate_of(program: Program, modules: Mapping[str, Method]) -> bytes:
    """Return the parity certificate, on inputs made by rules.

    Methods that give pixels must give torch's own: rounding allows no tolerance, so theirs are black, and a block of
    strength 0.

    Raises:
        CertificateError: native and torch differ.
    """

    def pixels(rows: int, columns: int, seed: int, low: int, high: int) -> Procedural:
        return Procedural("smooth", "u8", (rows, columns, 3), seed, low, high)

    given: list[tuple[str, tuple[Procedural, ...]]] = [
        ("forward", tuple(pixels(side, side, seed, 20 * seed, 160 + 20 * seed) for side in (SIZE, DETAIL)))
        for seed in range(SAMPLES)
    ]
    floats = [
        Procedural("uniform", "f32", shape, 1, 0, 1)
        for shape in ((BLOCK_ROWS, BLOCK_COLUMNS, 3), (3, STEPS, STEPS, STEPS))
    ]
    given.append(
        ("apply", (pixels(BLOCK_ROWS, BLOCK_COLUMNS, 1, 0, 256), *floats, Procedural("uniform", "f32", (2,), 1, 0, 0)))
    )
    for scale in (2, SCALE):
        given.append((f"upscale{scale}", (Procedural("uniform", "u8", (TILE_PX, TILE_PX, 3), 1, 0, 1),)))
        given.append((f"tiling{scale}", ()))
    shown = [Sample(inputs=inputs, source="made by a rule", method=name) for name, inputs in given]
    return certify(bytes(program), modules, shown, licence="procedural", tolerance="standard")


def calibration_tiles(folder: Path) -> list[NDArray[np.uint8]]:
    """Return parts of free photos, uint8 [128, 128, 3]."""
    large = [each for each in photos(folder, "train", 4 * CALIBRATION) if min(each.shape[:2]) >= TILE_PX]
    return [np.ascontiguousarray(each[:TILE_PX, :TILE_PX]) for each in large[:CALIBRATION]]


def main() -> None:
    """Write the programs to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_single_person.csv and neighbors")
    parser.add_argument("--only", choices=VARIANTS, help="one variant")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tiles = calibration_tiles(arguments.photos)
    for variant in VARIANTS if arguments.only is None else (arguments.only,):
        path = program_path(DEFAULT_VERSION, variant)
        path.parent.mkdir(exist_ok=True)
        program, modules = build(arguments.weights, tiles, variant)
        program.save(path)
        try:
            program = Program(embed_certificate(bytes(program), certificate_of(program, modules)))
            program.save(path)
        except CertificateError as error:
            print(f"{path.name} has no certificate: {str(error)[:80]}")  # noqa: T201 (what the command is for)
        print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)


if __name__ == "__main__":
    main()
