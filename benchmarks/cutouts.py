"""Times `cutouts` from a photo's pixels to alpha at its size, the first time and for a tap after it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from alcove.features.cutouts import Cutouts, Tap
from alcove.features.cutouts.config import DEFAULT_VERSION
from alcove.runtime import load

from benchmarks.figures import Figure, median_us

if TYPE_CHECKING:
    from alcove.runtime import Session
    from numpy.typing import NDArray

PIXELS = 512


def measure() -> list[Figure]:
    """Return speed and size of the committed program."""
    feature = Cutouts()
    path = feature.default_program
    session = load(path).session()
    picture = np.random.default_rng(0).integers(0, 256, (PIXELS, PIXELS, 3)).astype(np.uint8)
    given = feature.prepare(picture, [Tap(0.5, 0.5)])
    outputs = session(*given)
    later = (*given[1:3], outputs[0], *outputs[2:])
    answer = feature.decode(outputs)
    prepare_us, first_us, tap_us, alpha_us = median_us(
        [
            partial(feature.prepare, picture),
            partial(_run, session, "forward", given),
            partial(_run, session, "tap", later),
            partial(answer.alpha, picture),
        ]
    )
    what = f"cutouts {DEFAULT_VERSION} int8"
    return [
        Figure(f"{what}: the first cutout of a photo, p50", first_us, "µs", "encoder and decoder"),
        Figure(f"{what}: each tap after it, p50", tap_us, "µs", "decoder alone"),
        Figure(f"{what}: resizing {PIXELS} x {PIXELS}, p50", prepare_us, "µs", f"to {given[0].shape[0]} pixels"),
        Figure(f"{what}: alpha of {PIXELS} x {PIXELS}, p50", alpha_us, "µs", "soft edges at the photo's size"),
        Figure(f"{what}: program", path.stat().st_size, "bytes", "as stored and downloaded"),
    ]


def _run(session: Session, method: str, given: tuple[NDArray[Any], ...]) -> list[Any]:
    return session.run(method, *given)
