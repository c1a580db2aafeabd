"""Converts the cases for the peers, and times all engines by turns, each in a process that is kept for the case."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.frames.cases import Case, export_case
from benchmarks.models.alcove import cores_for
from benchmarks.models.cases import ROOT
from benchmarks.models.peers import Places

HERE: Final = Path(__file__).parent
CONVERTERS: Final[Mapping[str, str]] = {"ort": "venv", "litert": "lt"}
"""Environment in which a peer's files are made, below the folder that `../shared/peers/setup.sh` fills."""
PEERS: Final = tuple(CONVERTERS)
MODULES: Final[Mapping[str, tuple[str, str]]] = {
    "ort": ("onnxruntime", "onnxscript"),
    "litert": ("ai_edge_litert", "litert_torch"),
}
"""What runs and what converts."""
RUNNER: Final = "venv"
"""Environment in which all peers are timed."""
CONVERT_TIMEOUT_S: Final = 600
FEWEST: Final = 3
"""Calls of a block."""


@dataclass(frozen=True)
class Row:
    """One case with a number of threads: times in microseconds, each the median of the rounds.

    Attributes:
        network: of the case.
        columns: of a frame.
        rows: of it.
        form: of the case.
        threads: of each engine.
        times_us: of each engine that ran.
        best: the fastest peer; "" if there is none.
        ratio: how many times as long that takes, the median of the rounds; 0 if there is none.
        differences: of each peer's answer from alcove's, the largest, as a share of alcove's largest element.
        failed: engine and reason.
    """

    network: str
    columns: int
    rows: int
    form: str
    threads: int
    times_us: dict[str, float]
    best: str
    ratio: float
    differences: dict[str, float]
    failed: dict[str, str]

    def frames_per_s(self, engine: str) -> float:
        """Return how many frames an engine takes a second."""
        return 1e6 / self.times_us[engine]

    def as_json(self) -> dict[str, Any]:
        """Return the fields and what follows from them."""
        return asdict(self) | {"frames_per_s": {engine: self.frames_per_s(engine) for engine in self.times_us}}


def absent_peers(places: Places) -> dict[str, str]:
    """Return the peers that are not there, with the reason."""
    found = {}
    for peer, environment in CONVERTERS.items():
        runs, converts = MODULES[peer]
        if not _has_module(places, RUNNER, runs):
            found[peer] = "not installed (../shared/peers/setup.sh)"
        elif not _has_module(places, environment, converts):
            found[peer] = "its converter is not installed (../shared/peers/setup.sh)"
    return found


def _has_module(places: Places, environment: str, module: str) -> bool:
    return any((places.base / environment).glob(f"lib/python*/site-packages/{module}"))


def convert(places: Places, case: Case, peer: str) -> str:
    """Make a peer's file of a case if it is not there; return why it has none, "" if it has."""
    model, refusal = case.model(peer), case.model(peer).with_suffix(f".{peer}.refused")
    if model.exists():
        return ""
    if refusal.exists():
        return refusal.read_text(encoding="utf-8")
    python = places.base / CONVERTERS[peer] / "bin/python"
    files = [case.network_file, case.inputs, model]
    command = [python, "-W", "ignore", HERE / "convert.py", peer, *files, case.form]
    why = ""
    try:
        done = subprocess.run(
            list(map(str, command)), check=False, capture_output=True, text=True, timeout=CONVERT_TIMEOUT_S
        )
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        why = "" if done.returncode == 0 else (lines[-1] if lines else f"exit status {done.returncode}")[:160]
    except subprocess.TimeoutExpired:
        why = f"no file in {CONVERT_TIMEOUT_S} s"
    if why:
        model.unlink(missing_ok=True)
        refusal.write_text(why, encoding="utf-8")
    return why


class Engine:
    """An engine in a process of its own that has loaded a case; blocks of calls are asked of it.

    Args:
        name: of `engine.ENGINES`.
        case: what it runs.
        threads: that it may use; it is pinned to as many cores.
        core: the first of them.
        python: interpreter that has it.

    Raises:
        RuntimeError: it does not take the case.
    """

    def __init__(self, name: str, case: Case, threads: int, core: int, python: Path) -> None:
        self.answer_file = case.model(name).with_suffix(f".{name}.npy")
        arguments = [name, case.model(name), case.inputs, threads, self.answer_file]
        pinned: list[Any] = ["taskset", "-c", cores_for(core, threads), python, "-W", "ignore", HERE / "engine.py"]
        self._process = subprocess.Popen(
            list(map(str, [*pinned, *arguments])),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )
        if self._read() != "ready":
            raise RuntimeError(self._why())

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def _why(self) -> str:
        lines = [line for line in self._process.communicate()[1].splitlines() if line.strip()]
        return (lines[-1] if lines else f"exit status {self._process.returncode}")[:160]

    def time_us(self, calls: int) -> float:
        """Return the median of a block of calls, in microseconds.

        Raises:
            RuntimeError: it ended.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        found = self._read()
        if found is None:
            raise RuntimeError(self._why())
        return float(found)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@dataclass(frozen=True)
class Bench:
    """How cases are timed.

    Attributes:
        core: that one thread is pinned to; a second one to the next.
        rounds: turns of each engine.
        seconds: of each engine's calls in all rounds of a case.
        say: reports progress.
        places: where the peers are.
    """

    core: int
    rounds: int
    seconds: float
    say: Callable[[str], None]
    places: Places

    def measure(self, cases: Sequence[Case], threads: Sequence[int]) -> list[Row]:
        """Export and convert what is not there, time it, and return a row of each case and number of threads."""
        absent = absent_peers(self.places)
        present = [peer for peer in PEERS if peer not in absent]
        rows = []
        for case in cases:
            self.say(f"{case.name}: export")
            if not case.model("alcove").exists() or (case.form == "f32" and not case.network_file.exists()):
                export_case(case)
            failed = {}
            for peer in present:
                self.say(f"{case.name}: {peer} converts")
                if why := convert(self.places, case, peer):
                    failed[peer] = why
            engines = ["alcove", *(peer for peer in present if peer not in failed)]
            for count in threads:
                self.say(f"{case.name}: {count} threads")
                rows.append(self._row(case, count, engines, dict(failed)))
        return rows

    def _row(self, case: Case, threads: int, engines: Sequence[str], failed: dict[str, str]) -> Row:
        with ExitStack() as stack:
            running: dict[str, Engine] = {}
            for name in engines:
                python = Path(sys.executable) if name == "alcove" else self.places.base / RUNNER / "bin/python"
                try:
                    running[name] = Engine(name, case, threads, self.core, python)
                    stack.callback(running[name].close)
                except RuntimeError as error:
                    failed[name] = str(error)
            first_us = {name: engine.time_us(1) for name, engine in running.items()}
            counts = {name: max(FEWEST, round(self.seconds * 1e6 / self.rounds / us)) for name, us in first_us.items()}
            rounds: dict[str, list[float]] = {name: [] for name in running}
            for _ in range(self.rounds):
                for name, engine in running.items():
                    rounds[name].append(engine.time_us(counts[name]))
            return make_row(case, threads, rounds, compare_answers(running), failed)


def compare_answers(running: Mapping[str, Engine]) -> dict[str, float]:
    """Return each peer's largest difference from alcove's answer, as a share of its largest element."""
    if "alcove" not in running:
        return {}
    answers = {name: np.asarray(np.load(engine.answer_file), np.float64) for name, engine in running.items()}
    ours = answers.pop("alcove")
    most = float(np.abs(ours).max()) or 1.0
    return {name: float(np.abs(theirs.reshape(ours.shape) - ours).max()) / most for name, theirs in answers.items()}


def make_row(
    case: Case,
    threads: int,
    rounds: Mapping[str, Sequence[float]],
    differences: Mapping[str, float],
    failed: Mapping[str, str],
) -> Row:
    """Return the row of a case's rounds, in microseconds."""
    times_us = {engine: statistics.median(those) for engine, those in rounds.items()}
    peers = {engine: us for engine, us in times_us.items() if engine != "alcove"}
    best = min(peers, key=lambda engine: peers[engine]) if peers and "alcove" in times_us else ""
    ratios = [theirs / ours for ours, theirs in zip(rounds["alcove"], rounds[best], strict=True)] if best else [0.0]
    return Row(
        network=case.network,
        columns=case.size[0],
        rows=case.size[1],
        form=case.form,
        threads=threads,
        times_us=times_us,
        best=best,
        ratio=statistics.median(ratios),
        differences=dict(differences),
        failed=dict(failed),
    )
