"""Simulates calls whose senders follow an estimator in closed loop; shows how an app uses the feature."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from alcove.features.bandwidth.baselines import START_BPS, Estimator, GoogCc
from alcove.features.bandwidth.config import TICK_MS
from alcove.features.bandwidth.controller import Advice, RateController
from alcove.features.bandwidth.harness import ProgramEstimator
from alcove.features.bandwidth.link import Floats, LinkModel, Paths, TickSums
from alcove.features.bandwidth.observation import Floats32, newest, observations_of, statistics_of
from alcove.features.bandwidth.sender import MIN_RATE_BPS, Sender, random_streams
from alcove.runtime import Model
from numpy.typing import NDArray

MAX_VIDEO_BPS: Final = 6e6
"""What the best picture of a call takes; the sender asks for no more."""
LATE_MS: Final = 400.0
"""Of packets that come later than that after the fastest one: they miss their picture."""
FREEZE_TICKS: Final = 4
"""240 ms without a picture are a freeze."""
FIRST_TICK: Final = 17
"""The first second of a call is left out of its experience."""
_REACH: Final = 64
"""Ticks of which the latest observation needs to know."""


class Follower(Protocol):
    """Tells n senders what to send, tick by tick."""

    def advise(self, observation: Floats32, wanted_bps: Floats) -> Advice:
        """Return what to send after a tick's observations f32 [n, 150], where the apps want `wanted_bps` f64 [n]."""
        ...


class EstimateFollower:
    """Senders that send what an estimator says, and do not probe.

    Args:
        estimator: of as many calls.
    """

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator

    def advise(self, observation: Floats32, wanted_bps: Floats) -> Advice:  # noqa: ARG002 (what a follower is given)
        """Return the estimates as targets."""
        estimates = self._estimator.update(observation)
        return Advice(estimates, np.zeros_like(estimates))


class ProbingGcc:
    """Senders of the GCC-like estimator that probe as libwebrtc's do.

    At the beginning at three times the first rate; while an app is limited by what it wants, every 5 s at twice the
    estimate, and when it is not any more; after a probe that came through, at twice as much again.

    Args:
        n: calls.
    """

    FIRST: Final = 3.0
    AGAIN: Final = 2.0
    PASSED: Final = 0.7
    LIMITED_SHARE: Final = 0.65
    EVERY_TICKS: Final = 83

    def __init__(self, n: int) -> None:
        self._gcc = GoogCc(n)
        self._probed = np.zeros(n)
        self._age = np.full(n, self.EVERY_TICKS)
        self._was_limited = np.ones(n, dtype=bool)
        self._tick = 0

    def advise(self, observation: Floats32, wanted_bps: Floats) -> Advice:
        """Return the estimates as targets, and probes."""
        is_seen = newest(observation, "probing_packets_probability") > 0.5
        arrived = newest(observation, "receiving_rate_bps").astype(np.float64)
        estimates = self._gcc.update(observation)
        shown = np.where(is_seen & (self._probed > 0), np.minimum(arrived, self._probed), 0.0)
        self._gcc.accept_probe(shown)
        estimates = np.maximum(estimates, shown)
        is_limited = wanted_bps < self.LIMITED_SHARE * estimates
        passed = (self._probed > 0) & (estimates >= self.PASSED * self._probed) & (self._probed < 0.99 * wanted_bps)
        due = (is_limited & (self._age >= self.EVERY_TICKS)) | (self._was_limited & ~is_limited)
        first = self.FIRST if self._tick == 0 else self.AGAIN
        rate = np.where(passed, self.AGAIN * self._probed, np.where(due, first * estimates, 0.0))
        rate = np.where(is_limited, rate, np.minimum(rate, wanted_bps))
        is_lost = self._age > self.EVERY_TICKS // 5
        self._probed = np.where(rate > 0, rate, np.where(passed | is_lost, 0.0, self._probed))
        self._age = np.where(rate > 0, 0, self._age + 1)
        self._was_limited = is_limited
        self._tick += 1
        return Advice(estimates, rate)


class FeatureFollower:
    """Senders that do what the feature says, as `BandwidthStream` does for one call.

    Args:
        model: a loaded program.
        n: calls.
        is_probing: False for senders that do not probe.
    """

    def __init__(self, model: Model, n: int, *, is_probing: bool = True) -> None:
        self._estimator = ProgramEstimator(model, n)
        self._controller = RateController(n)
        self._is_probing = is_probing

    def advise(self, observation: Floats32, wanted_bps: Floats) -> Advice:
        """Return the controller's advice on the program's estimates."""
        estimates = self._estimator.update(observation)
        return self._controller.update(observation, estimates, wanted_bps if self._is_probing else None)


def run_calls(make: Callable[[int], Follower], paths: Paths, seed: int, wanted_bps: Floats | None = None) -> TickSums:
    """Return what receivers counted in calls whose senders follow an estimator.

    Args:
        make: a follower of n calls.
        paths: of the calls.
        seed: of senders, loss and jitter.
        wanted_bps: what the apps would send, f64 [n, ticks]; `MAX_VIDEO_BPS` if None.
    """
    n, ticks = paths.capacity_bps.shape
    wanted = np.full((n, ticks), MAX_VIDEO_BPS) if wanted_bps is None else wanted_bps
    link, follower = LinkModel(paths, seed), make(n)
    sender = Sender(random_streams(n, np.random.default_rng(seed)), seed + 1)
    # Targets and probes by the tick in which they were advised; they travel back to the sender.
    targets, probes = np.full((n, ticks + 1), START_BPS), np.zeros((n, ticks + 1))
    back = 1 + np.ceil(paths.base_delay_ms / TICK_MS).astype(np.int64)
    rows = np.arange(n)
    for tick in range(ticks):
        known = np.maximum(tick - back + 1, 0)
        rate = np.clip(np.minimum(targets[rows, known], wanted[:, tick]), MIN_RATE_BPS, MAX_VIDEO_BPS)
        link.step(sender.packets(tick, rate, probes[rows, known]))
        advice = follower.advise(latest_observation(link.received, tick), wanted[:, tick])
        targets[:, tick + 1], probes[:, tick + 1] = advice.target_bps, advice.probe_bps
    return link.received


def latest_observation(received: TickSums, tick: int) -> Floats32:
    """Return the observations after a tick, f32 [n, 150]: what an app's receiver computes every 60 ms."""
    begin = max(0, tick + 1 - _REACH)
    recent = TickSums(len(received.min_delay_ms), tick + 1 - begin)
    for name, values in recent.sums.items():
        values[:] = received.sums[name][:, begin : tick + 1]
    recent.min_delay_ms[:] = received.min_delay_ms[:, begin : tick + 1]
    seen = received.min_delay_ms[:, :begin].min(axis=1) if begin else None
    statistics = statistics_of(recent, seen)
    last = observations_of(statistics, slice(statistics.shape[1] - 1, None))
    return np.ascontiguousarray(last[:, 0])


@dataclass(frozen=True)
class Experience:
    """What n calls were like; f64 [n] each.

    Attributes:
        bitrate_bps: received, padding included.
        freezes_per_minute: stretches of `FREEZE_TICKS` or more in which nothing came, or all too late.
        frozen_share: of the time.
        queue_p95_ms: of the ticks' mean delay of packets beyond the path's own.
        loss: share of packets.
    """

    bitrate_bps: Floats
    freezes_per_minute: Floats
    frozen_share: Floats
    queue_p95_ms: Floats
    loss: Floats


def queueing_ms(received: TickSums, paths: Paths) -> Floats:
    """Return the mean delay of each tick's packets beyond the path's own, f64 [n, ticks]; NaN without packets."""
    packets = received.sums["packets"]
    delay = received.sums["delay_ms"] / np.maximum(packets, 1.0)
    own = (paths.base_delay_ms + paths.jitter_ms)[:, None]
    queued: Floats = np.where(packets > 0, np.maximum(delay - own, 0.0), np.nan)
    return queued


def experience_of(received: TickSums, paths: Paths) -> Experience:
    """Return what the calls were like."""
    sums = {name: values[:, FIRST_TICK:] for name, values in received.sums.items()}
    packets = sums["packets"]
    delay = sums["delay_ms"] / np.maximum(packets, 1.0)
    least = received.min_delay_ms.min(axis=1, keepdims=True)
    is_still = (packets == 0) | (delay - np.where(np.isfinite(least), least, 0.0) > LATE_MS)
    runs = [_long_runs(row) for row in is_still]
    ticks = packets.shape[1]
    lost = sums["lost"].sum(axis=1)
    return Experience(
        bitrate_bps=sums["bits"].mean(axis=1) * 1000 / TICK_MS,
        freezes_per_minute=np.array([len(found) for found in runs]) * (60_000 / (ticks * TICK_MS)),
        frozen_share=np.array([sum(found) for found in runs]) / ticks,
        queue_p95_ms=np.array([_percentile(row, 95) for row in queueing_ms(received, paths)[:, FIRST_TICK:]]),
        loss=lost / np.maximum(lost + packets.sum(axis=1), 1.0),
    )


def _percentile(values: Floats, percent: float) -> float:
    """Return a percentile of the values that are numbers; 0 if none is."""
    known = values[np.isfinite(values)]
    return float(np.percentile(known, percent)) if len(known) else 0.0


def _long_runs(flags: NDArray[np.bool_]) -> list[int]:
    """Return the lengths of the runs of True of `FREEZE_TICKS` or more."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    lengths = edges[1::2] - edges[::2]
    return [int(length) for length in lengths if length >= FREEZE_TICKS]
