"""Time language models: `python -m benchmarks.language_models [--only MODEL] [--json FILE] [--write PAGE]`.

Programs are exported first, which takes minutes; then each is timed for prompts and for single tokens, with one thread
and with two, and other engines by turns with the program of 4 bits (`peers.py`).
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from alcove.runtime.profile.machine import Machine, calibrate
from rich.table import Table

from benchmarks.language_models.cases import MODES, Built, build
from benchmarks.language_models.limits import LENGTHS, POSITIONS, PROMPT
from benchmarks.language_models.models import SHAPES
from benchmarks.language_models.peers import FILES, MODE, Peer, build_peers
from benchmarks.models.alcove import cores_for
from benchmarks.options import progress, timing_parser, wide_console, write_json
from benchmarks.sections import Section, table_lines

SECTION = Section("language models", "python -m benchmarks.language_models --write")
COLUMNS = ("model", "weights", "entry", "threads", "tokens/s", "a call", "weights read", "floor", "of floor")
SECTION_BESIDE = Section("language models beside other engines", "python -m benchmarks.language_models --write")
BESIDE = ("model", "entry", "threads", "alcove", *FILES, "to the best")
Engines = tuple[Sequence[Built], Sequence[Peer]]
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
        peers_ms: the least time of a call of other engines with a model of the same shape.
    """

    model: str
    mode: str
    entry: str
    threads: int
    call_ms: float
    tokens: int
    weight_mb: float
    floor_ms: float
    peers_ms: dict[str, float]

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row, in the order of `COLUMNS`."""
        return (
            self.model,
            self.mode,
            self.what,
            str(self.threads),
            self.rate(self.call_ms),
            f"{self.call_ms:,.2f} ms",
            f"{self.weight_mb:,.0f} MB",
            f"{self.floor_ms:,.2f} ms",
            f"{self.floor_ms / self.call_ms:.2f}",
        )

    def cells_beside(self) -> tuple[str, ...]:
        """Return the cells of the row beside peers, in the order of `BESIDE`."""
        rates = [self.rate(self.peers_ms[peer]) if peer in self.peers_ms else "–" for peer in FILES]
        ratio = f"{min(self.peers_ms.values()) / self.call_ms:.2f}×"
        return (self.model, self.what, str(self.threads), self.rate(self.call_ms), *rates, ratio)

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells it from other rows."""
        return self.model, self.mode, self.entry, self.threads

    @property
    def what(self) -> str:
        """What a call takes."""
        return f"prompt of {self.tokens}" if self.tokens > 1 else "a token"

    def rate(self, call_ms: float) -> str:
        """Return tokens a second of calls that take so long."""
        return f"{1000 * self.tokens / call_ms:,.0f}"


def main() -> int:
    """Measure, print, write."""
    parser = timing_parser("benchmarks.language_models", __doc__, list(SHAPES), rounds=3, seconds=1.0)
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section into a page")
    parser.add_argument("--modes", nargs="*", default=[mode or "float32" for mode in MODES], help="float32, …")
    parser.add_argument(
        "--keep", action="store_true", help="keep the least of what the JSON file holds and of this run"
    )
    parser.add_argument("--programs", type=Path, metavar="FOLDER", help="keep programs there, and take what lies there")
    options = parser.parse_args()
    console = wide_console()
    with progress(console) as say, tempfile.TemporaryDirectory(prefix="alcove-lm-") as temporary:
        folder = options.programs or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for name in options.only or SHAPES:
            for mode in options.modes:
                say(f"{name} {mode}: export")
                built = build(name, None if mode == "float32" else mode, folder, say)
                peers = build_peers(name, folder) if mode == MODE else []
                rows += measure(name, mode, (built, peers), options, say)
    if options.keep and options.json and options.json.exists():
        rows = merge([Row(**row) for row in json.loads(options.json.read_text(encoding="utf-8"))], rows)
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*row.cells())
    console.print(table)
    beside = Table(*BESIDE)
    for row in rows:
        if row.peers_ms:
            beside.add_row(*row.cells_beside())
    console.print(beside)
    write_json(options.json, [asdict(row) for row in rows])
    if options.write:
        if {row.mode for row in rows} == {mode or "float32" for mode in MODES}:
            SECTION.write(options.write, as_markdown(rows), {})
        if any(row.peers_ms for row in rows):
            SECTION_BESIDE.write(options.write, beside_lines(rows), {})
    return 0


def merge(before: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Return the rows of two runs, with the least times of those that both have."""
    found = {row.key: row for row in before}
    for row in rows:
        known = found.get(row.key, row)
        peers = {
            name: min(row.peers_ms.get(name, took), known.peers_ms.get(name, took))
            for name, took in {**known.peers_ms, **row.peers_ms}.items()
        }
        found[row.key] = replace(
            row,
            call_ms=min(row.call_ms, known.call_ms),
            floor_ms=min(row.floor_ms, known.floor_ms),
            peers_ms=peers,
        )
    return sorted(found.values(), key=lambda row: (list(SHAPES).index(row.model), row.mode, -row.tokens, row.threads))


def measure(
    name: str, mode: str, engines: Engines, options: argparse.Namespace, say: Callable[[str], None]
) -> list[Row]:
    """Time the methods of one model and its peers by turns, the machine's limits with the same threads between them."""
    built, peers = engines
    least: dict[tuple[str, int], float] = {}
    others: dict[tuple[str, int], dict[str, float]] = {}
    machines: dict[int, list[Machine]] = {1: [], 2: []}
    for _ in range(options.rounds):
        for threads, seen in machines.items():
            seen.append(calibrate(threads))
            for program in built:
                say(f"{name} {mode} {program.entry}, {threads} threads")
                took = call_s(program, threads, options.core, options.seconds)
                key = program.entry, threads
                least[key] = min(took, least.get(key, took))
                for peer in peers:
                    seconds = peer.call_s(program.entry, threads, options.core, options.seconds)
                    known = others.setdefault(key, {})
                    if seconds is not None:
                        known[peer.name] = min(1000 * seconds, known.get(peer.name, 1000 * seconds))
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
            peers_ms=others.get((program.entry, threads), {}),
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
    arguments = [str(program.path), program.entry, str(threads), str(seconds)]
    command = ["taskset", "-c", cores_for(core, threads), *module, *arguments]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def as_markdown(rows: Sequence[Row]) -> str:
    """Return the section of docs/performance.md."""
    lines = [
        "## Language models",
        "",
        "Random weights in the shapes of two models, batch 1: the least time of a call, programs and threads by turns,",
        f"each in a process of its own. A prompt is {PROMPT} tokens into an empty cache of {POSITIONS:,} positions,",
        "with the head for the last alone; a token is one of the first 512. They are two methods of one program.",
        "The floor is all products at this machine's measured peak (of int8 for quantized weights) or all weights at",
        "the bandwidth at which one stream of each thread reads a block that no cache holds, whichever takes longer;",
        "products read several streams, so that a token can take less.",
        "",
        *table_lines(COLUMNS, (row.cells() for row in rows)),
    ]
    return "\n".join(lines)


def beside_lines(rows: Sequence[Row]) -> str:
    """Return the section about other engines."""
    lines = [
        "## Language models beside other engines",
        "",
        f"Tokens a second: alcove's {MODE}, llama.cpp's Q4_0 (built for this machine; keys and",
        "values of 16 bits, weights repacked at load) and ONNX Runtime's 4 bits with int8 activations (block 32,",
        "accuracy level 4, by its model builder, which has no GPT-2), random weights of the same shapes and groups",
        "of 32 with a scale of 16 bits, turn by turn, each in a process of its own, the least time of a call.",
        "",
        *table_lines(BESIDE, (row.cells_beside() for row in rows if row.peers_ms)),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    raise SystemExit(main())
