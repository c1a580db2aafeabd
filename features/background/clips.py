"""Makes short clips of held photos: a camera that moves, one that stands still, and somebody before a still room.

Each frame comes with the same frame without noise, which says where the picture did not change, and with its matte.
Needs Pillow (the `dev` extra).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from alcove.features.background.composites import ASPECT, FrameMaker, around, paste, resize, resize_mask
from alcove.features.background.dataset import Still
from numpy.typing import NDArray

FRAMES: Final = 12
"""Of a clip."""
NOISE: Final = (1.5, 4.0)
"""Standard deviations of the noise of a camera, from and to, in levels of 255; one a clip."""
EXPOSURE: Final = 0.01
"""Largest change of the light from the first frame on."""
PAN: Final = 0.05
"""Of the camera, to each side, as a share of the picture's height,"""
ZOOM: Final = 0.03
"""and how much nearer and farther it goes."""
SWAY: Final = 7.0
"""Pixels that somebody moves to each side."""
PERIOD: Final = 18.0
"""Frames of a movement there and back."""


@dataclass(frozen=True, eq=False)
class Shot:
    """A frame of a clip.

    Attributes:
        pixels: uint8 [HEIGHT, WIDTH, 3].
        clean: f32, the same without noise.
        alpha: f32 [HEIGHT, WIDTH].
    """

    pixels: NDArray[np.uint8]
    clean: NDArray[np.float32]
    alpha: NDArray[np.float32]


def camera_clip(still: Still, rng: np.random.Generator, motion: float) -> list[Shot]:
    """Return a clip of a photo.

    Args:
        still: with people.
        rng: of the path and the noise.
        motion: 0 for a camera that stands still, 1 for the most that it moves.
    """
    box = around(still.person, rng)
    high = (box[3] - box[1]) * (1 - 2 * PAN - ZOOM)
    middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    phases = rng.uniform(0, 2 * np.pi, 3)
    noise = _Noise(rng)
    found = []
    for number in range(FRAMES):
        wave = np.sin(2 * np.pi * number / PERIOD * np.array([1.0, 0.7, 0.45]) + phases) * motion
        own = high * (1 + ZOOM * float(wave[2]))
        left = middle[0] + PAN * high * float(wave[0]) - own * ASPECT / 2
        top = middle[1] + PAN * high * float(wave[1]) - own / 2
        left, top = max(0.0, left), max(0.0, top)
        part = (
            left,
            top,
            min(float(still.person.shape[1]), left + own * ASPECT),
            min(float(still.person.shape[0]), top + own),
        )
        found.append(noise.shot(resize(still.pixels, part).astype(np.float32), resize_mask(still.person, part)))
    return found


def webcam_clip(maker: FrameMaker, rng: np.random.Generator) -> list[Shot]:
    """Return a clip of somebody, head and shoulders, who moves before a room that stands still."""
    room = maker.background().astype(np.float32)
    drawn, left, top = maker.person()
    phase, noise = float(rng.uniform(0, 2 * np.pi)), _Noise(rng)
    found = []
    for number in range(FRAMES):
        shift = SWAY * np.sin(2 * np.pi * number / PERIOD + phase)
        pixels, alpha = room.copy(), np.zeros(room.shape[:2], np.float32)
        paste(pixels, alpha, drawn, left + round(shift), top)
        found.append(noise.shot(pixels, alpha))
    return found


class _Noise:
    """The noise and light of one camera."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._deviation = float(rng.uniform(*NOISE))
        self._phase = float(rng.uniform(0, 2 * np.pi))
        self._number = 0

    def shot(self, clean: NDArray[np.float32], alpha: NDArray[np.float32]) -> Shot:
        """Return the next frame."""
        light = 1 + EXPOSURE * float(np.sin(2 * np.pi * self._number / PERIOD + self._phase))
        self._number += 1
        lit = np.clip(clean * light, 0, 255).astype(np.float32)
        noisy = np.clip(lit + self._rng.normal(0, self._deviation, lit.shape), 0, 255)
        return Shot(np.rint(noisy).astype(np.uint8), lit, alpha)
