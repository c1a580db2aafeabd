"""Simulates senders of calls: video frames, audio and probes, and the policies that choose the rate.

The rate follows a policy that knows what the receiver counts and never the capacity, nor an estimator under test: so
every estimator sees the same packets, and none can read the capacity off a sender that knows it.  Policies differ
from call to call: a careful controller of random temper, a rate that wanders, a constant, steps.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.bandwidth.config import TICK_MS
from alcove.features.bandwidth.link import AUDIO, PROBE, VIDEO, Floats, Packets, TickSums
from numpy.typing import NDArray

PACKET_BITS: Final = 1200 * 8.0
AUDIO_MS: Final = 20.0
FRAMES: Final = 4
"""Most video frames in a tick."""
TRAINS: Final = 16
"""Most trains in a frame: above 16 packets they travel in trains."""
PROBES: Final = 6
"""Packets of a probe."""

CONTROLLER, WANDERING, CONSTANT, STEPS = range(4)
POLICY_SHARES: Final = (0.55, 0.2, 0.1, 0.15)

MIN_RATE_BPS: Final = 30e3
MAX_RATE_BPS: Final = 60e6


@dataclass(frozen=True)
class Streams:
    """What n senders are like; f64 [n] each.

    Attributes:
        frame_ms: between two frames of video, 15 or more.
        phase_ms: when the first frame is sent.
        pacing: how many times faster than its mean rate a frame is sent; large for all at once.
        spread: of the sizes of frames, standard deviation of their logarithm.
        audio_bits: of one audio packet; 0 for none.
        probe_every_ms: between probes; inf for none.
    """

    frame_ms: Floats
    phase_ms: Floats
    pacing: Floats
    spread: Floats
    audio_bits: Floats
    probe_every_ms: Floats


def random_streams(n: int, rng: np.random.Generator) -> Streams:
    """Return n streams of all kinds."""
    frame_ms = rng.choice([1000 / 60, 1000 / 30, 1000 / 30, 1000 / 24, 1000 / 15], n)
    return Streams(
        frame_ms=frame_ms,
        phase_ms=rng.uniform(0, frame_ms),
        pacing=rng.choice([1.2, 1.5, 2.5, 5.0, 1e3], n),
        spread=rng.uniform(0.05, 0.35, n),
        audio_bits=np.where(rng.random(n) < 0.85, rng.uniform(60, 200, n) * 8, 0.0),
        probe_every_ms=np.where(rng.random(n) < 0.4, rng.uniform(2e3, 10e3, n), np.inf),
    )


class Sender:
    """Makes the packets of n streams, tick by tick.

    Args:
        streams: what they are like.
        seed: of the sizes of frames.
    """

    def __init__(self, streams: Streams, seed: int) -> None:
        self.streams = streams
        self._rng = np.random.default_rng(seed)

    def packets(self, tick: int, rate_bps: Floats, probe_bps: Floats | None = None) -> Packets:
        """Return what is sent in a tick.

        Args:
            tick: number of it.
            rate_bps: of audio and video, f64 [n].
            probe_bps: rates that padding fills the tick up to, f64 [n]; 0 for none.
        """
        parts = [self._video(tick, rate_bps), self._audio(tick, rate_bps), self._probes(tick, rate_bps)]
        if probe_bps is not None and probe_bps.any():
            parts.append(self._padding(tick, rate_bps, probe_bps))
        time_ms, bits, count, kind = (np.concatenate(values, axis=1) for values in zip(*parts, strict=True))
        order = np.argsort(np.where(bits > 0, time_ms, np.inf), axis=1, kind="stable")
        width = max(1, int((bits > 0).sum(axis=1).max()))
        order = order[:, :width]
        rows = np.arange(len(order))[:, None]
        return Packets(time_ms[rows, order], bits[rows, order], count[rows, order], kind[rows, order].astype(np.int64))

    def _video(self, tick: int, rate_bps: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        streams, n = self.streams, len(rate_bps)
        begin = tick * TICK_MS
        first = np.ceil((begin - streams.phase_ms) / streams.frame_ms)
        frame_at = (first[:, None] + np.arange(FRAMES)) * streams.frame_ms[:, None] + streams.phase_ms[:, None]
        is_now = (frame_at < begin + TICK_MS) & (frame_at >= 0)
        video_bps = rate_bps - self._audio_bits(rate_bps) * (1000 / AUDIO_MS)
        mean_bits = video_bps * streams.frame_ms / 1000
        noise = np.exp(self._rng.normal(0, 1, (n, FRAMES)) * streams.spread[:, None] - streams.spread[:, None] ** 2 / 2)
        frame_bits = np.where(is_now, mean_bits[:, None] * noise, 0.0)
        packets = np.ceil(frame_bits / PACKET_BITS)
        per_train = np.maximum(np.ceil(packets / TRAINS), 1.0)
        trains = np.ceil(packets / per_train)
        number = np.arange(TRAINS)
        is_there = number < trains[:, :, None]
        size = frame_bits / np.maximum(packets, 1.0)
        count = np.minimum(per_train[:, :, None], packets[:, :, None] - number * per_train[:, :, None])
        count = np.where(is_there, count, 1.0)
        bits = np.where(is_there, size[:, :, None] * count, 0.0)
        # A frame is paced over its part of the interval between frames.
        length_ms = streams.frame_ms / streams.pacing
        at = frame_at[:, :, None] + length_ms[:, None, None] * number / np.maximum(trains, 1.0)[:, :, None]
        shape = (n, FRAMES * TRAINS)
        return at.reshape(shape), bits.reshape(shape), count.reshape(shape), np.full(shape, float(VIDEO))

    def _audio_bits(self, rate_bps: Floats) -> Floats:
        """Return the bits of an audio packet: it gives way where it would take more than half of the rate."""
        bits: Floats = np.minimum(self.streams.audio_bits, 0.5 * rate_bps * AUDIO_MS / 1000)
        return bits

    def _audio(self, tick: int, rate_bps: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        n, each = len(self.streams.audio_bits), int(TICK_MS / AUDIO_MS)
        at: Floats = np.broadcast_to(tick * TICK_MS + AUDIO_MS * np.arange(each, dtype=np.float64), (n, each))
        bits: Floats = np.broadcast_to(self._audio_bits(rate_bps)[:, None], (n, each))
        return at, bits, np.ones((n, each)), np.full((n, each), float(AUDIO))

    def _probes(self, tick: int, rate_bps: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """A probe: packets in a row at three times the rate of the stream."""
        n, begin, every = len(rate_bps), tick * TICK_MS, self.streams.probe_every_ms
        known = np.where(np.isfinite(every), every, 1.0)
        is_now = np.isfinite(every) & (np.floor((begin + TICK_MS) / known) > np.floor(begin / known))
        apart = PACKET_BITS / (3 * rate_bps) * 1000
        at = np.asarray(begin + np.minimum(apart, TICK_MS / PROBES)[:, None] * np.arange(PROBES), np.float64)
        bits: Floats = np.where(is_now[:, None], PACKET_BITS, 0.0) * np.ones(PROBES)
        return at, bits, np.ones((n, PROBES)), np.full((n, PROBES), float(PROBE))

    def _padding(self, tick: int, rate_bps: Floats, probe_bps: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """A probe cluster: what the tick's rate lacks to `probe_bps`, evenly over the tick."""
        n = len(rate_bps)
        packets = np.round(np.maximum(probe_bps - rate_bps, 0.0) * (TICK_MS / 1000) / PACKET_BITS)
        packets = np.where(probe_bps > 0, np.maximum(packets, 2.0), 0.0)
        per_train = np.maximum(np.ceil(packets / TRAINS), 1.0)
        number = np.arange(TRAINS, dtype=np.float64)
        count: Floats = np.clip(packets[:, None] - number * per_train[:, None], 0.0, per_train[:, None])
        at = tick * TICK_MS + TICK_MS * number * per_train[:, None] / np.maximum(packets, 1.0)[:, None]
        within: Floats = np.minimum(at, (tick + 1) * TICK_MS - 1e-6)
        return within, count * PACKET_BITS, count, np.full((n, TRAINS), float(PROBE))


@dataclass(frozen=True)
class Demand:
    """What n apps want to send, and what they send besides to learn of the path.

    Attributes:
        limit_bps: most that there is to send, f64 [n, ticks]; inf for as much as the policy allows.
        probe_bps: rates of probe clusters of a tick each, f64 [n, ticks]; 0 for none.
    """

    limit_bps: Floats
    probe_bps: Floats


SILENCE_BPS: Final = (20e3, 150e3)
"""What a call sends whose picture is off or does not move."""


def random_demand(n: int, ticks: int, scale_bps: Floats, rng: np.random.Generator) -> Demand:
    """Return demands of every kind: calls with silences of 1 to 25 s, with probe clusters after them or at any time.

    Args:
        n: calls.
        ticks: of each.
        scale_bps: what rate would be fitting, roughly, f64 [n]; probes are up to six times as fast.
        rng: of everything random.
    """
    limit, probe = np.full((n, ticks), np.inf), np.zeros((n, ticks))
    for row in range(n):
        at = int(rng.exponential(100)) if rng.random() < 0.4 else ticks
        ends = []
        while at < ticks:
            length = int(np.exp(rng.uniform(np.log(1.0), np.log(25.0))) * 1000 / TICK_MS)
            limit[row, at : at + length] = np.exp(rng.uniform(*np.log(SILENCE_BPS)))
            ends.append(at + length)
            at += length + int(rng.exponential(150))
        if rng.random() < 0.5:
            every = rng.uniform(8, 150)
            places = np.flatnonzero(rng.random(ticks) < 1 / every)
        else:
            # A cluster, and more of them if the first one passed.
            offsets = np.cumsum(rng.integers(1, 12, (len(ends), 4)), axis=1)
            places = (np.array(ends, dtype=np.int64)[:, None] + offsets - offsets[:, :1]).reshape(-1)
        places = places[places < ticks]
        probe[row, places] = scale_bps[row] * np.exp(rng.uniform(np.log(0.2), np.log(6.0), len(places)))
    return Demand(limit, np.minimum(probe, MAX_RATE_BPS))


class Policies:
    """Chooses the rates of n senders for each tick.

    Args:
        scale_bps: what rate would be fitting, roughly, f64 [n]; a call knows as much from its settings.
        seed: of everything random.
        kinds: CONTROLLER, WANDERING, CONSTANT or STEPS for each; drawn by `POLICY_SHARES` if None.
    """

    def __init__(self, scale_bps: Floats, seed: int, kinds: NDArray[np.int64] | None = None) -> None:
        n = len(scale_bps)
        self._rng = rng = np.random.default_rng(seed)
        self.kinds = rng.choice(len(POLICY_SHARES), n, p=POLICY_SHARES) if kinds is None else kinds
        self._scale = scale_bps
        self._start = np.where(
            self.kinds == CONTROLLER, rng.uniform(0.1, 1.0, n), np.exp(rng.uniform(np.log(0.25), np.log(1.6), n))
        )
        self._rate = np.clip(scale_bps * self._start, MIN_RATE_BPS, MAX_RATE_BPS)
        self._growth = np.exp(np.log(rng.uniform(1.04, 1.25, n)) * TICK_MS / 1000)
        self._patience_ms = rng.uniform(15, 120, n)
        self._backoff = rng.uniform(0.7, 0.97, n)
        self._tolerance = rng.uniform(0.02, 0.12, n)
        self._hold_ticks = rng.integers(3, 15, n)
        self._held = np.zeros(n, dtype=np.int64)
        self._step_ticks = rng.integers(30, 150, n)
        self._boost = rng.uniform(1.2, 2.0, n)  # now and then a controller tries much more
        self._boost_ticks = rng.integers(50, 250, n)

    def rates(self, tick: int, received: TickSums) -> Floats:
        """Return the rates for a tick, bps f64 [n], given what was counted before it."""
        rng, n = self._rng, len(self._rate)
        wander = self._rate * np.exp(rng.normal(0, 0.03, n) + 0.01 * np.log(self._scale / self._rate))
        steps = np.where(tick % self._step_ticks == 0, self._scale * np.exp(rng.uniform(-1.4, 0.5, n)), self._rate)
        rate = np.select(
            [self.kinds == CONTROLLER, self.kinds == WANDERING, self.kinds == STEPS],
            [self._control_rate(tick, received), wander, steps],
            self._rate,
        )
        self._rate = np.clip(rate, MIN_RATE_BPS, MAX_RATE_BPS)
        return self._rate

    def _control_rate(self, tick: int, received: TickSums) -> Floats:
        """More while delay and loss are low; a part of what arrives when they are not."""
        if tick < 2:
            return self._rate
        seen = slice(max(0, tick - 5), tick)
        packets = received.sums["packets"][:, seen].sum(axis=1)
        some = np.maximum(packets, 1.0)
        arrived = received.sums["bits"][:, seen].sum(axis=1) / ((seen.stop - seen.start) * TICK_MS / 1000)
        lost = received.sums["lost"][:, seen].sum(axis=1)
        least = received.min_delay_ms[:, max(0, tick - 200) : tick].min(axis=1)
        late = received.sums["delay_ms"][:, seen].sum(axis=1) / some - np.where(np.isfinite(least), least, 0.0)
        is_bad = (late > self._patience_ms) | (lost / (lost + some) > self._tolerance) | (packets == 0)
        acts = is_bad & (self._held <= 0)
        self._held = np.where(acts, self._hold_ticks, self._held - 1)
        down = np.minimum(self._backoff * np.maximum(arrived, 0.2 * self._rate), self._rate)
        is_boost = (tick % self._boost_ticks == 0) & ~is_bad
        up = self._rate * np.where(is_boost, self._boost, self._growth)
        result: Floats = np.where(acts, down, np.where(is_bad | (self._held > 0), self._rate, up))
        return result
