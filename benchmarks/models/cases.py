"""Lists the models that are timed, and exports them with their inputs.

The reference models are the peers' own (`../shared/peers/models.py`): without them there is nothing to compare.
"""

import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

ROOT: Final = Path(__file__).resolve().parents[2]
PEERS: Final = ROOT.parent / "shared/peers"
BUILT: Final = ROOT / "build/bench"
"""Programs, their inputs and the timing program; built for each run."""


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        name: of the row.
        model: the reference model's name.
        also: the same function as some peers need it said.
        quantize: how alcove quantizes it; "" for float32.
        peer_suffix: what the peers' quantized variants end with.
    """

    name: str
    model: str
    also: tuple[str, ...] = ()
    quantize: str = ""
    peer_suffix: str = ""


CASES: Final = (
    Case("call", "add1"),
    Case("lid", "lid", also=("lidg",)),
    Case("bwe", "bwe"),
    Case("bwe int8", "bwe", quantize="int8_dynamic"),
    Case("rank", "rank"),
    Case("rank int8", "rank", quantize="int8_dynamic"),
    Case("tag", "tag"),
    Case("tag int8", "tag", quantize="int8", peer_suffix="_int8"),
    Case("seg", "seg"),
    Case("seg int8", "seg", quantize="int8"),
    Case("style", "style"),
    Case("style int8", "style", quantize="int8"),
)


def reference_models() -> Any:
    """Return the module of the reference models.

    Raises:
        FileNotFoundError: the shared data do not lie beside the repository.
    """
    if not (PEERS / "models.py").is_file():
        raise FileNotFoundError(
            f"{PEERS}: the reference models are not there, so there is nothing to time beside peers"
        )
    sys.path.insert(0, str(PEERS))
    try:
        return import_module("models")
    finally:
        sys.path.remove(str(PEERS))


def prepare(case: Case) -> tuple[Path, list[Path]]:
    """Export a case; return its program, read-only so that it is mapped, and the files of its inputs."""
    import torch
    from alcove.runtime import export

    torch.set_num_threads(1)
    models = reference_models()
    inputs = models.INPUTS[case.model]()
    calibration = [inputs] if case.quantize == "int8" else None
    program = export(models.build(case.model), inputs, quantize=case.quantize or None, calibration=calibration)
    BUILT.mkdir(parents=True, exist_ok=True)
    path = BUILT / f"{case.name.replace(' ', '_')}.alc"
    path.unlink(missing_ok=True)
    program.save(path)
    path.chmod(0o444)
    files = []
    for index, tensor in enumerate(inputs):
        file = path.with_suffix(f".{index}.bin")
        file.write_bytes(np.ascontiguousarray(tensor.numpy()).tobytes())
        files.append(file)
    return path, files
