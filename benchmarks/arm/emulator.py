"""Builds for 64-bit ARM and counts the instructions that QEMU's emulator executes between two marks of a process."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.models.cases import BUILT, ROOT

EMULATOR: Final = "qemu-aarch64"
COMPILER: Final = "aarch64-linux-gnu-gcc"
SYSTEM: Final = Path("/usr/aarch64-linux-gnu")
LIBRARY: Final = ROOT / "build/aarch64/runtime/native"
PROCESSORS: Final = {"neon": "neoverse-n1", "neon_dotprod": "neoverse-n1", "neon_i8mm": "max,sve=off,sme=off"}
"""What is emulated for a level: Neoverse N1 has the instructions of Cortex-A55 and A76; the last more."""
RUNS: Final = 2
"""Between the marks; a count is of one."""
_MARK: Final = re.compile(r"^COUNT (\d+) (\d+) (\d+)$", re.MULTILINE)


class NotCountedError(RuntimeError):
    """Nothing was counted, and why."""


@dataclass(frozen=True)
class Count:
    """What one run executed.

    Attributes:
        instructions: outside the program's own file: without Python's interpreter, where that is it.
        multiply_adds: those of them that add products of vectors to sums.
    """

    instructions: int
    multiply_adds: int


def build_plugin() -> Path:
    """Compile the emulator's plugin that counts; return it."""
    BUILT.mkdir(parents=True, exist_ok=True)
    plugin = BUILT / "libcount.so"
    source = ROOT / "benchmarks/native/count_instructions.c"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(source), "-o", str(plugin)], check=True)
    return plugin


def build_library() -> Path:
    """Cross-compile libalcove.so where `make arm` does, and the program that runs models; return that."""
    folder = ROOT / "build/aarch64"
    beside = Path(sys.executable).parent / "cmake"
    cmake = str(beside) if beside.exists() else "cmake"
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'tools/aarch64.cmake'}"
    configure = [cmake, "-S", str(ROOT), "-B", str(folder), toolchain, "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    cores = str(len(os.sched_getaffinity(0)))
    build = [cmake, "--build", str(folder), "--target", "alcove", "--parallel", cores]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    executable = BUILT / "run_counted_arm"
    BUILT.mkdir(parents=True, exist_ok=True)
    source = ROOT / "benchmarks/native/run_counted.c"
    command = [COMPILER, "-O2", f"-I{ROOT}/runtime/native/include", str(source), f"-L{LIBRARY}", "-lalcove", "-lm"]
    subprocess.run([*command, f"-Wl,-rpath,{LIBRARY}", "-o", str(executable)], check=True)
    return executable


def count(
    plugin: Path,
    command: Sequence[str | Path],
    *,
    processor: str,
    system: Path = SYSTEM,
    variables: Sequence[str] = (),
    timeout_s: float = 900,
) -> Count:
    """Return what a program for 64-bit ARM executes in one of its `RUNS` runs between two calls of getppid().

    Args:
        plugin: what `build_plugin` returned.
        command: the program and its arguments.
        processor: the one that is emulated, by QEMU's name.
        system: the folder of its shared libraries.
        variables: of its environment, NAME=VALUE.
        timeout_s: seconds after which it is ended.

    Raises:
        NotCountedError: it failed, took too long, or set no marks.
    """
    given = [part for variable in variables for part in ("-E", variable)]
    whole = [EMULATOR, "-cpu", processor, "-L", system, "-plugin", plugin, "-d", "plugin", *given, *command]
    try:
        done = subprocess.run(
            [str(part) for part in whole], check=False, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise NotCountedError(f"no answer in {timeout_s:g} s") from None
    marks = [tuple(map(int, groups)) for groups in _MARK.findall(done.stderr + done.stdout)]
    if done.returncode != 0 or len(marks) != 2:
        lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("COUNT")]
        raise NotCountedError((lines[-1] if lines else f"exit code {done.returncode}")[:120])
    (_, first, first_adds), (_, last, last_adds) = marks
    return Count((last - first) // RUNS, (last_adds - first_adds) // RUNS)


def count_program(plugin: Path, executable: Path, program: Path, inputs: Sequence[Path], isa: str) -> Count:
    """Return what one run of a program executes with the kernels of a level.

    Raises:
        NotCountedError: it failed.
    """
    command: list[str | Path] = [executable, program, str(RUNS), *inputs]
    return count(plugin, command, processor=PROCESSORS[isa], variables=[f"ALCOVE_ISA={isa}"])
