"""Draws the noise of one release."""

from collections.abc import Callable
from fractions import Fraction
from typing import Protocol

from alcove.privacy.noise import DiscreteLaplace

__all__ = ["NoiseSource", "draw_noise"]


class NoiseSource(Protocol):
    """Draws independent integers; others than `draw_noise` exist in tests only."""

    def __call__(self, scale: Fraction, count: int, /) -> list[int]:
        """Return `count` integers of discrete Laplace noise of a scale."""
        ...


def draw_noise(scale: Fraction, count: int) -> list[int]:
    """Return independent integers, exact, with the operating system's randomness."""
    distribution = DiscreteLaplace(scale)
    return [distribution.sample() for _ in range(count)]


def replay(drawn: list[int]) -> Callable[[], int]:
    """Return what gives drawn integers, each once."""
    left = iter(drawn)
    return lambda: next(left)
