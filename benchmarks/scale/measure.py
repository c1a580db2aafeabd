"""Times alcove and each peer point by point, so that a slow minute affects all of them."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.models import alcove, peers
from benchmarks.models.cases import BUILT, PEERS, ROOT
from benchmarks.models.peers import Places
from benchmarks.scale.layers import Curve, build, inputs

FOLDER: Final = BUILT / "scale"
NAMES: Final = ("litert", "openvino", "ort", "et")
JOBS: Final[Mapping[str, tuple[str, ...]]] = {"venv": ("golden", "onnx", "openvino", "et"), "lt": ("litert",)}
"""What each environment of the peers exports."""


@dataclass(frozen=True)
class Point:
    """One size of a curve; times in microseconds.

    Attributes:
        curve: its name.
        size: on its axis.
        alcove_us: the lowest median, through the C interface.
        gflops: operations a nanosecond of alcove.
        peers: p50 of each.
        failed: name, and why it gave no time.
        busy: how many cores alcove and each peer kept busy, where several threads run; empty elsewhere.
    """

    curve: str
    size: int
    alcove_us: float
    gflops: float
    peers: dict[str, float]
    failed: dict[str, str]
    busy: dict[str, float] = field(default_factory=dict)

    @property
    def best(self) -> tuple[str, float] | None:
        """The fastest peer and its time."""
        return peers.fastest(self.peers)

    def as_json(self) -> dict[str, Any]:
        """Return the fields, and the fastest peer."""
        return asdict(self) | {"best": self.best}


@dataclass(frozen=True)
class Scale:
    """How curves are timed.

    Attributes:
        core: that everything timed is pinned to; more threads than one take others besides.
        rounds: turns of alcove and each peer at a point.
        seconds: of calls in a turn of alcove.
        say: reports progress.
    """

    core: int
    rounds: int
    seconds: float
    say: Callable[[str], None]

    def measure(self, curves: Sequence[Curve]) -> tuple[list[Point], dict[str, str]]:
        """Export what is not there yet, and time it.

        Returns:
            the points, and the peers that are not there with the reason.
        """
        os.sched_setaffinity(0, os.sched_getaffinity(0) - {self.core} or {self.core})
        FOLDER.mkdir(parents=True, exist_ok=True)
        places = Places(Places.from_environment().base, FOLDER)
        self.say("exporting for the peers")
        export_for_peers(places)
        absent = {name: why for name in NAMES if (why := peers.missing(places, name))}
        present = [name for name in NAMES if name not in absent]
        executable = alcove.timing_program()
        return [
            self._point(curve, size, executable, places, present) for curve in curves for size in curve.sizes
        ], absent

    def _point(self, curve: Curve, size: int, executable: Path, places: Places, present: Sequence[str]) -> Point:
        program, file = _export(curve, size)
        ours: list[tuple[float, float]] = []
        cores: dict[str, float] = {}
        p50: dict[str, float] = {}
        failed: dict[str, str] = {}
        for turn in range(self.rounds):
            self.say(f"{curve.name} {size}, round {turn + 1} of {self.rounds}")
            found = alcove.measure_native(
                executable, program, [file], self.core, self.seconds, threads=curve.threads(size)
            )
            ours.append(min(zip(found["medians_ns"], found["busy_cores"], strict=True)))
            for name in present:
                result = self._peer(curve, size, places, name)
                if "error" in result:
                    failed[name] = str(result["error"])
                elif result["p50_us"] < p50.get(name, float("inf")):
                    p50[name] = result["p50_us"]
                    cores[name] = result.get("busy_cores", 1.0)
        best_ns, cores["alcove"] = min(ours)
        busy = cores if curve.threads(size) > 1 else {}
        return Point(curve.name, size, best_ns / 1000, curve.flops(size) / best_ns, p50, failed, busy)

    def _peer(self, curve: Curve, size: int, places: Places, name: str) -> dict[str, Any]:
        if not curve.by_threads:
            return peers.run(places, name, curve.model(size), self.core)
        threads = curve.threads(size)
        module = ["-W", "ignore", "-m", "benchmarks.scale.threaded_peer", name, curve.model(size), str(threads)]
        return peers.answer(places, [places.base / "venv/bin/python", *module], alcove.cores_for(self.core, threads))


def export_for_peers(places: Places) -> None:
    """Run the export of each environment that is there; a model that a peer cannot take is named when it is timed."""
    for environment, jobs in JOBS.items():
        python = places.base / environment / "bin/python"
        if not python.exists():
            continue
        path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        subprocess.run(
            [python, "-W", "ignore", "-m", "benchmarks.scale.export_peers", *jobs],
            check=False,
            cwd=ROOT,
            env={**os.environ, "PATH": path, "PEERS": str(PEERS), "PEERS_ART": str(places.models)},
            capture_output=True,
        )


def _export(curve: Curve, size: int) -> tuple[Path, Path]:
    """Return alcove's program of a point, read-only so that it is mapped, and the file of its input."""
    import torch
    from alcove.runtime import export

    torch.set_num_threads(1)
    argument = inputs(curve, size)
    path = FOLDER / f"{curve.model(size)}.alc"
    path.unlink(missing_ok=True)
    export(build(curve, size), argument).save(path)
    path.chmod(0o444)
    file = path.with_suffix(".in.bin")
    file.write_bytes(argument[0].numpy().tobytes())
    return path, file
