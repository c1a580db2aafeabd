"""`alcove bench`: measures the latency, cold load, memory and size of programs on this machine."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from alcove.platform.cli.output import print_rows, show_progress
from alcove.runtime.errors import AlcoveRuntimeError, IsaError

__all__ = ["Subject", "bench_command", "time_once"]

SPARE_BYTES: Final = 4 << 20
"""What a process may take beyond a program's bytes: the promise of the runtime."""


@dataclass(frozen=True)
class Subject:
    """A program at one size.

    Attributes:
        name: for people.
        path: of the program.
        size: the sizes, "" if they are fixed.
        inputs: file of its inputs, an .npz.
    """

    name: str
    path: Path
    size: str
    inputs: Path


@dataclass(frozen=True)
class Timing:
    """One row.

    Attributes:
        program: its name.
        size: its sizes, "" if they are fixed.
        isa: whose kernels ran.
        p50_us: the lowest of the rounds' medians, called from Python.
        p95_us: of that round.
        cold_us: from the path to the first answer, at best.
        memory_bytes: most resident memory beyond the bare process; None where the system does not say.
        allowed_bytes: the program's bytes and 4 MiB.
        program_bytes: of the file.
        ratio: p50 beside that of the fastest instruction set of this program and size.
        threads: that ran it.
        is_pinned: whether it ran on as many cores alone.
    """

    program: str
    size: str
    isa: str
    p50_us: float
    p95_us: float
    cold_us: float
    memory_bytes: int | None
    allowed_bytes: int
    program_bytes: int
    ratio: float
    threads: int
    is_pinned: bool


def bench_command(
    *,
    programs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PROGRAM.alc]...", help="Programs; none: those of the features that come with alcove, and x + 1."
        ),
    ] = None,
    isa: Annotated[
        list[str] | None,
        typer.Option(
            help="Instruction set of the kernels: scalar, avx2, … or all that are here, to compare; repeatable."
        ),
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=1, max=100, help="Number of rounds; each measures every row in a fresh process.")
    ] = 3,
    seconds: Annotated[
        float, typer.Option(min=0.001, max=60, help="Seconds for which one row is measured in each round.")
    ] = 0.5,
    core: Annotated[
        int | None, typer.Option(min=0, help="Number of the processor core to measure on; by default the last.")
    ] = None,
    threads: Annotated[
        int,
        typer.Option(
            min=1, max=16, help="Number of threads of a session; each has a core of its own if there are enough."
        ),
    ] = 1,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="File to write the rows to, as JSON.")
    ] = None,
) -> None:
    """Time programs on this machine, called from Python: p50, p95, cold load to the first answer, memory, size.

    Inputs are those of a program's certificate, else made from its signature: at the least, a middle and the greatest
    size where sizes vary. A program is timed as it is installed, mapped from a file that nobody may write. Rows take
    turns, each in a process of its own on one core, or on as many as it has threads. `make bench` compares with peers.
    """
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise typer.BadParameter(f"{json_file.absolute().parent} is no folder", param_hint="--json")
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if core is not None and cores and core not in cores:
        raise typer.BadParameter(f"{core} is none of {', '.join(map(str, cores))}", param_hint="--core")
    with tempfile.TemporaryDirectory(prefix="alcove-bench-") as temporary:
        subjects = _subjects(programs, Path(temporary))
        at = core if core is not None else max(cores, default=0)
        rows = _time_subjects(
            subjects, _isas(isa), rounds, lambda s, forced: time_once(s, forced, seconds, at, threads)
        )
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")
    print_rows([_format_row(row) for row in rows], as_json=False, empty="", title=_title(rows, at, threads))


def _subjects(programs: Sequence[Path] | None, folder: Path) -> list[Subject]:
    import numpy as np  # noqa: PLC0415 - other verbs do not need the runtime
    from alcove.platform.cli.synthetic_inputs import timed_inputs  # noqa: PLC0415
    from alcove.runtime import InputError, ProgramError, load  # noqa: PLC0415

    subjects = []
    for number, (name, path) in enumerate(_select_programs(programs, folder)):
        data = path.read_bytes()
        try:
            sets = timed_inputs(data, load(data))
        except (ProgramError, InputError) as error:
            raise AlcoveRuntimeError(f"{path}: {error}") from error
        installed = folder / f"{number}.alc"
        installed.write_bytes(data)
        installed.chmod(0o444)  # so that it is mapped, as on a device
        for index, timed in enumerate(sets):
            file = folder / f"{number}.{index}.npz"
            np.savez(file, allow_pickle=False, **{str(at): np.asarray(v) for at, v in enumerate(timed.inputs)})
            subjects.append(Subject(name, installed, timed.size, file))
    return subjects


def _select_programs(programs: Sequence[Path] | None, folder: Path) -> list[tuple[str, Path]]:
    if programs:
        return [(path.name, path) for path in programs]
    import numpy as np  # noqa: PLC0415
    from alcove.features import catalogue  # noqa: PLC0415
    from alcove.runtime import _native  # noqa: PLC0415
    from alcove.runtime.format.spec import DType  # noqa: PLC0415
    from alcove.runtime.testing import Assembly  # noqa: PLC0415

    build = Assembly()
    one = build.constant("one", np.ones(1, np.float32))
    x = build.input("x", DType.F32, (1,))
    add = _native.functions("binary")["add"]
    build.output("y", build.op("binary", [x, one], (DType.F32, (1,)), attributes=(add,))[0])
    smallest = folder / "call.alc"
    smallest.write_bytes(build.program())
    features = sorted(feature.default_program.parent for feature in catalogue().values())
    return [("call (x + 1)", smallest)] + [
        (path.stem, path) for parent in features for path in sorted(parent.glob("*.alc"))
    ]


def _isas(asked: Sequence[str] | None) -> list[str]:
    """Return values of ALCOVE_ISA; "" is the machine's best, or what the environment says."""
    from alcove.runtime import _native  # noqa: PLC0415

    if not asked:
        return [os.environ.get("ALCOVE_ISA", "")]
    return list(dict.fromkeys(name for one in asked for name in (_native.machine_isas() if one == "all" else [one])))


def time_once(subject: Subject, isa: str, seconds: float, core: int, threads: int = 1) -> dict[str, Any]:
    """Return what a process of its own measures (see timing.py); an empty `isa` leaves the choice to the runtime.

    Raises:
        IsaError: there is no such instruction set here.
        AlcoveRuntimeError: the program could not be timed.
    """
    arguments = [str(subject.path), str(subject.inputs), str(seconds), str(core), str(threads)]
    done = subprocess.run(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "alcove.platform.cli.timing", *arguments],
        env={**os.environ, "ALCOVE_ISA": isa},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise AlcoveRuntimeError(f"{subject.name} was not timed: its process ended with {done.returncode}: {last}")
    found: dict[str, Any] = json.loads(done.stdout)
    if "error" in found:
        is_isa = found["error"] == IsaError.__name__
        raise IsaError(isa, found["message"]) if is_isa else AlcoveRuntimeError(f"{subject.name}: {found['message']}")
    return found


def _time_subjects(
    subjects: Sequence[Subject], isas: Sequence[str], rounds: int, run: Callable[[Subject, str], dict[str, Any]]
) -> list[Timing]:
    cells = list(product(subjects, isas))
    turns = [cell for _ in range(rounds) for cell in cells]
    found: dict[tuple[Subject, str], list[dict[str, Any]]] = {cell: [] for cell in cells}
    with show_progress() as progress:
        for cell in progress.track(turns, description="timing"):
            found[cell].append(run(*cell))
    fastest: dict[Subject, float] = {}
    for (subject, _), times in found.items():
        least = min(one["p50_us"] for one in times)
        fastest[subject] = min(least, fastest.get(subject, least))
    return [_timing(subject, times, fastest[subject]) for (subject, _), times in found.items()]


def _timing(subject: Subject, times: Sequence[dict[str, Any]], fastest: float) -> Timing:
    best = min(times, key=lambda one: float(one["p50_us"]))
    memory = [one["memory_bytes"] for one in times if one["memory_bytes"] is not None]
    size = subject.path.stat().st_size
    return Timing(
        program=subject.name,
        size=subject.size,
        isa=best["isa"],
        p50_us=best["p50_us"],
        p95_us=best["p95_us"],
        cold_us=min(one["cold_us"] for one in times),
        memory_bytes=max(memory, default=None),
        allowed_bytes=size + SPARE_BYTES,
        program_bytes=size,
        ratio=best["p50_us"] / fastest,
        threads=best["threads"],
        is_pinned=all(one["is_pinned"] for one in times),
    )


def _format_row(row: Timing) -> dict[str, str]:
    return {
        "program": row.program,
        "size": row.size or "–",
        "kernels": row.isa,
        "p50": _micros(row.p50_us),
        "p95": _micros(row.p95_us),
        "ratio": f"{row.ratio:.2f}×",
        "cold_load": _micros(row.cold_us),
        "memory": "–" if row.memory_bytes is None else _bytes(row.memory_bytes),
        "allowed": _bytes(row.allowed_bytes),
        "program_size": _bytes(row.program_bytes),
    }


def _title(rows: Sequence[Timing], core: int, threads: int) -> str:
    cores = f"on core {core}" if threads == 1 else f"of {threads} threads on as many cores"
    where = cores if all(row.is_pinned for row in rows) else "not pinned, so read them with care"
    return f"Times {where}; memory is beyond the bare process, beside what is allowed: the program and 4 MiB"


def _micros(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:,.2f} ms"
    return f"{value:,.2f} µs" if value < 100 else f"{value:,.0f} µs"


def _bytes(value: int) -> str:
    return f"{value / (1 << 20):,.2f} MiB" if value >= 1 << 20 else f"{value / 1024:,.0f} KiB"
