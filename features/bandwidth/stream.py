"""Estimates the capacity of one call by a session that knows the time, and says what to send and when to probe."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.bandwidth.config import MAX_CAPACITY_BPS, OBSERVATION_SIZE, TICK_MS
from alcove.features.bandwidth.contract import MISSING, Bandwidth, BandwidthAnswer
from alcove.features.bandwidth.controller import RateController
from alcove.features.errors import FieldError
from alcove.runtime import Model
from numpy.typing import NDArray

FORGET_AFTER_MS: Final = 5000.0
"""A pause beyond which the path may be any other one: the stream restarts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamAnswer(BandwidthAnswer):
    """An estimate, and what a sender should make of it.

    Attributes:
        target_bps: most to send now, bit/s: less than the capacity while a queue stands, and on paths that dip
            (`controller`).
        probe_bps: send padding in the next tick (60 ms), so that all of it comes to this rate, bit/s; 0 for no probe.

    Raises:
        FieldError: as `BandwidthAnswer`.
    """

    target_bps: float
    probe_bps: float

    def __post_init__(self) -> None:
        BandwidthAnswer.__post_init__(self)  # super() is of the class before it had slots
        if not 0 < self.target_bps < math.inf:
            raise FieldError("target_bps", "a finite number above 0", self.target_bps)
        if not 0 <= self.probe_bps < math.inf:
            raise FieldError("probe_bps", "a finite number, 0 or more", self.probe_bps)


class BandwidthStream:
    """One call: give it each tick's observation with its time, get the estimate and what to send.

    A tick that did not come counts as missing (`contract.MISSING`): nothing is forgotten, and a bad observation right
    after it is less certain.  A pause of more than `FORGET_AFTER_MS`, 10 s for example, restarts, as a call does.

    Args:
        model: a loaded program of the feature.
    """

    def __init__(self, model: Model) -> None:
        self._session = model.session()
        self._feature = Bandwidth()
        self._controller = RateController(1)
        self._last_ms: float | None = None

    def update(self, time_ms: float, observation: NDArray[np.float32], wanted_bps: float | None = None) -> StreamAnswer:
        """Return the estimate at a time.

        Args:
            time_ms: when the tick ended, by any clock that does not go back.
            observation: f32 [150], see `config`.
            wanted_bps: what the app would send if it could, bit/s; None for no advice to probe.

        Raises:
            ValueError: the time is not after the last one, or not finite, the observation has another shape, or what
                is wanted is negative or no number; the stream continues as if it had not been.
        """
        if not np.isfinite(time_ms) or (self._last_ms is not None and time_ms <= self._last_ms):
            raise ValueError(f"time must be after the last one, {self._last_ms} ms, not {time_ms} ms")
        if observation.shape != (OBSERVATION_SIZE,):
            raise ValueError(f"an observation has {OBSERVATION_SIZE} values, not the shape {observation.shape}")
        if wanted_bps is not None and not wanted_bps >= 0:
            raise ValueError(f"the wanted rate must be 0 bit/s or more, not {wanted_bps}")
        pause_ms = 0.0 if self._last_ms is None else time_ms - self._last_ms
        self._last_ms = time_ms
        wanted = None if wanted_bps is None else np.array([min(wanted_bps, MAX_CAPACITY_BPS)])
        if pause_ms > FORGET_AFTER_MS:
            self._session.reset()
            self._controller = RateController(1)
        else:
            for _ in range(round(pause_ms / TICK_MS) - 1):
                capacity = self._session(MISSING)[0]
                self._controller.update(MISSING, capacity[0].astype(np.float64), wanted)
        given = observation[None].astype(np.float32, copy=False)
        answer = self._feature.decode(self._session(given))
        advice = self._controller.update(given, np.array([answer.capacity_bps]), wanted)
        return StreamAnswer(
            capacity_bps=answer.capacity_bps,
            std_bps=answer.std_bps,
            target_bps=float(advice.target_bps[0]),
            probe_bps=float(advice.probe_bps[0]),
        )
