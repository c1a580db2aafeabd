"""Builds committed programs of trained weights, and loads them back: the program is the checkpoint.

python -m alcove.features.language_id.build --version 4.1.0 --run runs/language_id-4.1.0   # from a training run
python -m alcove.features.language_id.build --version 4.1.0                                # again, from the program
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import torch
from alcove.features.language_id.calibrate import set_temperature
from alcove.features.language_id.config import CONFIGS
from alcove.features.language_id.contract import LEFT_OUT, program_path
from alcove.features.language_id.model import LanguageIdModule
from alcove.runtime import export
from alcove.runtime.certificate import Sample, embed_certificate
from alcove.runtime.compiler import load_state
from alcove.runtime.compiler.certify import certify
from alcove.runtime.composition import make_composition_table
from alcove.runtime.program import Program

TOLERANCE: Final = "tight"
"""Of a probability: the two sides add the same f32 numbers in different orders."""

QUANTIZE: Final = {"f32": None, "int8": "int8"}
"""What `export` is asked for, by variant."""

CERTIFICATE_TEXTS: Final = (
    "Where is the nearest railway station?",
    "Ich habe heute leider keine Zeit, vielleicht morgen.",
    "On se retrouve devant le cinéma à huit heures ?",
    "No te olvides de comprar pan y leche.",
    "Você já viu as fotos da nossa viagem?",
    "Hvornår kommer toget fra Aarhus?",
    "Akşam yemeğine bize gelir misin?",
    "Hôm nay trời đẹp quá, mình đi dạo nhé.",
    "Где ты был вчера вечером?",
    "Сьогодні ввечері буде дощ, візьми парасольку.",
    "Πού άφησες τα κλειδιά του σπιτιού;",
    "متى يبدأ الدرس غدا؟",
    "आज मौसम बहुत अच्छा है।",
    "明天早上我们一起去公园吧。",
    "駅までどのくらいかかりますか。",
    "Ngiyabonga kakhulu ngosizo lwakho.",
)
"""Inputs of the parity certificate, written for it; they travel to every device."""


def module_of_program(program: Program, version: str) -> LanguageIdModule:
    """Return the torch module whose weights `program` holds, tables dequantized.

    Raises:
        RuntimeError: the program is not of this version's shape.
    """
    state = load_state(program.spec)
    table = state.get("hash.table")
    module = LanguageIdModule(CONFIGS[version], None if table is None else table.tobytes())
    module.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    return module.eval()


def module_of_run(folder: Path, version: str) -> LanguageIdModule:
    """Return the torch module that a training run made, with the temperature that `cross_validate.py` fitted.

    Raises:
        FileNotFoundError: the folder holds no checkpoint, or no temperature was fitted yet.
        RuntimeError: it is of another shape.
    """
    config = CONFIGS[version]
    module = LanguageIdModule(config, make_composition_table() if config.composes else None)
    state = torch.load(folder / "checkpoint.pt", weights_only=True, map_location="cpu")
    module.network.load_state_dict(state["network"])
    if config.weighs:
        set_temperature(module.network, json.loads(LEFT_OUT.read_text(encoding="utf-8"))["temperature"])
    return module.eval()


def compile_module(
    module: LanguageIdModule, version: str, texts: Sequence[str] = CERTIFICATE_TEXTS, *, variant: str = "int8"
) -> Program:
    """Return the certified program of a module; `texts` are the samples of its certificate.

    Variant "int8" is what is committed; "f32" takes four times the bytes and gives the same answers except for the last
    bits, as training rounds the table too.  The certificate compares with the module that comes back from the program,
    so it promises the arithmetic, not the rounding of the weights.

    Raises:
        KeyError: there is no such variant.
        ExportError: the module cannot be exported.
        CertificateError: native and torch differ.
    """
    program = export(module, ("text",), quantize=QUANTIZE[variant])
    samples = [Sample(inputs=(text,), source="written for this certificate") for text in texts]
    certificate = certify(
        bytes(program), module_of_program(program, version), samples, licence="own text", tolerance=TOLERANCE
    )
    return Program(embed_certificate(bytes(program), certificate))


def build(version: str, texts: Sequence[str] = CERTIFICATE_TEXTS) -> Program:
    """Return the program of a committed version, exported again from the weights that it holds: the same bytes.

    With other `texts` it is another program that computes the same.

    Raises:
        KeyError: there is no such version.
        FileNotFoundError: it was never committed.
    """
    committed = Program(program_path(version).read_bytes())
    return compile_module(module_of_program(committed, version), version, texts)


def main() -> None:
    """Write a version's program, and the record of its training, to where they are committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(CONFIGS), required=True)
    parser.add_argument("--run", type=Path, help="folder of a training run; without it, the committed program")
    parser.add_argument("--f32", type=Path, metavar="FILE", help="also write the float32 program there (12 MB)")
    arguments = parser.parse_args()
    version = arguments.version
    program = compile_module(module_of_run(arguments.run, version), version) if arguments.run else build(version)
    path = program_path(version)
    path.parent.mkdir(exist_ok=True)
    program.save(path)
    if arguments.run:
        path.with_suffix(".run.json").write_bytes((arguments.run / "run.json").read_bytes())
    if arguments.f32:
        compile_module(module_of_program(program, version), version, variant="f32").save(arguments.f32)
    print(f"{path.name}: {len(bytes(program)):,} bytes, sha256 {program.digest}")  # noqa: T201 (what the command is for)


if __name__ == "__main__":
    main()
