"""Prints what a frame of a stream costs beside the run of its program, in microseconds: `python -m benchmarks.streams`.

The program is the shipped one of `bandwidth`, small and with state: what remains is the stream's own.  Medians.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from alcove.features.bandwidth import Bandwidth
from alcove.runtime import load
from alcove.sdk import Client

RUNS = 2000


def measure_us(action: Callable[[], object]) -> float:
    """Return the median time of a call, after a tenth as many that are not measured."""
    spent = []
    for turn in range(RUNS + RUNS // 10):
        start_ns = time.perf_counter_ns()
        action()
        if turn >= RUNS // 10:
            spent.append(time.perf_counter_ns() - start_ns)
    return median(spent) / 1000


def main() -> None:
    """Measure and print."""
    tick = np.zeros((1, 150), np.float32)
    session = load(Bandwidth().default_program).session()
    with (
        tempfile.TemporaryDirectory() as folder,
        Client("benchmark", Path(folder) / "device", "http://127.0.0.1:1", b"{}") as client,
    ):
        handle = client.feature(Bandwidth)
        with handle.stream() as plain, handle.stream(deadline_ms=1000) as timed, handle.stream() as submitted:
            answers = iter(submitted)

            def submit() -> None:
                submitted.submit(tick)
                next(answers)

            rows: dict[str, Callable[[], object]] = {
                "session alone": lambda: session(tick),
                "predict": lambda: handle.predict(tick),
                "process": lambda: plain.process(tick),
                "process, with a deadline": lambda: timed.process(tick),
                "submit, until its answer is taken": submit,
            }
            for name, action in rows.items():
                print(f"{name:<36}{measure_us(action):8.1f} us")


if __name__ == "__main__":
    main()
