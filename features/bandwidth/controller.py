"""Chooses what a sender sends: the estimate, less what a queue and earlier dips of the path advise; when to probe.

The estimate says what the path carries now.  A call that sends all of it has a queue as soon as the path gets worse,
for as long as the news takes to the sender.  So the target is the least of

    capacity * brake    the brake falls from 1 to `LEAST_BRAKE` as the queue grows from `FREE_QUEUE_MS` by
                        `FULL_QUEUE_MS`: less than the path carries is sent until the queue is gone
    ceiling             a dip (a queue beyond `DIP_QUEUE_MS`) sets it to a part of what came through; it grows slowly,
                        and fast when there was no dip for `CALM_S`: a path that dips every few seconds is filled less

A probe is padding of one tick.  It is advised where an app that sent much less than the target wants more again: first
at the rate of the time before, or the estimate if that is more, then twice as fast while probes get through.

Delay counts from the least of the latest 5 to 10 s, so that a new route, or a queue of others, is no queue for ever.
Sources: the probe clusters and the limit for app-limited senders are those of libwebrtc's probe controller, the window
of the least delay is BBR's (Cardwell et al., 2016); the other numbers were chosen on made-up paths and the `train`
split of the recorded ones.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, MIN_CAPACITY_BPS, TICK_MS
from alcove.features.bandwidth.observation import Floats, Floats32, newest
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

FREE_QUEUE_MS: Final = 20.0
FULL_QUEUE_MS: Final = 150.0
LEAST_BRAKE: Final = 0.05
SILENT_TICKS: Final = 2
"""Without a packet for so long, the brake is down: a path that carries nothing now gets no more."""

DIP_QUEUE_MS: Final = 60.0
DIP_SHARE: Final = 0.4
DIP_FLOOR_BPS: Final = 50e3
"""Least ceiling: below it a picture is none, and a path that dips to less freezes it anyway."""
GROWTH: Final = 1.05
CALM_GROWTH: Final = 2.0
CALM_S: Final = 12.0
"""Factors of the ceiling in a second, and seconds without a dip until the second one is taken."""

LEAST_DELAY_TICKS: Final = 83
"""5 s: the least delay is that of this and the last such period."""

NOISE_SHARE: Final = 3.0
NOISE_TICKS: Final = 100
MOST_NOISE_MS: Final = 50.0
"""A queue is counted beyond three times the delay's change from tick to tick, mean of about 6 s: jitter is no queue."""

QUIET_SHARE: Final = 0.65
"""An app that wants less than this share of the target is app-limited."""
QUIET_S: Final = 1.0
"""For so long, and it is a silence."""
FIRST_PROBE_BPS: Final = 900e3
"""Of a call that knows nothing yet: three times the rate that it starts with."""
PROBE_GROWTH: Final = 2.0
MOST_PROBES: Final = 5
"""After one silence."""
PROBE_PASSED: Final = 0.5
"""Share of a probe's rate that is estimated after it: it got through."""
PROBE_QUEUE_TICKS: Final = 4
"""For which a queue after a probe is the probe's."""
EFFECT_TICKS: Final = 2
LOST_TICKS: Final = 17
"""Ticks until the effect of a probe that has been seen is known, and until one that has not been seen is given up."""


@dataclass(frozen=True)
class Advice:
    """What n senders should do.

    Attributes:
        target_bps: most to send, f64 [n].
        probe_bps: rate to fill the next tick up to, with padding, f64 [n]; 0 for no probe.
    """

    target_bps: Floats
    probe_bps: Floats


class RateController:
    """Follows n calls, tick by tick.

    Args:
        n: calls.
    """

    def __init__(self, n: int) -> None:
        self._least = np.full((2, n), np.inf)
        self._tick = 0
        self._delay_ms = np.full(n, np.nan)
        self._noise_ms = np.zeros(n)
        self._was_late = np.zeros(n, dtype=bool)
        self._silent = np.zeros(n)
        self._ceiling = np.full(n, np.inf)
        self._low = np.full(n, np.inf)
        self._calm_s = np.zeros(n)
        self._probe_ticks = np.zeros(n)
        self._before = np.full(n, MAX_CAPACITY_BPS)  # the last target without a queue
        self._quiet_s = np.full(n, QUIET_S)
        self._known = np.full(n, FIRST_PROBE_BPS)  # rate of the time before the silence
        self._left = np.zeros(n)
        self._probed = np.zeros(n)  # rate of the probe under way, 0 for none
        self._wait = np.zeros(n)

    def update(self, observation: Floats32, capacity_bps: Floats, wanted_bps: Floats | None = None) -> Advice:
        """Return what to do after a tick.

        Args:
            observation: of the tick, f32 [n, 150]; one with a value that is NaN counts as a tick without packets.
            capacity_bps: the estimates after it, f64 [n].
            wanted_bps: what the apps would send if they could, f64 [n]; None for no advice to probe.
        """
        is_known = np.isfinite(observation).all(axis=1, keepdims=True)
        observation = np.where(is_known, observation, np.float32(0))
        is_seen = newest(observation, "received_packets") > 0
        received = newest(observation, "receiving_rate_bps").astype(np.float64)
        delay_ms = newest(observation, "delay_ms").astype(np.float64)
        queue_ms = self._queue_ms(delay_ms, is_seen) - NOISE_SHARE * self._follow_noise(delay_ms, is_seen)
        # One late tick may be jitter's; two in a row, or one after silence, is a queue.
        is_late = queue_ms > DIP_QUEUE_MS
        is_dip = is_late & (self._was_late | (self._silent > 0))
        self._was_late = np.where(is_seen, is_late, self._was_late)
        self._silent = np.where(is_seen, 0, self._silent + 1)
        is_probe = newest(observation, "probing_packets_probability") > 0
        # What a probe queues is no dip of the path.
        self._probe_ticks = np.where(is_probe, PROBE_QUEUE_TICKS, self._probe_ticks - 1)
        self._limit_by_dips(is_dip & (self._probe_ticks <= 0), received)
        brake = np.clip(1 - (queue_ms - FREE_QUEUE_MS) / FULL_QUEUE_MS, LEAST_BRAKE, 1.0)
        brake = np.where(self._silent >= SILENT_TICKS, LEAST_BRAKE, brake)
        target = np.clip(np.minimum(capacity_bps * brake, self._ceiling), MIN_CAPACITY_BPS, MAX_CAPACITY_BPS)
        probe = np.zeros_like(target)
        if wanted_bps is not None:
            probe = self._probe(np.minimum(capacity_bps, self._ceiling), wanted_bps, is_probe, queue_ms)
        self._before = np.where(queue_ms > FREE_QUEUE_MS, self._before, target)
        self._tick += 1
        return Advice(target, probe)

    def _queue_ms(self, delay_ms: Floats, is_seen: Flags) -> Floats:
        """Return the delay beyond the least of the latest 5 to 10 s, 0 without packets."""
        if self._tick % LEAST_DELAY_TICKS == 0:
            self._least = np.stack([self._least[1], np.full_like(delay_ms, np.inf)])
        self._least[1] = np.where(is_seen, np.minimum(self._least[1], delay_ms), self._least[1])
        least = self._least.min(axis=0)
        queue: Floats = np.where(is_seen, delay_ms - np.where(np.isfinite(least), least, 0.0), 0.0)
        return queue

    def _follow_noise(self, delay_ms: Floats, is_seen: Flags) -> Floats:
        """Return by how much the delay changes from tick to tick, ms, mean of some seconds; no more for a dip."""
        change = np.where(is_seen & np.isfinite(self._delay_ms), np.abs(delay_ms - self._delay_ms), 0.0)
        moved = self._noise_ms + (np.minimum(change, MOST_NOISE_MS) - self._noise_ms) / NOISE_TICKS
        self._noise_ms = np.where(is_seen, moved, self._noise_ms)
        self._delay_ms = np.where(is_seen, delay_ms, self._delay_ms)
        return self._noise_ms

    def _limit_by_dips(self, is_dip: Flags, received: Floats) -> None:
        """Set or raise the ceiling."""
        # What arrives right after a dip is its queue, faster than was sent before it.
        self._low = np.where(is_dip, np.minimum(self._low, np.minimum(received, self._before)), np.inf)
        level = np.maximum(DIP_SHARE * np.where(is_dip, self._low, 0.0), DIP_FLOOR_BPS)
        self._calm_s = np.where(is_dip, 0.0, self._calm_s + TICK_MS / 1000)
        growth = np.where(self._calm_s > CALM_S, CALM_GROWTH, GROWTH) ** (TICK_MS / 1000)
        grown = np.minimum(self._ceiling * growth, MAX_CAPACITY_BPS)
        self._ceiling = np.where(is_dip, np.minimum(self._ceiling, level), grown)

    def _probe(self, capacity: Floats, wanted: Floats, is_seen: Flags, queue_ms: Floats) -> Floats:
        """Return the rates of probes, 0 for none."""
        is_quiet = wanted < QUIET_SHARE * capacity
        begins = ~is_quiet & (self._quiet_s >= QUIET_S)
        self._quiet_s = np.where(is_quiet, self._quiet_s + TICK_MS / 1000, 0.0)
        self._known = np.where(is_quiet | begins, self._known, np.minimum(capacity, wanted))
        # A probe under way: seen, its effect is known some ticks later; never seen, it was lost.
        is_out = self._probed > 0
        self._wait = np.where(is_out & is_seen & (self._wait > EFFECT_TICKS), EFFECT_TICKS, self._wait - 1)
        is_over = is_out & (self._wait <= 0)
        passed = is_over & (capacity >= PROBE_PASSED * self._probed) & (queue_ms < DIP_QUEUE_MS)
        self._left = np.where(begins, MOST_PROBES, np.where((is_over & ~passed) | is_quiet, 0, self._left))
        rate = np.where(begins, np.maximum(self._known, capacity), PROBE_GROWTH * self._probed)
        is_now = (self._left > 0) & (begins | passed) & (begins | (capacity < wanted))
        rate = np.where(is_now, np.minimum(rate, np.minimum(wanted, MAX_CAPACITY_BPS)), 0.0)
        self._probed = np.where(is_now, rate, np.where(is_over, 0.0, self._probed))
        self._wait = np.where(is_now, LOST_TICKS, self._wait)
        self._left = np.where(is_now, self._left - 1, self._left)
        return rate
