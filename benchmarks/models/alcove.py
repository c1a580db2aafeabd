"""Times alcove on a program: through the C interface in a process of its own, and through Python in another."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.models.cases import BUILT, ROOT

PYTHON: Final = """
import statistics, sys, time
import numpy as np
from alcove.runtime.model import load
model = load(sys.argv[1])
given = [np.fromfile(p, str(port.dtype.name.lower()).replace("f32", "f4").replace("i64", "i8").replace("i32", "i4"))
         .reshape(port.shape) for p, port in zip(sys.argv[3:], model.inputs)]
call, best = model.session(), []
for _ in range(5):
    times, until = [], time.perf_counter() + float(sys.argv[2]) / 5
    while time.perf_counter() < until or len(times) < 5:
        start = time.perf_counter_ns(); call(*given); times.append(time.perf_counter_ns() - start)
    best.append(statistics.median(times))
print(min(best) / 1000)
"""


@dataclass(frozen=True)
class Times:
    """Of one round.

    Attributes:
        call_us: the lowest median of several repeats, through the C interface.
        python_us: the same through Python, outputs copied to new arrays.
        open_us: from the path to a session, without the weights' digest.
        cold_us: from the path to the first answer.
        peak_kib: the greatest resident memory of the C process.
    """

    call_us: float
    python_us: float
    open_us: float
    cold_us: float
    peak_kib: int


def timing_program() -> Path:
    """Return the program that times calls, compiled."""
    return compile_native("latency")


def compile_native(name: str) -> Path:
    """Compile a program of benchmarks/native against the installed library; return the executable."""
    spec = find_spec("alcove.runtime")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    (folder,) = {path.parent for place in places for path in (place / "libalcove.so",) if path.exists()} or {_build()}
    executable = BUILT / name
    BUILT.mkdir(parents=True, exist_ok=True)
    source = ROOT / f"benchmarks/native/{name}.c"
    command = ["gcc", "-O2", f"-I{ROOT}/runtime/native/include", str(source), f"-L{folder}", "-lalcove"]
    subprocess.run([*command, f"-Wl,-rpath,{folder}", "-o", str(executable)], check=True)
    return executable


def _build() -> Path:
    """Return the folder of the newest library that a build of this checkout left."""
    found = sorted((ROOT / "build").glob("*/runtime/native/libalcove.so"), key=lambda path: path.stat().st_mtime)
    return found[-1].parent


def cores_for(core: int, threads: int) -> str:
    """Return as many cores as threads, for taskset: this one, then the others, last first."""
    others = (other for other in reversed(range(os.cpu_count() or 1)) if other != core)
    return ",".join(map(str, [core, *others][:threads]))


def measure_native(
    executable: Path,
    program: Path,
    inputs: Sequence[Path],
    core: int,
    seconds: float,
    *,
    isa: str = "",
    threads: int = 1,
) -> dict[str, Any]:
    """Return what latency.c prints of one program, pinned to as many cores as threads; `isa` forces kernels."""
    arguments = [str(program), str(seconds), *map(str, inputs)]
    command = ["taskset", "-c", cores_for(core, threads), str(executable), *arguments]
    environment = {**os.environ, "LATENCY_THREADS": str(threads)} | ({"ALCOVE_ISA": isa} if isa else {})
    completed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return dict(json.loads(completed.stdout))


def measure(executable: Path, program: Path, inputs: Sequence[Path], core: int, seconds: float) -> Times:
    """Time one program, pinned to a core."""
    found = measure_native(executable, program, inputs, core, seconds)
    pinned = ["taskset", "-c", str(core)]
    arguments = [str(program), str(seconds), *map(str, inputs)]
    python = subprocess.run(
        [*pinned, sys.executable, "-c", PYTHON, *arguments], check=True, capture_output=True, text=True
    )
    return Times(
        min(found["medians_ns"]) / 1000,
        float(python.stdout),
        found["open_ns"] / 1000,
        found["cold_ns"] / 1000,
        found["peak_kib"],
    )
