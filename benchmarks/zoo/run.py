"""Runs the steps: export in workers, time in windows, and collect the results."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.models import peers
from benchmarks.models.cases import ROOT
from benchmarks.zoo.networks import BY_NAME, Network
from benchmarks.zoo.store import is_settled, newest, read_results, refusal_of, write_results

PEERS: Final = ("ort", "litert", "et")
ENVIRONMENTS: Final[Mapping[str, str]] = {"litert": "lt", "et": "venv"}
"""Those of the peers' own that export, below the folder that `../shared/peers/setup.sh` fills."""
GET_TIMM: Final = (
    "timm is not there: in an environment that sees this one, `pip install --no-deps timm torchvision onnx onnxscript "
    "onnx-ir ml-dtypes onnxruntime ai-edge-litert flatbuffers`; run this command in it"
)
EXPORT_TIMEOUT_S: Final = 3600
PROCESS_NETWORKS: Final = 8
CALL_TIMEOUT_S: Final = 120


@dataclass(frozen=True)
class Bench:
    """How networks are exported and timed.

    Attributes:
        core: that everything timed is pinned to.
        rounds: turns of each engine.
        seconds: of each engine's calls.
        say: reports progress.
    """

    core: int
    rounds: int
    seconds: float
    say: Callable[[str], None]

    def export(self, names: Sequence[str]) -> None:
        """Export what is not there yet, some networks in a process: it takes seconds to begin."""
        steps: dict[tuple[str, ...], list[str | Path] | None] = {("golden", "alcove", "ort"): [Path(sys.executable)]}
        steps |= {(peer,): _exporter(peer) for peer in ENVIRONMENTS}
        for whats, python in steps.items():
            missing = [name for name in names if not all(is_settled(BY_NAME[name], what) for what in whats)]
            while python is not None and missing:
                some, missing = missing[:PROCESS_NETWORKS], missing[PROCESS_NETWORKS:]
                self.say(f"exporting {', '.join(some)} for {', '.join(whats)}")
                _run_module(python, "export", ",".join(whats), *some, timeout_s=EXPORT_TIMEOUT_S)

    def time(self, names: Sequence[str], window_s: float) -> None:
        """Time what is exported, what was timed longest ago first, until a window is over; results are kept at once."""
        until = time.monotonic() + window_s
        python: list[str | Path] = ["taskset", "-c", str(self.core), Path(sys.executable)]
        results = read_results()
        there = [name for name in names if newest(BY_NAME[name], "golden") and newest(BY_NAME[name], "alcove")]
        for name in sorted(there, key=lambda name: float(results.get(name, {}).get("at_s", 0.0))):
            if time.monotonic() > until:
                break
            self.say(f"timing {name}")
            found = _run_module(python, "call", name, str(self.seconds), str(self.rounds), timeout_s=CALL_TIMEOUT_S)
            shares = _run_module(python, "reasons", name, timeout_s=CALL_TIMEOUT_S)
            results[name] = {**found, "shares": shares, "at_s": time.time()}
            write_results(results)


def refusals(network: Network) -> dict[str, str]:
    """Return which engines do not have a network, and why."""
    found = {}
    for what in ("golden", "alcove", *PEERS):
        reason = refusal_of(network, what)
        if reason.exists():
            found[what] = reason.read_text(encoding="utf-8").strip()
    return found


def absent_peers() -> dict[str, str]:
    """Return the peers that nothing is exported for, with the reason."""
    return {peer: "not installed" for peer in ENVIRONMENTS if _exporter(peer) is None}


def _exporter(peer: str) -> list[str | Path] | None:
    """Return what runs a peer's own export, or None if its environment is not there."""
    python = peers.Places.from_environment().base / ENVIRONMENTS[peer] / "bin/python"
    return [python] if python.exists() else None


def _run_module(python: Sequence[str | Path], module: str, *arguments: str, timeout_s: float) -> dict[str, Any]:
    """Return what a module of this package prints behind RESULT; {"failed": …} if it ends otherwise."""
    command = [*map(str, python), "-W", "ignore", "-m", f"benchmarks.zoo.{module}", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, env=environment
        )
    except subprocess.TimeoutExpired:
        return {"failed": {module: f"no answer in {timeout_s:g} s"}}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return dict(json.loads(line.removeprefix("RESULT ")))
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return (
        {"failed": {module: lines[-1][:160] if lines else f"exit status {done.returncode}"}} if done.returncode else {}
    )
