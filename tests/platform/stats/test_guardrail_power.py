"""Plans of guardrails find harm and safety as often as they promise, by the verdicts' own rule."""

import itertools
import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from alcove.platform.stats import (
    ArgumentError,
    GuardKind,
    GuardMetric,
    Guardrail,
    GuardTests,
    Mechanism,
    MetricModel,
    Stratum,
    aggregate_from_noised_histogram,
    evaluate_guardrail,
)
from alcove.platform.stats.arm_covariance import ReportModel
from alcove.platform.stats.guardrail_power import GuardrailModel, HarmTest, SafeTest, devices_for
from alcove.platform.stats.one_sided import AlwaysValidBound, HarmBound, Look, PlannedBound
from numpy.typing import NDArray

from benchmarks.statistics.guarded import Stage, harm_calls, safe_calls, windows_of

MARGIN, HARM, ALPHA = 0.005, 0.02, 0.05
WAYS = (
    (Mechanism.RANDOMIZED_RESPONSE, Fraction(2), 4),
    (Mechanism.RANDOMIZED_RESPONSE, Fraction(1), 8),
    (Mechanism.PRIO3, Fraction(1), 8),
)


def crashes(mechanism: Mechanism, epsilon: Fraction, *, outcomes: int = 2) -> GuardrailModel:
    """A guardrail on crashes of 0.1 % of the devices, the last of the outcomes."""
    rates = np.full(outcomes, 0.999 / (outcomes - 1))
    rates[-1] = 0.001
    weights = np.zeros(outcomes)
    weights[-1] = 1.0
    return GuardrailModel(MetricModel(weights, np.ones(outcomes), rates), MARGIN, ReportModel(mechanism, epsilon))


@pytest.mark.parametrize(("mechanism", "epsilon", "windows"), WAYS)
def test_harm_and_safety_are_found_as_often_as_planned(mechanism: Mechanism, epsilon: Fraction, windows: int) -> None:
    """4,000 runs: 95 % of harm within two windows, 80 % of safety within the horizon; at the margin neither often."""
    rng = np.random.default_rng(20_271_110)
    model, harm, safe = crashes(mechanism, epsilon), HarmTest(ALPHA, windows), SafeTest.each_window(ALPHA, windows)
    devices = devices_for(lambda each: model.harm_power(HARM, each, 2, harm), 0.95)
    assert devices is not None
    stage = Stage(model, HARM, devices, 2)
    assert part(harm_calls(stage, windows_of(stage, rng, runs=4_000), harm)) == pytest.approx(0.95, abs=0.025)
    devices = devices_for(lambda each: model.safe_power(each, windows, safe), 0.8)
    assert devices is not None
    stage = Stage(model, 0.0, devices, windows)
    assert part(safe_calls(stage, windows_of(stage, rng, runs=4_000), safe)) == pytest.approx(0.8, abs=0.03)
    brink = Stage(model, MARGIN, devices, windows)
    seen = windows_of(brink, rng, runs=4_000)
    assert part(harm_calls(brink, seen, harm)) <= ALPHA
    assert part(safe_calls(brink, seen, safe)) <= ALPHA + 3.3 * math.sqrt(ALPHA / 4_000)


def part(calls: NDArray[np.bool_]) -> float:
    """The part of the runs in which something is called at the end of some window."""
    return float(calls.any(axis=0).mean())


def test_one_look_without_noise_is_the_textbook() -> None:
    """Harm: z of the bound and of the power over sampling at both rates; safety states what the margin's rates vary."""
    model = crashes(Mechanism.EXACT, Fraction(1))
    bound = HarmTest(ALPHA, 1).bounds(1)[0]
    devices = 40_000
    error = math.sqrt(2 * (0.001 * 0.999 + 0.021 * 0.979) / devices)
    expected = NormalDist().cdf((HARM - MARGIN) / error - bound)
    assert model.harm_power(HARM, devices, 1, HarmTest(ALPHA, 1)) == pytest.approx(expected, abs=1e-6)
    own = math.sqrt(2 * 2 * 0.001 * 0.999 / devices)
    stated = math.sqrt(2 * 0.005 * 0.995 / devices)  # no crash in the control, the margin in the treatment
    expected = NormalDist().cdf((MARGIN - NormalDist().inv_cdf(1 - ALPHA) * stated) / own)
    assert model.safe_power(devices, 1, SafeTest.each_window(ALPHA, 1)) == pytest.approx(expected, abs=1e-4)


def test_the_simulation_calls_what_the_verdict_calls() -> None:
    """Two aggregators, thirty runs of three windows at the brink: the same kind at the end of each window."""
    model = crashes(Mechanism.PRIO3, Fraction(1), outcomes=4)
    harm, safe = HarmTest(ALPHA, 3), SafeTest.each_window(ALPHA, 3)
    guardrail = Guardrail(GuardMetric.CRASH_FALLBACK, MARGIN)
    kinds = set()
    for difference, devices in ((HARM, 3_000), (0.0, 9_000)):
        stage = Stage(model, difference, devices, 3)
        seen = windows_of(stage, np.random.default_rng(20_271_111), runs=30)
        harmful, sound = harm_calls(stage, seen, harm), safe_calls(stage, seen, safe)
        for run, window in itertools.product(range(30), (1, 2, 3)):
            events_t, base_t, events_c, base_c = seen[window - 1].sums[run]
            cells = np.zeros((2, 4, 1))
            cells[:, 3, 0], cells[:, 0, 0] = (events_c, events_t), (base_c - events_c, base_t - events_t)
            aggregate = aggregate_from_noised_histogram(
                cells, reports=devices * window, epsilon=Fraction(1), windows=window
            )
            looks = tuple(Look(each, each) for each in range(1, window + 1))
            tests = GuardTests(HarmBound(AlwaysValidBound(ALPHA, window, 3)), PlannedBound(ALPHA, looks, 3))
            stratum = Stratum(aggregate, 0.5, window)
            kind = evaluate_guardrail([stratum], guardrail, control=0, treatment=1, tests=tests).kind
            kinds.add(kind)
            assert (kind is GuardKind.HARMFUL) == harmful[window - 1, run]
            assert (kind is GuardKind.SAFE) == (sound[window - 1, run] and not harmful[window - 1, run])
    assert kinds == set(GuardKind)


def test_wrong_use_names_the_argument() -> None:
    """Bounds of a plan; nothing is planned that no number of devices finds."""
    model = crashes(Mechanism.EXACT, Fraction(1))
    with pytest.raises(ArgumentError, match="devices"):
        model.harm_power(HARM, 0, 1, HarmTest(ALPHA, 1))
    with pytest.raises(ArgumentError, match="devices"):
        model.safe_power(1, 0, SafeTest.each_window(ALPHA, 1))
    with pytest.raises(ArgumentError, match="devices"):
        model.harm_power(HARM, 10**12, 2, HarmTest(ALPHA, 1))
    assert model.harm_power(MARGIN, 10**9, 1, HarmTest(ALPHA, 1)) == 0.0
    assert model.safe_power(10**9, 1, SafeTest.each_window(ALPHA, 1), difference=MARGIN) == 0.0
    assert devices_for(lambda each: 0.5, 0.8) is None
    assert model.detectable(10, 1, HarmTest(ALPHA, 1), power=0.95) is not None
    noisy = crashes(Mechanism.RANDOMIZED_RESPONSE, Fraction(1, 10))
    assert noisy.detectable(100, 1, HarmTest(ALPHA, 1), power=0.95) is None
    found = model.detectable(40_000, 2, HarmTest(ALPHA, 2), power=0.95)
    assert found is not None
    assert model.harm_power(found, 40_000, 2, HarmTest(ALPHA, 2)) == pytest.approx(0.95, abs=1e-6)


def test_plan_of_hundreds_of_windows_asks_for_a_few_devices_too_many_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """The analyses that are left out of a power could only have found more, by an eighth of the devices at most."""
    model, harm = crashes(Mechanism.RANDOMIZED_RESPONSE, Fraction(1, 10)), HarmTest(ALPHA, 40)
    few, more = (model.harm_power(HARM, devices, 40, harm) for devices in (2_000_000, 2_250_000))
    with monkeypatch.context() as every:
        every.setattr("alcove.platform.stats.guardrail_power._MAX_LOOKS", 40)
        assert few < model.harm_power(HARM, 2_000_000, 40, harm) < more
    assert 0.1 < few < 0.9
    hourly = SafeTest.each_window(ALPHA, 720)
    assert sum(map(math.isfinite, hourly.bounds(720))) <= 20
    assert all(map(math.isinf, hourly.bounds(1)[1:]))
    assert 0.0 < model.safe_power(2_000_000, 720, hourly) < 1.0
