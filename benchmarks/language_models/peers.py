"""Times other engines with models of the same shapes and 4 bits a weight, in an environment of their own.

The environment is `language_models` beside those of `../shared/peers/setup.sh`, with `llama-cpp-python`, `gguf`,
`onnxruntime-genai`, `onnx_ir`, `transformers` and `torch` from pip.
"""

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.language_models.limits import LENGTHS, file_stem
from benchmarks.language_models.models import SHAPES
from benchmarks.models.alcove import cores_for
from benchmarks.models.cases import ROOT
from benchmarks.models.peers import Places

FILES: Final = {"llama.cpp": ".gguf", "ONNX Runtime": ".ort"}
"""What the name of a peer's model ends with."""
MODE: Final = "int4_dynamic"
"""What the peers' models are compared with."""


@dataclass(frozen=True)
class Peer:
    """An engine with a model.

    Attributes:
        name: of the engine.
        path: of the model.
    """

    name: str
    path: Path

    def call_s(self, entry: str, threads: int, core: int, seconds: float) -> float | None:
        """Return the least seconds of a call of "prefill" or "decode", in a process of its own; None if it fails."""
        words = [self.name, str(self.path), str(LENGTHS[entry]), str(threads), str(seconds)]
        done = _run("peer_run", words, "taskset", "-c", cores_for(core, threads))
        return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def python() -> Path:
    """Return the interpreter of the peers' environment, which may not be there."""
    return Places.from_environment().base / "language_models/bin/python"


def build_peers(name: str, folder: Path) -> list[Peer]:
    """Return the engines that are installed and have this model, which is written unless the folder has it."""
    if not python().exists():
        return []
    sizes = json.dumps({**asdict(SHAPES[name]), "is_rotary": name.startswith("Llama")})
    found = []
    for peer, ending in FILES.items():
        path = folder / (file_stem(name) + ending)
        if path.exists() or _run("peer_models", [peer, sizes, str(path)]).returncode == 0:
            found.append(Peer(peer, path))
    return found


def _run(module: str, arguments: list[str], *before: str) -> subprocess.CompletedProcess[str]:
    command = [*before, str(python()), "-W", "ignore", "-m", f"benchmarks.language_models.{module}", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=environment)
