"""Time language models: `python -m benchmarks.language_models [--only MODEL] [--json FILE] [--write PAGE]`.

Programs are exported first, which takes minutes; then each is timed for prompts and for single tokens, with one thread
and with two.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from alcove.runtime.profile.machine import Machine, calibrate
from rich.table import Table

from benchmarks.language_models.cases import LENGTHS, MODES, PROMPT, Built, build
from benchmarks.language_models.limits import POSITIONS
from benchmarks.language_models.models import SHAPES
from benchmarks.models.alcove import cores_for
from benchmarks.options import progress, timing_parser, wide_console, write_json
from benchmarks.sections import Section, table_lines

SECTION = Section("language models", "python -m benchmarks.language_models --write")
COLUMNS = ("model", "weights", "entry", "threads", "tokens/s", "a call", "weights read", "floor", "of floor")
READ_BYTES = 1 << 26
"""A block that no cache holds: as weights are read."""


@dataclass(frozen=True)
class Row:
    """One program with so many threads.

    Attributes:
        model: its name.
        mode: how its weights are stored.
        entry: "prefill" or "decode".
        threads: that computed.
        call_ms: the least time of a call.
        tokens: of a call.
        weight_mb: megabytes of weights that a call reads at least once.
        floor_ms: what products at the machine's peak or weights at its bandwidth take, whichever is more.
    """

    model: str
    mode: str
    entry: str
    threads: int
    call_ms: float
    tokens: int
    weight_mb: float
    floor_ms: float

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row, in the order of `COLUMNS`."""
        return (
            self.model,
            self.mode,
            f"prompt of {self.tokens}" if self.tokens > 1 else "a token",
            str(self.threads),
            f"{1000 * self.tokens / self.call_ms:,.0f}",
            f"{self.call_ms:,.2f} ms",
            f"{self.weight_mb:,.0f} MB",
            f"{self.floor_ms:,.2f} ms",
            f"{self.floor_ms / self.call_ms:.2f}",
        )


def main() -> int:
    """Measure, print, write."""
    parser = timing_parser("benchmarks.language_models", __doc__, list(SHAPES), rounds=3, seconds=1.0)
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section into a page")
    parser.add_argument("--programs", type=Path, metavar="FOLDER", help="keep programs there, and take what lies there")
    options = parser.parse_args()
    console = wide_console()
    with progress(console) as say, tempfile.TemporaryDirectory(prefix="alcove-lm-") as temporary:
        folder = options.programs or Path(temporary)
        rows = []
        for name in options.only or SHAPES:
            for mode in MODES:
                say(f"{name} {mode}: export")
                built = build(name, mode, folder)
                rows += measure(name, mode or "float32", built, options, say)
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)
    write_json(options.json, [asdict(row) for row in rows])
    if options.write:
        SECTION.write(options.write, as_markdown(rows), {})
    return 0


def measure(
    name: str, mode: str, built: Sequence[Built], options: argparse.Namespace, say: Callable[[str], None]
) -> list[Row]:
    """Time the programs of one model by turns, the machine's limits with the same threads between them."""
    least: dict[tuple[str, int], float] = {}
    machines: dict[int, list[Machine]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for threads, seen in machines.items():
            seen.append(calibrate(threads))
            for program in built:
                say(f"{name} {mode} {program.entry}, {threads} threads")
                took = call_s(program, threads, options.core, options.seconds)
                key = program.entry, threads
                least[key] = min(took, least.get(key, took))
    return [
        Row(
            model=name,
            mode=mode,
            entry=program.entry,
            threads=threads,
            call_ms=1000 * least[program.entry, threads],
            tokens=LENGTHS[program.entry],
            weight_mb=program.weight_bytes / 1e6,
            floor_ms=floor_ms(program, mode, seen),
        )
        for program in built
        for threads, seen in machines.items()
    ]


def floor_ms(program: Built, mode: str, seen: Sequence[Machine]) -> float:
    """Return the longer of products at the peak and of weights at the bandwidth, the best that was seen of both."""
    peak = max(machine.peak("f32" if mode == "float32" else "i8") for machine in seen)
    bandwidth = max(machine.bandwidth(READ_BYTES) for machine in seen)
    return max(2 * program.products / peak, program.weight_bytes / bandwidth) / 1e6


def call_s(program: Built, threads: int, core: int, seconds: float) -> float:
    """Return the least seconds of a call, in a process of its own on its own cores."""
    module = [sys.executable, "-m", "benchmarks.language_models.run"]
    arguments = [str(program.path), str(LENGTHS[program.entry]), str(threads), str(seconds)]
    command = ["taskset", "-c", cores_for(core, threads), *module, *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the section of docs/performance.md."""
    lines = [
        "## Language models",
        "",
        "Random weights in the shapes of two models, batch 1: the least time of a call, programs and threads by turns,",
        f"each in a process of its own. A prompt is {PROMPT} tokens into an empty cache of {POSITIONS:,} positions,",
        "with the head for the last alone; a token is one of the first 512. Prompts and tokens are two programs here.",
        "The floor is all products at this machine's measured peak (of int8 for quantized weights) or all weights at",
        "the bandwidth at which one stream of each thread reads a block that no cache holds, whichever takes longer;",
        "products read several streams, so that a token can take less.",
        "",
        *table_lines(COLUMNS, (row.cells() for row in rows)),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
