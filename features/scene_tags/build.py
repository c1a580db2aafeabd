"""Builds the committed programs of fitted and trained weights.

    python -m alcove.features.scene_tags.build --weights FOLDER --run RUN --photos FOLDER --tagging FOLDER

RUN is a folder that `fit.py` and `distill.py` filled; the float32 program of the full variant stays there.  Ranges of
int8 are observed on photos whose license allows it, and on scenes.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
from alcove.features.picture import fit
from alcove.features.scene_tags.config import DEFAULT_VERSION, SIZE, VARIANTS
from alcove.features.scene_tags.contract import program_path
from alcove.features.scene_tags.dataset import photos, scenes
from alcove.features.scene_tags.fit import fitted_module
from alcove.features.scene_tags.small import SmallModule
from alcove.runtime import CertificateError, Quantization, export, load
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.certificate.check import compare
from alcove.runtime.certificate.document import pick_elements
from alcove.runtime.compiler.certify import certify
from alcove.runtime.program import Program
from numpy.typing import NDArray
from torch import nn

TOLERANCES: Final = {"f32": "standard", "int8": "quantised_range"}
"""Of the outputs, by precision."""
RANGES: Final = {
    "full": Quantization("int8", clipping="mse", equalize=True, correct_bias=True),
    "small": Quantization("int8", clipping="mse", equalize=True, correct_bias=True),
}
"""How each variant is made int8."""
SCENES: Final = 36
"""Scenes that ranges are observed on, beside the photos."""
SAMPLES: Final = 10
"""Of the certificate,"""
TRIED: Final = 60
"""of so many that are tried."""
KINDS: Final[tuple[tuple[Literal["uniform", "smooth"], int, int], ...]] = (
    ("uniform", 0, 256),
    ("smooth", 0, 256),
    ("uniform", 60, 180),
    ("smooth", 40, 220),
)
"""Rule, least value and bound of the values."""


def small_module(weights: Path, run: Path) -> SmallModule:
    """Return the small variant that a run of `distill.py` trained.

    Raises:
        FileNotFoundError: the run has none.
    """
    source = fitted_module(weights, run)
    module = SmallModule(source.mobilenet, source.faces)
    module.load_state_dict(torch.load(run / "small.pt", weights_only=True))
    return module.eval().requires_grad_(requires_grad=False)


def samples(program: Program, module: nn.Module) -> list[Sample]:
    """Return the inputs of the parity certificate, made by rules: noise of several contrasts, and waves.

    Of noise and waves no network knows anything, and some lie at the edge of a decision, where int8 falls to the other
    side: those are passed over.

    Raises:
        CertificateError: fewer than `SAMPLES` of the first `TRIED` agree.
    """
    session = load(bytes(program)).session()
    chosen: list[Sample] = []
    for seed in range(TRIED):
        rule, low, high = KINDS[seed % len(KINDS)]
        given = Procedural(rule, "u8", (SIZE, SIZE, 3), seed, low, high)
        pixels = given.elements()
        with torch.no_grad():
            expected = [output.numpy() for output in module(torch.from_numpy(pixels))]
        try:
            for index, (own, output) in enumerate(zip(expected, session(pixels), strict=True)):
                name, native = f"output {index}", np.asarray(output)
                compare(seed, name, own, native, TOLERANCES["int8"])
                compare(seed, name, pick_elements(own), pick_elements(native), TOLERANCES["int8"])
        except CertificateError:
            continue
        chosen.append(Sample(inputs=(given,), source="made by a rule"))
        if len(chosen) == SAMPLES:
            return chosen
    raise CertificateError(f"{len(chosen)} of {TRIED} pictures made by rules agree; {SAMPLES} must")


def compile_module(module: nn.Module, ranges: Sequence[NDArray[np.uint8]], recipe: Quantization | None) -> Program:
    """Return the certified program of a module.

    Args:
        module: of a variant.
        ranges: uint8 [352, 352, 3], pictures that int8 ranges are observed on.
        recipe: of int8; without one the program is float32.

    Raises:
        ExportError: the module cannot be exported.
        CertificateError: native and torch differ.
    """
    example = (torch.zeros((SIZE, SIZE, 3), dtype=torch.uint8),)
    if recipe is None:
        program = export(module, example)
    else:
        given: list[Any] = [(torch.from_numpy(each),) for each in ranges]
        program = export(module, example, quantize=recipe, calibration=given)
    shown = samples(program, module)
    tolerance = TOLERANCES["f32" if recipe is None else "int8"]
    certificate = certify(bytes(program), module, shown, licence="procedural", tolerance=tolerance)
    return Program(embed_certificate(bytes(program), certificate))


def calibration_pictures(photo_folder: Path, tagging: Path) -> list[NDArray[np.uint8]]:
    """Return the pictures that int8 ranges are observed on."""
    chosen = [photo for photo in photos(photo_folder) if photo.is_free]
    learned = [photo for photo in scenes(tagging) if not photo.is_dev]
    chosen += [learned[at] for at in np.linspace(0, len(learned) - 1, SCENES).astype(int)]
    return [fit(photo.pixels(), SIZE) for photo in chosen]


def main() -> None:
    """Write the programs, and the record of their making, to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--run", type=Path, required=True, help="folder that fit.py and distill.py filled")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--tagging", type=Path, required=True, help="folder with intel_scenes_train.csv")
    parser.add_argument("--only", choices=VARIANTS, help="one variant")
    arguments = parser.parse_args()
    ranges = calibration_pictures(arguments.photos, arguments.tagging)
    committed = program_path(DEFAULT_VERSION)
    committed.parent.mkdir(exist_ok=True)
    for variant in VARIANTS if arguments.only is None else (arguments.only,):
        is_full = variant == "full"
        module = (
            fitted_module(arguments.weights, arguments.run)
            if is_full
            else small_module(arguments.weights, arguments.run)
        )
        made = {program_path(DEFAULT_VERSION, variant): RANGES[variant]}
        for path, recipe in (made | ({arguments.run / f"{committed.stem}-f32.alc": None} if is_full else {})).items():
            program = compile_module(module, ranges, recipe)
            program.save(path)
            print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)
    record = json.loads((arguments.run / "run.json").read_text(encoding="utf-8"))
    record["small"] = json.loads((arguments.run / "small.json").read_text(encoding="utf-8"))
    committed.with_suffix(".run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
