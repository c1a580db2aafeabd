"""Holds wrong builds of the aggregators' noise, which the audit must catch; none of it is used by the product."""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from alcove.platform.aggregator.noise import NoiseSource, draw_noise
from alcove.privacy.noise import DiscreteLaplace


@dataclass(frozen=True)
class Build:
    """How both aggregators draw noise.

    Attributes:
        about: what is wrong with it.
        make: returns the leader's source and the helper's.
    """

    about: str
    make: Callable[[], tuple[NoiseSource, NoiseSource]]


class SeededEntropy:
    """Bytes that everybody with the seed can make."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return the next bytes."""
        return self._random.randbytes(size_bytes)


def make_seeded(seed: int) -> NoiseSource:
    """Return a source that is the same for the same seed."""
    entropy = SeededEntropy(seed)

    def draw(scale: Fraction, count: int) -> list[int]:
        distribution = DiscreteLaplace(scale, entropy)
        return [distribution.sample() for _ in range(count)]

    return draw


def draw_nothing(_scale: Fraction, count: int) -> list[int]:
    """Forget the noise."""
    return [0] * count


def draw_half(scale: Fraction, count: int) -> list[int]:
    """Draw for sensitivity 1 where it is 2: as if a replaced report changed one cell."""
    return draw_noise(scale / 2, count)


def draw_floats(scale: Fraction, count: int) -> list[int]:
    """Draw a sign times the floor of an exponential float: zero comes twice as often, and the tail ends."""
    return [
        random.choice((-1, 1)) * compute_magnitude(scale, random.SystemRandom().randrange(1, FLOAT_STEPS + 1))
        for _ in range(count)
    ]


FLOAT_STEPS: Final = 1 << 53
"""How many different floats a uniform one in (0, 1] has."""


def compute_magnitude(scale: Fraction, step: int) -> int:
    """Return the value that the float sampler makes of the uniform float `step / FLOAT_STEPS`."""
    return math.floor(-float(scale) * math.log(step / FLOAT_STEPS))


RIGHT: Final = "right"

BUILDS: Final = {
    RIGHT: Build("as shipped", lambda: (draw_noise, draw_noise)),
    "forgets": Build("the helper adds no noise", lambda: (draw_noise, draw_nothing)),
    "shared seed": Build("both draw from one seed", lambda: (make_seeded(1), make_seeded(1))),
    "sensitivity 1": Build("noise for sensitivity 1, in the place of 2", lambda: (draw_half, draw_half)),
    "floats": Build("a sampler of floats", lambda: (draw_floats, draw_floats)),
}
