"""Builds the committed program of trained weights, and keeps the decoder's weights beside it.

    python -m alcove.features.background.build --weights FOLDER --photos FOLDER --run RUN     # of a training run
    python -m alcove.features.background.build --weights FOLDER --photos FOLDER               # of the kept weights

RUN is a folder that `train.py` filled; the float32 program goes there too.  Ranges of int8 are observed on frames made
of photos whose license allows it, each twice, so that the second has a matte before it.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.background.answer import program_path
from alcove.features.background.composites import FrameMaker
from alcove.features.background.config import DEFAULT_VERSION, HEIGHT, WIDTH
from alcove.features.background.dataset import free_stills
from alcove.features.background.model import BackgroundNetwork
from alcove.features.background.program import BackgroundModule
from alcove.features.cutouts.deep_lab import load_deep_lab
from alcove.runtime import CertificateError, Quantization, export, load
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.certificate.check import compare
from alcove.runtime.certificate.document import pick_elements
from alcove.runtime.compiler.certify import certify
from alcove.runtime.program import Program
from torch import Tensor

TOLERANCES: Final = {"f32": "loose", "int8": "quantised_range"}
RECIPE: Final = Quantization("int8", clipping="mse", equalize=True, correct_bias=True)
FRAMES: Final = 8
"""That ranges are observed on."""
SEED: Final = 77
SAMPLES: Final = 6
"""Of the certificate,"""
TRIED: Final = 40
"""of so many that are tried."""


def weights_path(version: str) -> Path:
    """Return where the decoder's weights of a committed version lie."""
    return program_path(version).with_suffix(".npz")


def network_of(weights: Path, state: dict[str, Tensor]) -> BackgroundNetwork:
    """Return the network with a decoder's weights.

    Args:
        weights: folder of the published weights.
        state: of the decoder.

    Raises:
        FileNotFoundError: there are no published weights.
        RuntimeError: the decoder is of another shape.
    """
    network = BackgroundNetwork(load_deep_lab(weights))
    network.decoder.load_state_dict(state)
    return network.eval().requires_grad_(requires_grad=False)


def kept_state(version: str) -> dict[str, Tensor]:
    """Return the decoder's weights of a committed version.

    Raises:
        FileNotFoundError: it was never committed.
    """
    with np.load(weights_path(version), allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in arrays.files}


def calibration(photos: Path) -> list[tuple[Tensor]]:
    """Return frames that ranges are observed on, each twice in a row.

    Raises:
        FileNotFoundError: there are no photos.
    """
    maker = FrameMaker(free_stills(photos), SEED)
    frames = [torch.from_numpy(maker.make()[0]) for _ in range(FRAMES)]
    return [(frame,) for frame in frames for _ in range(2)]


def samples(program: Program, network: BackgroundNetwork) -> list[Sample]:
    """Return the inputs of the parity certificate, made by rules.

    Of noise and waves no network knows anything, and some lie at the edge of a decision, where int8 falls to the other
    side: those are passed over.

    Raises:
        CertificateError: too few of the first `TRIED` agree.
    """
    model, chosen = load(bytes(program)), list[Sample]()
    for seed in range(TRIED):
        rule = Procedural("uniform" if seed % 2 else "smooth", "u8", (HEIGHT, WIDTH, 3), seed, 0, 256)
        values = rule.elements()
        with torch.no_grad():
            expected = BackgroundModule(network).eval()(torch.from_numpy(values)).numpy()
        [own] = model(values)
        try:
            compare(seed, "matte", own, expected, "quantised_range")
            compare(seed, "matte", pick_elements(own), pick_elements(expected), "quantised_range")
        except CertificateError:
            continue
        chosen.append(Sample(inputs=(rule,), source="made by a rule"))
        if len(chosen) == SAMPLES:
            return chosen
    raise CertificateError(f"{len(chosen)} of {TRIED} samples made by rules agree; {SAMPLES} must")


def compile_network(network: BackgroundNetwork, photos: Path, variant: str) -> Program:
    """Return the certified program.

    Args:
        network: trained.
        photos: folder with coco_instances.csv and neighbors; read for int8 alone.
        variant: "int8" or "f32".

    Raises:
        ExportError: the module cannot be exported.
        CertificateError: native and torch differ.
    """
    module = BackgroundModule(network).eval()
    first = (torch.zeros(HEIGHT, WIDTH, 3, dtype=torch.uint8),)
    if variant == "int8":
        program = export(module, first, quantize=RECIPE, calibration=calibration(photos))
    else:
        program = export(module, first)
    shown = samples(program, network)
    certificate = certify(
        bytes(program), BackgroundModule(network).eval(), shown, licence="procedural", tolerance=TOLERANCES[variant]
    )
    return Program(embed_certificate(bytes(program), certificate))


def build(version: str, weights: Path, photos: Path) -> Program:
    """Return the int8 program of a committed version, exported again from its kept weights: the same bytes.

    Raises:
        FileNotFoundError: it was never committed, or weights or photos are missing.
    """
    return compile_network(network_of(weights, kept_state(version)), photos, "int8")


def main() -> None:
    """Write the program, its weights and the record of their making to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, required=True, help="folder of the published weights")
    parser.add_argument("--photos", type=Path, required=True, help="folder with coco_instances.csv and neighbors")
    parser.add_argument("--run", type=Path, help="folder that train.py filled; without it, the kept weights")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run: Path | None = arguments.run
    committed = program_path(DEFAULT_VERSION)
    committed.parent.mkdir(exist_ok=True)
    state: dict[str, Tensor] = (
        kept_state(DEFAULT_VERSION) if run is None else torch.load(run / "last.pt", weights_only=True)
    )
    network = network_of(arguments.weights, state)
    _write(compile_network(network, arguments.photos, "int8"), committed)
    if run is not None:
        _write(compile_network(network, arguments.photos, "f32"), run / f"{committed.stem}-f32.alc")
        arrays: dict[str, Any] = {name: value.contiguous().numpy() for name, value in state.items()}
        np.savez(weights_path(DEFAULT_VERSION), **arrays)
        record = {"version": DEFAULT_VERSION} | json.loads((run / "run.json").read_text(encoding="utf-8"))
        committed.with_suffix(".run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _write(program: Program, path: Path) -> None:
    program.save(path)
    print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)


if __name__ == "__main__":
    main()
