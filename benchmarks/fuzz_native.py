"""Builds the libFuzzer targets of `runtime/native/fuzz` with clang and sanitizers, runs one, and replays its corpus.

The targets need Debian's clang, `replay` any compiler.  The corpus grows in `build/libfuzzer/corpus/TARGET`, from the
programs of `fuzz_seeds.py`; what crashed, leaked or hung a target stays in `runs/fuzz/`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.fuzz_seeds import seeds

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parent.parent
BUILT: Final = ROOT / "build/libfuzzer"
KEPT: Final = ROOT / "runs/fuzz"
TARGETS: Final = ("open", "run", "ops", "calls")
LONGEST_BYTES: Final = {"open": 32 << 10}
"""The longest seed with room, 48 KiB where it isn't named; longer inputs only take longer."""
QUARANTINE_MB: Final = {"open": 1}
"""What was freed and is not given out again, 16 MB where it isn't named: more than one input takes, and for the small
ones of `open` as much as stays in the processor's cache."""
HANG_S: Final = 30
BATCH: Final = 16
"""Files that one process of the driver gets."""
MEMORY_MB: Final = 2048
_LIMITS: Final = (
    f"-timeout={HANG_S}",
    f"-rss_limit_mb={MEMORY_MB}",
    "-print_final_stats=1",
    "-verbosity=1",
    "-reload=0",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a target did.

    Attributes:
        inputs: how many it was given.
        seconds: how long it took; of `robustness.py`, of a processor.
        corpus: inputs that reach something each, at the end; 0 where nothing guides.
        coverage: branches of the target that some input reached; 0 where nothing counts them.
        findings: files of inputs that broke it.
    """

    target: str
    inputs: int
    seconds: float
    corpus: int = 0
    coverage: int = 0
    findings: tuple[Path, ...] = ()


def build(targets: tuple[str, ...]) -> None:
    """Make the targets, with the address and undefined-behaviour sanitizers.

    Raises:
        subprocess.CalledProcessError: no clang, or it does not compile.
    """
    compilers = ["-DCMAKE_CXX_COMPILER=clang++", "-DCMAKE_C_COMPILER=clang"]
    _make(ROOT / "runtime/native/fuzz", BUILT, compilers, [f"fuzz_{target}" for target in targets])


def build_sanitized(target: str) -> Path:
    """Return the folder that holds a CMake target of the runtime, built with the sanitizers."""
    folder = ROOT / "build/fuzz-sanitize"
    _make(ROOT, folder, ["-DALCOVE_SANITIZE=ON"], [target])
    return folder / "runtime/native"


def _make(source: Path, folder: Path, options: list[str], targets: list[str]) -> None:
    beside = Path(sys.executable).parent / "cmake"
    cmake = str(beside) if beside.exists() else "cmake"
    configure = [cmake, "-S", str(source), "-B", str(folder), "-DCMAKE_BUILD_TYPE=RelWithDebInfo", *options]
    for command in (configure, [cmake, "--build", str(folder), f"--parallel={os.cpu_count()}", "--target", *targets]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def replay(driver: Path, isas: Sequence[str], files: Sequence[Path], seconds: float) -> Outcome:
    """Open and run the files on each instruction set, with threads and without, until `seconds` have passed.

    Args:
        driver: `alcove_driver`, built; it prints a line for each file, and ends badly where an answer differs.
        isas: names, as `ALCOVE_ISA` takes them.
        files: programs, valid or not.
        seconds: no further batch of files begins after them.
    """
    inputs, end = 0, time.monotonic() + seconds
    for first in range(0, len(files), BATCH):
        batch = files[first : first + BATCH]
        if first and time.monotonic() >= end:
            break
        for isa in isas:
            limit_s = HANG_S * len(batch)
            try:
                done = subprocess.run(
                    [driver, *batch], capture_output=True, check=False, timeout=limit_s, env=_driver_env(isa)
                )
                done_count, failed = done.stdout.count(b"\n"), done.returncode != 0
                print(done.stderr.decode("utf-8", "replace")[-4000:], file=sys.stderr, end="")
            except subprocess.TimeoutExpired as hung:
                done_count, failed = (hung.stdout or b"").count(b"\n"), True
            inputs += done_count
            if failed:  # leaks are found at the end, when no file is to blame
                blamed = batch[done_count : done_count + 1]
                return Outcome("driver", inputs, seconds, findings=_keep(blamed) or (KEPT,))
    return Outcome("driver", inputs, seconds)


def _driver_env(isa: str) -> dict[str, str]:
    sanitizers = {"ASAN_OPTIONS": "detect_stack_use_after_return=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    return {**os.environ, **sanitizers, "ALCOVE_ISA": isa}


def _keep(files: Sequence[Path]) -> tuple[Path, ...]:
    KEPT.mkdir(parents=True, exist_ok=True)
    return tuple(Path(shutil.copy(file, KEPT / f"driver-{file.name}.alc")) for file in files)


def corpus() -> list[Path]:
    """Return the programs that the targets `open` and `run` have found so far, seeds included."""
    return [path for target in ("open", "run") for path in sorted(seed(target).iterdir())]


def seed(target: str) -> Path:
    """Return the target's corpus, with its seeds in it and without those of other versions."""
    folder = BUILT / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("seed-*"):
        path.unlink()
    for name, program in seeds(target).items():
        (folder / f"seed-{name}").write_bytes(program)
    return folder


def fuzz(target: str, seconds: float, start: int) -> Outcome:
    """Run a target until `seconds` have passed or something broke it.

    Args:
        target: one of `TARGETS`, built.
        seconds: at least 1.
        start: of the random numbers, at least 1.
    """
    KEPT.mkdir(parents=True, exist_ok=True)
    before = set(KEPT.iterdir())
    command: list[str | Path] = [
        BUILT / f"fuzz_{target}",
        seed(target),
        f"-max_total_time={max(1, round(seconds))}",
        f"-seed={start}",
    ]
    command += [*_LIMITS, f"-max_len={LONGEST_BYTES.get(target, 48 << 10)}", f"-artifact_prefix={KEPT}/{target}-"]
    options = {
        "ASAN_OPTIONS": f"quarantine_size_mb={QUARANTINE_MB.get(target, 16)}",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False, env={**os.environ, **options})
    output = done.stderr.decode("utf-8", "replace")
    findings = tuple(sorted(set(KEPT.iterdir()) - before))
    if done.returncode != 0:
        print(output[-4000:], file=sys.stderr)
        findings = findings or (KEPT,)
    return parse(target, output, seconds, findings)


def parse(target: str, output: str, seconds: float, findings: tuple[Path, ...]) -> Outcome:
    """Return what libFuzzer said of a run."""

    def last(pattern: str) -> int:
        found = re.findall(pattern, output)
        return int(found[-1]) if found else 0

    return Outcome(
        target,
        last(r"stat::number_of_executed_units: (\d+)"),
        last(r"Done \d+ runs in (\d+) second") or seconds,
        last(r"corp: (\d+)"),
        last(r"cov: (\d+)"),
        findings,
    )
