"""Measures how far apart the demo's versions are, and what its experiments detect (docs/decisions/0005 and 0045)."""

from __future__ import annotations

import math
from fractions import Fraction

from alcove.features.language_id.contract import LanguageId, program_path
from alcove.platform.cli.demo.actors import Person, load_sentences
from alcove.platform.cli.demo.catalog import CUT_ROWS, LARGE, SMALL, TRIMMED, Release, build_package
from alcove.platform.cli.demo.settings import EPSILONS, LATENCY_EDGES_MS, DemoSettings
from alcove.platform.cli.demo.small_difference import ANALYSES, POWER, detectable
from alcove.platform.stats import Mechanism, PowerModel, share_model
from alcove.privacy.randomized_response import RandomizedResponse
from alcove.registry.policy import HistogramLayout
from alcove.runtime import load

from benchmarks.figures import Figure

PEOPLE = 8000
SURE = 0.999


def measure() -> list[Figure]:
    """Return how often the first guess is right, and the differences that the fleet finds."""
    trimmed_program = build_package(Release(TRIMMED, LARGE, cut_rows=CUT_ROWS)).program("int8")
    small, large = (_first_guess_share(program_path(version).read_bytes()) for version in (SMALL, LARGE))
    trimmed = _first_guess_share(trimmed_program)
    fleet, bins = DemoSettings.fleet, len(LATENCY_EDGES_MS) + 1
    layout = HistogramLayout(2, 2, bins)
    epsilon = Fraction(EPSILONS[Mechanism.RANDOMIZED_RESPONSE])
    keep = float(RandomizedResponse(layout.cell_count, epsilon).keep_probability)
    how = f"{fleet:,} devices, power {SURE:.1%}, one window, always-valid at 5 %"
    note = f"{PEOPLE} people of the demo, opening words"
    figures = [
        Figure(f"first guess accepted, language_id {SMALL}", 100 * small, "%", note),
        Figure(f"first guess accepted, language_id {LARGE}", 100 * large, "%", note),
        Figure("their difference", 100 * (large - small), "points"),
        Figure(f"first guess accepted, {LARGE} with its table trimmed", 100 * trimmed, "%", note),
        Figure("difference from the whole one", 100 * (large - trimmed), "points"),
        Figure("a device tells its own cell", 100 * keep, "%", f"ε = {epsilon}, k = {layout.cell_count}"),
    ]
    for mechanism, loss in EPSILONS.items():
        model = PowerModel(share_model(small, bins=bins), (0.5, 0.5), mechanism, Fraction(loss), power=SURE)
        name = f"difference that the demo finds, {mechanism}, ε = {loss}"
        figures.append(Figure(name, 100 * (model.detectable(fleet) or math.nan), "points", how))
    planned = f"{fleet:,} devices, power {POWER:.0%}, one window, {ANALYSES} interim analyses"
    for way, points in detectable(fleet, bins).items():
        figures.append(Figure(f"small difference that it finds, {way}", 100 * (points or math.nan), "points", planned))
    return figures


def _first_guess_share(program: bytes) -> float:
    session, feature, sentences = load(program).session(), LanguageId(), load_sentences()
    accepted = 0
    for seed in range(PEOPLE):
        typing = Person(seed, sentences).write()
        accepted += feature.decode(session(typing.opening)).language == typing.language
    return accepted / PEOPLE
