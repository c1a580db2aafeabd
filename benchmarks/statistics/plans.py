"""Computes how many devices plans need under each mechanism."""

from fractions import Fraction

from alcove.platform.stats import Mechanism, PowerModel, share_model
from alcove.privacy.subset_selection import best_subset_size

from benchmarks.sections import Section, table_lines

SECTION = Section("plans", "python -m benchmarks.statistics --plans --write docs/statistics.md")
MECHANISMS = (
    (Mechanism.EXACT, Fraction(1)),
    (Mechanism.PRIO3, Fraction(1)),
    (Mechanism.RANDOMIZED_RESPONSE, Fraction(2)),
    (Mechanism.RANDOMIZED_RESPONSE, Fraction(1)),
)
DIFFERENCES = {"10 points": 0.1, "5 points": 0.05, "2 points": 0.02, "1 point": 0.01, "0.5 points": 0.005}
WINDOWS = 2
RATE = 0.8


def name_of(mechanism: Mechanism, epsilon: Fraction) -> str:
    """Return a mechanism for people."""
    words = {
        Mechanism.EXACT: "exact",
        Mechanism.PRIO3: f"two aggregators, ε = {float(epsilon):g}",
        Mechanism.RANDOMIZED_RESPONSE: f"randomized response, ε = {float(epsilon):g}",
    }
    return words[mechanism]


def plan_lines() -> list[str]:
    """Return how many devices plans need."""
    cases = ((8, 0.05, 0), (8, 0.02, 0), (8, 0.01, 0), (1, 0.02, 0), (1, 0.02, 5))
    return [
        "### Plans: devices that find a difference",
        "",
        f"Two equal arms, {100 * RATE:g} % accepted, one window, power 80 %, α = 5 % over all analyses. Columns:",
        "difference and latency bins; the last one with five interim analyses instead of any number.",
        "",
        *table_lines(
            ("reports", "5 %, 8 bins", "2 %, 8 bins", "1 %, 8 bins", "2 %, 1 bin", "5 analyses"),
            [
                (
                    name_of(mechanism, epsilon),
                    *(_need(mechanism, epsilon, mde, bins=bins, analyses=analyses) for bins, mde, analyses in cases),
                )
                for mechanism, epsilon in MECHANISMS
            ],
        ),
    ]


def need_lines() -> list[str]:
    """Return how many devices find differences from large to small in two windows."""
    return [
        f"Differences from large to small, found in {WINDOWS} windows in each of which every device reports; the",
        "rest as above. Cells: of a report, two arms, two outcomes, one latency bin or eight; of 32 cells reports name",
        "the set of them that the server chooses.",
        "",
        *table_lines(
            ("reports", "cells", *DIFFERENCES),
            [
                (
                    name_of(mechanism, epsilon),
                    str(4 * bins),
                    *(_need(mechanism, epsilon, mde, bins=bins, windows=WINDOWS) for mde in DIFFERENCES.values()),
                )
                for bins in (1, 8)
                for mechanism, epsilon in MECHANISMS
            ],
        ),
    ]


def _need(
    mechanism: Mechanism, epsilon: Fraction, mde: float, *, bins: int = 1, windows: int = 1, analyses: int = 0
) -> str:
    cells = 4 * bins
    size = best_subset_size(cells, epsilon) if mechanism is Mechanism.RANDOMIZED_RESPONSE else 1
    metric, halves = share_model(RATE, bins=bins), (0.5, 0.5)
    model = PowerModel(metric, halves, mechanism, epsilon, analyses=analyses, subset_size=size)
    need = model.devices_needed(mde, windows)
    return "none" if need is None else f"{need:,}"
