"""Times the peers by their own scripts (`../shared/peers`), in the environments made for them."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.models.cases import PEERS, ROOT, Case

NAMES: Final = ("litert", "openvino", "ort", "ort_c", "et", "et_c", "ncnn", "torch_eager")
_NATIVE: Final = {"ort_c": "cbench_ort", "et_c": "cbench_et"}
TIMEOUT_S: Final = 240


@dataclass(frozen=True)
class Places:
    """Where `setup.sh` and `run.sh` have put the peers and their models."""

    base: Path
    models: Path

    @classmethod
    def from_environment(cls) -> "Places":
        """Read BASE and PEERS_ART as the scripts do."""
        temporary = Path(tempfile.gettempdir())
        return cls(
            Path(os.environ.get("BASE", temporary / "peers")),
            Path(os.environ.get("PEERS_ART", temporary / "peers_art")),
        )


def missing(places: Places, name: str) -> str:
    """Return why a peer cannot be timed; "" if it can."""
    if name in _NATIVE:
        return "" if (places.base / _NATIVE[name]).exists() else "its timing program is not built (build.sh)"
    if not (places.base / "venv/bin/python").exists():
        return "not installed (setup.sh)"
    return "" if places.models.is_dir() else "its models are not exported (run.sh)"


@dataclass(frozen=True)
class PeerTimes:
    """Of one turn of a peer.

    Attributes:
        p50_us: a call.
        cold_us: from the path to the first answer.
        peak_kib: the greatest resident memory of its process, Python included where it needs it; 0 if it did not say.
    """

    p50_us: float
    cold_us: float
    peak_kib: float


def is_native(name: str) -> bool:
    """Return whether a peer runs in a C or C++ program, as alcove does here."""
    return name in _NATIVE


def fastest(times: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the peer with the least time, and that; None if there is no peer."""
    return min(times.items(), key=lambda item: item[1]) if times else None


def measure(places: Places, name: str, case: Case, core: int) -> PeerTimes | str:
    """Return what one peer takes, or why there is nothing."""
    found = [run(places, name + case.peer_suffix, model, core) for model in (case.model, *case.also)]
    good = [result for result in found if "error" not in result]
    if not good:
        return str(found[0]["error"])
    return PeerTimes(
        min(float(result["p50_us"]) for result in good),
        min(float(result.get("load_to_first_ms", 0.0)) for result in good) * 1000,
        min(float(result.get("rss_mb", 0.0)) for result in good) * 1024,
    )


def run(places: Places, name: str, model: str, core: int) -> dict[str, Any]:
    """Return what a peer's script says of a model, exported to `places.models`; "error" if it gives no time."""
    plain = name.removesuffix("_int8")
    variants = ["_int8"] if name.endswith("_int8") else []
    newer = Path(f"{places.models}15")
    if plain in _NATIVE:
        folders = [newer, places.models] if plain == "et_c" else [places.models]
        command: list[str | Path] = [places.base / _NATIVE[plain], *folders, model, "lat", *variants]
    else:
        command = [places.base / "venv/bin/python", "-W", "ignore", PEERS / "bench_one.py", name, model, "lat"]
    return answer(places, command, str(core))


def answer(places: Places, command: Sequence[str | Path], cores: str) -> dict[str, Any]:
    """Return what a command prints behind RESULT, pinned to `cores`; "error" if it prints nothing."""
    environment = {**os.environ, "PEERS_ART": str(places.models), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        completed = subprocess.run(
            ["taskset", "-c", cores, *map(str, command)],
            check=False,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {TIMEOUT_S} s"}
    for line in completed.stdout.splitlines():
        if line.startswith("RESULT "):
            return dict(json.loads(line.removeprefix("RESULT ")))
    lines = [line for line in (completed.stderr + completed.stdout).splitlines() if line.strip()]
    return {"error": (lines[-1] if lines else f"exit code {completed.returncode}")[:120]}
