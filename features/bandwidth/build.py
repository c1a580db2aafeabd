"""Builds committed programs of trained weights, and loads them back: the float32 program is the checkpoint.

python -m alcove.features.bandwidth.build --version 1.2.0 --run runs/bandwidth-1.2.0   # from a training run
python -m alcove.features.bandwidth.build --version 1.2.0                              # again, from the program
python -m alcove.features.bandwidth.build --version 1.2.0 --run runs/another --to another.alc   # of another seed
"""

import argparse
import json
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.features.bandwidth.config import CONFIGS, OBSERVATION_SIZE
from alcove.features.bandwidth.contract import program_path
from alcove.features.bandwidth.dataset import make_recording
from alcove.features.bandwidth.model import BandwidthModule, BandwidthNetwork
from alcove.features.bandwidth.observation import observations_of
from alcove.runtime import export
from alcove.runtime.certificate import Sample, embed_certificate
from alcove.runtime.compiler import load_state
from alcove.runtime.compiler.certify import certify
from alcove.runtime.program import Program

TOLERANCES: Final = {"f32": "standard", "int8": "quantised"}
"""Of capacity and deviation, relative, by variant."""
QUANTIZE: Final = {"f32": None, "int8": "int8_dynamic"}
SAMPLES: Final = 12


def module_of_run(folder: Path, version: str) -> BandwidthModule:
    """Return the torch module that a training run made.

    Raises:
        FileNotFoundError: the folder holds no checkpoint.
        RuntimeError: it is of another shape.
    """
    network = BandwidthNetwork(CONFIGS[version])
    network.load_state_dict(torch.load(folder / "checkpoint.pt", weights_only=True)["network"])
    return BandwidthModule(network).eval()


def module_of_program(program: Program, version: str) -> BandwidthModule:
    """Return the torch module whose weights a float32 program holds.

    Raises:
        ValueError: the program is quantized or of another shape.
    """
    module = BandwidthModule(BandwidthNetwork(CONFIGS[version]))
    state = {name: torch.from_numpy(array) for name, array in load_state(program.spec).items()}
    found = module.load_state_dict(state, strict=False)
    # The last layer of training is not in the program: its three rows are.
    missing = [name for name in found.missing_keys if not name.startswith("network.out.")]
    if missing or found.unexpected_keys:
        raise ValueError(f"the program lacks {missing} and has {found.unexpected_keys} besides")
    return module.eval()


def samples() -> list[Sample]:
    """Return the inputs of the parity certificate: observations of made-up calls."""
    calls = make_recording(SAMPLES, 120, seed=2024)
    observations = observations_of(calls.statistics)
    ticks = 20 + 100 * np.arange(SAMPLES) // SAMPLES
    rows = observations[np.arange(SAMPLES), ticks].reshape(SAMPLES, 1, OBSERVATION_SIZE)
    return [Sample(inputs=(row,), source="simulated for this certificate") for row in rows]


def compile_module(module: BandwidthModule, variant: str) -> Program:
    """Return the certified program of a module, variant "f32" or "int8".

    Raises:
        ExportError: the module cannot be exported.
        CertificateError: native and torch differ.
    """
    given = samples()
    program = export(module, (torch.from_numpy(np.asarray(given[0].values()[0])),), quantize=QUANTIZE[variant])
    certificate = certify(bytes(program), _Fresh(module), given, licence="procedural", tolerance=TOLERANCES[variant])
    return Program(embed_certificate(bytes(program), certificate))


class _Fresh(torch.nn.Module):
    """A module that begins each call with the memory that it was made with, as a program without a session does."""

    def __init__(self, module: BandwidthModule) -> None:
        super().__init__()
        self.module = module
        self.start = {name: value.clone() for name, value in module.state_dict().items()}

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what the first tick of a call gives, and restore the memory."""
        capacity, std = (value.clone() for value in self.module(observation))
        self.module.load_state_dict(self.start)
        return capacity, std


def build(version: str, variant: str) -> Program:
    """Return a program of a committed version, exported again from its float32 program: the same bytes.

    Raises:
        KeyError: there is no such version or variant.
        FileNotFoundError: it was never committed.
    """
    committed = Program(program_path(version, "f32").read_bytes())
    return compile_module(module_of_program(committed, version), variant)


def main() -> None:
    """Write a version's programs, and the record of its training, to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--run", type=Path, help="folder of a training run; without it, the committed program")
    parser.add_argument("--to", type=Path, help="write the run's int8 program to this file alone")
    arguments = parser.parse_args()
    version = arguments.version
    if arguments.to:
        if not arguments.run:
            parser.error("--to needs --run")
        compile_module(module_of_run(arguments.run, version), "int8").save(arguments.to)
        return
    for variant in QUANTIZE:
        path = program_path(version, variant)
        if arguments.run and variant == "f32":
            program = compile_module(module_of_run(arguments.run, version), variant)
        else:
            program = build(version, variant)
        path.parent.mkdir(exist_ok=True)
        program.save(path)
        print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)
    if arguments.run:
        record = json.loads((arguments.run / "run.json").read_text(encoding="utf-8"))
        # The estimate and its factors are chosen after training.
        record["config"] = CONFIGS[version].to_json()
        text = json.dumps(record, indent=2) + "\n"
        program_path(version).with_suffix(".run.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
