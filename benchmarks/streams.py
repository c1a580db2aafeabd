"""Prints what a frame of a stream costs beside the run of its program, in microseconds: `python -m benchmarks.streams`.

The program is the shipped one of `bandwidth`, small and with state: what remains is the stream's own.  Medians.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from alcove.features.bandwidth import Bandwidth
from alcove.runtime import load
from alcove.sdk import Client

from benchmarks.__main__ import machine
from benchmarks.options import write_json
from benchmarks.sections import Section, table_lines

SECTION: Final = Section("streams", "python -m benchmarks.streams --write docs/performance.md")
ABOUT: Final = "The shipped program of `bandwidth`, small and with state, in a stream of the SDK: medians of a frame."
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


def measure() -> dict[str, float]:
    """Return the microseconds of each way to run a frame."""
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
            return {name: measure_us(action) for name, action in rows.items()}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the figures into a page")
    options = parser.parse_args()
    found = measure()
    for name, took_us in found.items():
        print(f"{name:<36}{took_us:8.1f} us")
    write_json(options.json, [{"case": name, "us": took_us} for name, took_us in found.items()])
    if options.write:
        lines = table_lines(("case", "a frame"), [(name, f"{took_us:.1f} µs") for name, took_us in found.items()])
        page = ["## Frames of a stream", "", f"On {machine()}.", "", ABOUT, "", *lines]
        SECTION.write(options.write, "\n".join(page), {})


if __name__ == "__main__":
    main()
