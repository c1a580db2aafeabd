"""Makes impulse responses of box-shaped rooms by the image method.

Source: J. Allen, D. Berkley, "Image method for efficiently simulating small-room acoustics", J. Acoust. Soc. Am. 65,
1979: each wall mirrors the source, and every mirror image is heard later and softer.
"""

from typing import Final

import numpy as np
from alcove.features.noise_suppression.config import SAMPLE_RATE
from numpy.typing import NDArray

SPEED_OF_SOUND: Final = 343.0
"""m/s."""

LENGTH: Final = SAMPLE_RATE // 4
"""Samples of a response: 250 ms."""

REACH: Final = 8
"""Images to either side of the room, in each direction."""


def impulse_response(random: np.random.Generator) -> NDArray[np.float32]:
    """Return the response of a room by chance, f32 [4000], its direct sound at the first sample and of size 1.

    Rooms of 2.5 to 8 m a side, 2.3 to 3.5 m high, walls that give back 30 to 90 % of a sound's pressure.
    """
    size = random.uniform([2.5, 2.5, 2.3], [8.0, 6.0, 3.5])
    talker = random.uniform(0.15, 0.85, 3) * size
    away = random.normal(size=3)
    listener = np.clip(talker + away / np.linalg.norm(away) * random.uniform(0.2, 2.0), 0.1, size - 0.1)
    reflection = random.uniform(0.3, 0.9)
    numbers = np.arange(-REACH, REACH + 1)
    # Image n of a direction lies at n sides, mirrored for odd n, and has met |n| walls.
    places = [np.where(numbers % 2, side - at, at) + numbers * side for side, at in zip(size, talker, strict=True)]
    squares = [(place - ear) ** 2 for place, ear in zip(places, listener, strict=True)]
    distance = np.sqrt(squares[0][:, None, None] + squares[1][None, :, None] + squares[2][None, None, :])
    walls = np.abs(numbers)[:, None, None] + np.abs(numbers)[None, :, None] + np.abs(numbers)[None, None, :]
    direct = float(np.linalg.norm(talker - listener))
    delays = np.round((distance - direct) / SPEED_OF_SOUND * SAMPLE_RATE).astype(int).ravel()
    gains = (reflection**walls * direct / distance).ravel()
    is_heard = (delays >= 0) & (delays < LENGTH)
    return np.bincount(delays[is_heard], gains[is_heard], LENGTH).astype(np.float32)
