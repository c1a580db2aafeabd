"""Simulates whole rollouts, and reports how they end and how fast the simulator is.

python -m benchmarks.simulator [--write docs/statistics.md] [--json FILE]
"""

import argparse
import time
from dataclasses import asdict
from pathlib import Path

from alcove.platform.domain.rollout_records import GuardrailRecord, RolloutPlan, Stage
from alcove.platform.simulation.experiment import ExperimentScenario, simulate_experiment
from alcove.platform.simulation.experiment_summary import expected_ratio, summarize_experiment
from alcove.platform.simulation.run import simulate
from alcove.platform.simulation.scenario import Behavior, Scenario
from alcove.platform.simulation.summary import Summary, summarize
from alcove.platform.stats import Mechanism

from benchmarks.options import write_json
from benchmarks.sections import Section, table_lines

SECTION = Section("simulator", "python -m benchmarks.simulator --write docs/statistics.md")
HARMFUL = Behavior(crash_fallback=0.021)
CRASH = GuardrailRecord("crash_fallback", 0.005)
REFUSED = GuardrailRecord("refused", 0.03)
EXPOSURE = (Stage(500, 0, 1000),)
WHOLE = (Stage(200, 0, 1000), Stage(1000, 0, 1000), Stage(5000, 0, 1000))
EDGES = (0.5, 0.8)
RESPONSE, SHARED = Mechanism.RANDOMIZED_RESPONSE, Mechanism.PRIO3
CUPED = (
    (SHARED, "1", 1_000, 0.6),
    (SHARED, "1", 10_000, 0.6),
    (SHARED, "1", 100_000, 0.6),
    (SHARED, "1", 10_000, 0.3),
    (RESPONSE, "2", 100_000, 0.6),
)
"""How reports are made private, ε, devices of both arms, correlation of a device's earlier share and a later answer."""


def scenarios() -> dict[str, Scenario]:
    """Return what is simulated, by name."""
    found: dict[str, Scenario] = {}
    for mechanism, epsilon in ((SHARED, "1"), (RESPONSE, "2"), (RESPONSE, "1")):
        about = f"{mechanism}, ε = {epsilon}"
        short = RolloutPlan(stages=EXPOSURE, guardrails=(CRASH,), epsilon=epsilon)
        found[f"harmful, 5 % of 1,000,000; {about}"] = Scenario(
            plan=short, windows=2, runs=40, mechanism=mechanism, treatment=HARMFUL
        )
        whole = RolloutPlan(stages=WHOLE, guardrails=(CRASH, REFUSED), epsilon=epsilon)
        found[f"sound, 2 %, 10 %, 50 % of 1,000,000; {about}"] = Scenario(
            plan=whole, windows=14, runs=100, mechanism=mechanism
        )
    return found


def row_of(name: str, summary: Summary) -> tuple[str, ...]:
    """Return one line of the table."""
    soon = "-" if summary.windows_to_harm is None else f"{summary.windows_to_harm:g}"
    harmed = summary.harmed
    return (
        name,
        str(summary.runs),
        f"{harmed.share:.1%} ({harmed.low:.1%} to {harmed.high:.1%})",
        soon,
        f"{summary.completed.share:.1%}",
        f"{summary.epsilon_mean:.2g}, {summary.epsilon_max:.2g}",
        f"{summary.device_windows_per_s / 1e6:.1f}",
    )


def cuped_rows() -> list[tuple[str, str, str, str, str]]:
    """Return what the earlier share does to the standard error of simulated experiments, beside the closed form."""
    rows = []
    for mechanism, epsilon, devices, correlation in CUPED:
        about = ExperimentScenario(
            devices=devices, rate=0.6, pre_edges=EDGES, correlation=correlation, epsilon=epsilon, mechanism=mechanism,
            runs=20,
        )  # fmt: skip
        fine, plain = (
            summarize_experiment(list(simulate_experiment(each))).standard_errors[0]
            for each in (about, about.without_earlier_share())
        )
        ratio = "-" if fine is None or plain is None else f"{fine / plain:.2f}"
        rows.append(
            (f"{mechanism}, ε = {epsilon}", f"{devices:,}", f"{correlation:g}", ratio, f"{expected_ratio(about):.2f}")
        )
    return rows


def main() -> None:
    """Simulate, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this page")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures")
    arguments = parser.parse_args()
    rows, figures = [], []
    for name, scenario in scenarios().items():
        began_s = time.process_time()
        runs = list(simulate(scenario))
        summary = summarize(runs, windows=scenario.windows, seconds=time.process_time() - began_s)
        figures.append({"scenario": name} | asdict(summary))
        rows.append(row_of(name, summary))
    lines = [
        "A harmful version crashes on 2 % more devices; the margin is 0.5 %. Each device reports once in a window, a",
        "day, as far as its budget lets it (ε 2 a day, 8 in thirty days); a person advances once a stage is safe.",
        "*Harm found*: the power where the version is harmful, the false-halt rate where it is sound, with its",
        "95 % interval. *Spent*: ε of a device that took part, mean and most. *Rate*: million devices times windows",
        "a second of one core, hashing of all devices' buckets included; only devices in a group draw outcomes.",
        "",
        *table_lines(
            ("version, exposure; reports", "runs", "harm found", "median window", "complete", "spent", "rate"), rows
        ),
        "Experiments whose reports say what devices did before (`alcove experiment simulate --cuped 0.5,0.8`), 60 %",
        "accepted, one window, 20 runs: the standard error of the difference relative to that of reports without it.",
        "",
        *table_lines(("reports", "devices", "correlation", "simulated", "closed form"), cuped_rows()),
    ]
    print("\n".join(lines))
    if arguments.write:
        SECTION.write(arguments.write, "\n".join(lines), {})
    if arguments.json:
        write_json(arguments.json, figures)


if __name__ == "__main__":
    main()
