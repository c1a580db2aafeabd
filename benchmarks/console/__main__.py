"""Measures the console: `python -m benchmarks.console [--seed DIR] [--write docs/performance.md] …`.

With --seed it makes a server's data in a folder and says how to start a server on it;
without, it makes them in a temporary folder, starts a server pinned to one core, and measures.
"""

import argparse
import asyncio
import os
import shlex
import shutil
import tempfile
import time
from pathlib import Path

from rich.console import Console

from benchmarks.console.load import measure_viewers
from benchmarks.console.measure import Measured, measure_pages
from benchmarks.console.page import SECTION, as_markdown
from benchmarks.console.publishing import publish_policy
from benchmarks.console.seeding import Seeded, Sizes, seed
from benchmarks.options import write_json

SMALL = Sizes(features=8, versions=12, rollouts=40, experiments=40)


def main() -> None:
    """Seed, measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument("--seed", type=Path, metavar="DIR", help="make the data there and stop")
    parser.add_argument("--small", action="store_true", help="few versions: to look at, not to measure")
    parser.add_argument("--requests", type=int, default=40, help="of each page (40)")
    parser.add_argument("--rounds", type=int, default=6, help="pairs without and with viewers (6); 0: none")
    parser.add_argument("--seconds", type=float, default=60.0, help="of calls in a round (60)")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section into a page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what is measured as JSON")
    options = parser.parse_args()
    console = Console()
    sizes = SMALL if options.small else Sizes()
    if options.seed:
        began_s = time.monotonic()
        made = seed(options.seed, sizes, now_s=int(time.time()))
        start = made.world.command("--console", "true")
        console.print(f"{options.seed}: made in {time.monotonic() - began_s:.0f} s", markup=False)
        console.print(f"start a server on it: {shlex.join(start)}", markup=False, soft_wrap=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        made = seed(Path(folder) / "world", sizes, now_s=int(time.time()))
        found = _measure(made, options)
    text = as_markdown(found, sizes)
    console.print(text, markup=False)
    write_json(options.json, [found.as_json()])
    if options.write:
        SECTION.write(options.write, text, {})


def _measure(made: Seeded, options: argparse.Namespace) -> Measured:
    everywhere = os.sched_getaffinity(0)
    core = min(everywhere)
    os.sched_setaffinity(0, {core})  # the server's processes inherit it
    served = made.world.start("--console", "true", "--console-port", "0")
    os.sched_setaffinity(0, everywhere - {core} or everywhere)
    try:
        publish_policy(made, served)
        has_browser = shutil.which("chromium") is not None
        pages, absent = asyncio.run(measure_pages(made, served, options.requests, has_browser=has_browser))
        viewers = None
        if options.rounds:
            viewers = measure_viewers(made, served, rounds=options.rounds, seconds=options.seconds, core=core)
    finally:
        served.stop()
    return Measured(tuple(pages), tuple(absent), viewers)


if __name__ == "__main__":
    main()
