"""Builds the committed program of trained weights.

    python -m alcove.features.style_transfer.build --run RUN --photos FOLDER

RUN is a folder that `train.py` filled.  Ranges of int8 are observed on photos whose license allows it, in all styles.
"""

import argparse
import json
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features.style_transfer.config import COLUMNS, CONFIGS, DEFAULT_VERSION, ROWS, STYLES
from alcove.features.style_transfer.contract import program_path
from alcove.features.style_transfer.dataset import find_photos
from alcove.features.style_transfer.frames import fit_frame
from alcove.features.style_transfer.network import StyleModule, StyleNetwork, one_style
from alcove.runtime import Quantization, export
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.compiler.certify import certify
from alcove.runtime.program import Program
from torch import Tensor

__all__ = ["calibration", "certify_program", "module_of"]

RECIPE: Final = Quantization("int8", clipping="mse", equalize=True, correct_bias=True)
PHOTOS: Final = 12
"""Photos that ranges are observed on, each in one style."""
SAMPLES: Final = 2
"""Of the certificate."""


def module_of(run: Path) -> StyleModule:
    """Return the module that a run of `train.py` trained.

    Raises:
        FileNotFoundError: the run has no checkpoint.
    """
    network = StyleNetwork(CONFIGS[DEFAULT_VERSION])
    network.load_state_dict(torch.load(run / "checkpoint.pt", weights_only=True)["network"])
    return StyleModule(network).eval().requires_grad_(requires_grad=False)


def calibration(photos: Path) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return inputs of the program: free photos in all styles at full strength."""
    packed = find_photos(photos)
    chosen = [packed[at] for at in np.linspace(0, len(packed) - 1, PHOTOS).astype(int)]
    return [
        (torch.from_numpy(fit_frame(each.pixels())), one_style(at % len(STYLES)), torch.ones(1))
        for at, each in enumerate(chosen)
    ]


def certify_program(program: Program, module: StyleModule) -> Program:
    """Return a program with its parity certificate, on frames made by rules, at strength 0.

    Bytes of a frame allow no tolerance, and an int8 network's are not torch's own: what is promised to the bit is the
    frame that the slider leaves as it is.

    Raises:
        CertificateError: native and torch differ.
    """
    shown = [
        Sample(
            inputs=(
                Procedural("smooth" if seed % 2 else "uniform", "u8", (ROWS, COLUMNS, 3), seed, 0, 256),
                Procedural("uniform", "f32", (1, len(STYLES)), seed, 0, 1),
                Procedural("uniform", "f32", (1,), seed, 0, 0),
            ),
            source="made by a rule",
        )
        for seed in range(SAMPLES)
    ]
    certificate = certify(bytes(program), module, shown, licence="procedural", tolerance="standard")
    return Program(embed_certificate(bytes(program), certificate))


def main() -> None:
    """Write the program, and the record of its making, to where they are committed; float32 beside the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="folder that train.py filled")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_single_person.csv and neighbors")
    parser.add_argument("--only", choices=("int8", "f32"), help="one variant")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    module = module_of(arguments.run)
    given = calibration(arguments.photos)
    committed = program_path(DEFAULT_VERSION)
    committed.parent.mkdir(exist_ok=True)
    for variant in ("int8", "f32") if arguments.only is None else (arguments.only,):
        if variant == "int8":
            program = export(module, given[0], quantize=RECIPE, calibration=given)
        else:
            program = export(module, given[0], growth_bytes=0)
        program = certify_program(program, module)
        path = committed if variant == "int8" else arguments.run / f"{committed.stem}-f32.alc"
        program.save(path)
        print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)
    record = json.loads((arguments.run / "run.json").read_text(encoding="utf-8"))
    committed.with_suffix(".run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
