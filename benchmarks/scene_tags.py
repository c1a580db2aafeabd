"""Times `scene_tags` from a picture's pixels to the typed answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from alcove.features.scene_tags.config import DEFAULT_VERSION
from alcove.features.scene_tags.contract import SceneAnswer, SceneTags
from alcove.features.scene_tags.drawn import drawings
from alcove.runtime import Session, load

from benchmarks.figures import Figure, median_us

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIXELS = 224


def measure() -> list[Figure]:
    """Return speed and size of the committed program."""
    feature = SceneTags()
    path = feature.default_program
    session = load(path).session()
    picture = np.ascontiguousarray(drawings()["yellow bus"][:PIXELS, :PIXELS])
    argument = feature.prepare(picture)
    prepare_us, native_us, whole_us = median_us(
        [
            partial(feature.prepare, picture),
            partial(_outputs, session, argument),
            partial(_whole, feature, session, picture),
        ]
    )
    what = f"scene_tags {DEFAULT_VERSION} int8"
    inside = f"{argument.shape[1]} x {argument.shape[0]}"
    return [
        Figure(f"{what}: a picture of 224 x 224, p50", whole_us, "µs", "pixels to typed answer"),
        Figure(f"{what}: of that, resizing, p50", prepare_us, "µs", f"to {inside}, means of areas"),
        Figure(f"{what}: of that, the program, p50", native_us, "µs", "scores, embedding and map"),
        Figure(f"{what}: program", path.stat().st_size, "bytes", "as stored and downloaded"),
    ]


def _outputs(session: Session, argument: NDArray[np.uint8]) -> list[Any]:
    return session(argument)


def _whole(feature: SceneTags, session: Session, picture: NDArray[np.uint8]) -> SceneAnswer:
    return feature.decode(session(feature.prepare(picture)))
