"""Makes the training calls over made-up capacities: every scale, every kind of change, no one's trace.

Capacities are drawn, not recorded: the weights then depend on no source of unclear licence, and every recorded source
is one that training never saw.  Levels from 50 kbps to 100 Mbps, steps, random walks, Markov chains, ramps, dips,
bursts, scheduling noise and outages, held for 60 ms to seconds, as sources differ in this; on paths and with senders of
every kind, some of which are silent for seconds, and probe.  A quarter is made like logs of throughput, which is what
most collections of traces are: means over bins or downloads.
"""

from dataclasses import replace
from typing import Final

import numpy as np
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, TICK_MS
from alcove.features.bandwidth.link import Floats, Paths
from alcove.features.bandwidth.replay import Recording, join_recordings, random_paths, record
from alcove.features.bandwidth.sender import random_demand, random_streams

LEVELS_BPS: Final = (50e3, 100e6)
COMMON_BPS: Final = (300e3, 20e6)
"""Half of the calls are here."""

STEPS, WALK, CHAIN, RAMPS, CONSTANT, LOG, DIPS, BURSTS = range(8)
KIND_SHARES: Final = (0.18, 0.15, 0.07, 0.05, 0.08, 0.22, 0.1, 0.15)
BOTH_SHARE: Final = 0.15
"""Of the calls whose capacity changes in two ways at once."""

BIN_S: Final = (0.5, 1.0, 1.0, 2.0)
"""Lengths of the bins of a log of throughput, one drawn for each call."""


def make_capacities(n: int, ticks: int, rng: np.random.Generator) -> Floats:
    """Return made-up capacities, bps f64 [n, ticks], from 0 to the most that an estimate can be."""
    kinds = rng.choice(len(KIND_SHARES), n, p=KIND_SHARES)
    rows = np.stack([_row(int(kind), ticks, rng) for kind in kinds])
    for row in np.flatnonzero(np.less(rng.random(n), BOTH_SHARE)):
        rows[row] += rng.uniform(0.2, 1.0) * _row(int(rng.choice(len(KIND_SHARES), p=KIND_SHARES)), ticks, rng)
    low, high = np.log(np.where(np.less(rng.random(n), 0.5)[:, None], LEVELS_BPS, COMMON_BPS)).T
    levels = np.exp(rows + rng.uniform(low, high)[:, None])
    made: Floats = np.clip(levels * _scheduling_factors(n, ticks, rng), 0.0, MAX_CAPACITY_BPS)
    return made


def _row(kind: int, ticks: int, rng: np.random.Generator) -> Floats:
    """Return the logarithm of one capacity, over its level."""
    makers = {STEPS: _steps, WALK: _walk, CHAIN: _chain, RAMPS: _ramps, LOG: _log, DIPS: _dips, BURSTS: _bursts}
    return makers[kind](ticks, rng) if kind in makers else np.zeros(ticks)


def _chain(ticks: int, rng: np.random.Generator) -> Floats:
    """A Markov chain of a few levels."""
    levels = rng.normal(0, rng.uniform(0.2, 1.2), rng.integers(2, 5))
    stay = rng.uniform(5, 150)
    changes = np.less(rng.random(ticks), 1 / stay)
    chosen: Floats = levels[rng.integers(0, len(levels), ticks)[np.maximum.accumulate(np.arange(ticks) * changes)]]
    return chosen


def _ramps(ticks: int, rng: np.random.Generator) -> Floats:
    """Straight lines from corner to corner."""
    corners = np.sort(rng.integers(0, ticks, rng.integers(2, 8)))
    ramps: Floats = np.interp(np.arange(ticks), corners, rng.normal(0, 0.8, len(corners)))
    return ramps


def _bursts(ticks: int, rng: np.random.Generator) -> Floats:
    """A cell's scheduler: a slow mean of any range, fast noise about it, sometimes held for a tick more."""
    deviation, slow_s, fast_s = np.exp(rng.uniform(np.log((0.1, 1.5, 0.05)), np.log((2.5, 60.0, 1.0))))
    row = _ornstein_uhlenbeck(ticks, deviation, slow_s, rng)
    row += _ornstein_uhlenbeck(ticks, rng.uniform(0.05, 0.9), fast_s, rng)
    if rng.random() < 0.3:
        row += _dips(ticks, rng)
    return row[np.arange(ticks) // 2 * 2] if rng.random() < 0.4 else row


def _dips(ticks: int, rng: np.random.Generator) -> Floats:
    """A slow mean that something takes away for 60 ms to seconds, more or less of it, and that comes back."""
    row = _ornstein_uhlenbeck(ticks, rng.uniform(0.02, 0.5), np.exp(rng.uniform(np.log(2), np.log(30))), rng)
    clear_ticks, dip_ticks = np.exp(rng.uniform(np.log((6, 1)), np.log((330, 25))))
    depth, scatter, moves = rng.uniform(np.log(1e-4), np.log(0.6)), rng.uniform(0, 1.0), rng.uniform(0, 0.6)
    at = int(rng.exponential(clear_ticks))
    while at < ticks:
        length = 1 + int(rng.exponential(dip_ticks))
        row[at : at + length] += min(depth + rng.normal(0, scatter), 0.0)
        row[at + length :] += rng.normal(0, moves) if rng.random() < 0.3 else 0.0
        at += length + 1 + int(rng.exponential(clear_ticks))
    return row


def _steps(ticks: int, rng: np.random.Generator) -> Floats:
    """Up and down by factors up to 6, pulled back to the level."""
    size = np.log(rng.uniform(1.3, 6.0))
    row, at, value = np.zeros(ticks), 0, 0.0
    # Most calls change often: what follows a change is what an estimator must learn to do fast.
    mean_ticks = np.exp(rng.uniform(np.log(12), np.log(250)))
    while at < ticks:
        length = 1 + int(rng.exponential(mean_ticks))
        row[at : at + length] = value
        at += length
        value = 0.6 * value + rng.choice([-1, 1]) * rng.uniform(0.1, 1.0) * size
    return row


def _walk(ticks: int, rng: np.random.Generator) -> Floats:
    """A wandering capacity, sampled and held: for 1 tick to 2 s, or irregularly."""
    row = _ornstein_uhlenbeck(ticks, rng.uniform(0.05, 0.9), np.exp(rng.uniform(np.log(0.3), np.log(30))), rng)
    hold = int(rng.choice([1, 2, 8, 17, 17, 33]))
    kept = np.arange(ticks) // hold * hold if rng.random() < 0.8 else _hold_irregularly(ticks, hold, rng)
    held: Floats = row[kept]
    return held


def _log(ticks: int, rng: np.random.Generator) -> Floats:
    """A log of throughput: a slow mean, and means over bins or downloads of 1 to 5 s that differ from neighbours.

    In some, a bin collapses now and then, as of a flow that stalled or a link that was idle for a part of it.
    """
    slow = _ornstein_uhlenbeck(ticks, rng.uniform(0.05, 0.6), np.exp(rng.uniform(np.log(5), np.log(60))), rng)
    if rng.random() < 0.5:
        # Bins do not fall on ticks: they begin anywhere, and 1 s is 16.7 ticks.
        number = ((np.arange(ticks) * TICK_MS / 1000 + rng.uniform(0, 1)) / rng.choice(BIN_S)).astype(np.int64)
    else:
        number = np.cumsum(np.less(rng.random(ticks), TICK_MS / 1000 / rng.uniform(1.0, 5.0)))
    bins = int(number[-1]) + 1
    noise = rng.normal(0, rng.uniform(0.02, 0.45), bins)
    if rng.random() < 0.35:
        noise += np.where(rng.random(bins) < rng.uniform(0.02, 0.12), np.log(rng.uniform(0.02, 0.5, bins)), 0.0)
    if rng.random() < 0.3:  # as of a flow that had to find its rate, now and then again
        noise += np.minimum(rng.uniform(0.3, 1.5) * (np.arange(bins) % rng.integers(8, 60)) - rng.uniform(1, 4), 0.0)
    first = np.searchsorted(number, number)
    held: Floats = slow[first] + noise[number]
    return held


def _ornstein_uhlenbeck(ticks: int, deviation: float, seconds: float, rng: np.random.Generator) -> Floats:
    """An Ornstein-Uhlenbeck process of mean 0, f64 [ticks], that forgets within some seconds."""
    keep = np.exp(-TICK_MS / 1000 / seconds)
    noise = rng.normal(0, deviation * np.sqrt(1 - keep**2), ticks)
    row, value = np.empty(ticks), rng.normal(0, deviation)
    for tick in range(ticks):
        value = keep * value + noise[tick]
        row[tick] = value
    return row


def _hold_irregularly(
    ticks: int, hold: int, rng: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    changes = np.less(rng.random(ticks), 1 / hold)
    return np.maximum.accumulate(np.arange(ticks) * changes)


def _scheduling_factors(n: int, ticks: int, rng: np.random.Generator) -> Floats:
    """Factors of mean about 1 from tick to tick: none, as of a wired link, up to a busy cell's; and outages."""
    shape = np.exp(rng.uniform(np.log(1.0), np.log(200.0), (n, 1)))
    factor = np.where(np.less(rng.random((n, 1)), 0.6), 1.0, rng.gamma(np.broadcast_to(shape, (n, ticks))) / shape)
    for row in np.flatnonzero(np.less(rng.random(n), 0.12)):
        for begin in rng.integers(0, ticks, rng.integers(1, 4)):
            factor[row, begin : begin + rng.integers(2, 60)] *= rng.choice([0.0, 0.02, 0.1])
    return factor


def _make_worse(paths: Paths, rng: np.random.Generator) -> Paths:
    """Return paths of which some have deeper queues, and some the jitter, loss or delay of bad radio."""
    n = len(paths.loss)

    def some(share: float, low: float, high: float, otherwise: Floats) -> Floats:
        drawn: Floats = np.where(
            np.less(rng.random(n), share), np.exp(rng.uniform(np.log(low), np.log(high), n)), otherwise
        )
        return drawn

    return replace(
        paths,
        queue_bits=paths.queue_bits * some(0.25, 1.0, 5.0, np.ones(n)),
        jitter_ms=some(0.14, 4.0, 60.0, paths.jitter_ms),
        loss=some(0.08, 0.03, 0.15, paths.loss),
        base_delay_ms=some(0.08, 150.0, 350.0, paths.base_delay_ms),
    )


def make_recording(n: int, ticks: int, seed: int, *, chunk: int = 256) -> Recording:
    """Return a recording of n made-up calls; the same for the same arguments."""
    parts = []
    for begin in range(0, n, chunk):
        rng = np.random.default_rng((seed, begin))
        count = min(chunk, n - begin)
        capacity = make_capacities(count, ticks, rng)
        drawn = int(rng.integers(2**31))
        paths = _make_worse(random_paths(capacity, drawn), rng)
        typical = np.maximum(np.median(paths.available_bps, axis=1), 50e3)
        demand = random_demand(count, ticks, typical, rng)
        parts.append(record(paths, random_streams(count, rng), drawn, demand=demand))
    return join_recordings(parts)
