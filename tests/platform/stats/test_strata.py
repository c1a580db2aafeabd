"""Differences of stages are combined without bias, with the error that devices in several stages leave."""

import numpy as np
import pytest
from alcove.platform.stats import (
    Aggregate,
    ArgumentError,
    GuardMetric,
    Guardrail,
    GuardTests,
    Stratum,
    effective_reports,
    evaluate_guardrail,
)
from alcove.platform.stats.strata import StratumDifference, combine, combine_weights

ERRORS = Guardrail(GuardMetric.ERROR, 0.01)


def stage(rates: tuple[float, float], devices: tuple[int, int], *, deviation: float = 0.0) -> Aggregate:
    """Return a stage with these error rates and devices of treatment and control; control is arm 0."""
    counts = np.zeros((2, 4, 1))
    for arm, (rate, size) in enumerate(zip(reversed(rates), reversed(devices), strict=True)):
        counts[arm, 1], counts[arm, 2] = (1.0 - rate) * size, rate * size
    return Aggregate(counts, np.eye(8) * deviation**2, sum(devices))


def difference(value: float, *, sampling: float, noise: float, devices: float) -> StratumDifference:
    """Return one difference."""
    return StratumDifference(np.asarray(value), np.asarray(sampling), np.asarray(noise), devices)


@pytest.mark.parametrize("deviation", [0.0, 20.0])
def test_stages_of_other_rates_and_shares_show_no_effect_where_none_is(deviation: float) -> None:
    """Simpson's paradox: 1 % of errors at first and 20 % later, groups split evenly, then 9 : 1; pooled counts lie."""
    strata = [
        Stratum(stage((0.01, 0.01), (100_000, 100_000), deviation=deviation)),
        Stratum(stage((0.2, 0.2), (90_000, 10_000), deviation=deviation), treatment_share=0.9),
    ]
    tests = GuardTests.at_will(0.05, reports=effective_reports(strata), planned_reports=200_000)
    verdict = evaluate_guardrail(strata, ERRORS, control=0, treatment=1, tests=tests)
    assert verdict.difference == pytest.approx(0.0, abs=1e-12)
    counts = np.sum([stratum.aggregate.estimates for stratum in strata], axis=0)
    rates = counts[:, 2, 0] / counts.sum(axis=(1, 2))
    assert rates[1] - rates[0] > 0.07
    assert verdict.kind.value != "harmful"
    assert effective_reports(strata) == pytest.approx(200_000 + 36_000)


def test_weights_are_the_reports_where_noise_is_large_and_none_where_a_stage_says_nothing_new() -> None:
    """Two stages, 1 : 3. Noise of each report: 1 : 3. Devices alone, those of the first in the second: 0 : 1."""
    noisy = [
        difference(0.04, sampling=0.0, noise=3e-4, devices=1_000),
        difference(0.0, sampling=0.0, noise=1e-4, devices=3_000),
    ]
    weights = combine_weights(noisy)
    assert weights == pytest.approx([0.25, 0.75])
    found = combine(noisy, weights)
    assert float(found.value) == pytest.approx(0.01)
    assert float(found.standard_error) ** 2 == pytest.approx(3e-4 / 16 + 9e-4 / 16)
    known = [
        difference(0.04, sampling=3e-4, noise=0.0, devices=1_000),
        difference(0.0, sampling=1e-4, noise=0.0, devices=3_000),
    ]
    assert combine_weights(known) == pytest.approx([0.0, 1.0], abs=1e-6)
    assert combine_weights(known[:1]) == pytest.approx([1.0])


def test_more_stages_never_widen_what_the_present_one_says() -> None:
    """Any noise and any sizes: the stated error is at most that of the last stage alone."""
    rng = np.random.default_rng(20_271_211)
    for _ in range(200):
        devices = np.sort(rng.integers(100, 100_000, rng.integers(1, 5))).astype(float)
        noise = rng.uniform(0.0, 20.0)
        strata = [difference(0.0, sampling=0.1 / size, noise=noise * 0.1 / size, devices=size) for size in devices]
        pooled = combine(strata, combine_weights(strata))
        assert float(pooled.standard_error) <= 1.000001 * np.sqrt((1.0 + noise) * 0.1 / devices[-1])


def test_devices_that_say_the_same_in_two_stages_leave_the_error_that_is_stated() -> None:
    """1,000 devices of a first stage are among the 4,000 of a second; simulated with noise, against what is stated."""
    rng = np.random.default_rng(20_271_210)
    runs, few, many, rate = 20_000, 1_000, 4_000, 0.3
    first = rng.binomial(few, rate, (2, runs))
    both = first + rng.binomial(many - few, rate, (2, runs))
    own = 2.0 * rate * (1.0 - rate)
    strata = [
        StratumDifference(
            (part[0] - part[1]) / size + rng.normal(0.0, np.sqrt(2.0 * own / size), runs),
            np.full(runs, own / size),
            np.full(runs, 2.0 * own / size),
            float(size),
        )
        for part, size in ((first, few), (both, many))
    ]
    weights = combine_weights(strata)
    stated = combine(strata, weights)
    assert 0.05 < weights[0, 0] < 0.2
    assert float(stated.value.std()) == pytest.approx(float(stated.standard_error[0]), rel=0.02)


def test_a_stage_that_noise_hides_is_left_out_until_it_is_known() -> None:
    """Its estimate moves nothing; nothing at all is known where every stage is like it."""
    known, hidden = stage((0.02, 0.02), (50_000, 50_000), deviation=5.0), stage((0.5, 0.0), (20, 20), deviation=50.0)
    tests = GuardTests.at_will(0.05, reports=100_000, planned_reports=100_000)

    def read(*aggregates: Aggregate) -> object:
        return evaluate_guardrail(
            [Stratum(each) for each in aggregates], ERRORS, control=0, treatment=1, tests=tests
        ).difference

    assert read(hidden, known) == read(known)
    assert read(hidden) is None


@pytest.mark.parametrize(("share", "per_device", "name"), [(0.0, 1, "treatment_share"), (0.5, 0, "reports_per_device")])
def test_a_stage_out_of_its_bounds_is_refused(share: float, per_device: int, name: str) -> None:
    """Typed, with the field."""
    with pytest.raises(ArgumentError) as caught:
        Stratum(stage((0.1, 0.1), (10, 10)), share, per_device)
    assert caught.value.name == name
    with pytest.raises(ArgumentError):
        combine_weights([])
