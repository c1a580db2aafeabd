"""Draws paths like a 5G millimetre-wave link's: hundreds of Mbit/s that a passing body or a handover takes away.

    line of sight --pedestrian--> blocked --> line of sight      300 ms in the mean, down to a thousandth of the rate
    line of sight --building--> reflected --> line of sight      seconds, a twentieth of the rate
    any --handover--> silence of 50 to 300 ms --> another level

For evaluation alone: `dataset.py` draws the fast changes that training sees from other processes with other numbers.

Sources: MacCartney, Rappaport, Rangan, "Rapid fading due to human blockage in pedestrian crowds at 5G millimeter-wave
frequencies" (GLOBECOM 2017): a two-state Markov model, mean fades of 260 to 299 ms, 11.5 to 15.8 dB deep in the mean;
Narayanan et al., "A first look at commercial 5G performance on smartphones" (WWW 2020): rates up to Gbit/s in line of
sight, near 0 behind obstacles, frequent handoffs; Zhang et al., "Will TCP work in mmWave 5G cellular networks?" (IEEE
Communications Magazine 2019): buffers of seconds at the rate of a blocked link.  Where they give no number (how often
bodies pass, rates that a cell's other users leave) a wide range is drawn.
"""

from typing import Final

import numpy as np
from alcove.features.bandwidth.config import TICK_MS
from alcove.features.bandwidth.link import Floats, Paths

LEVELS_BPS: Final = (20e6, 600e6)
"""Of the line of sight: what a cell leaves to one user."""

BLOCKED_MS: Final = 280.0
BETWEEN_BLOCKS_S: Final = (1.0, 8.0)
BLOCKED_SHARES: Final = (0.0005, 0.05)
"""Of the rate that a body leaves: 13 to 33 dB; below some Mbit/s, near silence."""

REFLECTED_SHARE: Final = 0.05
REFLECTED_S: Final = 3.0
BETWEEN_REFLECTIONS_S: Final = (10.0, 60.0)

HANDOVER_MS: Final = (50.0, 300.0)
BETWEEN_HANDOVERS_S: Final = (8.0, 40.0)

QUEUE_MS: Final = (300.0, 2000.0)
"""Of a buffer, at a tenth of the mean rate."""


def draw_mmwave_paths(n: int, ticks: int, seed: int) -> Paths:
    """Return n paths of `ticks` ticks; the same for the same arguments."""
    rng = np.random.default_rng((seed, 5))
    capacity = np.stack([draw_capacity(ticks, rng) for _ in range(n)])
    mean = capacity.mean(axis=1)
    return Paths(
        capacity_bps=capacity,
        cross_bps=np.zeros_like(capacity),
        base_delay_ms=rng.uniform(8, 60, n),
        queue_bits=np.maximum(0.1 * mean * _log_uniform(QUEUE_MS, rng, n) / 1000, 50 * 12000.0),
        loss=np.where(rng.random(n) < 0.3, rng.uniform(0, 0.01, n), 0.0),
        jitter_ms=_log_uniform((0.5, 4.0), rng, n),
        police_bps=np.full(n, np.inf),
        police_bits=np.full(n, 144000.0),
    )


def draw_capacity(ticks: int, rng: np.random.Generator) -> Floats:
    """Return the capacity of one path, bps f64 [ticks], by steps of 10 ms."""
    steps = 6
    step_ms = TICK_MS / steps
    length = ticks * steps
    level = np.full(length, float(_log_uniform(LEVELS_BPS, rng, 1)[0]))
    for begin in _events(length, step_ms, rng.uniform(*BETWEEN_REFLECTIONS_S), rng):
        level[begin : begin + _draw_steps(REFLECTED_S * 1000, step_ms, rng)] *= REFLECTED_SHARE
    level *= rng.gamma(20.0, 1 / 20.0, length // steps).repeat(steps)  # scheduling
    for begin in _events(length, step_ms, rng.uniform(*BETWEEN_BLOCKS_S), rng):
        level[begin : begin + _draw_steps(BLOCKED_MS, step_ms, rng)] *= _log_uniform(BLOCKED_SHARES, rng, 1)[0]
    for begin in _events(length, step_ms, rng.uniform(*BETWEEN_HANDOVERS_S), rng):
        level[begin:] *= np.exp(rng.normal(0, 0.4))
        level[begin : begin + round(rng.uniform(*HANDOVER_MS) / step_ms)] = 0.0
    capacity: Floats = level.reshape(ticks, steps).mean(axis=1)
    return capacity


def _events(length: int, step_ms: float, mean_s: float, rng: np.random.Generator) -> list[int]:
    """Return the steps at which something begins, as a Poisson process of that mean distance."""
    return [int(step) for step in np.flatnonzero(rng.random(length) < step_ms / (1000 * mean_s))]


def _draw_steps(mean_ms: float, step_ms: float, rng: np.random.Generator) -> int:
    return 1 + int(rng.exponential(mean_ms) / step_ms)


def _log_uniform(bounds: tuple[float, float], rng: np.random.Generator, n: int) -> Floats:
    drawn: Floats = np.exp(rng.uniform(np.log(bounds[0]), np.log(bounds[1]), n))
    return drawn
