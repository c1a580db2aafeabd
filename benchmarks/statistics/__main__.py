"""Measures false calls, coverage and power of the statistics on simulated fleets, with the naive test beside.

python -m benchmarks.statistics [--boundaries | --plans | --latency | --runs 1000] [--write docs/statistics.md]
                                [--json FILE]
"""

import argparse
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from alcove.platform.stats import Mechanism

from benchmarks.options import write_json
from benchmarks.sections import Section, table_lines
from benchmarks.statistics.boundaries import SECTION as BOUNDARIES
from benchmarks.statistics.boundaries import boundary_lines
from benchmarks.statistics.cuped import DEVICES as CUPED_DEVICES
from benchmarks.statistics.cuped import RATE as CUPED_RATE
from benchmarks.statistics.cuped import Gain, gains
from benchmarks.statistics.detection import (
    BASE_RATE,
    EXPOSURE,
    FLEET_DEVICES,
    MARGIN,
    MORE_CRASHES,
    WATCHED,
    Detection,
    detect,
)
from benchmarks.statistics.fleets import two_cell_sums
from benchmarks.statistics.found import SECTION as FOUND
from benchmarks.statistics.found import found_lines
from benchmarks.statistics.latency import SECTION as LATENCY
from benchmarks.statistics.latency import latency_lines
from benchmarks.statistics.metrics import DEVICES, metric_coverage
from benchmarks.statistics.needs import SECTION as NEEDS
from benchmarks.statistics.needs import need_table
from benchmarks.statistics.planned import POWER, RATE, Planned, half_widths, measure_planned
from benchmarks.statistics.plans import MECHANISMS, name_of, need_lines, plan_lines
from benchmarks.statistics.plans import SECTION as PLANS
from benchmarks.statistics.rates import (
    ANALYSES,
    COHORTS,
    CRASH_RATE,
    DEVIATIONS,
    FalseCalls,
    coverage,
    false_calls,
    halted_by,
    naively_halted_by,
)
from benchmarks.statistics.since import comparison_lines
from benchmarks.svg import shares

SECTION = Section("figures", "python -m benchmarks.statistics --write docs/statistics.md")
SEED = 20_271_001


def all_false_calls(runs: int) -> list[FalseCalls]:
    """Return the grid of noise and cohorts, and fleets that are harder than it."""
    rng = np.random.default_rng(SEED)
    rows = [
        false_calls(f"σ = {deviation:g}, {cohort:,}", rng, runs=runs, cohorts=(cohort,) * ANALYSES, deviation=deviation)
        for deviation in DEVIATIONS
        for cohort in COHORTS
    ]
    growing = tuple(200 * 4 ** (analysis // 8) for analysis in range(ANALYSES))
    for deviation in (0.0, 4.0, 30.0):
        name = f"σ = {deviation:g}, cohorts growing from 200 to 12,800"
        rows.append(false_calls(name, rng, runs=runs, cohorts=growing, deviation=deviation))
    for deviation in (0.0, 1.0, 4.0):
        name = f"σ = {deviation:g}, 2,000, crashes 0.1 %"
        rows.append(false_calls(name, rng, runs=runs, cohorts=(2_000,) * ANALYSES, deviation=deviation, rate=0.001))
    return rows


def false_call_lines(rows: list[FalseCalls], runs: int) -> list[str]:
    """Return the table of false calls."""
    columns = ("noise, cohort", "false halts", "false wins", "all 30 intervals cover", "naive test", "noise ignored")
    return [
        "### Equal arms: how often is something called",
        "",
        f"{runs:,} runs, {ANALYSES} analyses, {CRASH_RATE:.0%} crashes in both arms unless said; cohort: devices per",
        "arm and analysis; σ: noise per cell and analysis. Promise: halts and wins at most 5 %, coverage at least",
        "95 %. *Naive test*: a one-sided fixed-horizon z-test at 5 %, repeated at each analysis. *Noise ignored*:",
        "our own sequence without the noise's variance.",
        "",
        *table_lines(
            columns,
            [
                (
                    row.name,
                    *(
                        f"{value:.1%}"
                        for value in (row.halts, row.wins, row.covered, row.naive_halts, row.unknown_noise_halts)
                    ),
                )
                for row in rows
            ],
        ),
        "![Halts of equal arms](plots/false_halts.svg)",
        "",
    ]


def coverage_lines(runs: int) -> tuple[list[str], dict[str, Any]]:
    """Return the tables of coverage at one analysis, and their figures."""
    rng = np.random.default_rng(SEED + 1)
    figures: dict[str, Any] = {}
    rows = []
    for deviation in DEVIATIONS:
        for cohort in COHORTS:
            found = [
                coverage(rng, runs=4 * runs, cohort=cohort, windows=windows, deviation=deviation)
                for windows in (1, ANALYSES)
            ]
            figures[f"{deviation:g}, {cohort}"] = found
            rows.append((f"σ = {deviation:g}, {cohort:,}", *("refused" if f is None else f"{f:.1%}" for f in found)))
    lines = [
        "### Intervals at one analysis: how often do 95 % cover",
        "",
        f"{4 * runs:,} runs, difference of 5 % and 2 %; promise 95 ± 1.4 %. *Refused*: the noise hides an arm's size.",
        "",
        *table_lines(("noise, cohort", "first analysis", "thirtieth analysis"), rows),
    ]
    metric_rows = []
    for mechanism, epsilon in MECHANISMS[:3]:
        covered = metric_coverage(rng, mechanism, epsilon, runs=runs)
        figures[name_of(mechanism, epsilon)] = covered
        metric_rows.append((name_of(mechanism, epsilon), *(f"{value:.1%}" for value in covered.values())))
    lines += [
        f"Other metrics, from joint histograms of {DEVICES:,} devices, 2 x 4 x 4 cells, {runs:,} runs:",
        "",
        *table_lines(("reports", "share", "ratio", "mean, CUPED"), metric_rows),
    ]
    return lines, figures


def detection_lines(runs: int) -> tuple[list[str], list[Detection]]:
    """Return the table of harm halted."""
    rng = np.random.default_rng(SEED + 2)
    alone, more, most = WATCHED
    cases = [(alone, *each) for each in MECHANISMS[1:]] + [(more, *each) for each in MECHANISMS[1:3]]
    cases += [(most, Mechanism.PRIO3, Fraction(1)), (alone, Mechanism.PRIO3, Fraction(1, 10))]
    found = [detect(rng, mechanism, epsilon, watched=watched, runs=runs) for watched, mechanism, epsilon in cases]
    rows = [
        (
            name_of(one.mechanism, one.epsilon),
            one.watched,
            str(one.cells),
            *(f"{part:.1%}" for part in one.by_period),
            f"{one.harmless:.1%}",
            "refused" if one.half_width is None else f"{one.half_width:.2%}",
        )
        for one in found
    ]
    devices = round(FLEET_DEVICES * EXPOSURE)
    lines = [
        "### Harm: how soon is it halted",
        "",
        f"A version crashes on {MORE_CRASHES:.0%} more devices, {BASE_RATE + MORE_CRASHES:.0%} instead of",
        f"{BASE_RATE:.0%}, at {EXPOSURE:.0%} exposure of {FLEET_DEVICES:,} devices: {devices:,} in the treatment, as",
        f"many in the control; the guardrail's margin is {MARGIN:.1%}. Every device reports once in each check-in",
        f"period, a day, the same cell each time. {runs:,} runs; goal: 95 % halted within two periods with two",
        "aggregators at ε = 1. *Cells*: of a report.",
        "",
        *table_lines(
            (
                "reports",
                "watched",
                "cells",
                "by period 1",
                "by period 2",
                "harmless halted",
                "standard error, period 2",
            ),
            rows,
        ),
    ]
    return lines, found


def planned_lines(runs: int) -> tuple[list[str], list[Planned]]:
    """Return the table of interim analyses."""
    rng = np.random.default_rng(SEED + 4)
    uneven = (9_000, 1_000, 5_000, 8_000, 2_000)
    found = [
        measure_planned(name, rng, runs=20 * runs, cohorts=cohorts, epsilon=epsilon)
        for name, cohorts, epsilon in (
            ("exact, even", (5_000,) * 5, None),
            ("ε = 2, even", (5_000,) * 5, Fraction(2)),
            ("ε = 2, uneven", uneven, Fraction(2)),
            ("ε = 1, even", (5_000,) * 5, Fraction(1)),
            ("ε = 2, even", (1_250,) * 20, Fraction(2)),
            ("ε = 2, even", (12_500,) * 2, Fraction(2)),
        )
    ]
    rows = [
        (
            one.name,
            str(one.analyses),
            *(f"{part:.1%}" for part in (one.wins, one.at_will, one.fixed, one.power, one.power_at_will, one.used)),
            f"{one.half_width:.2f}, {one.half_width_at_will:.2f}",
        )
        for one in found
    ]
    lines = [
        "### Interim analyses: what they promise and what they save",
        "",
        f"{20 * runs:,} runs of two arms that accept {RATE:.0%}, 25,000 reports at the last analysis. *False wins* of",
        "equal arms: by interim analyses (promise: 5 %, all of which they spend; 0.3 % more or less is chance), at",
        "will by the confidence sequence at the same moments, and by a fixed test at 5 % at each. *Found*: an effect",
        f"that interim analyses shall find in {POWER:.0%}. *Reports used*: mean part of them at which they end",
        "where there is that effect. *Reach*: standard errors that a difference needs at the last analysis,",
        "planned and at will.",
        f"Five even analyses need {', '.join(f'{bound:.2f}' for bound in half_widths((1,) * 5)[0])}.",
        "",
        *table_lines(
            ("reports", "analyses", "false wins", "at will", "fixed test", "found", "at will", "reports used", "reach"),
            rows,
        ),
    ]
    return lines, found


def cuped_lines(runs: int) -> tuple[list[str], list[Gain]]:
    """Return the table of what CUPED does to standard errors."""
    found = gains(np.random.default_rng(SEED + 5), runs=max(1, runs // 50))
    rows = []
    for first in range(0, len(found), len(CUPED_DEVICES)):
        own = found[first : first + len(CUPED_DEVICES)]
        one = own[0]
        rows.append(
            (
                ", ".join(f"{edge:g}" for edge in one.edges),
                f"{one.correlation:g}",
                name_of(one.mechanism, one.epsilon),
                f"{4 * one.latency_bins} to {4 * one.latency_bins * (len(one.edges) + 2)}",
                *(f"{gain.forecast:.2f} ({gain.simulated:.2f})" for gain in own),
            )
        )
    lines = [
        "### CUPED: where it pays",
        "",
        "Standard error of the corrected difference, relative to that of reports without the earlier share: below 1",
        f"it pays. Two equal arms, {CUPED_RATE:.0%} accepted, one window. Forecast, and in parentheses what",
        f"{max(1, runs // 50):,} simulated fleets were given. Correlation: of a device's earlier share and one later",
        "outcome. Cells: without and with the earlier share.",
        "",
        *table_lines(
            ("edges", "correlation", "reports", "cells", *(f"{devices:,} devices" for devices in CUPED_DEVICES)), rows
        ),
    ]
    return lines, found


def plot(runs: int) -> str:
    """Return the picture of halts of equal arms over the analyses."""
    rng = np.random.default_rng(SEED + 3)
    analyses = two_cell_sums(
        rng, runs=runs, cohorts=(2_000,) * ANALYSES, rates=(CRASH_RATE, CRASH_RATE), deviation=DEVIATIONS[1]
    )
    lines = {"always valid": halted_by(analyses), "naive, each analysis": naively_halted_by(analyses)}
    return shares(
        f"Equal arms halted, σ = {DEVIATIONS[1]:g}, 2,000 devices per arm and analysis",
        "analysis",
        {
            name: [(float(analysis), float(part)) for analysis, part in enumerate(parts, 1)]
            for name, parts in lines.items()
        },
        0.05,
    )


def main() -> None:
    """Simulate and print."""
    argument = argparse.ArgumentParser(
        prog="python -m benchmarks.statistics",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    argument.add_argument("--runs", type=int, default=1000, help="simulated fleets for each line")
    argument.add_argument("--json", type=Path, metavar="FILE", help="write what is found as JSON")
    argument.add_argument("--write", type=Path, metavar="FILE.md", help="write the section of a page")
    argument.add_argument("--plans", action="store_true", help="the plans only, and what they find, in a minute")
    argument.add_argument("--latency", action="store_true", help="the devices that latency guardrails need only")
    argument.add_argument("--boundaries", action="store_true", help="error rates at the boundary of each null only")
    argument.add_argument("--needs", action="store_true", help="what an app needs for its first questions only")
    arguments = argument.parse_args()
    if arguments.needs:
        need_text, needs = need_table(4 * arguments.runs, SEED + 8)
        need_text += comparison_lines()
        print("\n".join(need_text))
        write_json(arguments.json, [vars(need) for need in needs])
        if arguments.write:
            NEEDS.write(arguments.write, "\n".join(need_text), {})
        return
    if arguments.boundaries:
        boundary_text, _ = boundary_lines(20 * arguments.runs, SEED + 7)
        print("\n".join(boundary_text))
        if arguments.write:
            BOUNDARIES.write(arguments.write, "\n".join(boundary_text), {})
        return
    if not arguments.latency:
        found_text, found_plans = found_lines(4 * arguments.runs, SEED + 6)
        plan_text = "\n".join([*plan_lines(), *need_lines()])
        if arguments.write:
            PLANS.write(arguments.write, plan_text, {})
            FOUND.write(arguments.write, "\n".join(found_text), {})
        if arguments.plans:
            print("\n".join([plan_text, *found_text]))
            return
    latency_text, latencies = latency_lines(arguments.runs // 10, SEED + 7)
    if arguments.write:
        LATENCY.write(arguments.write, "\n".join(latency_text), {})
    if arguments.latency:
        print("\n".join(latency_text))
        write_json(arguments.json, [{"latency": latencies}])
        return
    runs = arguments.runs
    rows = all_false_calls(runs)
    covered, covered_figures = coverage_lines(runs)
    detected, detections = detection_lines(runs)
    planned_text, plans = planned_lines(runs)
    cuped_text, cuped_gains = cuped_lines(runs)
    text = "\n".join([*false_call_lines(rows, runs), *covered, *detected, *planned_text, *cuped_text])
    print("\n".join([text, plan_text, *found_text, *latency_text]))
    if arguments.write:
        SECTION.write(arguments.write, text, {"false_halts.svg": plot(runs)})
    found = {
        "latency": latencies,
        "plans": [
            vars(one.plan) | {"epsilon": float(one.plan.epsilon), "devices": one.devices, "wins": one.wins}
            for one in found_plans
        ],
        "false_calls": [vars(row) for row in rows],
        "coverage": covered_figures,
        "planned": [vars(one) for one in plans],
        "detection": [vars(one) | {"epsilon": float(one.epsilon)} for one in detections],
        "cuped": [vars(one) | {"epsilon": float(one.epsilon)} for one in cuped_gains],
    }
    write_json(arguments.json, [found])


if __name__ == "__main__":
    main()
