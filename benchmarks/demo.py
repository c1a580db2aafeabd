"""Measures how far apart the demo's two versions are, and what its experiment detects (docs/decisions/0005)."""

from __future__ import annotations

from fractions import Fraction

from alcove.features.language_id.contract import LanguageId, program_path
from alcove.platform.cli.demo.actors import Person, load_sentences
from alcove.platform.cli.demo.catalog import LARGE, SMALL
from alcove.platform.cli.demo.scenario import EPSILON, LATENCY_EDGES_MS, DemoSettings
from alcove.platform.stats import Mechanism, PowerModel, share_model
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout
from alcove.runtime import load

from benchmarks.figures import Figure

PEOPLE = 8000
POWER = 0.999


def measure() -> list[Figure]:
    """Return how often the first guess is right, and the difference that the fleet finds."""
    small, large = _first_guess_share(SMALL), _first_guess_share(LARGE)
    fleet = DemoSettings.fleet
    layout, epsilon = HistogramLayout(2, 2, len(LATENCY_EDGES_MS) + 1), Fraction(EPSILON)
    model = share_model(small, bins=layout.latency_bins)
    found = PowerModel(model, (0.5, 0.5), Mechanism.RANDOMIZED_RESPONSE, epsilon, power=POWER).detectable(fleet)
    keep = float(RandomizedResponse(layout.cell_count, epsilon).keep_probability)
    how = f"{fleet:,} devices, power {POWER:.1%}, one window, always-valid at 5 %"
    note = f"{PEOPLE} people of the demo, opening words"
    return [
        Figure(f"first guess accepted, language_id {SMALL}", 100 * small, "%", note),
        Figure(f"first guess accepted, language_id {LARGE}", 100 * large, "%", note),
        Figure("their difference", 100 * (large - small), "points"),
        Figure("a device tells its own cell", 100 * keep, "%", f"ε = {EPSILON}, k = {layout.cell_count}"),
        Figure("difference that the demo finds", 100 * found, "points", how),
    ]


def _first_guess_share(version: str) -> float:
    session, feature, sentences = load(program_path(version)).session(), LanguageId(), load_sentences()
    accepted = 0
    for seed in range(PEOPLE):
        typing = Person(seed, sentences).write()
        accepted += feature.decode(session(typing.opening)).language == typing.language
    return accepted / PEOPLE
