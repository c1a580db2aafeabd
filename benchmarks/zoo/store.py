"""Keeps what is exported of each network, by content, so that timing can be repeated alone.

A file is named after what it was made of: the network, the versions of torch and timm, and for a program of alcove the
compiler's own sources.  What another compiler has left of a network goes when it is exported again.
"""

import hashlib
import json
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from benchmarks.models.cases import BUILT, ROOT
from benchmarks.zoo import networks
from benchmarks.zoo.networks import SEED, Network

FOLDER: Final = BUILT / "zoo"
ENDINGS: Final = {"golden": ".npz", "alcove": ".alc", "ort": ".onnx", "litert": ".tflite", "et": ".pte"}
"""Of the file of each; golden holds the input and eager's answer."""
_COMPILER: Final = ("runtime/compiler", "runtime/format")


def path_of(network: Network, what: str) -> Path:
    """Return where a file of a network lies, whether it is there or not."""
    key = _key(network, _compiler() if what == "alcove" else "")
    return FOLDER / f"{network.name}-{key}{ENDINGS[what]}"


def refusal_of(network: Network, what: str) -> Path:
    """Return where the reason lies for which there is no such file."""
    path = path_of(network, what)
    return path.with_name(path.name + ".refused")


def seconds_of(network: Network) -> Path:
    """Return where the processor's seconds lie that `torch.export` and each step of alcove's export took."""
    path = path_of(network, "alcove")
    return path.with_name(path.name + ".seconds")


def read_seconds(network: Network) -> dict[str, float]:
    """Return the seconds of each step, of today's sources; empty if the network was not exported by them."""
    path = seconds_of(network)
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def is_settled(network: Network, what: str) -> bool:
    """Return whether there is such a file, or the reason why not, of today's sources."""
    return path_of(network, what).exists() or refusal_of(network, what).exists()


def newest(network: Network, what: str) -> Path | None:
    """Return the file that the newest compiler has left, or None."""
    path = path_of(network, what)
    if path.exists():
        return path
    found = sorted(FOLDER.glob(f"{network.name}-*{ENDINGS[what]}"), key=lambda file: file.stat().st_mtime)
    return found[-1] if found else None


def forget(network: Network, what: str) -> None:
    """Remove what was made of a network before."""
    for ending in (ENDINGS[what], ENDINGS[what] + ".refused", ENDINGS[what] + ".seconds"):
        for file in FOLDER.glob(f"{network.name}-*{ending}"):
            file.unlink()


def read_results() -> dict[str, Any]:
    """Return what was timed, by network."""
    file = FOLDER / "results.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}


def write_results(results: dict[str, Any]) -> None:
    """Replace what was timed."""
    file = FOLDER / "results.json"
    file.with_suffix(".new").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    file.with_suffix(".new").replace(file)


def _key(network: Network, more: str) -> str:
    options = str(sorted(network.options.items()))
    of = [network.name, str(network.size), options, str(SEED), _builder(), _versions(), more]
    return hashlib.sha256("\n".join(of).encode()).hexdigest()[:12]


@cache
def _builder() -> str:
    """Return the source that builds networks."""
    return Path(networks.__file__).read_text(encoding="utf-8").partition("NETWORKS: Final")[0]


@cache
def _versions() -> str:
    found = []
    for name in ("torch", "timm"):
        try:
            found.append(version(name).partition("+")[0])
        except PackageNotFoundError:
            found.append("none")
    return " ".join(found)


@cache
def _compiler() -> str:
    """Return a digest of what programs depend on besides their network."""
    files = [file for folder in _COMPILER for file in sorted((ROOT / folder).rglob("*.py"))]
    digest = hashlib.sha256()
    for file in [*files, ROOT / "kernels/manifest.inc"]:
        digest.update(file.read_bytes())
    return digest.hexdigest()
