"""Compares alcove's statistics with gbstats, statsmodels and spotify-confidence on the same exact counts.

python -m benchmarks.statistics.comparison [--peers] [--write docs/comparison-statistics.md]

What the others say is kept in peers.json. `--peers` asks them again, each in an environment that is made for it and
deleted: they pin versions that do not fit ours, so none is a dependency.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.platform.stats import (
    Aggregate,
    AlwaysValid,
    Difference,
    FixedHorizon,
    GroupSequential,
    Metric,
    Rules,
    SequentialTest,
    bayesian_view,
    benjamini_hochberg,
    decide,
    estimate,
)
from alcove.platform.stats.group_sequential import boundaries, spending_boundaries

from benchmarks.sections import Section, table_lines
from benchmarks.statistics.peers import ALPHA, LOOKS, TUNED_AT

SECTION = Section("comparison", "python -m benchmarks.statistics.comparison --write docs/comparison-statistics.md")
KEPT = Path(__file__).with_name("peers.json")
PACKAGES: Final = {"gbstats": "gbstats==0.8.0", "confidence": "spotify-confidence==4.1.0"}
CASES: Final[dict[str, tuple[tuple[int, int], tuple[int, int]]]] = {
    "clear, 30 % and 32 %": ((20_000, 6_000), (20_000, 6_400)),
    "on the edge, 12 % and 12.9 %": ((10_000, 1_200), (10_000, 1_290)),
    "equal, 50 %": ((50_000, 25_000), (50_000, 25_010)),
    "rare, 0.1 % and 0.2 %": ((30_000, 30), (30_000, 60)),
    "few, 10 of 100 and 22 of 100": ((100, 10), (100, 22)),
    "unequal arms, 5 % and 5.6 %": ((90_000, 4_500), (10_000, 560)),
}
"""Reports and accepted ones of the control and of the treatment."""


def ask_peers() -> dict[str, Any]:
    """Return what the packages say, each in a new environment; needs a package index."""
    cases = [{"control": control, "treatment": treatment} for control, treatment in CASES.values()]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, requirement in PACKAGES.items():
            place = Path(folder) / name
            venv.create(place, with_pip=True)
            python = str(place / "bin" / "python")
            subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
            script = str(Path(__file__).with_name("peers.py"))
            done = subprocess.run(
                [python, script, name], input=json.dumps(cases), capture_output=True, text=True, check=True
            )
            found |= json.loads(done.stdout)
    return found


def read_peers() -> dict[str, Any]:
    """Return what was kept of them."""
    kept: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return kept


def aggregate_of(case: str) -> Aggregate:
    """Return the counts of a case."""
    counts = np.array([[[n - k], [k]] for n, k in CASES[case]], dtype=np.float64)
    return Aggregate(counts, np.zeros((4, 4)), int(counts.sum()))


def difference_by(case: str, test: SequentialTest) -> tuple[Difference, float, str]:
    """Return the difference, its p-value and the decision by a test; no minimum cohort, shares as they came."""
    aggregate = aggregate_of(case)
    sizes = [n for n, _ in CASES[case]]
    rules = Rules(alpha=ALPHA, minimum_cohort=0, expected_shares=tuple(n / sum(sizes) for n in sizes))
    found = decide(estimate(aggregate, Metric(bin_values_ms=(1.0,))), test, rules)
    (pair,), (p,) = found.primary_pairs, found.p_values
    assert p is not None
    return pair, p, str(found.decision.kind)


def comparison_lines(peers: dict[str, Any]) -> list[str]:
    """Return all tables."""
    return [
        *_once_lines(peers),
        *_always_lines(peers),
        *_planned_lines(peers),
        *_adjusted_lines(peers),
        *_bayesian_lines(peers),
        *_decision_lines(peers),
    ]


def _once_lines(peers: dict[str, Any]) -> list[str]:
    rows = []
    for place, case in enumerate(CASES):
        pair, p, _ = difference_by(case, FixedHorizon(1))
        said = [peers[name][place] for name in ("statsmodels", "confidence", "once")]
        rows.append((case, _ours(pair, p), *(_theirs(each) for each in said)))
    columns = ("counts", "alcove", "statsmodels, Wald", "spotify-confidence, z-test", "gbstats, t-test")
    return ["### Read once: 95 % interval of the difference in points, and p", "", *table_lines(columns, rows)]


def _always_lines(peers: dict[str, Any]) -> list[str]:
    rows = []
    for place, case in enumerate(CASES):
        pair, p, _ = difference_by(case, AlwaysValid(int(TUNED_AT)))
        rows.append((case, _ours(pair, p), _theirs(peers["always"][place])))
    return [
        f"### Read at any time, tuned at {TUNED_AT:,.0f} reports",
        "",
        *table_lines(("counts", "alcove", "gbstats, sequential"), rows),
    ]


def _planned_lines(peers: dict[str, Any]) -> list[str]:
    times = tuple(LOOKS)
    ours = spending_boundaries(times, tuple(ALPHA * t**3 for t in times))
    usual = boundaries(times, ALPHA)
    rows = [
        (f"{t:.0%}", f"{a:.4f}", f"{b:.4f}", f"{c:.4f}")
        for t, a, b, c in zip(times, ours, peers["boundaries"], usual, strict=True)
    ]
    columns = (
        "reports in",
        "alcove, α t³",
        "spotify-confidence, α t³",
        "alcove as it runs, O'Brien and Fleming's type",
    )
    return ["### Planned analyses: standard errors that a difference must reach", "", *table_lines(columns, rows)]


def _adjusted_lines(peers: dict[str, Any]) -> list[str]:
    p_values = [each["p"] for each in peers["statsmodels"]]
    ours = benjamini_hochberg(p_values)
    rows = [
        (case, _p(p), _p(mine), _p(theirs))
        for case, p, mine, theirs in zip(CASES, p_values, ours, peers["adjusted"], strict=True)
    ]
    return [
        "### Several metrics: p-values of the first table, adjusted by Benjamini and Hochberg",
        "",
        *table_lines(("counts", "p", "alcove", "statsmodels"), rows),
    ]


def _bayesian_lines(peers: dict[str, Any]) -> list[str]:
    rows = []
    for place, case in enumerate(CASES):
        (found,) = bayesian_view(estimate(aggregate_of(case), Metric(bin_values_ms=(1.0,)))).differences
        theirs = peers["bayesian"][place]
        rows.append(
            (
                case,
                f"{found.chance_better:.2%}, {_range(*found.interval)}, {100 * found.expected_loss:.4f}",
                f"{theirs['chance']:.2%}, {_range(theirs['low'], theirs['high'])}, {100 * theirs['loss']:.4f}",
            )
        )
    columns = ("counts", "alcove, uniform prior", "gbstats, flat prior")
    return [
        "### Bayesian: chance to win, 95 % interval and expected loss of the treatment, in points",
        "",
        *table_lines(columns, rows),
    ]


def _decision_lines(peers: dict[str, Any]) -> list[str]:
    rows = []
    for place, case in enumerate(CASES):
        reports = aggregate_of(case).reports
        tests: list[SequentialTest] = [
            FixedHorizon(1),
            AlwaysValid(int(TUNED_AT)),
            GroupSequential((*(int(reports * t) for t in LOOKS[:-1]), reports), reports),
        ]
        ours = [difference_by(case, test)[2] for test in tests]
        theirs = [
            "winner" if peers[name][place]["p"] < ALPHA else "inconclusive" for name in ("once", "confidence", "always")
        ]
        rows.append((case, *ours, *theirs))
    columns = (
        "counts", "alcove, once", "at any time", "last of five", "gbstats, once", "spotify-confidence, once",
        "gbstats, at any time",
    )  # fmt: skip
    return ["### Decisions at 5 %", "", *table_lines(columns, rows)]


def _ours(pair: Difference, p: float) -> str:
    assert pair.interval is not None
    return f"{_range(*pair.interval)}, p {_p(p)}"


def _theirs(said: dict[str, float]) -> str:
    return f"{_range(said['low'], said['high'])}, p {_p(said['p'])}"


def _range(low: float, high: float) -> str:
    return f"[{100 * low:.4f}, {100 * high:.4f}]"


def _p(p: float) -> str:
    return f"{p:.3g}"


def main() -> None:
    """Ask, compare and print, or write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics.comparison", description=__doc__)
    parser.add_argument("--peers", action="store_true", help="ask the other packages again")
    parser.add_argument("--write", type=Path, metavar="FILE", help="page to write the tables into")
    given = parser.parse_args()
    if given.peers:
        KEPT.write_text(json.dumps(ask_peers(), indent=1) + "\n", encoding="utf-8")
    text = "\n".join(comparison_lines(read_peers()))
    if given.write is not None:
        SECTION.write(given.write, text, {})
    else:
        sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
