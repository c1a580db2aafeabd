"""Measures a program's times and memory in a process of its own: `python -m alcove.platform.cli.timing`.

It imports the runtime alone, so that what it reports beyond the bare process is the program's.
"""

import contextlib
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Final

GROUP_NS: Final = 20_000
"""Short calls are timed in groups of about this long: the clock itself takes some 50 ns."""


def resident_bytes(field: str) -> int | None:
    """Return a size of this process, "VmRSS" or "VmHWM" (its peak); None where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


def forget_peak() -> None:
    """Let "VmHWM" begin at what is resident now: imports took more for a while."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def pin(core: int, threads: int = 1) -> bool:
    """Pin this process to a core, and to those before it for more threads; return whether the system lets it."""
    if not hasattr(os, "sched_setaffinity"):
        return False
    try:
        others = sorted(os.sched_getaffinity(0) - {core}, key=lambda other: (other > core, -other))
        os.sched_setaffinity(0, {core, *others[: threads - 1]})
    except OSError:
        return False
    return threads <= 1 + len(others)


def measure(program: str, inputs_file: str, seconds: float, threads: int = 1) -> dict[str, Any]:
    """Load a program, run it, and time calls of it for some seconds.

    Args:
        program: its path.
        inputs_file: an .npz with "0", "1", ...; a text is an array of one str.
        seconds: of calls.
        threads: of the session.

    Returns:
        microseconds `p50_us`, `p95_us`, `cold_us`; `memory_bytes` beyond the bare process or None; `isa`; `threads`.
    """
    import numpy as np  # noqa: PLC0415 - part of the bare process, loaded when it is pinned
    from alcove.runtime import _native  # noqa: PLC0415
    from alcove.runtime.model import load  # noqa: PLC0415

    with np.load(inputs_file) as file:
        arrays = [file[str(index)] for index in range(len(file.files))]
    inputs = [str(array) if array.dtype.kind == "U" else array for array in arrays]
    forget_peak()
    bare = resident_bytes("VmRSS")
    start = time.perf_counter_ns()
    model = load(program)
    session = model.session(threads=threads)
    session(*inputs)
    cold_ns = time.perf_counter_ns() - start
    start = time.perf_counter_ns()
    session(*inputs)
    one_ns = max(1, time.perf_counter_ns() - start)
    peak = resident_bytes("VmHWM")  # a run allocates nothing, so it has been reached; the list of times is ours
    group = range(max(1, GROUP_NS // one_ns))
    times: list[float] = []
    until = time.perf_counter_ns() + int(seconds * 1e9)
    while len(times) < 3 or time.perf_counter_ns() < until:
        start = time.perf_counter_ns()
        for _ in group:
            session(*inputs)
        times.append((time.perf_counter_ns() - start) / len(group))
    return {
        "p50_us": statistics.median(times) / 1000,
        "p95_us": statistics.quantiles(times, n=20, method="inclusive")[-1] / 1000,
        "cold_us": cold_ns / 1000,
        "memory_bytes": None if bare is None or peak is None else max(0, peak - bare),
        "isa": _native.isa(),
        "threads": threads,
    }


def main(arguments: list[str]) -> None:
    """Print one line of JSON: what was measured, or the error that the runtime gave."""
    program, inputs_file, seconds, core, threads = arguments
    is_pinned = pin(int(core), int(threads))
    from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415 - after pinning, as all that is loaded

    try:
        found = measure(program, inputs_file, float(seconds), int(threads)) | {"is_pinned": is_pinned}
    except AlcoveRuntimeError as error:
        found = {"error": type(error).__name__, "message": str(error)}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
