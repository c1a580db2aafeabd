"""Time each kernel under each instruction set that is here: `python -m benchmarks.kernels [--only OP] [--json FILE]`.

The manifest lists the optimized kernels; `kernel_cases.py` has a program for each.
"""

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import alcove.runtime._native as native
import numpy as np
from alcove.platform.cli.synthetic_inputs import timed_inputs
from alcove.runtime import load
from rich.table import Table

from benchmarks.kernel_cases import CASES
from benchmarks.models.alcove import measure_native, timing_program
from benchmarks.options import progress, timing_parser, wide_console, write_json
from benchmarks.sections import micros


@dataclass(frozen=True)
class Row:
    """One kernel.

    Attributes:
        op: its operator.
        dtype: its type, as the manifest names it.
        times_us: the lowest median under each instruction set, through the C interface: inputs copied in, and a run.
    """

    op: str
    dtype: str
    times_us: dict[str, float]

    @property
    def ratio(self) -> float:
        """How many times as long the scalar reference takes as the best."""
        return self.times_us["scalar"] / min(self.times_us.values())


def measure(
    keys: Iterable[tuple[str, str]], rounds: int, seconds: float, core: int, say: Callable[[str], None]
) -> list[Row]:
    """Time the cases under every instruction set that this machine has, by turns."""
    rows, executable = [], timing_program()
    with tempfile.TemporaryDirectory(prefix="alcove-kernels-") as temporary:
        for op, dtype in keys:
            program, inputs = files_of_case(CASES[op, dtype](), Path(temporary) / f"{op} {dtype}")
            times: dict[str, float] = {}
            for _ in range(rounds):
                for isa in native.machine_isas():
                    say(f"{op} {dtype} {isa}")
                    medians = measure_native(executable, program, inputs, core, seconds, isa=isa)["medians_ns"]
                    times[isa] = min(min(medians) / 1000, times.get(isa, float("inf")))
            rows.append(Row(op, dtype, times))
    return rows


def files_of_case(program: bytes, folder: Path) -> tuple[Path, list[Path]]:
    """Write a program, read-only so that it is mapped, and its inputs into a new folder; return their files."""
    folder.mkdir()
    path = folder / "case.alc"
    path.write_bytes(program)
    path.chmod(0o444)
    (timed,) = timed_inputs(program, load(program))
    files = [path.with_suffix(f".{index}.bin") for index in range(len(timed.inputs))]
    for file, values in zip(files, timed.inputs, strict=True):
        file.write_bytes(np.asarray(values).tobytes())
    return path, files


def main() -> None:
    """Measure and print."""
    names = sorted({op for op, _ in CASES})
    options = timing_parser("benchmarks.kernels", __doc__, names, rounds=2, seconds=0.1).parse_args()
    keys = [key for key in CASES if key[0] in (options.only or [key[0]])]
    console = wide_console()
    with progress(console) as say:
        rows = measure(keys, options.rounds, options.seconds, options.core, say)
    isas = native.machine_isas()
    table = Table("operator", "type", *isas, "scalar / best")
    for row in rows:
        table.add_row(row.op, row.dtype, *(micros(row.times_us[isa]) for isa in isas), f"{row.ratio:.1f}×")
    console.print(table)
    write_json(options.json, [asdict(row) for row in rows])


if __name__ == "__main__":
    main()
