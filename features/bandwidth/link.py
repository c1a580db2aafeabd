"""Simulates packets on paths whose capacity changes: many paths at once, tick by tick, packet by packet.

    sender → policer (token bucket) → queue (drop-tail) → bottleneck → random loss → base delay, jitter → receiver

The bottleneck serves in the order of arrival.  Its capacity is constant within a tick, so that the bits it can have
served up to time t, V(t), are a line with a corner at every tick; in bits instead of milliseconds a queue is Lindley's
recursion with the times V(a) of arrival and the sizes as times of service, exact for any capacity, 0 included:

    D = max(D, V(a)) + size        a packet is dropped if D - V(a) + size exceeds the queue

and a packet leaves at V^-1(D).  Cross traffic takes its part of the capacity first.  Packets of a sender that is too
fast for the arrays travel in trains of equal packets back to back; a train is served or dropped whole.

Source: Lindley, "The theory of queues with a single server" (1952); tests compare with Pollaczek and Khinchine's mean
wait, Little's law, the loss of a constant overload and the rate of a token bucket.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.bandwidth.config import TICK_MS
from numpy.typing import NDArray

Floats = NDArray[np.float64]

VIDEO: Final = 0
AUDIO: Final = 1
PROBE: Final = 2
KINDS: Final = 3

_SUMS: Final = (
    "packets",
    "bits",
    "delay_ms",
    "gaps",
    "gap_ms",
    "gap_ms2",
    "lost",
    "loss_runs",
    "video",
    "audio",
    "probe",
)


@dataclass(frozen=True)
class Paths:
    """n paths for a number of ticks.

    Attributes:
        capacity_bps: of the bottleneck, f64 [n, ticks], >= 0.
        cross_bps: what cross traffic takes of it, f64 [n, ticks], >= 0; all of it is the most.
        base_delay_ms: f64 [n], one way.
        queue_bits: what the queue holds, f64 [n].
        loss: probability that a packet is lost behind the bottleneck, f64 [n].
        jitter_ms: mean of a random delay behind the bottleneck that never reorders, f64 [n].
        police_bps: rate of the token bucket, f64 [n]; inf where there is none.
        police_bits: its depth, f64 [n].
    """

    capacity_bps: Floats
    cross_bps: Floats
    base_delay_ms: Floats
    queue_bits: Floats
    loss: Floats
    jitter_ms: Floats
    police_bps: Floats
    police_bits: Floats

    @property
    def left_bps(self) -> Floats:
        """What the bottleneck leaves to the call, f64 [n, ticks]."""
        return np.maximum(self.capacity_bps - self.cross_bps, 0.0)

    @property
    def available_bps(self) -> Floats:
        """What a sender can send for long without loss or a growing queue, f64 [n, ticks]: the truth of estimates."""
        return np.minimum(self.left_bps, self.police_bps[:, None])


@dataclass(frozen=True)
class Packets:
    """What n senders send in one tick; each row in the order of sending, places without a packet at the end.

    Attributes:
        time_ms: since the beginning of the call, f64 [n, p].
        bits: of the whole train, f64 [n, p]; 0 where there is none.
        count: packets in the train, f64 [n, p].
        kind: VIDEO, AUDIO or PROBE, int64 [n, p].
    """

    time_ms: Floats
    bits: Floats
    count: Floats
    kind: NDArray[np.int64]


class TickSums:
    """What n receivers count in each tick.

    Attributes:
        sums: by name (packets, bits, delay_ms, gaps, gap_ms, gap_ms2, lost, loss_runs, video, audio, probe), f64
            [n, ticks]: numbers of packets, or sums over the packets received in the tick.  A packet counts as lost in
            the tick in which the next one arrives.
        min_delay_ms: f64 [n, ticks], inf without packets.
    """

    def __init__(self, n: int, ticks: int) -> None:
        self.ticks = ticks
        self._all = np.zeros((len(_SUMS), n, ticks))
        self.sums: dict[str, Floats] = dict(zip(_SUMS, self._all, strict=True))
        self.min_delay_ms: Floats = np.full((n, ticks), np.inf)

    def add(self, row: NDArray[np.int64], tick: NDArray[np.int64], values: Floats, min_delay_ms: Floats) -> None:
        """Add packets: their rows and ticks, ascending, and their values f64 [len(_SUMS), m]."""
        is_seen = tick < self.ticks
        if not is_seen.all():
            row, tick, values, min_delay_ms = row[is_seen], tick[is_seen], values[:, is_seen], min_delay_ms[is_seen]
        if not len(row):
            return
        place = row * self.ticks + tick
        starts = np.flatnonzero(np.concatenate([[True], place[1:] != place[:-1]]))
        row, tick = row[starts], tick[starts]
        self._all[:, row, tick] += np.add.reduceat(values, starts, axis=1)
        least = np.minimum.reduceat(min_delay_ms, starts)
        self.min_delay_ms[row, tick] = np.minimum(self.min_delay_ms[row, tick], least)


class LinkModel:
    """The paths at work: packets of one tick after the other go in, what receivers count comes out.

    After `step(t)` the counts of the ticks up to t are final: what is sent later arrives later.

    Args:
        paths: their capacities are read ahead of time, which only decides when a packet leaves.
        seed: of loss and jitter.
    """

    def __init__(self, paths: Paths, seed: int) -> None:
        n, ticks = paths.capacity_bps.shape
        self.paths = paths
        self.received = TickSums(n, ticks)
        self.dropped_bits: Floats = np.zeros(n)
        self.policed_bits: Floats = np.zeros(n)
        self.lost_bits: Floats = np.zeros(n)
        self._rng = np.random.default_rng(seed)
        self._per_tick = paths.left_bps * (TICK_MS / 1000)
        served = np.concatenate([np.zeros((n, 1)), np.cumsum(self._per_tick, axis=1)], axis=1)
        self._served = served  # V at the ticks' borders, [n, ticks + 1]
        # One ascending array of all rows, so that one search inverts V for all packets: each row above the last.
        self._offsets = np.concatenate([[0.0], np.cumsum(served[:, -1] + 1.0)[:-1]])
        self._flat = (served + self._offsets[:, None]).reshape(-1)
        self._work = np.zeros(n)  # D of the last packet
        self._tokens = paths.police_bits.copy()
        self._tokens_ms = np.zeros(n)
        self._last_ms = np.full(n, -np.inf)  # when the last packet was received
        self._lost = np.zeros(n)  # packets since then
        self._runs = np.zeros(n)
        self._is_run = np.zeros(n, dtype=bool)

    def backlog_bits(self, time_ms: float) -> Floats:
        """Return what is queued or in service at a time not before the last packet, f64 [n]."""
        backlog: Floats = np.maximum(self._work - self.served_bits(np.full((len(self._work), 1), time_ms))[:, 0], 0.0)
        return backlog

    def served_bits(self, time_ms: Floats) -> Floats:
        """Return V at times f64 [n, p] in each row; beyond the last tick the capacity stays as it was."""
        n, ticks = self._per_tick.shape
        tick = np.clip((time_ms / TICK_MS).astype(np.int64), 0, ticks - 1)
        rows = np.arange(n)[:, None]
        served: Floats = self._served[rows, tick] + self._per_tick[rows, tick] * (time_ms / TICK_MS - tick)
        return served

    def _left_ms(self, row: NDArray[np.int64], work: Floats) -> tuple[Floats, Floats]:
        """Return V^-1 at `work`, ms, and the capacity then, bits per ms; inf where the call ends before."""
        ticks = self.received.ticks
        place = np.searchsorted(self._flat, work + self._offsets[row], side="left") - 1
        tick = np.clip(place - row * (ticks + 1), 0, ticks)
        is_late = work > self._served[row, -1]
        tick = np.minimum(tick, ticks - 1)
        rate = np.maximum(self._per_tick[row, tick], 1e-9)
        left = TICK_MS * (tick + np.clip((work - self._served[row, tick]) / rate, 0.0, 1.0))
        return np.where(is_late, np.inf, left), rate / TICK_MS

    def step(self, packets: Packets) -> None:
        """Send the packets of one tick; ticks come in order."""
        work, passed = self._queue(packets)
        is_through = passed & (self._rng.random(passed.shape) >= self.paths.loss[:, None])
        self.lost_bits += np.where(passed & ~is_through, packets.bits, 0.0).sum(axis=1)
        is_sent = packets.bits > 0
        row, column = np.nonzero(is_through)
        left_ms, bits_per_ms = self._left_ms(row, work[row, column])
        delay = self._rng.exponential(1.0, len(row)) * self.paths.jitter_ms[row]
        arrival = np.full(is_sent.shape, -np.inf)
        arrival[row, column] = left_ms + self.paths.base_delay_ms[row] + delay
        ordered = np.maximum.accumulate(np.maximum(arrival, self._last_ms[:, None]), axis=1)
        self._count(packets, is_sent & ~is_through, row, column, arrival=ordered, bits_per_ms=bits_per_ms)
        self._last_ms = ordered[:, -1] if ordered.shape[1] else self._last_ms

    def _queue(self, packets: Packets) -> tuple[Floats, NDArray[np.bool_]]:
        """Return each packet's D and whether it was served."""
        paths, work, tokens, tokens_ms = self.paths, self._work, self._tokens, self._tokens_ms
        time_ms, bits = packets.time_ms, packets.bits
        served = self.served_bits(time_ms)
        is_policed = bool(np.isfinite(paths.police_bps).any())
        per_ms = np.where(np.isfinite(paths.police_bps), paths.police_bps, 0.0) / 1000
        is_free = ~np.isfinite(paths.police_bps)
        done = np.zeros_like(bits)
        passed = np.zeros(bits.shape, dtype=bool)
        for j in range(bits.shape[1]):
            size = bits[:, j]
            is_sent = size > 0
            if is_policed:
                later = np.where(is_sent, np.maximum(time_ms[:, j], tokens_ms), tokens_ms)
                tokens = np.minimum(tokens + per_ms * (later - tokens_ms), paths.police_bits)
                tokens_ms = later
                conforms = is_free | (tokens >= size)
                self.policed_bits += np.where(conforms, 0.0, size)
                is_sent &= conforms
                tokens = np.where(is_sent, tokens - np.where(is_free, 0.0, size), tokens)
            at = np.maximum(work, served[:, j]) + size
            fits = at - served[:, j] <= paths.queue_bits
            self.dropped_bits += np.where(is_sent & ~fits, size, 0.0)
            is_sent &= fits
            work = np.where(is_sent, at, work)
            done[:, j] = work
            passed[:, j] = is_sent
        self._work, self._tokens, self._tokens_ms = work, tokens, tokens_ms
        return done, passed

    def _count(
        self,
        packets: Packets,
        is_lost: NDArray[np.bool_],
        row: NDArray[np.int64],
        column: NDArray[np.int64],
        *,
        arrival: Floats,
        bits_per_ms: Floats,
    ) -> None:
        """Add the received trains (`row`, `column`, in order) to what receivers count."""
        count, bits, kind = packets.count[row, column], packets.bits[row, column], packets.kind[row, column]
        here = arrival[row, column]
        lost, runs = self._losses(is_lost, packets.count, row, column)
        is_first = np.concatenate([[True], row[1:] != row[:-1]]) if len(row) else np.zeros(0, dtype=bool)
        before = np.where(is_first, self._last_ms[row], np.concatenate([[0.0], here[:-1]]) if len(row) else here)
        has_gap = np.isfinite(before) & np.isfinite(here)
        total = np.where(has_gap, here - np.where(has_gap, before, 0.0), 0.0)
        # Within a train: packets leave one after the other at the capacity of the moment.
        sent = packets.time_ms[row, column]
        delay = here - sent
        apart = np.minimum(bits / count / bits_per_ms, np.where(np.isfinite(delay), delay, 0.0) / count)
        apart = np.where(has_gap, np.minimum(apart, total / count), apart)
        inner = count - 1
        outer = np.where(has_gap, total - inner * apart, 0.0)
        with np.errstate(invalid="ignore"):
            tick = np.where(np.isfinite(here), here // TICK_MS, self.received.ticks).astype(np.int64)
            values = np.stack(
                [
                    count,
                    bits,
                    count * delay - apart * count * inner / 2,
                    inner + has_gap,
                    inner * apart + outer,
                    inner * apart**2 + outer**2,
                    lost,
                    runs,
                    *(np.where(kind == k, count, 0.0) for k in range(KINDS)),
                ]
            )
        self.received.add(row, tick, values, delay - inner * apart)

    def _losses(
        self, is_lost: NDArray[np.bool_], count: Floats, row: NDArray[np.int64], column: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Return packets, and runs of packets, lost just before each received train; keeps the rest for later."""
        before = np.concatenate([self._is_run[:, None], is_lost[:, :-1]], axis=1)
        begins = is_lost & ~before  # a received train, or nothing yet, stands before it
        lost = np.cumsum(np.where(is_lost, count, 0.0), axis=1) + self._lost[:, None]
        runs = np.cumsum(begins, axis=1) + self._runs[:, None]
        is_first = np.concatenate([[True], row[1:] != row[:-1]]) if len(row) else np.zeros(0, dtype=bool)

        def since(total: Floats) -> Floats:
            here = total[row, column]
            return np.where(is_first, here, here - np.concatenate([[0.0], here[:-1]])) if len(row) else here

        result = since(lost), since(runs)
        last = np.zeros(len(lost))
        last_runs = np.zeros(len(lost))
        last[row] = lost[row, column]  # ascending columns: the last one stays
        last_runs[row] = runs[row, column]
        self._lost = lost[:, -1] - last
        self._runs = runs[:, -1] - last_runs
        self._is_run = self._lost > 0
        return result
