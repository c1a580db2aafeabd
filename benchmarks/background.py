"""Times `background` from a frame's pixels to the frame with another background, at the program's size and at 720p."""

from __future__ import annotations

from functools import partial

import numpy as np
from alcove.features.background import Background, BackgroundStream, Blur, Replacement, Stage
from alcove.features.background.config import DEFAULT_VERSION, HEIGHT, WIDTH
from alcove.runtime import load

from benchmarks.figures import Figure, median_us

LARGE = (720, 1280, 3)
CALLS = 8
"""In a row, of what takes milliseconds."""


def measure() -> list[Figure]:
    """Return speed and size of the committed program."""
    feature = Background()
    path = feature.default_program
    model = load(path)
    frame = np.random.default_rng(0).integers(0, 256, LARGE).astype(np.uint8)
    picture = np.ascontiguousarray(frame[:, ::-1])
    given = feature.prepare(frame)
    session = model.session()
    streams = [BackgroundStream(model, scene) for scene in (Blur(), Replacement(picture), Stage(picture))]
    native_us, prepare_us, blur_us, replace_us, stage_us = median_us(
        [
            partial(session, *given),
            partial(feature.prepare, frame),
            *(partial(stream.show, frame) for stream in streams),
        ],
        per_repeat=CALLS,
    )
    what = f"background {DEFAULT_VERSION} int8"
    size = "1280 x 720"
    return [
        Figure(f"{what}: the matte of a frame, p50", native_us, "µs", f"{WIDTH} x {HEIGHT}, with state"),
        Figure(f"{what}: making {size} smaller, p50", prepare_us, "µs", f"to {WIDTH} x {HEIGHT}"),
        Figure(f"{what}: {size} blurred, p50", blur_us, "µs", "matte and composition"),
        Figure(f"{what}: {size} replaced, p50", replace_us, "µs", "matte and composition"),
        Figure(f"{what}: {size} on a stage, p50", stage_us, "µs", "matte and composition"),
        Figure(f"{what}: program", path.stat().st_size, "bytes", "as stored and downloaded"),
    ]
