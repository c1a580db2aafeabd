"""What a sender is told to send: the brake of a queue, the ceiling of a path that dips, probes after silences."""

import numpy as np
import pytest
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, OBSERVATION_SIZE, STATISTICS, WINDOWS
from alcove.features.bandwidth.controller import (
    CALM_S,
    DIP_FLOOR_BPS,
    DIP_SHARE,
    FIRST_PROBE_BPS,
    FREE_QUEUE_MS,
    FULL_QUEUE_MS,
    GROWTH,
    LEAST_BRAKE,
    MOST_PROBES,
    RateController,
)

NAMES = [known.name for known in STATISTICS]
SECOND = 1000 / 60


def observe(delay_ms: float = 40.0, rate_bps: float = 2e6, probes: float = 0.0, packets: float = 12.0) -> np.ndarray:
    """Return an observation f32 [1, 150] whose windows are all alike."""
    made = np.zeros((1, len(NAMES), 2 * WINDOWS), np.float32)
    values = {
        "receiving_rate_bps": rate_bps,
        "received_packets": packets,
        "delay_ms": delay_ms - 200.0,
        "probing_packets_probability": probes,
    }
    for name, value in values.items():
        made[0, NAMES.index(name)] = value
    return made.reshape(1, OBSERVATION_SIZE)


def follow(
    controller: RateController,
    ticks: int,
    observation: np.ndarray,
    capacity_bps: float,
    wanted_bps: float | None = None,
) -> tuple[float, list[float]]:
    """Return the last target, and the rates of the probes, of some ticks that are alike."""
    wanted = None if wanted_bps is None else np.array([wanted_bps])
    probes = []
    for _ in range(ticks):
        advice = controller.update(observation, np.array([capacity_bps]), wanted)
        probes.append(float(advice.probe_bps[0]))
    return float(advice.target_bps[0]), [rate for rate in probes if rate]


def test_estimate_is_the_target_without_a_queue() -> None:
    """And no probe is advised to an app that does not say what it wants."""
    assert follow(RateController(1), 50, observe(), 3e6) == (3e6, [])


def test_queue_brakes_and_silence_brakes_most() -> None:
    """Halfway through the brake's range: a half.  No packets for two ticks: the least."""
    controller = RateController(1)
    follow(controller, 50, observe(), 3e6)
    queue_ms = FREE_QUEUE_MS + 20.0
    target, _ = follow(controller, 1, observe(40.0 + queue_ms), 3e6)
    assert target == pytest.approx(3e6 * (1 - 20.0 / FULL_QUEUE_MS), rel=0.02)
    follow(controller, 50, observe(), 3e6)
    target, _ = follow(controller, 2, observe(packets=0.0, rate_bps=0.0), 3e6)
    assert target == pytest.approx(LEAST_BRAKE * 3e6)


def test_dip_sets_a_ceiling_that_grows_slowly_and_fast_when_all_is_calm() -> None:
    """Half of what came through; 5 % a second; after some seconds without a dip, back soon."""
    controller = RateController(1)
    follow(controller, 50, observe(), 4e6)
    follow(controller, 2, observe(300.0, rate_bps=1e6), 4e6)
    target, _ = follow(controller, 1, observe(), 4e6)
    assert target == pytest.approx(DIP_SHARE * 1e6, rel=0.01)
    target, _ = follow(controller, round(5 * SECOND), observe(), 4e6)
    assert target == pytest.approx(DIP_SHARE * 1e6 * GROWTH**5, rel=0.02)
    target, _ = follow(controller, round((CALM_S + 2) * SECOND), observe(), 4e6)
    assert target == 4e6


def test_dip_to_nothing_leaves_the_least_ceiling() -> None:
    """The packets of a blocked path come when it is free again, late."""
    controller = RateController(1)
    follow(controller, 50, observe(), 4e6)
    follow(controller, 3, observe(500.0, rate_bps=1e3), 4e6)
    target, _ = follow(controller, 1, observe(), 4e6)
    assert target == pytest.approx(DIP_FLOOR_BPS, rel=0.02)


def test_longer_route_is_no_queue_for_ever() -> None:
    """A handover that makes the way 100 ms longer brakes for ten seconds at most, and the rate comes back."""
    controller = RateController(1)
    follow(controller, 200, observe(40.0), 3e6)
    target, _ = follow(controller, 400, observe(140.0), 3e6)
    assert target == 3e6


def test_jitter_is_no_dip() -> None:
    """Delay that jumps by 40 ms from tick to tick leaves most of the rate."""
    controller, rng, targets = RateController(1), np.random.default_rng(1), []
    for _ in range(600):
        target, _ = follow(controller, 1, observe(40.0 + rng.exponential(25.0)), 3e6)
        targets.append(target)
    assert np.median(targets[200:]) > 1.5e6


def test_call_begins_with_a_probe_and_doubles_it_while_it_gets_through() -> None:
    """Up to what is wanted; a probe that does not get through is the last."""
    controller = RateController(1)
    _, first = follow(controller, 1, observe(), 5e5, 6e6)
    assert first == [FIRST_PROBE_BPS]
    _, none = follow(controller, 1, observe(), 5e5, 6e6)
    assert none == []
    _, second = follow(controller, 3, observe(probes=0.9), 1e6, 6e6)
    assert second == [2 * FIRST_PROBE_BPS]
    _, third = follow(controller, 40, observe(probes=0.9), 0.8e6, 6e6)
    assert third == []


def test_probe_that_was_lost_is_given_up() -> None:
    """Nothing of it is seen for a second: no more of them until the next silence."""
    controller = RateController(1)
    assert follow(controller, 100, observe(), 4e5, 6e6)[1] == [FIRST_PROBE_BPS]


@pytest.mark.parametrize("silence_s", [2, 30])
def test_silence_ends_with_a_probe_at_the_rate_before_it(silence_s: int) -> None:
    """And is itself without one; where the estimate is not less than what is wanted, the first is the last."""
    controller = RateController(1)
    follow(controller, 100, observe(), 3e6, 6e6)
    quiet = follow(controller, round(silence_s * SECOND), observe(rate_bps=40e3), 1e6, 40e3)[1]
    assert quiet == []
    assert follow(controller, 1, observe(rate_bps=40e3), 1e6, 6e6)[1] == [3e6]


def test_probes_after_a_silence_are_few() -> None:
    """Whatever gets through."""
    controller = RateController(1)
    rates = [
        rate for tick in range(400) for rate in follow(controller, 1, observe(probes=0.9), 1e6 + 1e4 * tick, 1e8)[1]
    ]
    assert len(rates) <= MOST_PROBES
    assert max(rates) <= MAX_CAPACITY_BPS


def test_queue_of_a_probe_is_no_dip() -> None:
    """A probe above the capacity queues for some ticks; the ceiling stays where it was."""
    controller = RateController(1)
    follow(controller, 50, observe(), 3e6, 6e6)
    follow(controller, 1, observe(140.0, probes=0.8), 3e6, 6e6)
    target, _ = follow(controller, 1, observe(), 3e6, 6e6)
    assert target == 3e6


def test_call_beside_others_is_as_if_alone() -> None:
    """Rows do not mix; an observation that is missing counts as a tick without packets."""
    rng = np.random.default_rng(2)
    both, alone = RateController(2), RateController(1)
    for _ in range(200):
        one = observe(40.0 + rng.exponential(40.0), rng.uniform(1e5, 3e6))
        other = np.full_like(one, np.nan) if rng.random() < 0.2 else observe(rng.uniform(20.0, 90.0))
        capacity = rng.uniform(2e5, 5e6, 2)
        together = both.update(np.concatenate([one, other]), capacity, np.array([6e6, 6e6]))
        single = alone.update(one, capacity[:1], np.array([6e6]))
        assert together.target_bps[0] == single.target_bps[0]
        assert together.probe_bps[0] == single.probe_bps[0]
        assert np.isfinite(together.target_bps).all()
