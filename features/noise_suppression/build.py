"""Builds the committed program of trained weights, and keeps the weights beside it.

python -m alcove.features.noise_suppression.build --version 1.0.0 --run runs/noise_suppression   # from a training run
python -m alcove.features.noise_suppression.build --version 1.0.0                                # from the kept weights
python -m alcove.features.noise_suppression.build --version 1.0.0 --run runs/another --to another.alc

There is no int8 program: with layers of 16 channels quantizing takes longer than it saves (decision 0107).
"""

import argparse
import json
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features.noise_suppression.config import CONFIGS, HOP, SAMPLE_RATE
from alcove.features.noise_suppression.contract import program_path
from alcove.features.noise_suppression.made import made_speech
from alcove.features.noise_suppression.network import NoiseNetwork
from alcove.features.noise_suppression.streaming import NoiseModule
from alcove.runtime import export
from alcove.runtime.certificate import Sample, embed_certificate
from alcove.runtime.compiler.certify import certify
from alcove.runtime.program import Program

SAMPLES: Final = 12


def module_of_run(folder: Path) -> NoiseModule:
    """Return the torch module that a training run made, its latest checkpoint.

    Raises:
        FileNotFoundError: the folder holds no checkpoint.
        RuntimeError: it is of another shape.
    """
    network = NoiseNetwork()
    network.load_state_dict(torch.load(folder / "checkpoint.pt", weights_only=True)["network"])
    return NoiseModule(network).eval()


def weights_path(version: str) -> Path:
    """Return where the weights of a committed version lie: the program holds the slopes of its PReLU as constants."""
    return program_path(version).with_suffix(".npz")


def module_of_weights(path: Path) -> NoiseModule:
    """Return the torch module of committed weights.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is of another shape.
    """
    network = NoiseNetwork()
    with np.load(path, allow_pickle=False) as arrays:
        network.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
    return NoiseModule(network).eval()


def save_weights(module: NoiseModule, path: Path) -> None:
    """Write the weights of a module, from which `build` exports it again."""
    np.savez(path, **{name: value.numpy() for name, value in module.network.state_dict().items()})


def samples() -> list[Sample]:
    """Return the inputs of the parity certificate: hops of made speech in made noise."""
    found = []
    for seed in range(SAMPLES):
        random = np.random.default_rng(seed)
        sound = made_speech(SAMPLE_RATE, seed) + random.normal(0, 0.02, SAMPLE_RATE).astype(np.float32)
        begin = SAMPLE_RATE // 2 + seed * HOP
        found.append(Sample(inputs=(sound[None, begin : begin + HOP],), source="made for this certificate"))
    return found


def compile_module(module: NoiseModule) -> Program:
    """Return the certified program of a module.

    Raises:
        ExportError: the module cannot be exported.
        CertificateError: native and torch differ.
    """
    given = samples()
    program = export(module, (torch.from_numpy(np.asarray(given[0].values()[0])),))
    certificate = certify(bytes(program), _Fresh(module), given, licence="procedural", tolerance="standard")
    return Program(embed_certificate(bytes(program), certificate))


class _Fresh(torch.nn.Module):
    """A module that begins each stream with the memory that it was made with, as a program without a session does."""

    def __init__(self, module: NoiseModule) -> None:
        super().__init__()
        self.module = module
        self.start = {name: value.clone() for name, value in module.state_dict().items()}

    def forward(self, hop: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the first hop of a stream gives, and restore the memory."""
        clean, speech = (value.clone() for value in self.module(hop))
        self.module.load_state_dict(self.start)
        return clean, speech


def build(version: str) -> Program:
    """Return the program of a committed version, exported again from its kept weights: the same bytes.

    Raises:
        FileNotFoundError: it was never committed.
    """
    return compile_module(module_of_weights(weights_path(version)))


def main() -> None:
    """Write a version's program, and the record of its training, to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--run", type=Path, help="folder of a training run; without it, the committed program")
    parser.add_argument("--to", type=Path, help="write the run's program to this file alone")
    arguments = parser.parse_args()
    if arguments.to and not arguments.run:
        parser.error("--to needs --run")
    module = module_of_run(arguments.run) if arguments.run else None
    program = build(arguments.version) if module is None else compile_module(module)
    path = arguments.to or program_path(arguments.version)
    path.parent.mkdir(exist_ok=True)
    program.save(path)
    print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)
    if module is not None and not arguments.to:
        save_weights(module, weights_path(arguments.version))
        record = json.loads((arguments.run / "run.json").read_text(encoding="utf-8"))
        path.with_suffix(".run.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
