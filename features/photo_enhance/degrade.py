"""Makes pictures worse in known ways, to fit what a picture needs and to measure what is got back.

Each takes f32 [height, width, 3] in [0, 1] and a source of randomness and gives the same; `FIT` and `HELD` are ways of
different kinds: thresholds are fitted on the first and judged on the second.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.float32]
Way = Callable[[Picture, np.random.Generator], Picture]


def _clip(picture: NDArray[Any]) -> Picture:
    found: Picture = np.clip(picture, 0, 1).astype(np.float32)
    return found


def less_light(picture: Picture, rng: np.random.Generator) -> Picture:
    """Return the picture with 6 to 60 % of its light, the less the darker it gets, and some noise of the sensor."""
    power = rng.uniform(1, 1.8)
    share = rng.uniform(0.06, 0.3 * power)
    return _clip(picture**power * share + rng.normal(0, rng.uniform(0, 0.006), picture.shape))


def dark_curve(picture: Picture, rng: np.random.Generator) -> Picture:
    """Return the picture darkened by a power of 2.2 to 4, with noise of photons."""
    dark = picture ** rng.uniform(2.2, 4.0)
    photons = rng.uniform(1500, 6000)
    return _clip(rng.poisson(dark * photons) / photons)


def short_exposure(picture: Picture, rng: np.random.Generator) -> Picture:
    """Return the picture with 1 to 10 % of the light that fell on the sensor, with noise of photons."""
    light = picture**2.2 * rng.uniform(0.01, 0.1)
    photons = rng.uniform(1500, 6000)
    return _clip((rng.poisson(light * photons) / photons) ** (1 / 2.2))


def flat(picture: Picture, rng: np.random.Generator) -> Picture:
    """Return the picture with 30 to 60 % of its contrast, about its mean."""
    return _clip(picture.mean() + (picture - picture.mean()) * rng.uniform(0.3, 0.6))


def haze(picture: Picture, rng: np.random.Generator) -> Picture:
    """Return the picture behind 40 to 65 % of white."""
    share = rng.uniform(0.4, 0.65)
    return _clip(picture * (1 - share) + rng.uniform(0.75, 0.95) * share)


def noise(picture: Picture, rng: np.random.Generator) -> Picture:
    """Return the picture with normal noise of 4 to 12 % of the range."""
    return _clip(picture + rng.normal(0, rng.uniform(0.04, 0.12), picture.shape))


def photon_noise(picture: Picture, rng: np.random.Generator) -> Picture:
    """Return the picture of 40 to 250 photons for white."""
    photons = rng.uniform(40, 250)
    return _clip(rng.poisson(picture * photons) / photons)


def mild(picture: Picture, rng: np.random.Generator) -> Picture:
    """Return the picture a little darker and flatter than it was, which needs nothing."""
    return _clip(picture * rng.uniform(0.75, 1) + rng.uniform(0, 0.04))


FIT: Final[Mapping[str, Way]] = {"low_light": less_light, "retouch": flat, "noise": noise}
HELD: Final[Mapping[str, Way]] = {
    "low_light": short_exposure,
    "curve": dark_curve,
    "retouch": haze,
    "noise": photon_noise,
}


def to_bytes(picture: Picture) -> NDArray[np.uint8]:
    """Return uint8 of [0, 1]."""
    return np.rint(picture * 255).astype(np.uint8)
