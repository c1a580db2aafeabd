"""Fuzzes opening and running programs: `python -m benchmarks.fuzz --seconds N [--sanitize] [--seed N]`.

Mutated programs go through open and run in child processes, one for each instruction set of this machine. What they run
is `runtime/native/fuzz/driver.cpp`, built first; with --sanitize under the address and undefined-behaviour sanitizers,
where each program runs a second time with every tensor in a block of its own and must give the same answer.
Prints how many were accepted, and refused by which code. A crash or hang ends it with exit code 1; the program that did
it stays in `runs/fuzz/`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import IO

from alcove.runtime import _native
from alcove.runtime.format.reader import read_spec
from alcove.runtime.testing import samples
from alcove.runtime.testing_ops import op_samples

from benchmarks.mutations import Mutator

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "runs/fuzz"
HANG_S = 30.0
"""Longer than any accepted program of the driver's size takes under the sanitizers."""
ENVIRONMENT = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


class DriverError(Exception):
    """The child died or stopped answering.

    Attributes:
        why: "crash" or "hang".
        said: what it wrote to its error output.
    """

    def __init__(self, why: str, said: str) -> None:
        super().__init__(why)
        self.why = why
        self.said = said


class Driver:
    """A child process; one program in, one code out.

    Args:
        executable: what `build` gives.
        isa: the instruction set whose kernels run.
    """

    def __init__(self, executable: Path, isa: str) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            [executable, "-"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **ENVIRONMENT, "ALCOVE_ISA": isa},
        )

    def judge(self, program: bytes) -> str:
        """Return "ok", or the name of the code that refused the program.

        Raises:
            DriverError: the child crashed or hung.
        """
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(len(program).to_bytes(4, "little") + program)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._broken("crash") from None
        if not select.select([self._process.stdout], [], [], HANG_S)[0]:
            raise self._broken("hang")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._broken("crash")
        return line.decode("ascii").strip()

    def close(self) -> None:
        """Let the child end, which looks for leaks.

        Raises:
            DriverError: it did not end well.
        """
        code = self._end()
        if code != 0:
            raise self._broken("crash")
        self._said.close()

    def _end(self) -> int:
        """Close the pipes and return the exit code."""
        assert self._process.stdin
        assert self._process.stdout
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        return self._process.wait()

    def _broken(self, why: str) -> DriverError:
        self._process.kill()
        self._end()
        self._said.seek(0)
        with self._said:
            return DriverError(why, self._said.read().decode("utf-8", "replace"))


def build(*, sanitize: bool, target: str = "alcove_driver") -> Path:
    """Return the folder that holds the driver, or another CMake target of the runtime, built."""
    folder = ROOT / "build" / ("fuzz-sanitize" if sanitize else "fuzz")
    beside = Path(sys.executable).parent / "cmake"
    cmake = str(beside) if beside.exists() else "cmake"
    options = [f"-DALCOVE_SANITIZE={'ON' if sanitize else 'OFF'}", "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    for command in (
        [cmake, "-S", str(ROOT), "-B", str(folder), *options],
        [cmake, "--build", str(folder), "--target", target, "--parallel"],
    ):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder / "runtime/native"


def keep(program: bytes, why: str) -> Path:
    """Return the path of the file that now holds `program`."""
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{why}-{hashlib.sha256(program).hexdigest()[:16]}.alc"
    path.write_bytes(program)
    return path


def fuzz(drivers: list[Driver], mutator: Mutator, seconds: float) -> Counter[str]:
    """Return how often each code came; ends early, with a message and exit code 1, on a crash or hang."""
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    program = b""
    try:
        while time.monotonic() < end:
            program = mutator.next()
            counts[drivers[counts.total() % len(drivers)].judge(program)] += 1
        program = b""
        for driver in drivers:
            driver.close()
    except DriverError as broken:
        print(broken.said, file=sys.stderr)
        sys.exit(
            f"{broken.why} after {counts.total()} inputs; kept: {keep(program, broken.why) if program else 'none'}"
        )
    return counts


def main() -> None:
    """Build, fuzz, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument(
        "--sanitize", action="store_true", help="build with the address and undefined-behaviour sanitizers"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = parser.parse_args()
    print(f"building; seed {given.seed}", flush=True)
    executable = build(sanitize=given.sanitize) / "alcove_driver"
    drivers = [Driver(executable, isa) for isa in _native.machine_isas()]
    programs = [(program, read_spec(program)) for program in (samples() | op_samples()).values()]
    counts = fuzz(drivers, Mutator(programs, given.seed), given.seconds)
    accepted = counts.pop("ok", 0)
    print(
        f"inputs {accepted + counts.total()}, accepted and run {accepted}, refused {counts.total()}; no crash, no hang"
    )
    for code, count in counts.most_common():
        print(f"  {count:9,} {code}")


if __name__ == "__main__":
    main()
