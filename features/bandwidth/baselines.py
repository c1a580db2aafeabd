"""Implements three known estimators without learning, as baselines on the same observations, many calls at once.

    GoogCc      delay- and loss-based, as published for Google's congestion control
    RateKalman  a random walk of the capacity's logarithm, seen through the receiving rate
    WindowMax   the largest receiving rate of the last seconds

Sources: Carlucci, De Cicco, Holmer, Mascolo, "Analysis and design of the Google congestion control for web real-time
communication" (MMSys 2016); Holmer et al., draft-ietf-rmcat-gcc-02.  They see what an app's estimator sees, an
observation each 60 ms: a group of packets, of which the arrival filter takes the variation of delay, is a tick.
"""

from typing import Final, Protocol

import numpy as np
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, MIN_CAPACITY_BPS, TICK_MS
from alcove.features.bandwidth.observation import Floats32, newest
from numpy.typing import NDArray

Floats = NDArray[np.float64]

START_BPS: Final = 300e3
"""First estimate of a call, as libwebrtc's."""


class Estimator(Protocol):
    """Estimates n calls, tick by tick."""

    def update(self, observation: Floats32) -> Floats:
        """Return the estimates, bps f64 [n], after a tick's observations f32 [n, 150]."""
        ...


def clip_rate(rate_bps: Floats) -> Floats:
    """Return rates within what an estimate may be."""
    result: Floats = np.clip(rate_bps, MIN_CAPACITY_BPS, MAX_CAPACITY_BPS)
    return result


class GoogCc:
    """Google congestion control at the receiver: the smaller of a delay-based and a loss-based estimate.

    States of the delay-based rate control (the drawing of the paper's figure 4; signals are overuse, normal, underuse):

        increase --overuse--> decrease --normal or underuse--> hold --normal--> increase
        increase --underuse--> hold;  hold --overuse--> decrease

    Args:
        n: calls.
    """

    K_UP: Final = 0.0087  # of the adaptive threshold; draft, section 5.4; per ms
    K_DOWN: Final = 0.039
    THRESHOLD_MS: Final = (6.0, 12.5, 600.0)  # least, first, greatest
    MAX_ADAPT_MS: Final = 15.0
    OVERUSE_MS: Final = 10.0
    BETA: Final = 0.85
    ETA: Final = 1.08  # per second
    STATE_NOISE: Final = 1e-3
    CHI: Final = 0.1  # of the measured noise, at 30 groups a second
    INCREASE, HOLD, DECREASE = range(3)

    def __init__(self, n: int) -> None:
        self._gradient = np.zeros(n)  # m: ms of delay that a tick adds
        self._error = np.full(n, 0.1)  # its variance
        self._noise = np.full(n, 5.0)  # variance of what is measured
        self._threshold = np.full(n, self.THRESHOLD_MS[1])
        self._over_ms = np.zeros(n)
        self._delay = np.full(n, np.nan)
        self._state = np.full(n, self.INCREASE)
        self._rate = np.full(n, START_BPS)
        self._actual = np.full(n, START_BPS)
        self._peak = np.full(n, np.nan)  # mean of log(received rate) when it was too much
        self._peak_var = np.full(n, 0.01)
        self._tick = 0

    def update(self, observation: Floats32) -> Floats:
        """Return the estimates, bps f64 [n], after a tick's observations f32 [n, 150]."""
        received = newest(observation, "receiving_rate_bps", is_long=True).astype(np.float64)
        packets = newest(observation, "received_packets")
        # The rate of the past half second; at the beginning of a call less of it is there.
        received *= 10 / min(10, self._tick + 1)
        self._tick += 1
        signal = self._signal(newest(observation, "delay_ms").astype(np.float64), packets > 0)
        self._control(signal, received)
        self._limit_by_loss(newest(observation, "packet_loss_ratio", is_long=True).astype(np.float64), received)
        return self._actual

    def accept_probe(self, rate_bps: Floats) -> None:
        """Raise the estimates to what a probe has shown, bps f64 [n], as libwebrtc does; 0 for no probe."""
        self._rate = clip_rate(np.maximum(self._rate, rate_bps))
        self._actual = clip_rate(np.maximum(self._actual, rate_bps))

    def _signal(self, delay: Floats, is_seen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Arrival-time filter (Kalman) and overuse detector with its adaptive threshold; 1 over, 0 normal, -1 under."""
        is_known = is_seen & np.isfinite(self._delay)
        measured = np.where(is_known, delay - np.where(np.isfinite(self._delay), self._delay, 0.0), 0.0)
        self._delay = np.where(is_seen, delay, self._delay)
        residual = measured - self._gradient
        capped = np.clip(residual, -3 * np.sqrt(self._noise), 3 * np.sqrt(self._noise))
        weight = (1 - self.CHI) ** (30 * TICK_MS / 1000)
        noise = np.maximum(weight * self._noise + (1 - weight) * capped**2, 1.0)
        self._noise = np.where(is_known, noise, self._noise)
        error = self._error + self.STATE_NOISE
        gain = error / (error + self._noise)
        before = self._gradient
        self._gradient = np.where(is_known, before + gain * capped, before)
        self._error = np.where(is_known, (1 - gain) * error, error)
        # The draft compares min(groups, 60) * m with the threshold.
        offset = self._gradient * min(self._tick, 60)
        is_over = offset > self._threshold
        self._over_ms = np.where(is_over, self._over_ms + TICK_MS, 0.0)
        signal = np.where(
            is_over & (self._over_ms > self.OVERUSE_MS) & (self._gradient >= before),
            1,
            np.where(offset < -self._threshold, -1, 0),
        )
        far = np.abs(offset) - self._threshold
        slope = np.where(far < 0, self.K_DOWN, self.K_UP)
        adapted = np.clip(self._threshold + TICK_MS * slope * far, self.THRESHOLD_MS[0], self.THRESHOLD_MS[2])
        self._threshold = np.where(is_known & (far <= self.MAX_ADAPT_MS), adapted, self._threshold)
        return signal

    def _control(self, signal: NDArray[np.int64], received: Floats) -> None:
        """AIMD: multiplicative growth far from the last peak, additive near it, a part of what arrives on overuse."""
        self._state = np.select(
            [signal > 0, signal < 0, self._state == self.DECREASE],
            [self.DECREASE, self.HOLD, self.HOLD],
            self.INCREASE,
        )
        log_rate = np.log(np.maximum(received, 1.0) / 1e3)
        width = 3 * np.sqrt(self._peak_var)
        is_near = np.isfinite(self._peak) & (np.abs(log_rate - self._peak) <= width)
        self._peak = np.where(np.isfinite(self._peak) & (log_rate > self._peak + width), np.nan, self._peak)
        seconds = TICK_MS / 1000
        # A packet more per response time (100 ms and the trip there and back, here 200 ms).
        packet_bits = np.maximum(self._rate / 30 / np.ceil(self._rate / 30 / 9600), 1000.0)
        additive = self._rate + 0.5 * min(1.0, TICK_MS / 200) * packet_bits
        grown = np.where(is_near, np.maximum(additive, self._rate), self._rate * self.ETA**seconds)
        grown = np.where(grown > 1.5 * received + 10e3, np.maximum(self._rate, 1.5 * received + 10e3), grown)
        # The sender does not follow this estimate, so more than it may pass; without overuse that is a lower bound.
        grown = np.maximum(grown, received)
        cut = np.minimum(self.BETA * received, self._rate)
        is_cut = self._state == self.DECREASE
        first = is_cut & ~np.isfinite(self._peak)
        off = np.where(np.isfinite(self._peak), log_rate - np.where(np.isfinite(self._peak), self._peak, 0.0), 0.0)
        self._peak_var = np.where(is_cut, np.clip(0.95 * self._peak_var + 0.05 * off**2, 0.001, 0.03), self._peak_var)
        self._peak = np.where(first, log_rate, np.where(is_cut, self._peak + 0.05 * off, self._peak))
        self._rate = clip_rate(np.where(is_cut, cut, np.where(self._state == self.INCREASE, grown, self._rate)))

    def _limit_by_loss(self, loss: Floats, received: Floats) -> None:
        """Loss-based control, from the rate in force: above 10 % down by half of it, below 2 % up, 8 % a second."""
        seconds = TICK_MS / 1000
        down = self._actual * (1 - 0.5 * loss) ** seconds
        up = np.maximum(self._actual * self.ETA**seconds, received)
        limit = np.where(loss > 0.10, down, np.where(loss < 0.02, up, self._actual))
        self._actual = clip_rate(np.minimum(limit, self._rate))


class RateKalman:
    """A Kalman filter on the logarithm of the receiving rate, in steps of a tick.

    The capacity's logarithm is a random walk.  While a queue stands the receiving rate is the capacity, with the noise
    of packets; while none does it is a lower bound, which can raise the estimate and not lower it.

    Args:
        n: calls.
        drift: variance that a tick adds.
        noise: variance of a measured logarithm.
    """

    def __init__(self, n: int, drift: float = 0.004, noise: float = 0.08) -> None:
        self._mean = np.full(n, np.log(START_BPS))
        self._variance = np.full(n, 4.0)
        self._drift, self._noise = drift, noise

    def update(self, observation: Floats32) -> Floats:
        """Return the estimates, bps f64 [n], after a tick's observations f32 [n, 150]."""
        rate = newest(observation, "receiving_rate_bps").astype(np.float64)
        queue = newest(observation, "queuing_delay_ms")
        measured = np.log(np.maximum(rate, MIN_CAPACITY_BPS))
        self._variance = np.minimum(self._variance + self._drift, 4.0)
        tells = (rate > 0) & ((queue > 20.0) | (measured > self._mean))
        gain = np.where(tells, self._variance / (self._variance + self._noise), 0.0)
        self._mean += gain * (measured - self._mean)
        self._variance *= 1 - gain
        return clip_rate(np.exp(self._mean))


class WindowMax:
    """The largest receiving rate of the last long windows: what has passed once will pass.

    Args:
        n: calls.
        ticks: how long it is remembered.
    """

    def __init__(self, n: int, ticks: int = 50) -> None:
        self._rates = np.zeros((n, ticks))
        self._tick = 0

    def update(self, observation: Floats32) -> Floats:
        """Return the estimates, bps f64 [n], after a tick's observations f32 [n, 150]."""
        rate = newest(observation, "receiving_rate_bps", is_long=True)
        self._rates[:, self._tick % self._rates.shape[1]] = rate
        self._tick += 1
        return clip_rate(self._rates.max(axis=1))


BASELINES: Final = {"GCC-like": GoogCc, "Kalman filter": RateKalman, "windowed maximum": WindowMax}
"""By the names that figures give them."""
