"""Checks random modules against eager: `python -m benchmarks.modules --graphs 2000 [--first N] [--processes N]`.

Each seed is a module (`generate.py`), exported and run at its sizes (`check.py`). Prints how many went which way and
each finding, cut down, as code; exit code 1 with one. `--write docs/robustness.md` puts the counts into that page.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from benchmarks.modules.check import FINDINGS, MOST_SIZES, Verdict
from benchmarks.modules.sweep import Report, examine_all
from benchmarks.sections import Section, table_lines

SECTION: Final = Section("modules", "python -m benchmarks.modules --write docs/robustness.md")
_NUMBER: Final = re.compile(r"[-+]?\d[\d.e+-]*")


def text_of(report: Report) -> str:
    """Return a finding as code with what it shows."""
    head = f"seed {report.seed}: {report.result.verdict.value}; sizes {report.result.sizes}"
    if report.found is None:
        return f"{head}\n{report.result.reason}\n"
    ranges = ", ".join(f"{each.name} {each.least} to {each.greatest}" for each in report.found.ranges)
    inputs = ", ".join(f"{each.name} {each.kind} {list(each.shape)}" for each in report.found.inputs)
    return f"{head}, ranges {ranges}\ninputs: {inputs}\n{report.result.reason}\n{report.found.code()}\n"


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=2000, help="how many modules")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--sizes", type=int, default=MOST_SIZES, help="combinations of sizes that each is run at")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the counts into this page")
    options = parser.parse_args()
    verdicts: Counter[Verdict] = Counter()
    refusals: Counter[str] = Counter()
    runs = 0
    seeds = range(options.first, options.first + options.graphs)
    for done, report in enumerate(examine_all(seeds, options.sizes, options.processes), 1):
        if done % 250 == 0:
            print(f"{done:,} of {options.graphs:,} modules", file=sys.stderr, flush=True)
        verdicts[report.result.verdict] += 1
        runs += report.result.runs
        if report.result.verdict is Verdict.REFUSED:
            for line in report.result.reason.split("\n")[1:2] or [report.result.reason]:
                refusals[_NUMBER.sub("N", line.strip())[:200]] += 1
        if report.found is not None:
            print(text_of(report), flush=True)
    for reason, count in refusals.most_common(25):
        print(f"  refused {count}: {reason}")
    table = table_lines(("modules", *(each.value for each in Verdict), "runs"), [row(options.graphs, verdicts, runs)])
    print("\n".join(table))
    if options.write is not None:
        SECTION.write(options.write, "\n".join(table), {})
    return 1 if any(verdicts[each] for each in FINDINGS) else 0


def row(graphs: int, verdicts: Counter[Verdict], runs: int) -> list[str]:
    """Return the line of the table."""
    return [f"{graphs:,}", *(f"{verdicts[each]:,}" for each in Verdict), f"{runs:,}"]


if __name__ == "__main__":
    sys.exit(main())
