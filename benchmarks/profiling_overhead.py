"""Measures the cost of timestamps in a run: `python -m benchmarks.profiling_overhead` prints it.

A hundred additions of one number, so that there is little else than the runtime's own loop; the best of some thousand.
"""

import sys
import time
from typing import Final

import numpy as np
from alcove.runtime import Session, _native, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly

ADDITIONS: Final = 100
RUNS: Final = 5000


def main() -> None:
    """Print both, in microseconds, and what reading the clock takes."""
    build = Assembly()
    one = build.constant("one", np.ones(1, np.float32))
    y = build.input("x", DType.F32, (1,))
    for _ in range(ADDITIONS):
        (y,) = build.op("binary", [y, one], (DType.F32, (1,)), attributes=(_native.functions("binary")["add"],))
    build.output("y", y)
    session = load(build.program()).session()
    given = np.ones(1, np.float32)
    plain = min(_once(session, given) for _ in range(RUNS))
    timestamps = session.timestamps([given], RUNS)
    profiled = int((timestamps[:, -1] - timestamps[:, 0]).min())
    sys.stdout.write(
        f"{ADDITIONS} additions: {plain / 1000:.2f} µs called from Python, {profiled / 1000:.2f} µs in a profiled run "
        f"that reads the clock {timestamps.shape[1]} times, {_native.clock_ns():.0f} ns each\n"
    )


def _once(session: Session, given: np.ndarray) -> int:
    start = time.perf_counter_ns()
    session(given)
    return time.perf_counter_ns() - start


if __name__ == "__main__":
    main()
