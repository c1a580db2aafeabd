"""Audits what the two aggregators release: `python -m benchmarks.privacy [--write docs/privacy-audit.md]`.

Exit code 1: the product fails the audit, or a wrong build passes it. With a million releases, the default, it takes
about an hour of one core; `--minutes` ends the releases earlier, and the page says how many there were.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

from rich.console import Console

from benchmarks.__main__ import machine
from benchmarks.options import progress, write_json
from benchmarks.privacy.audit import run_audit
from benchmarks.privacy.page import write_page

RUNS = 200
RELEASES = 1_000_000
EPSILON = Fraction(1)


def main() -> None:
    """Audit, print, write."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.privacy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    processes = len(os.sched_getaffinity(0))
    parser.add_argument("--runs", type=int, default=RUNS, help=f"whole runs of each input ({RUNS})")
    parser.add_argument("--releases", type=int, default=RELEASES, help=f"of the helper, for each input ({RELEASES:,})")
    parser.add_argument("--pairs", type=int, help="releases of both aggregators, for each input (a tenth of that)")
    parser.add_argument("--minutes", type=float, help="begin no release after so many minutes of releases")
    parser.add_argument("--processes", type=int, default=processes, help=f"that release at once ({processes})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what is found as JSON")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the page")
    options = parser.parse_args()
    console = Console(stderr=True)
    with progress(console) as report:
        found = run_audit(
            runs=options.runs,
            releases=options.releases,
            pairs=options.pairs or options.releases // 10,
            epsilon=EPSILON,
            processes=options.processes,
            minutes=options.minutes,
            report=report,
        )
    page = write_page(found, machine())
    print(page)
    if options.write:
        options.write.write_text(page, encoding="utf-8")
    write_json(options.json, json.loads(json.dumps([asdict(found)], default=str)))  # fractions as text
    sys.exit(1 if found.problems else 0)


if __name__ == "__main__":
    main()
