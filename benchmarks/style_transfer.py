"""Times `style_transfer` on a frame of 640 x 360, and on a photo of another size."""

from __future__ import annotations

from functools import partial

import numpy as np
from alcove.features.style_transfer import StyleTransfer
from alcove.features.style_transfer.config import COLUMNS, DEFAULT_VERSION, ROWS
from alcove.runtime import load

from benchmarks.figures import Figure, median_us

LARGE = (1500, 2000)


def measure() -> list[Figure]:
    """Return speed and size of the committed program."""
    feature = StyleTransfer()
    path = feature.default_program
    session = load(path).session()
    rng = np.random.default_rng(0)
    frame, photo = (rng.integers(0, 256, (*size, 3)).astype(np.uint8) for size in ((ROWS, COLUMNS), LARGE))
    given = feature.prepare(frame)
    answer = feature.decode(session(*given))
    frame_us, photo_us = median_us([partial(session, *given), partial(answer.apply, photo)], per_repeat=5)
    what = f"style_transfer {DEFAULT_VERSION} int8"
    return [
        Figure(f"{what}: a frame of {COLUMNS} x {ROWS}, p50", frame_us, "µs", f"{1e6 / frame_us:.0f} frames a second"),
        Figure(f"{what}: bringing it to {LARGE[1]} x {LARGE[0]}, p50", photo_us, "µs", "the photo keeps its detail"),
        Figure(f"{what}: program", path.stat().st_size, "bytes", "as stored and downloaded"),
    ]
