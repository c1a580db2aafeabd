"""Times a program in a process of its own: `python -m benchmarks.language_models.run PROGRAM METHOD THREADS SECONDS`.

Prints the least seconds of a call.  A session holds so many tokens; before it is full a new one begins.
"""

import sys
import time

import numpy as np
from alcove.runtime.model import load

from benchmarks.language_models.limits import LENGTHS, POSITIONS


def main() -> int:
    """Run for so many seconds, and at least five calls."""
    path, method, threads, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    model = load(path).method(method)
    tokens = np.random.default_rng(0).integers(0, 1000, (1, LENGTHS[method]))
    session = model.session(threads=threads)
    times: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 5:
        session.reset()
        for _ in range(POSITIONS // LENGTHS[method] // 2):
            start = time.perf_counter()
            session(tokens)
            times.append(time.perf_counter() - start)
            if time.perf_counter() > until:
                break
    print(min(times))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
