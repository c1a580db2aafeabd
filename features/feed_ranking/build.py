"""Builds a committed program of trained weights, and loads it back: the int8 program is the checkpoint.

python -m alcove.features.feed_ranking.build --version 1.0.0 --run runs/feed_ranking-1.0.0   # from a training run
python -m alcove.features.feed_ranking.build --version 1.0.0                                 # again, from the program

The table is int8 in both variants' eyes: "f32" holds the numbers that int8 stands for, widened, and serves to compare.
A run also leaves the vectors of attributes, from which rows of new items are made (`attributes.rows_of_attributes`).
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.feed_ranking.attributes import attributes_of_network
from alcove.features.feed_ranking.config import CONFIGS, HISTORY, MAX_ADDED, MAX_CANDIDATES, ModelConfig
from alcove.features.feed_ranking.contract import program_path
from alcove.features.feed_ranking.model import FeedRankingModule
from alcove.runtime import export
from alcove.runtime.certificate import Sample, embed_certificate
from alcove.runtime.compiler import load_state
from alcove.runtime.compiler.certify import certify
from alcove.runtime.program import Program

TOLERANCE: Final = "standard"
"""Of scores and vectors: both sides read the same int8 table and add f32 in different orders."""
SAMPLES: Final = 8
QUANTIZE: Final = {"int8": "int8", "f32": None}


def module_of_network(network: Any, config: ModelConfig) -> FeedRankingModule:
    """Return the module of a `network.FeedRankingNetwork`, attributes folded into its table."""
    table = network.items.fold()
    module = FeedRankingModule(config, len(table))
    with torch.no_grad():
        module.table.weight.copy_(table)
    module.encoder.load_state_dict(network.encoder.state_dict())
    return module.eval()


def module_of_program(program: Program, config: ModelConfig) -> FeedRankingModule:
    """Return the module whose weights `program` holds, its table widened.

    Raises:
        RuntimeError: the program is of another shape.
    """
    state = {name: torch.from_numpy(array) for name, array in load_state(program.spec).items()}
    module = FeedRankingModule(config, len(state["table.weight"]))
    module.load_state_dict(state)
    return module.eval()


def samples(rows: int, dim: int) -> list[Sample]:
    """Return the inputs of the parity certificate: drawn histories and candidates, the first without a history."""
    rng = np.random.default_rng(2024)
    found = []
    for number in range(SAMPLES):
        history = np.zeros((1, HISTORY), np.int64)
        length = HISTORY * number // (SAMPLES - 1)
        history[0, :length] = rng.integers(1, rows + 3, length)
        count = int(rng.integers(1, 20))
        candidates = rng.integers(0, rows + 3, (1, count))
        added = rng.normal(size=(2, dim + 1)).astype(np.float32)
        offset = (0.1 * rng.normal(size=(1, dim))).astype(np.float32)
        signals = rng.uniform(0, 100, (1, count, 2)).astype(np.float32)
        weights = np.array([[1.0, 0.5, 0.3, 20.0]], np.float32)
        found.append(Sample((history, candidates, added, offset, signals, weights), "drawn for this certificate"))
    return found


def compile_module(module: FeedRankingModule, variant: str = "int8", given: Sequence[Sample] | None = None) -> Program:
    """Return the certified program of a module, variant "int8" or "f32".

    Raises:
        ExportError: the module cannot be exported.
        CertificateError: native and torch differ.
    """
    given = given or samples(module.count, module.dim)
    count = torch.export.Dim("candidates", min=1, max=MAX_CANDIDATES)
    more = torch.export.Dim("added", min=1, max=MAX_ADDED)
    example = [torch.from_numpy(np.asarray(value)) for value in given[-1].values()]
    shapes = (None, {1: count}, {0: more}, None, {1: count}, None)
    program = export(module, example, dynamic_shapes=shapes, quantize=QUANTIZE[variant])
    compared = module
    if variant == "int8":
        # With the module that comes back: the certificate promises the arithmetic, not the rounding of the table.
        compared = FeedRankingModule(module.config, module.count)
        compared.load_state_dict({name: torch.from_numpy(a) for name, a in load_state(program.spec).items()})
        compared.eval()
    certificate = certify(bytes(program), compared, given, licence="procedural", tolerance=TOLERANCE)
    return Program(embed_certificate(bytes(program), certificate))


def build(version: str, variant: str = "int8") -> Program:
    """Return a program of a committed version, exported again from its int8 program: the same bytes.

    Raises:
        KeyError: there is no such version or variant.
        FileNotFoundError: it was never committed.
    """
    committed = Program(program_path(version).read_bytes())
    return compile_module(module_of_program(committed, CONFIGS[version]), variant)


def attributes_path(version: str) -> Path:
    """Return where the vectors of a committed version's attributes lie."""
    return program_path(version).with_suffix(".attributes.json")


def save_run(folder: Path, network: Any, config: ModelConfig) -> None:
    """Keep what a program is made of: the module's weights, and the vectors of attributes."""
    state = module_of_network(network, config).state_dict()
    torch.save({"module": state, "attributes": attributes_of_network(network)}, folder / "trained.pt")


def main() -> None:
    """Write a version's programs, and the record of its training, to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--run", type=Path, help="folder of a training run; without it, the committed program")
    arguments = parser.parse_args()
    version, config = arguments.version, CONFIGS[arguments.version]
    program_path(version).parent.mkdir(exist_ok=True)
    if arguments.run:
        trained = torch.load(arguments.run / "trained.pt", weights_only=True)
        ids = np.load(arguments.run / "table_ids.npy")
        if not np.array_equal(ids, np.arange(1, len(ids) + 1)):
            raise SystemExit("the ids of a program's items must be 1, 2, 3, ...: renumber the lines first")
        module = FeedRankingModule(config, len(ids) + 1)
        module.load_state_dict(trained["module"])
        compile_module(module.eval()).save(program_path(version))
        text = json.dumps(trained["attributes"]) + "\n"
        attributes_path(version).write_text(text, encoding="utf-8")
        record = (arguments.run / "run.json").read_text(encoding="utf-8")
        program_path(version).with_suffix(".run.json").write_text(record, encoding="utf-8")
    for variant in QUANTIZE:
        path = program_path(version, variant)
        program = build(version, variant)
        program.save(path)
        print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)


if __name__ == "__main__":
    main()
