"""Measures int8 on real data: `python -m benchmarks.quantization [--only MODEL] [--weights DIR] [--write PAGE]`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import machine
from benchmarks.quantization import data
from benchmarks.quantization.measure import Measured, language_id, vision

if TYPE_CHECKING:
    from alcove.runtime.compiler.quantize.report import QuantizationReport

MODELS = ("language_id", "mobilenet", "resnet")
MARK = "<!-- figures: written by `python -m benchmarks.quantization --write` -->"


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quantization", description=__doc__)
    parser.add_argument("--only", choices=MODELS, action="append")
    parser.add_argument(
        "--weights", type=Path, default=data.CACHE, help="folder of NAME.pt, from ...quantization.train"
    )
    parser.add_argument(
        "--write", type=Path, metavar="FILE.md", help="write the figures into a page, below its comment"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    console = Console()
    found = []
    for name in arguments.only or MODELS:
        measured = language_id() if name == "language_id" else vision(name, arguments.weights)
        found.append(measured)
        console.print(_table(measured))
        if measured.report is not None:
            console.print(_report_table(measured.report))
    if arguments.write:
        page = arguments.write.read_text(encoding="utf-8")
        before = page.partition(MARK)[0]
        arguments.write.write_text(before + as_markdown(found, machine()), encoding="utf-8")


def _table(measured: Measured) -> Table:
    table = Table(
        "variant",
        "bytes",
        "of float32",
        "accuracy",
        "as float32",
        "note",
        title=f"{measured.title}: {measured.tested}",
    )
    for row in measured.rows:
        share = row.size_bytes / measured.rows[0].size_bytes
        table.add_row(
            row.variant,
            f"{row.size_bytes:,}",
            f"{share:.0%}",
            f"{row.accuracy:.4f}",
            f"{row.agreement:.2%}",
            row.note,
        )
    return table


def as_markdown(found: list[Measured], where: str) -> str:
    """Return the part of docs/quantization.md below its comment."""
    lines = [
        MARK,
        "",
        f"Measured on: {where}; every machine gives the same answers.  Accuracy is of the native programs.",
        "",
    ]
    for measured in found:
        lines += [f"### {measured.title}", "", f"{measured.tested}.", ""]
        lines += [
            "| variant | bytes | of float32 | accuracy | answers as float32 | |",
            "|---|---|---|---|---|---|",
        ]
        for row in measured.rows:
            share = row.size_bytes / measured.rows[0].size_bytes
            lines.append(
                f"| {row.variant} | {row.size_bytes:,} | {share:.0%} | {row.accuracy:.4f} "
                f"| {row.agreement:.2%} | {row.note} |"
            )
        lines += ["", *_layers(measured)]
    return "\n".join(lines)


def _report_table(report: QuantizationReport) -> Table:
    table = Table(*report.columns, title=report.title)
    for row in report.rows():
        table.add_row(*row)
    return table


def _layers(measured: Measured) -> list[str]:
    if measured.report is None:
        return []
    lines = [
        f"Layers of the int8 variant ({measured.report.samples} calibration samples):",
        "",
        f"| {' | '.join(measured.report.columns)} |",
        "|" + "---|" * len(measured.report.columns),
    ]
    return [*lines, *(f"| {' | '.join((f'`{row[0]}`', *row[1:]))} |" for row in measured.report.rows()), ""]


if __name__ == "__main__":
    main()
