"""Parses the options common to the timing commands, shows their progress and writes their rows as JSON."""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

COLUMNS = 200
"""How wide a table is where no terminal says."""
MOST_NAMES = 40
"""That `--help` lists; an error lists them all."""


def parser(command: str, doc: str | None, names: Sequence[str]) -> argparse.ArgumentParser:
    """Return what reads `--only NAME` (several times, if wished) and `--json FILE`."""
    result = argparse.ArgumentParser(prog=f"python -m {command}", description=doc)
    metavar = None if len(names) <= MOST_NAMES else "NAME"
    result.add_argument("--only", choices=names, action="append", metavar=metavar, help="measure this alone")
    result.add_argument("--json", type=Path, metavar="FILE", help="write what is measured as JSON")
    return result


def timing_parser(
    command: str, doc: str | None, names: Sequence[str], *, rounds: int, seconds: float
) -> argparse.ArgumentParser:
    """Return what reads besides how long, how often and where calls are timed; `rounds` and `seconds` if none says."""
    result = parser(command, doc, names)
    last = max(os.sched_getaffinity(0))
    result.add_argument("--rounds", type=int, default=rounds, help=f"turns of each of those compared ({rounds})")
    result.add_argument("--seconds", type=float, default=seconds, help=f"of calls in a turn of alcove ({seconds:g})")
    result.add_argument("--core", type=int, default=last, help=f"which core is timed on (the last, {last})")
    return result


def wide_console() -> Console:
    """Return standard output, wide enough for a table where it is no terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=COLUMNS)


@contextmanager
def progress(console: Console) -> Iterator[Callable[[str], None]]:
    """Give a function that reports progress; a terminal shows it."""
    with console.status("measuring") as status:
        yield lambda what: status.update(f"measuring {what}")


def write_json(path: Path | None, rows: Sequence[Any]) -> None:
    """Write rows where asked: readable, the same bytes for the same rows."""
    if path is not None:
        path.write_text(json.dumps(list(rows), indent=2) + "\n", encoding="utf-8")
