"""Builds the committed programs of trained weights.

    python -m alcove.features.cutouts.build --weights FOLDER --run RUN --photos FOLDER

RUN is a folder that `train.py` filled.  Ranges of int8 are observed on photos whose license allows it, with a tap on a
thing or nothing, and with the first mask as the one to correct.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features.cutouts.config import DEFAULT_VERSION, MASK, SIZE, TAPS
from alcove.features.cutouts.contract import program_path
from alcove.features.cutouts.dataset import Photo, free_photos
from alcove.features.cutouts.deep_lab import load_deep_lab
from alcove.features.cutouts.metrics import inner_point
from alcove.features.cutouts.model import CutoutNetwork
from alcove.features.cutouts.program import CutoutModule, TapModule
from alcove.features.picture import fit
from alcove.runtime import CertificateError, Method, Quantization, export, load
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.certificate.check import compare
from alcove.runtime.certificate.document import pick_elements
from alcove.runtime.compiler.certify import certify
from alcove.runtime.compiler.methods import entry_of
from alcove.runtime.format.spec import DType
from alcove.runtime.model import Port
from alcove.runtime.program import Program
from torch import Tensor

TOLERANCES: Final = {"f32": "loose", "int8": "quantised_range"}
"""Of the outputs, by precision; slopes of edges follow the last bits of the mask."""
RECIPE: Final = Quantization("int8", clipping="mse", equalize=True, correct_bias=True)
PHOTOS: Final = 9
"""Photos that ranges are observed on."""
SAMPLES: Final = 4
"""Of the certificate, by method,"""
TRIED: Final = 24
"""of so many that are tried."""

Given = tuple[Tensor, ...]


def network_of(weights: Path, run: Path) -> CutoutNetwork:
    """Return the network that a run of `train.py` trained.

    Raises:
        FileNotFoundError: the run has none.
    """
    network = CutoutNetwork(load_deep_lab(weights))
    trained = torch.load(run / "last.pt", weights_only=True)
    network.load_state_dict(
        {f"deep_lab.{name}": value for name, value in network.deep_lab.state_dict().items()} | trained
    )
    return network.eval().requires_grad_(requires_grad=False)


def calibration(network: CutoutNetwork, photos: Sequence[Photo]) -> tuple[list[Given], list[Given]]:
    """Return inputs of both methods: of each photo one with a tap, or every third without."""
    module = CutoutModule(network)
    first: list[Given] = []
    later: list[Given] = []
    chosen = [photos[at] for at in np.linspace(0, len(photos) - 1, PHOTOS).astype(int)]
    for at, photo in enumerate(chosen):
        taps = torch.zeros(TAPS, 3)
        objects = photo.objects()
        values, counts = np.unique(objects[objects > 0], return_counts=True)
        if at % 3 and len(values):
            taps[0] = torch.tensor([*inner_point(objects == values[counts.argmax()]), 1.0])
        pixels = torch.from_numpy(fit(photo.pixels(), SIZE))
        given = (pixels, taps, torch.zeros(4), torch.zeros(MASK, MASK))
        with torch.no_grad():
            mask, _, *maps = module(*given)
        first.append(given)
        later.append((taps, torch.zeros(4), mask if at % 2 else torch.zeros(MASK, MASK), *maps))
    return first, later


def methods(network: CutoutNetwork, photos: Sequence[Photo], *, observes: bool) -> dict[str, Method]:
    """Return both methods of a program, with inputs that ranges are observed on if `observes`."""
    first, later = calibration(network, photos)
    return {
        "forward": Method(CutoutModule(network), first[1], calibration=first if observes else None),
        "tap": Method(TapModule(network), later[1], calibration=later if observes else None),
    }


def samples(program: Program, both: dict[str, Method], tolerance: str) -> list[Sample]:
    """Return the inputs of the parity certificate, made by rules.

    Of noise and waves no network knows anything, and some lie at the edge of a decision, where int8 falls to the other
    side: those are passed over.

    Raises:
        CertificateError: too few of the first `TRIED` agree.
    """
    model = load(bytes(program))
    chosen: list[Sample] = []
    for name, method in both.items():
        part, found = model.method(name), 0
        session, module = part.session(), entry_of(method)
        for seed in range(TRIED):
            given = tuple(_rule(port, seed, at) for at, port in enumerate(part.inputs))
            values = [each.elements() for each in given]
            with torch.no_grad():
                expected = [output.numpy() for output in module(*map(torch.from_numpy, values))]
            try:
                for own, output in zip(expected, session(*values), strict=True):
                    compare(seed, name, own, output, tolerance)
                    compare(seed, name, pick_elements(own), pick_elements(output), tolerance)
            except CertificateError:
                continue
            chosen.append(Sample(inputs=given, source="made by a rule", method=name))
            found += 1
            if found == SAMPLES:
                break
        if found < SAMPLES:
            raise CertificateError(f"{name}: {found} of {TRIED} samples made by rules agree; {SAMPLES} must")
    return chosen


def _rule(port: Port, seed: int, at: int) -> Procedural:
    """Return the rule of one input: a picture of noise or waves, and waves in [0, 1] for all else."""
    if port.dtype is DType.U8:
        return Procedural("uniform" if seed % 2 else "smooth", "u8", port.shape, 16 * seed + at, 0, 256)
    return Procedural("smooth", "f32", port.shape, 16 * seed + at, 0, 1)


def compile_module(both: dict[str, Method], recipe: Quantization | None) -> Program:
    """Return the certified program.

    Raises:
        ExportError: a module cannot be exported.
        CertificateError: native and torch differ.
    """
    program = export(both, quantize=recipe)
    tolerance = TOLERANCES["f32" if recipe is None else "int8"]
    shown = samples(program, both, tolerance)
    certificate = certify(bytes(program), both, shown, licence="procedural", tolerance=tolerance)
    return Program(embed_certificate(bytes(program), certificate))


def main() -> None:
    """Write the programs, and the record of their making, to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--run", type=Path, required=True, help="folder that train.py filled")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--only", choices=("int8", "f32"), help="one variant")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    network = network_of(arguments.weights, arguments.run)
    photos = free_photos(arguments.photos)
    committed = program_path(DEFAULT_VERSION)
    committed.parent.mkdir(exist_ok=True)
    for variant in ("int8", "f32") if arguments.only is None else (arguments.only,):
        recipe = RECIPE if variant == "int8" else None
        program = compile_module(methods(network, photos, observes=recipe is not None), recipe)
        path = committed if variant == "int8" else arguments.run / f"{committed.stem}-f32.alc"
        program.save(path)
        print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)
    record = json.loads((arguments.run / "run.json").read_text(encoding="utf-8"))
    record = {"version": DEFAULT_VERSION} | record
    committed.with_suffix(".run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
