"""Builds the committed program of trained weights.

    python -m alcove.features.scene_tags.build --version 1.1.0 --run RUN --data FOLDER --cache DECODED

Scores and int8 ranges are calibrated on training pictures that were kept from the weights.
"""

import argparse
import json
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features.scene_tags.calibrate import fit_scores
from alcove.features.scene_tags.config import CONFIGS, ModelConfig
from alcove.features.scene_tags.contract import program_path
from alcove.features.scene_tags.dataset import Corpus, Pictures, read
from alcove.features.scene_tags.drawn import drawings
from alcove.features.scene_tags.model import SceneModule
from alcove.features.scene_tags.network import SceneNetwork, normalize
from alcove.features.scene_tags.picture import fit
from alcove.runtime import Quantization, export
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.compiler.certify import certify
from alcove.runtime.program import Program
from numpy.typing import NDArray

TOLERANCES: Final = {"f32": "standard", "int8": "quantised"}
"""Of scores, embedding and map, by variant."""
CALIBRATION: Final = 128
"""Pictures that int8 ranges are observed on."""
NOISES: Final = 9
RANGES: Final = Quantization("int8", clipping="mse", equalize=True, correct_bias=True)
"""Embeddings keep a cosine of 0.996 with float32 (whole ranges: 0.994)."""
SAMPLE: Final = "forest"
"""The drawn picture in the certificate, where one fits: the one most like a photograph. Of a nearly empty one ("sea at
noon") little is left to tell from, and int8 turns its embedding by more than a certificate allows; so it is with the
certificate's smooth waves, which are as empty."""


def module_of_network(network: SceneNetwork, corpus: Corpus, size: int) -> SceneModule:
    """Return a network with its scores calibrated on the pictures kept back."""
    kept = list(corpus.calibration.values())
    logits = np.concatenate([logits_of(network, each, size) for each in kept])
    slope, shift = fit_scores(logits, np.concatenate([each.tags for each in kept]))
    module = SceneModule(network)
    module.slope.data.fill_(slope)
    module.shift.data.copy_(torch.from_numpy(shift))
    return module.eval()


def module_of_run(folder: Path, config: ModelConfig, kind: str, corpus: Corpus) -> SceneModule:
    """Return the calibrated module that a training run made: the average of its weights.

    Raises:
        FileNotFoundError: the folder holds no checkpoint.
        RuntimeError: it is of another shape.
    """
    state = torch.load(folder / "checkpoint.pt", weights_only=True)["network"]
    network = SceneNetwork(config, kind)
    network.load_state_dict({name[8:]: value for name, value in state.items() if name.startswith("average.")})
    return module_of_network(network.eval(), corpus, config.size)


@torch.no_grad()
def logits_of(network: SceneNetwork, pictures: Pictures, size: int) -> NDArray[np.float32]:
    """Return the uncalibrated logits of tags, f32 [n, tags]."""
    given = torch.from_numpy(pictures.squares(size)).permute(0, 3, 1, 2).float()
    parts = [network.read(normalize(each))[1].numpy() for each in torch.split(given, 64)]
    return np.concatenate(parts)


def samples(size: int) -> list[Sample]:
    """Return the inputs of the parity certificate: a drawn picture, and noise, which uses every channel."""
    drawn = Sample(inputs=(fit(drawings()[SAMPLE], size),), source="drawn by a rule")
    shape = (size, size, 3)
    noises = [Procedural("uniform", "u8", shape, seed, 0, 256) for seed in range(NOISES)]
    return [drawn, *(Sample(inputs=(each,), source="made by a rule") for each in noises)]


def compile_module(module: SceneModule, size: int, variant: str, ranges: NDArray[np.uint8]) -> Program:
    """Return the certified program of a module, variant "f32" or "int8".

    Args:
        module: calibrated.
        size: of its pictures, in pixels.
        variant: "f32" or "int8".
        ranges: uint8 [n, size, size, 3], pictures that int8 ranges are observed on.

    Raises:
        ExportError: the module cannot be exported.
        CertificateError: native and torch differ.
    """
    example = (torch.zeros((size, size, 3), dtype=torch.uint8),)
    if variant == "int8":
        calibration = [(torch.from_numpy(each),) for each in ranges]
        program = export(module, example, quantize=RANGES, calibration=calibration)
    else:
        # No faster form of 3x3 filters that is four times as large: the file is what matters here.
        program = export(module, example, growth_bytes=0)
    certificate = certify(bytes(program), module, samples(size), licence="procedural", tolerance=TOLERANCES[variant])
    return Program(embed_certificate(bytes(program), certificate))


def ranges_of(corpus: Corpus, size: int) -> NDArray[np.uint8]:
    """Return the pictures that int8 ranges are observed on: evenly from those kept back."""
    kept = np.concatenate([each.squares(size) for each in corpus.calibration.values()])
    chosen = np.linspace(0, len(kept) - 1, CALIBRATION).astype(int)
    return np.ascontiguousarray(kept[chosen])


def main() -> None:
    """Write a version's int8 program, and the record of its training, to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--run", type=Path, required=True, help="folder of a training run; the f32 program stays there")
    parser.add_argument("--data", type=Path, required=True, help="folder with tiny_imagenet_train.csv and neighbours")
    parser.add_argument("--cache", type=Path, required=True, help="folder of decoded pictures")
    arguments = parser.parse_args()
    version, config = arguments.version, CONFIGS[arguments.version]
    corpus = read(arguments.data, arguments.cache)
    module = module_of_run(arguments.run, config, "scene_tags", corpus)
    ranges = ranges_of(corpus, config.size)
    committed = program_path(version)
    committed.parent.mkdir(exist_ok=True)
    for variant, path in (("f32", arguments.run / f"{committed.stem}-f32.alc"), ("int8", committed)):
        program = compile_module(module, config.size, variant, ranges)
        program.save(path)
        print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)
    record = json.loads((arguments.run / "run.json").read_text(encoding="utf-8"))
    record["scores"] = {"slope": float(module.slope[0]), "shift": module.shift.tolist()}
    committed.with_suffix(".run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
