"""Draws unpredictable bytes, and exactly uniform numbers from them without a float."""

import os
from typing import Protocol

from alcove.privacy.errors import ParameterError

WORD_BYTES = 8
"""One draw; thresholds and bounds are out of 2 ** 64."""


class Entropy(Protocol):
    """A source of unpredictable bytes; seeded ones exist in tests only."""

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return `size_bytes` independent, uniform bytes."""
        ...


class OsEntropy:
    """The operating system's source."""

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return bytes of the kernel's generator."""
        return os.urandom(size_bytes)


def random_word(entropy: Entropy) -> int:
    """Return a uniform number in [0, 2 ** 64)."""
    return int.from_bytes(entropy.random_bytes(WORD_BYTES), "little")


def uniform_below(bound: int, entropy: Entropy) -> int:
    """Return a uniform number in [0, bound), exactly: words above the last full multiple of `bound` are drawn again.

    Raises:
        ParameterError: `bound` is not in [1, 2 ** 64].
    """
    if not 1 <= bound <= 1 << 64:
        raise ParameterError(name="bound", bound="in [1, 2 ** 64]", value=bound)
    full_multiples = (1 << 64) - (1 << 64) % bound
    while (word := random_word(entropy)) >= full_multiples:
        pass
    return word % bound
