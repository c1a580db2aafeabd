"""Calls whose senders follow someone: 5G-like paths, demands and padding of senders, silences, and their figures."""

import numpy as np
import pytest
from alcove.features.bandwidth.baselines import GoogCc
from alcove.features.bandwidth.call import (
    FREEZE_TICKS,
    EstimateFollower,
    Experience,
    ProbingGcc,
    experience_of,
    queueing_ms,
    run_calls,
)
from alcove.features.bandwidth.closed_loop import AFTER_TICKS, SILENCE_BEGIN_TICK, SILENCE_BPS, silence_calls, summarize
from alcove.features.bandwidth.config import TICK_MS
from alcove.features.bandwidth.link import PROBE, LinkModel
from alcove.features.bandwidth.mmwave import draw_mmwave_paths
from alcove.features.bandwidth.replay import random_paths
from alcove.features.bandwidth.sender import (
    MAX_RATE_BPS,
    Sender,
    random_demand,
    random_streams,
)
from alcove.features.bandwidth.sender import (
    SILENCE_BPS as SILENCES,
)


def test_5g_like_paths_swing_between_hundreds_of_megabits_and_nothing() -> None:
    """Within a tick; dips last some hundred milliseconds in the mean; the same paths for the same seed."""
    paths = draw_mmwave_paths(60, 1000, 4)
    capacity = paths.capacity_bps
    assert capacity.min() == 0
    assert np.quantile(capacity, 0.9) > 100e6
    low = capacity < 0.1 * np.median(capacity, axis=1, keepdims=True)
    falls = (low[:, 1:] & ~low[:, :-1]).sum()
    assert 100 < low.sum() / falls * TICK_MS < 1500
    assert 0.02 < low.mean() < 0.4
    again = draw_mmwave_paths(60, 1000, 4)
    assert (again.capacity_bps == capacity).all()
    assert (draw_mmwave_paths(60, 1000, 5).capacity_bps != capacity).any()


def test_padding_fills_a_tick_up_to_the_rate_of_the_probe() -> None:
    """As probe packets, in the tick; nothing without a probe."""
    sender = Sender(random_streams(3, np.random.default_rng(1)), 1)
    probe = np.array([0.0, 4e6, 40e6])
    sent = [sender.packets(tick, np.full(3, 5e5), probe) for tick in range(40)]
    for row, rate in enumerate(probe):
        bits = np.mean([packets.bits[row][packets.kind[row] == PROBE].sum() for packets in sent[1:]])
        whole = np.mean([packets.bits[row].sum() for packets in sent[1:]]) * 1000 / TICK_MS
        if rate:
            assert whole == pytest.approx(rate, rel=0.15)
        else:
            assert bits < 6 * 9600
    times = np.concatenate([packets.time_ms[packets.bits > 0] // TICK_MS - tick for tick, packets in enumerate(sent)])
    assert times.min() >= 0
    assert (times <= 1).all()


def test_link_carries_padding_with_the_rest() -> None:
    """What receivers count of a probe is its packets, and the bits come through."""
    paths = random_paths(np.full((2, 60), 20e6), 3)
    link, sender = LinkModel(paths, 3), Sender(random_streams(2, np.random.default_rng(3)), 3)
    for tick in range(60):
        link.step(sender.packets(tick, np.full(2, 3e5), np.full(2, 5e6 if tick == 30 else 0.0)))
    assert link.received.sums["probe"][:, 28:36].sum() >= 20


def test_demands_are_silent_for_seconds_and_probe() -> None:
    """Some calls are, some probe at any time; rates stay within what a sender can send."""
    demand = random_demand(200, 600, np.full(200, 5e6), np.random.default_rng(2))
    is_silent = np.isfinite(demand.limit_bps)
    assert 0.1 < is_silent.mean() < 0.5
    assert demand.limit_bps[is_silent].min() >= SILENCES[0]
    assert demand.limit_bps[is_silent].max() <= SILENCES[1]
    assert 0.002 < (demand.probe_bps > 0).mean() < 0.1
    assert demand.probe_bps.max() <= MAX_RATE_BPS


def test_silence_is_what_the_app_wants() -> None:
    """Of the length that was asked for, with a capacity that may change in it."""
    paths, wanted = silence_calls(20, 5.0, 1)
    ticks = round(5000 / TICK_MS)
    assert wanted.shape == paths.capacity_bps.shape == (20, SILENCE_BEGIN_TICK + ticks + AFTER_TICKS)
    assert ((wanted == SILENCE_BPS).sum(axis=1) == ticks).all()
    before, after = (paths.capacity_bps[:, part].mean(axis=1) for part in (slice(0, 200), slice(-AFTER_TICKS, None)))
    assert 3 <= (np.abs(after / before - 1) > 0.2).sum() <= 17


class Constant:
    """An estimator that always says the same."""

    def __init__(self, n: int, rate_bps: float) -> None:
        self.rate = np.full(n, rate_bps)

    def update(self, observation: np.ndarray) -> np.ndarray:
        """Return it."""
        return self.rate


def test_sender_sends_no_more_than_the_app_wants() -> None:
    """And what it is told where that is less."""
    paths = random_paths(np.full((4, 120), 30e6), 2)
    wanted = np.full((4, 120), 4e5)
    received = run_calls(lambda n: EstimateFollower(Constant(n, 3e6)), paths, 2, wanted)
    assert received.sums["bits"][:, 30:].mean() * 1000 / TICK_MS < 6e5
    full = run_calls(lambda n: EstimateFollower(Constant(n, 3e6)), paths, 2)
    assert 2e6 < full.sums["bits"][:, 30:].mean() * 1000 / TICK_MS < 3.5e6


def test_outage_is_a_freeze_and_its_queue_is_seen() -> None:
    """A path that carries nothing for a second, once."""
    capacity = np.full((3, 200), 10e6)
    capacity[:, 100:117] = 0
    drawn = random_paths(capacity, 1)
    paths = type(drawn)(
        **{**vars(drawn), "cross_bps": 0 * capacity, "loss": np.zeros(3), "queue_bits": np.full(3, 1e8)}
    )
    received = run_calls(lambda n: EstimateFollower(Constant(n, 1e6)), paths, 1)
    seen = experience_of(received, paths)
    minutes = (200 - 17) * TICK_MS / 60_000
    assert seen.freezes_per_minute == pytest.approx(np.full(3, 1 / minutes))
    assert (seen.frozen_share >= FREEZE_TICKS / 200).all()
    assert np.nanmax(queueing_ms(received, paths)) > 400
    assert np.nanmedian(queueing_ms(received, paths)) < 60


def test_gcc_with_probes_is_faster_at_the_beginning() -> None:
    """On a link with room: libwebrtc's first probe is at three times the first rate."""
    paths = random_paths(np.full((6, 120), 30e6), 5)
    rates = [
        run_calls(make, paths, 5).sums["bits"][:, 30:].mean()
        for make in (lambda n: EstimateFollower(GoogCc(n)), ProbingGcc)
    ]
    assert rates[1] > 1.5 * rates[0]


def test_summary_is_of_pairs_with_intervals() -> None:
    """A call's luck is everyone's: twice the freezes on every path is a ratio of a half without a doubt."""
    drawn = np.random.default_rng(1).exponential(1.0, 50) + 0.1
    ours = Experience(drawn, drawn, drawn, drawn, drawn)
    theirs = Experience(2 * drawn, 2 * drawn, drawn, drawn, drawn)
    found = summarize({"ours": ours, "theirs": theirs})
    mean, low, high = found["ours"]["freezes_per_minute"]
    assert low < mean < high
    assert found["theirs"]["freezes_per_minute_ratio"] == pytest.approx([0.5] * 3)
    assert found["theirs"]["calls"] == 50
