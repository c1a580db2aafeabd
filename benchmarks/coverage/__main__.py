"""Count: `python -m benchmarks.coverage [--only NAME ...] [--samples N] [--json FILE] [--write FILE.md]`.

Exit status 1 if anything is wrong.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

try:
    import expecttest  # noqa: F401 - torch's op database needs it
    import torch
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Table
except ModuleNotFoundError as missing:
    raise SystemExit(f"coverage needs {missing.name}: make setup") from missing

from benchmarks.coverage.case import NativeRun, run_natively
from benchmarks.coverage.checking import OperatorCheck, lost_outcomes
from benchmarks.coverage.names import EXCLUDED, core_overloads, counted_names
from benchmarks.coverage.report import Row, as_markdown, row, summary
from benchmarks.coverage.workers import in_processes

STYLES = {"passed": "green", "partly": "yellow", "refused": "dim", "wrong": "bold red"}
DEFAULT_SAMPLES = 5
REASON_COLUMNS = 100


def main(arguments: Sequence[str] | None = None, *, run: NativeRun = run_natively) -> int:
    """Check, print, write; return the exit status.  `run` runs programs; a test passes a wrong one."""
    options = _parse(arguments)
    console = Console()
    names = options.only or counted_names()
    columns = (TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=len(names))
        found = in_processes(
            names,
            OperatorCheck(options.samples, run),
            lost_outcomes,
            workers=options.workers,
            on_done=lambda name: progress.update(task, advance=1, description=name),
        )
    rows = [row(name, outcomes) for name, outcomes in found.items()]
    _print(console, rows, is_whole=not options.only)
    if options.json:
        report = {
            "torch": torch.__version__,
            "summary": summary(rows),
            "rows": [one.as_json() for one in rows],
            "excluded": EXCLUDED,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    if options.write:
        options.write.write_text(as_markdown(rows, torch.__version__.partition("+")[0]), encoding="utf-8")
    return int(any(one.status == "wrong" for one in rows))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="check these operators alone")
    parser.add_argument(
        "--samples", type=int, default=DEFAULT_SAMPLES, metavar="N", help="most samples a route, overload and type"
    )
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything as JSON")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the page docs/coverage.md")
    options = parser.parse_args(arguments)
    for name in options.only or ():
        if name in EXCLUDED:
            parser.error(f"{name} is left out: {EXCLUDED[name]}")
        if name not in core_overloads():
            parser.error(f"{name} is no core ATen operator of torch {torch.__version__}")
    if options.samples < 1 or options.workers < 1:
        parser.error("--samples and --workers must be at least 1")
    if options.write and options.only:
        parser.error("--write needs all operators: leave out --only")
    return options


def _print(console: Console, rows: Sequence[Row], *, is_whole: bool) -> None:
    table = Table("name", "overloads", "status", "samples", "reason")
    for one in rows:
        reason = one.reason if len(one.reason) <= REASON_COLUMNS else f"{one.reason[:REASON_COLUMNS]}…"
        status = f"[{STYLES[one.status]}]{one.status}[/]"
        table.add_row(
            one.name, f"{len(one.passed_overloads)}/{len(one.overloads)}", status, one.samples, escape(reason)
        )
    console.print(table)
    if is_whole:
        excluded = Table("left out", "reason")
        for name, reason in sorted(EXCLUDED.items()):
            excluded.add_row(name, reason)
        console.print(excluded)
    for one in rows:
        for example in one.examples:
            console.print(f"[bold red]wrong[/] {one.name}: ", end="")
            console.print(example, markup=False, highlight=False)
    numbers = summary(rows)
    console.print(
        f"{numbers['core_names']} names ({numbers['core_overloads']} overloads), {numbers['excluded_names']} left out; "
        f"of {numbers['checked_names']} checked: {numbers['passed']} passed, {numbers['partly']} partly, "
        f"{numbers['refused']} refused, {numbers['wrong']} wrong; {numbers['samples_passed']} samples passed"
    )


if __name__ == "__main__":
    sys.exit(main())
