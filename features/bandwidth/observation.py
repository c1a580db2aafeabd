"""Computes the 150 values of an observation from what a receiver counts in each tick."""

import numpy as np
from alcove.features.bandwidth.config import (
    BASE_DELAY_MS,
    OBSERVATION_SIZE,
    STATISTICS,
    TICK_MS,
    TICKS_PER_LONG,
    WINDOWS,
)
from alcove.features.bandwidth.link import TickSums
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]


def trailing_sum(values: Floats, ticks: int) -> Floats:
    """Return the sum of the latest `ticks` values at each tick, fewer at the beginning; along the last axis."""
    total = np.cumsum(values, axis=-1)
    total[..., ticks:] -= total[..., :-ticks].copy()
    return total


def trailing_min(values: Floats, ticks: int) -> Floats:
    """Return the least of the latest `ticks` values at each tick; along the last axis."""
    least = values.copy()
    for back in range(1, min(ticks, values.shape[-1])):
        np.minimum(least[..., back:], values[..., :-back], out=least[..., back:])
    return least


def statistics_of(received: TickSums, seen_ms: Floats | None = None) -> Floats32:
    """Return the statistics of the short and the long window that end with each tick, f32 [n, ticks, 2, 15].

    Args:
        received: what receivers counted.
        seen_ms: least delay before its first tick, f64 [n], inf for none; None for a call from its beginning.
    """
    seen = np.minimum.accumulate(received.min_delay_ms, axis=1)
    if seen_ms is not None:
        seen = np.minimum(seen, seen_ms[:, None])
    windows = []
    for ticks in (1, TICKS_PER_LONG):
        sums = {name: trailing_sum(values, ticks) if ticks > 1 else values for name, values in received.sums.items()}
        least = trailing_min(received.min_delay_ms, ticks)
        windows.append(_window(sums, least, seen, TICK_MS * ticks))
    return np.stack(windows, axis=2)


def _window(sums: dict[str, Floats], least: Floats, seen: Floats, length_ms: float) -> Floats32:
    packets = np.round(sums["packets"])
    is_empty = packets == 0
    some = np.maximum(packets, 1.0)
    gaps = np.maximum(sums["gaps"], 1.0)
    least, known = np.where(is_empty, 0.0, least), np.where(np.isfinite(seen), seen, 0.0)
    delay = sums["delay_ms"] / some
    gap = sums["gap_ms"] / gaps
    lost = np.where(is_empty, 0.0, np.round(sums["lost"]))
    columns = [
        sums["bits"] * (1000 / length_ms),
        packets,
        sums["bits"] / 8,
        np.maximum(delay - known, 0.0),
        delay - BASE_DELAY_MS,
        known,
        np.where(least > 0, delay / np.where(least > 0, least, 1.0), 1.0),
        np.maximum(delay - least, 0.0),
        gap,
        np.sqrt(np.maximum(sums["gap_ms2"] / gaps - gap**2, 0.0)),
        lost / np.maximum(lost + packets, 1.0),
        lost / np.maximum(np.round(sums["loss_runs"]), 1.0),
        *(np.round(sums[kind]) / some for kind in ("video", "audio", "probe")),
    ]
    result = np.stack(columns, axis=-1)
    result[is_empty] = 0.0
    result[..., 5] = known
    made: Floats32 = np.clip(result, -BASE_DELAY_MS, 1e10).astype(np.float32)
    return made


def observations_of(statistics: Floats32, ticks: slice | None = None) -> Floats32:
    """Return observations f32 [n, ticks, 150], in the order of `config`, of statistics f32 [n, ticks, 2, 15].

    Args:
        statistics: of the windows that end with each tick; before the first one there was nothing.
        ticks: only those; all of them if None.
    """
    n, length = statistics.shape[:2]
    begin, end, _ = (ticks or slice(None)).indices(length)
    reach = (WINDOWS - 1) * TICKS_PER_LONG
    early = min(begin, reach)
    given = statistics[:, begin - early : end]
    pad_segments = np.concatenate([np.zeros((n, reach - early, 2, len(STATISTICS)), np.float32), given], axis=1)
    count = end - begin
    result = np.empty((n, count, len(STATISTICS), 2, WINDOWS), np.float32)
    for window in range(WINDOWS):
        for kind, back in ((0, window), (1, window * TICKS_PER_LONG)):
            result[:, :, :, kind, window] = pad_segments[:, reach - back : reach - back + count, kind]
    made: Floats32 = result.reshape(n, count, OBSERVATION_SIZE)
    return made


def newest(observation: Floats32, statistic: str, *, is_long: bool = False) -> Floats32:
    """Return one statistic, by its name in `config`, of the newest window of observations f32 [..., 150]."""
    number = [known.name for known in STATISTICS].index(statistic)
    values: Floats32 = observation[..., number * 2 * WINDOWS + (WINDOWS if is_long else 0)]
    return values
