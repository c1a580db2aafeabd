"""Times a program in a process of its own: `python -m benchmarks.language_models.run PROGRAM LENGTH THREADS SECONDS`.

Prints the least seconds of a call.  A session holds so many tokens; before it is full a new one begins.
"""

import sys
import time

import numpy as np
from alcove.runtime.model import load

from benchmarks.language_models.limits import POSITIONS


def main() -> int:
    """Run for so many seconds, and at least five calls."""
    path, length, threads, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    model = load(path)
    tokens = np.random.default_rng(0).integers(0, 1000, (1, length))
    times: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 5:
        session = model.session(threads=threads)
        for _ in range(POSITIONS // length // 2):
            start = time.perf_counter()
            session(tokens)
            times.append(time.perf_counter() - start)
            if time.perf_counter() > until:
                break
    print(min(times))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
