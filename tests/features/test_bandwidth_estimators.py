"""The baseline bandwidth estimators follow their descriptions, and the harness computes its scores as defined."""

import math
from dataclasses import replace

import numpy as np
import pytest
from alcove.features.bandwidth.baselines import BASELINES, START_BPS, GoogCc, RateKalman, WindowMax
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, MIDDLE, MIN_CAPACITY_BPS, STATISTICS
from alcove.features.bandwidth.harness import (
    REACHES,
    STEP_TICK,
    STEP_TICKS,
    WARM_UP_TICKS,
    certainty,
    estimates_of,
    score,
    settling_s,
    step_recording,
    step_response,
)
from alcove.features.bandwidth.observation import observations_of
from alcove.features.bandwidth.replay import Recording

NAMES = [known.name for known in STATISTICS]


def make_statistics(ticks: int, **changes: float | np.ndarray) -> np.ndarray:
    """Return statistics f32 [1, ticks, 2, 15] of a steady call at 1 Mbps and 50 ms, but for `changes` by name."""
    steady: dict[str, float | np.ndarray] = {
        "receiving_rate_bps": 1e6,
        "received_packets": 8.0,
        "delay_ms": -150.0,
        "minimum_seen_delay_ms": 50.0,
        "delay_ratio": 1.0,
        "video_packets_probability": 1.0,
    }
    made = np.zeros((1, ticks, 2, len(NAMES)), np.float32)
    for name, value in (steady | changes).items():
        made[0, :, :, NAMES.index(name)] = np.broadcast_to(value, ticks)[:, None]
    made[0, :10, 1, 0] *= np.arange(1, 11) / 10  # the first long windows are not full
    return made


def test_gcc_rises_by_8_percent_a_second_and_stops_at_half_more_than_arrives() -> None:
    """Without overuse: first the growth, then the bound of 1.5 times the received rate and 10 kbps."""
    given = estimates_of(GoogCc, make_statistics(2000, receiving_rate_bps=250e3))[0]
    second = 1000 / 60
    assert given[0] == pytest.approx(START_BPS * 1.08 ** (1 / second), rel=1e-3)
    assert given[10] / given[5] == pytest.approx(1.08 ** (5 / second), rel=1e-3)
    assert given[-1] == pytest.approx(1.5 * 250e3 + 10e3, rel=0.01)


def test_gcc_falls_to_85_percent_of_what_arrives_when_delay_grows() -> None:
    """Overuse: a queue that grows by 10 ms a tick."""
    delay = np.concatenate([np.full(100, -150.0), -150 + 10.0 * np.arange(60)])
    given = estimates_of(GoogCc, make_statistics(160, delay_ms=delay))[0]
    assert given[99] >= 1e6
    assert given[110] == pytest.approx(0.85e6, rel=0.01)


def test_gcc_threshold_adapts_so_that_jitter_is_no_overuse() -> None:
    """Delay that only trembles, by 8 ms, leaves the estimate at what arrives or more."""
    delay = -150 + np.random.default_rng(0).normal(0, 8, 400)
    given = estimates_of(GoogCc, make_statistics(400, delay_ms=delay))[0]
    assert np.median(given[100:]) >= 0.85e6


def test_gcc_falls_with_loss_above_ten_percent_and_not_with_a_little() -> None:
    """Loss-based control: 1 - loss / 2 a second, 17 ticks."""
    little, much = (
        estimates_of(GoogCc, make_statistics(200, packet_loss_ratio=np.where(np.arange(200) < 100, 0, loss)))[0]
        for loss in (0.05, 0.3)
    )
    assert little[-1] >= 0.99 * little[99]
    assert much[116] / much[99] == pytest.approx(0.85, abs=0.04)


def test_kalman_filter_follows_the_received_rate_down_only_with_a_queue() -> None:
    """A sender that sends less says nothing of the link; a queue says that the link is full."""
    rate = np.where(np.arange(200) < 100, 2e6, 5e5)
    idle = estimates_of(RateKalman, make_statistics(200, receiving_rate_bps=rate))[0]
    full = estimates_of(RateKalman, make_statistics(200, receiving_rate_bps=rate, queuing_delay_ms=100.0))[0]
    assert idle[99] == pytest.approx(2e6, rel=0.02)
    assert idle[199] == pytest.approx(2e6, rel=0.02)
    assert full[199] == pytest.approx(5e5, rel=0.02)


def test_windowed_maximum_remembers_three_seconds() -> None:
    """50 ticks after the last high rate it is forgotten."""
    rate = np.where(np.arange(200) < 100, 2e6, 5e5)
    given = estimates_of(WindowMax, make_statistics(200, receiving_rate_bps=rate))[0]
    assert given[148] == pytest.approx(2e6)
    assert given[149] == pytest.approx(5e5)


@pytest.mark.parametrize("name", BASELINES)
def test_baseline_stays_within_bounds_without_packets_and_with_huge_rates(name: str) -> None:
    """Finite, within what an estimate may be."""
    rate = np.where(np.arange(300) < 100, 0.0, 1e10)
    packets = np.where(np.arange(300) < 100, 0.0, 1e3)
    given = estimates_of(BASELINES[name], make_statistics(300, receiving_rate_bps=rate, received_packets=packets))
    assert np.isfinite(given).all()
    assert given.min() >= MIN_CAPACITY_BPS
    assert given.max() <= MAX_CAPACITY_BPS


@pytest.fixture(scope="module")
def steps() -> dict[float, Recording]:
    """Calls with a step up, and with one down."""
    return {factor: step_recording(factor, 24, seed=1) for factor in (2.0, 0.5)}


@pytest.mark.parametrize("name", BASELINES)
def test_baseline_is_of_the_right_size_on_simulated_calls(name: str, steps: dict[float, Recording]) -> None:
    """Before the step, the median estimate is between a third of the capacity and a fifth above it."""
    given = estimates_of(BASELINES[name], steps[0.5].statistics)
    ratio = np.median((given / steps[0.5].capacity_bps)[:, 100:STEP_TICK])
    assert 0.33 < ratio < 1.2


def test_score_is_that_of_the_definition(steps: dict[float, Recording]) -> None:
    """An oracle has no error; one that says 10 % too much or too little has that; the first second is not scored."""
    recording = steps[2.0]
    truth = recording.capacity_bps.astype(np.float64)
    assert score(truth, recording).error_bps == 0
    more, less = score(truth * 1.1, recording), score(truth * 0.9, recording)
    assert more.relative_error == pytest.approx(0.1)
    assert more.error_bps == pytest.approx(0.1 * truth[:, WARM_UP_TICKS:].mean())
    assert (more.over_rate, less.over_rate) == (1.0, 0.0)
    assert more.overshoot == pytest.approx(0.1)
    early = truth.copy()
    early[:, :WARM_UP_TICKS] = 0
    assert score(early, recording).error_bps == 0
    part = replace(recording, is_scored=np.arange(STEP_TICKS) < 100)
    part = replace(part, is_scored=np.broadcast_to(part.is_scored, truth.shape))
    late = truth.copy()
    late[:, 100:] = 0
    assert score(late, part).error_bps == 0
    with pytest.raises(ValueError, match="more than 17 ticks"):
        score(truth, replace(recording, is_scored=np.zeros_like(recording.is_scored)))


def test_certainty_of_an_honest_deviation_is_that_of_a_normal_distribution(steps: dict[float, Recording]) -> None:
    """Estimates as far below the truth as the contract says: 68 and 95 %; half the deviation: 38 and 68 %."""
    recording = steps[0.5]
    truth = recording.capacity_bps.astype(np.float64)
    deviation = 0.1 * truth
    middle = truth + deviation * np.random.default_rng(0).normal(size=truth.shape)
    honest = certainty(middle - MIDDLE * deviation, deviation, recording)
    assert [honest.within_1, honest.within_2] == pytest.approx([0.683, 0.954], abs=0.02)
    assert list(honest.within) == pytest.approx([math.erf(reach / math.sqrt(2)) for reach in REACHES], abs=0.02)
    assert honest.below_1 == pytest.approx(honest.above_1, abs=0.02)
    assert honest.deviation == pytest.approx(0.1)
    bold = certainty(middle - MIDDLE * deviation / 2, deviation / 2, recording)
    assert [bold.within_1, bold.within_2] == pytest.approx([0.383, 0.683], abs=0.02)
    low = certainty(truth / 2, deviation / 10, recording)
    assert (low.above_1, low.below_1, low.within_2) == (1.0, 0.0, 0.0)


def test_settling_time_is_that_of_the_first_lasting_approach(steps: dict[float, Recording]) -> None:
    """Ten ticks late; near for a moment before; never."""
    truth = steps[2.0].capacity_bps.astype(np.float64)
    late = np.concatenate([truth[:, :1].repeat(STEP_TICK + 10, axis=1), truth[:, STEP_TICK + 10 :]], axis=1)
    assert settling_s(late, steps[2.0]) == pytest.approx(11 * 0.06)
    late[:, STEP_TICK + 2 : STEP_TICK + 5] = truth[:, -1:]
    assert settling_s(late, steps[2.0]) == pytest.approx(11 * 0.06)
    assert np.isinf(settling_s(truth[:, :1].repeat(STEP_TICKS, axis=1), steps[2.0])).all()
    assert step_response(truth, steps[2.0])[[0, -1]] == pytest.approx([1.0, 2.0])


def test_estimators_see_the_past_alone(steps: dict[float, Recording]) -> None:
    """What comes later changes no earlier estimate, and the harness gives the observations in order, whole."""
    statistics = steps[0.5].statistics[:3]

    class Watcher:
        """Keeps what it is given."""

        def __init__(self, n: int) -> None:
            self.n = n
            self.seen: list[np.ndarray] = []

        def update(self, observation: np.ndarray) -> np.ndarray:
            """Return the first value of each call."""
            self.seen.append(observation.copy())
            return observation[:, 0].astype(np.float64)

    watcher = Watcher(3)
    given = estimates_of(lambda n: watcher, statistics, chunk=33)
    assert (np.stack(watcher.seen, axis=1) == observations_of(statistics)).all()
    assert (given == observations_of(statistics)[..., 0]).all()
