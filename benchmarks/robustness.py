"""Runs all fuzz targets and records the inputs withstood: `python -m benchmarks.robustness --seconds N`.

Runs the targets one after the other, `seconds` each, or that of `--target`: open, run, ops, calls (`fuzz_native.py`:
libFuzzer, needs clang), driver (what open and run have found, on every instruction set) and parsers
(`fuzz_parsers.py`: Atheris).
Prints for each the inputs, inputs a second, corpus, branches, findings; exit code 1 with a finding, whose file stays in
`runs/fuzz/`.  The second is one of a processor, the target's and its children's: other work beside it doesn't count.
`--record` adds the runs to `benchmarks/robustness.json`, `--write FILE` writes that into a document.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from alcove.runtime import _native

from benchmarks import fuzz_native, fuzz_parsers

if TYPE_CHECKING:
    from benchmarks.fuzz_native import Outcome

RECORD: Final = Path(__file__).with_suffix(".json")
TARGETS: Final = (*fuzz_native.TARGETS, "driver", "parsers")
_ABOUT: Final = {
    "open": "the verifier, whole programs",
    "run": "programs that open, run with the inputs that the bytes say, with two memory plans that must agree",
    "ops": "n-gram, bag, depthwise and pooling operators of every size and attribute",
    "calls": "sequences of calls of the C interface",
    "driver": "what open and run have found, on every instruction set, with threads and without",
    "parsers": "manifests, packages, policies, halts, metadata, changes, certificates, audiences, reports, deltas",
}


def processor_s() -> float:
    """Return how long processors have worked for this process and its children that ended."""
    return sum(os.times()[:4])


def run(target: str, seconds: float, start: int) -> Outcome:
    """Run one target, built if it has to be, for `seconds` of the clock; the outcome's are of a processor."""
    driver = fuzz_native.build_sanitized("alcove_driver") / "alcove_driver" if target == "driver" else None
    if target in fuzz_native.TARGETS:
        fuzz_native.build((target,))
    begin = processor_s()
    if target == "parsers":
        outcome = fuzz_parsers.fuzz(seconds, start)
    elif driver is not None:
        outcome = fuzz_native.replay(driver, _native.machine_isas(), fuzz_native.corpus(), seconds)
    else:
        outcome = fuzz_native.fuzz(target, seconds, start)
    return replace(outcome, seconds=processor_s() - begin)


def record(outcome: Outcome) -> None:
    """Add a run to the record."""
    known: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    so_far = known.get(outcome.target, {"inputs": 0, "seconds": 0.0, "findings": 0})
    known[outcome.target] = {
        "inputs": so_far["inputs"] + outcome.inputs,
        "seconds": round(so_far["seconds"] + outcome.seconds, 1),
        "findings": so_far["findings"] + len(outcome.findings),
        "corpus": outcome.corpus,
        "coverage": outcome.coverage,
    }
    RECORD.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def table() -> str:
    """Return the record as lines of a document."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    lines = [
        "| target | what it reads | inputs so far | a second of one core | corpus | branches | findings |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for target in TARGETS:
        if target not in known:
            lines.append(f"| {target} | {_ABOUT[target]} | none yet | | | | |")
            continue
        row = known[target]
        rate = row["inputs"] / max(row["seconds"], 1)
        reached = f"{row['corpus'] or ''} | {row['coverage'] or ''}"
        lines.append(
            f"| {target} | {_ABOUT[target]} | {row['inputs']:,} | {rate:,.0f} | {reached} | {row['findings']} |"
        )
    return "\n".join(lines)


def write(path: Path) -> None:
    """Put the record between its comments in a document."""
    text = path.read_text(encoding="utf-8")
    changed = re.sub(
        r"(<!-- record -->\n).*?(<!-- end -->)", lambda marks: f"{marks[1]}{table()}\n{marks[2]}", text, flags=re.DOTALL
    )
    path.write_text(changed, encoding="utf-8")


def main() -> None:
    """Run, print, record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0, help="for each target")
    parser.add_argument("--target", choices=TARGETS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    targets = [options.target] if options.target else list(TARGETS)
    if not options.target and not shutil.which("clang++"):
        print(
            "without clang++ (apt-get install clang) there is no libFuzzer: only driver and parsers run",
            file=sys.stderr,
        )
        targets = ["driver", "parsers"]
    found = 0
    for target in targets if options.seconds > 0 else []:
        print(f"{target}: seed {options.seed}", flush=True)
        outcome = run(target, options.seconds, options.seed)
        rate = outcome.inputs / max(outcome.seconds, 1)
        print(
            f"{target}: {outcome.inputs:,} inputs, {rate:,.0f} a second on one core, corpus {outcome.corpus:,}, "
            f"branches {outcome.coverage:,}, findings {len(outcome.findings)}",
            flush=True,
        )
        for path in outcome.findings:
            print(f"  {path}", flush=True)
        found += len(outcome.findings)
        if options.record:
            record(outcome)
    if options.write:
        write(options.write)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
