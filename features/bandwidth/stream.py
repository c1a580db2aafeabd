"""Estimates the capacity of one call by a session that knows the time, across pauses and missing observations."""

from typing import Final

import numpy as np
from alcove.features.bandwidth.config import OBSERVATION_SIZE, TICK_MS
from alcove.features.bandwidth.contract import MISSING, Bandwidth, BandwidthAnswer
from alcove.runtime import Model
from numpy.typing import NDArray

FORGET_AFTER_MS: Final = 5000.0
"""A pause beyond which the path may be any other one: the stream restarts."""


class BandwidthStream:
    """One call: give it each tick's observation with its time, get the estimate.

    A tick that did not come counts as missing (`contract.MISSING`): nothing is forgotten, and a bad observation right
    after it is less certain.  A pause of more than `FORGET_AFTER_MS`, 10 s for example, restarts, as a call does.

    Args:
        model: a loaded program of the feature.
    """

    def __init__(self, model: Model) -> None:
        self._session = model.session()
        self._feature = Bandwidth()
        self._last_ms: float | None = None

    def update(self, time_ms: float, observation: NDArray[np.float32]) -> BandwidthAnswer:
        """Return the estimate at a time.

        Args:
            time_ms: when the tick ended, by any clock that does not go back.
            observation: f32 [150], see `config`.

        Raises:
            ValueError: the time is not after the last one, or not finite, or the observation has another shape; the
                stream continues as if it had not been.
        """
        if not np.isfinite(time_ms) or (self._last_ms is not None and time_ms <= self._last_ms):
            raise ValueError(f"time must be after the last one, {self._last_ms} ms, not {time_ms} ms")
        if observation.shape != (OBSERVATION_SIZE,):
            raise ValueError(f"an observation has {OBSERVATION_SIZE} values, not the shape {observation.shape}")
        pause_ms = 0.0 if self._last_ms is None else time_ms - self._last_ms
        self._last_ms = time_ms
        if pause_ms > FORGET_AFTER_MS:
            self._session.reset()
        else:
            for _ in range(round(pause_ms / TICK_MS) - 1):
                self._session(MISSING)
        return self._feature.decode(self._session(observation[None].astype(np.float32, copy=False)))
