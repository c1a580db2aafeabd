"""Simulates bandits and fixed splits of the same experiments for a month, and reports what each lost.

python -m benchmarks.bandit [--write docs/statistics.md] [--json FILE] [--runs 60]
"""

import argparse
from pathlib import Path

import numpy as np
from alcove.platform.simulation.bandit import BanditRun, BanditScenario, simulate_bandit
from alcove.platform.stats import Mechanism

from benchmarks.options import write_json
from benchmarks.sections import Section, table_lines

SECTION = Section("bandit", "python -m benchmarks.bandit --write docs/statistics.md")
BASE = 0.7
EFFECTS = (0.0, 0.01, 0.02, 0.05)
ARMS = (2, 4)
SURE = 0.95
_NAMES = {Mechanism.RANDOMIZED_RESPONSE: "randomized response", Mechanism.PRIO3: "two aggregators"}


def row_of(scenario: BanditScenario, effect: float, runs: list[BanditRun]) -> tuple[str, ...]:
    """Return one line of the table; the last arm is the better one."""
    regrets = np.array([run.regret for run in runs])
    fixed = runs[0].fixed_regret
    final = np.array([run.shares[-1] for run in runs])
    low, middle, high = (f"{100 * part:.0f}" for part in np.quantile(final, (0.1, 0.5, 0.9)))
    sure = np.mean([max(run.chances) >= SURE for run in runs])
    right = np.mean([max(run.chances) >= SURE and run.chances[-1] >= SURE for run in runs])
    error = regrets.std(ddof=1) / np.sqrt(len(runs))
    saved = "-" if effect == 0.0 else f"{100 * (1 - regrets.mean() / fixed):.0f} % (± {200 * error / fixed:.0f})"
    return (
        f"{_NAMES[scenario.mechanism]}, {len(scenario.accepted)} arms, {100 * effect:g} points",
        "0" if effect == 0.0 else f"{100 * fixed:.2f}",
        "0" if effect == 0.0 else f"{100 * regrets.mean():.2f}",
        saved,
        f"{middle} % ({low} to {high})",
        f"{100 * sure:.0f} %" if effect == 0.0 else f"{100 * sure:.0f} %, right {100 * right:.0f} %",
    )


def main() -> None:
    """Simulate, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures")
    parser.add_argument("--runs", type=int, default=60, help="of each experiment")
    arguments = parser.parse_args()
    rows, figures = [], []
    for mechanism in (Mechanism.RANDOMIZED_RESPONSE, Mechanism.PRIO3):
        for arms in ARMS:
            for effect in EFFECTS:
                accepted = (*(BASE,) * (arms - 1), BASE + effect)
                scenario = BanditScenario(accepted, mechanism, runs=arguments.runs)
                runs = list(simulate_bandit(scenario))
                rows.append(row_of(scenario, effect, runs))
                print(rows[-1], flush=True)
                regret = float(np.mean([run.regret for run in runs]))
                figures.append(
                    {"scenario": rows[-1][0], "runs": len(runs), "regret": regret, "fixed": runs[0].fixed_regret}
                )
    lines = [
        f"{arguments.runs} simulated months a row, 100,000 devices a day, {100 * BASE:.0f} % accepted, one arm better",
        "by so many points; daily windows at ε = 1, of which a device's ledger pays for six in 30 days. *Regret*:",
        "accepted answers lost against the best arm, in points of all answers of the month; the fixed split has equal",
        "shares. *Saved*: with twice its standard error. *Best arm's share* on the last day: median, 10 % and 90 %",
        "quantile; of equal arms that of the last one. *Sure*: runs whose last look gives some arm a chance of",
        f"{SURE:.0%} or more.",
        "",
        *table_lines(
            ("experiment", "regret, fixed", "regret, bandit", "saved", "best arm's share", "sure on the last look"),
            rows,
        ),
    ]
    print("\n".join(lines))
    if arguments.write:
        SECTION.write(arguments.write, "\n".join(lines), {})
    if arguments.json:
        write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
