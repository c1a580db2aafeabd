"""Try all: `python -m benchmarks.architectures [--only NAME ...] [--json FILE] [--write FILE.md] [--workers 2]`.

Exit status 1 if anything is wrong; with --all-pass also if anything is refused.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.architectures.registry import architectures
from benchmarks.architectures.run import BOUND, Result, evaluate_named, lost_result
from benchmarks.coverage.workers import in_processes
from benchmarks.options import write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

STYLES = {"passed": "green", "refused": "yellow", "wrong": "bold red"}
REASON_COLUMNS = 120


def as_markdown(results: Sequence[Result]) -> str:
    """Return the page docs/architectures.md."""
    counts = Counter(result.status for result in results)
    rows = [
        f"| {r.name} | {r.family} | {r.parameters:,} | {r.ops or ''} | {_kib(r.arena_bytes)} | {_difference(r)} "
        f"| {r.status} | {r.reason.replace('|', chr(92) + '|')} |"
        for r in results
    ]
    return "\n".join(
        [
            "# Architectures",
            "",
            (
                "Written by `python -m benchmarks.architectures --write docs/architectures.md`. Small models with "
                "random weights that keep the structure of the originals, from `transformers` configurations and in "
                "plain torch: each is exported, runs in a process without torch, and is compared with eager."
            ),
            "",
            (
                f"{len(results)} models: {counts['passed']} passed, {counts['refused']} refused at export, "
                f"{counts['wrong']} wrong."
            ),
            "",
            (
                f"The difference is max |native - eager| / max |eager|, the largest of all outputs; at most {BOUND:g} "
                "passes. Integers and bools are equal."
            ),
            "",
            "| name | family | parameters | ops | arena | difference | status | reason |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _kib(size: int) -> str:
    return f"{size / 1024:,.0f} KiB" if size else ""


def _difference(result: Result) -> str:
    is_number = result.max_difference == result.max_difference
    return f"{result.max_difference:.1e}" if is_number else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Try, print, write; return the exit status."""
    options = _parse(arguments)
    names = options.only or [entry.name for entry in architectures()]
    console = Console()
    columns = (TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=len(names))
        found = in_processes(
            names,
            evaluate_named,
            lost_result,
            workers=options.workers,
            on_done=lambda name: progress.update(task, advance=1, description=name),
        )
    results = list(found.values())
    _print(console, results)
    write_json(options.json, [result.as_json() for result in results])
    if options.write:
        options.write.write_text(as_markdown(results), encoding="utf-8")
    bad = {"wrong", "refused"} if options.all_pass else {"wrong"}
    return int(any(result.status in bad for result in results))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.architectures", description=__doc__)
    known = {entry.name for entry in architectures()}
    parser.add_argument("--only", nargs="+", metavar="NAME", help="try these alone")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes")
    parser.add_argument("--all-pass", action="store_true", help="exit status 1 also if one is refused")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the page docs/architectures.md")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.only or ()) - known)
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    if options.write and options.only:
        parser.error("--write needs all of them: leave out --only")
    if options.workers < 1:
        parser.error("--workers must be at least 1")
    return options


def _print(console: Console, results: Sequence[Result]) -> None:
    table = Table("name", "family", "parameters", "ops", "arena", "difference", "status", "reason")
    for result in results:
        reason = result.reason if len(result.reason) <= REASON_COLUMNS else f"{result.reason[:REASON_COLUMNS]}…"
        table.add_row(
            result.name,
            result.family,
            f"{result.parameters:,}",
            str(result.ops or ""),
            _kib(result.arena_bytes),
            _difference(result),
            f"[{STYLES[result.status]}]{result.status}[/]",
            reason.replace("[", "\\["),
        )
    console.print(table)
    counts = Counter(result.status for result in results)
    console.print(
        f"{len(results)} models: {counts['passed']} passed, {counts['refused']} refused, {counts['wrong']} wrong"
    )


if __name__ == "__main__":
    sys.exit(main())
