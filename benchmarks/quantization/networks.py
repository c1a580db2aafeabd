"""Measures int8 on whole networks beside ONNX Runtime's and torchao's: `python -m benchmarks.quantization.networks`.

Networks with published weights and networks trained here (`benchmarks.quantization.train`); those without weights are
left out.  The others are measured where they can be imported, with the same samples: see `peers`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from alcove.runtime import export, load

from benchmarks.__main__ import machine
from benchmarks.quantization import data, peers, pretrained, published
from benchmarks.quantization.network import Network, Recorder, accuracy, noise_db
from benchmarks.quantization.train import PLAN, normalize

if TYPE_CHECKING:
    from collections.abc import Iterator

START: Final = "<!-- networks: written by `python -m benchmarks.quantization.networks --write` -->"
END: Final = "<!-- end of networks -->"
SAMPLES: Final = 16
BATCH: Final = 8


def networks(folder: Path, only: list[str] | None = None) -> Iterator[Network]:
    """Yield those whose weights and data are there, of `only` if it names some."""
    for name in PLAN:
        if (folder / f"{name}.pt").is_file() and (only is None or name in only):
            yield _load_trained(name, folder)
    for name, make in published.ALL.items():
        if (pretrained.SHARED / name).is_dir() and (only is None or name in only):
            yield make()


def _load_trained(name: str, folder: Path) -> Network:
    plan = PLAN[name]
    images = plan.load(data.SHARED)
    module = plan.make()
    module.load_state_dict(torch.load(folder / f"{name}.pt", weights_only=True))
    cpu = torch.device("cpu")
    samples = [normalize(images.train[i * BATCH : (i + 1) * BATCH], cpu).contiguous() for i in range(SAMPLES)]
    count = len(images.test) // BATCH * BATCH
    inputs = [normalize(images.test[i : i + BATCH], cpu).contiguous().numpy() for i in range(0, count, BATCH)]
    score = accuracy(inputs, images.test_labels[:count])
    title = f"{plan.title}, trained here"
    return Network(title, module.eval(), samples, score, "accuracy %", f"{count} held-out images")


COLUMNS: Final = (
    "network",
    "score",
    "float32",
    "int8",
    "ONNX Runtime int8",
    "torchao int8",
    "outputs dB, likewise",
    "bytes",
    "of float32",
    "export s",
    "chosen",
)


def measure(network: Network, kept: Path) -> tuple[str, ...]:
    """Return the row of a network under `COLUMNS`; `kept` holds the peers' scores."""
    example = (network.samples[0],)
    exact = export(network.module, example)
    begun = time.process_time()
    program = export(network.module, example, quantize="int8", calibration=network.samples)
    seconds = time.process_time() - begun
    runs = [Recorder(load(bytes(each)).session()) for each in (exact, program)]
    own, int8 = (network.score(run) for run in runs)
    results = [(int8, noise_db(*runs)), *peers.scores(network, kept, runs[0])]
    report = program.quantization
    kinds = [layer.precision for layer in report.layers] if report is not None else []
    chosen = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("int8", "int8 dynamic", "float32") if kind in kinds)
    return (
        network.title,
        f"{network.unit}, {network.tested}",
        f"{own:.2f}",
        *("–" if result is None else f"{result[0]:.2f}" for result in results),
        " / ".join("–" if result is None or result[1] is None else f"{result[1]:.1f}" for result in results),
        f"{len(bytes(program)):,}",
        f"{len(bytes(program)) / len(bytes(exact)):.0%}",
        f"{seconds:.1f}",
        chosen,
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization.networks", description=__doc__)
    parser.add_argument("--only", choices=[*PLAN, *published.ALL], action="append")
    parser.add_argument(
        "--weights", type=Path, default=data.CACHE, help="folder of NAME.pt, from ...quantization.train"
    )
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write rows into the table between its comments")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    header = _line(COLUMNS)
    sys.stdout.write(f"{header}\n")
    for network in networks(arguments.weights, arguments.only):
        line = _line(measure(network, arguments.weights / "peers.json"))
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        if arguments.write:
            _write(arguments.write, header, line)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _write(path: Path, header: str, line: str) -> None:
    """Write the row of a network into a page's table; rows of others under the same columns stay."""
    page = path.read_text(encoding="utf-8")
    before, rest = page.split(START)
    old, after = rest.split(END)
    rows = [row for row in old.splitlines() if row.startswith("| ")]
    known = {row.split(" | ")[0]: row for row in rows[1:]} if rows[:1] == [header] else {}
    known[line.split(" | ", maxsplit=1)[0]] = line
    lines = ("", f"Measured on: {machine()}.", "", header, "|" + "---|" * len(COLUMNS), *known.values(), "")
    path.write_text(before + "\n".join((START, *lines, END)) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
