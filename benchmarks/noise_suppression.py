"""Times `noise_suppression` from a hop's samples to the typed answer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from alcove.features.noise_suppression.config import DEFAULT_VERSION, HOP, SAMPLE_RATE
from alcove.features.noise_suppression.contract import NoiseAnswer, NoiseSuppression
from alcove.features.noise_suppression.made import made_speech
from alcove.runtime import Session, load

from benchmarks.figures import Figure, median_us

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HOP_US = 1e6 * HOP / SAMPLE_RATE


def measure() -> list[Figure]:
    """Return speed and size of the committed program."""
    feature = NoiseSuppression()
    path = feature.default_program
    session = load(path).session()
    hop = made_speech(SAMPLE_RATE, seed=1)[None, SAMPLE_RATE // 2 : SAMPLE_RATE // 2 + HOP]
    native_us, whole_us = median_us([partial(_outputs, session, hop), partial(_whole, feature, session, hop)])
    what = f"noise_suppression {DEFAULT_VERSION} f32"
    share = f"{native_us / HOP_US:.2%} of the 16 ms that a hop lasts"
    return [
        Figure(f"{what}: a hop, p50", whole_us, "µs", "256 samples to typed answer"),
        Figure(f"{what}: of that, the program, p50", native_us, "µs", share),
        Figure(f"{what}: program", path.stat().st_size, "bytes", "as stored and downloaded"),
    ]


def _outputs(session: Session, hop: NDArray[np.float32]) -> list[Any]:
    return session(hop)


def _whole(feature: NoiseSuppression, session: Session, hop: NDArray[np.float32]) -> NoiseAnswer:
    return feature.decode(session(hop))
