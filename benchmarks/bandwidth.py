"""Times a tick of the `bandwidth` programs, int8 and float32, with and without the typed answer."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from alcove.features.bandwidth.config import DEFAULT_VERSION, TICK_MS
from alcove.features.bandwidth.contract import Bandwidth, BandwidthAnswer, program_path
from alcove.features.bandwidth.harness import step_recording
from alcove.features.bandwidth.observation import observations_of
from alcove.runtime import Session, load

from benchmarks.figures import Figure, median_us

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

TICKS = 200


def measure() -> list[Figure]:
    """Return speed and size of the committed programs."""
    torch.set_num_threads(1)
    recording = step_recording(2.0, 1, seed=1)
    ticks = np.ascontiguousarray(observations_of(recording.statistics, slice(0, TICKS))[0])[:, None]
    figures = []
    for variant in ("int8", "f32"):
        path = program_path(DEFAULT_VERSION, variant)
        session, feature = load(path).session(), Bandwidth()
        tick = partial(next, cycle(ticks))
        native_us, typed_us = median_us([partial(_answer, session, tick), partial(_predict, feature, session, tick)])
        what = f"bandwidth {DEFAULT_VERSION} {variant}"
        figures += [
            Figure(
                f"{what}: a tick, p50", native_us, "µs", f"one observation of 150 values; a tick lasts {TICK_MS} ms"
            ),
            Figure(f"{what}: with the typed answer, p50", typed_us, "µs", "decode included"),
            Figure(f"{what}: program", path.stat().st_size, "bytes", "as stored and downloaded"),
        ]
    return figures


def _answer(session: Session, tick: Callable[[], NDArray[np.float32]]) -> list[Any]:
    return session(tick())


def _predict(feature: Bandwidth, session: Session, tick: Callable[[], NDArray[np.float32]]) -> BandwidthAnswer:
    return feature.decode(session(tick()))
