"""Checks random modules against eager: `python -m benchmarks.modules --graphs 2000 [--first N] [--processes N]`.

Each seed is a module (`generate.py`), exported and run at its sizes (`check.py`). Prints how many went which way and
each finding, cut down, as code; exit code 1 with one. `--write docs/robustness.md` puts the counts into that page.
`--of-sizes` makes modules that compute with sizes.
`--journal FILE` keeps a line for each seed and, begun again with it, goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True)
class Line:
    """What became of one seed, as a journal keeps it."""

    seed: int
    verdict: str
    runs: int
    refusal: str
    finding: str

    @classmethod
    def of(cls, report: Report) -> Line:
        """Return the line of a report; numbers in refusals become N, so that alike ones can be counted."""
        result = report.result
        refusal = ""
        if result.verdict is Verdict.REFUSED:
            first = (result.reason.split("\n")[1:2] or [result.reason])[0]
            refusal = _NUMBER.sub("N", first.strip())[:200]
        finding = "" if report.found is None else text_of(report)
        return cls(report.seed, result.verdict.value, result.runs, refusal, finding)


def read_journal(path: Path | None) -> list[Line]:
    """Return the lines of a journal that are no findings: those are to be tried again."""
    if path is None or not path.exists():
        return []
    lines = [Line(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if not line.finding]


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=2000, help="how many modules")
    parser.add_argument("--first", type=int, default=0, help="seed of the first")
    parser.add_argument("--sizes", type=int, default=MOST_SIZES, help="combinations of sizes that each is run at")
    parser.add_argument("--of-sizes", action="store_true", help="modules that compute with sizes")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--journal", type=Path, metavar="FILE", help="keep what was found there, and read it first")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the counts into this page")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.graphs)
    lines = {line.seed: line for line in read_journal(options.journal) if line.seed in seeds}
    missing = [seed for seed in seeds if seed not in lines]
    found = examine_all(missing, options.sizes, options.processes, of_sizes=options.of_sizes)
    for done, report in enumerate(found, 1):
        line = lines[report.seed] = Line.of(report)
        if line.finding:
            print(line.finding, flush=True)
        if options.journal is not None:
            with options.journal.open("a", encoding="utf-8") as journal:
                journal.write(json.dumps(asdict(line)) + "\n")
        if done % 250 == 0:
            print(f"{done:,} of {len(missing):,} modules", file=sys.stderr, flush=True)
    verdicts = Counter(Verdict(line.verdict) for line in lines.values())
    refusals = Counter(line.refusal for line in lines.values() if line.refusal)
    runs = sum(line.runs for line in lines.values())
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
