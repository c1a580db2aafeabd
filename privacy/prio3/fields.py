"""Defines the prime fields of Prio3: their parameters, encodings and roots of unity.

Elements are Python integers in [0, modulus); vectors are lists of them.

Source: draft-irtf-cfrg-vdaf, section 6.1.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from alcove.privacy.errors import VdafDecodeError


@dataclass(frozen=True)
class Field:
    """A prime field with a subgroup of a power of two.

    Attributes:
        modulus: the prime.
        encoded_size: bytes of an element, little-endian.
        generator: of the subgroup of order 2 ** `log_order`.
        log_order: see `generator`; no polynomial may have more evaluations than the order.
    """

    modulus: int
    encoded_size: int
    generator: int
    log_order: int
    name: str = field(compare=False)

    def encode(self, vector: Iterable[int]) -> bytes:
        """Return the elements one after the other, little-endian."""
        size = self.encoded_size
        return b"".join(element.to_bytes(size, "little") for element in vector)

    def decode(self, encoded: bytes, length: int) -> list[int]:
        """Return the `length` elements that `encoded` holds.

        Raises:
            VdafDecodeError: the size is another, or an element is not below the modulus.
        """
        size = self.encoded_size
        if len(encoded) != length * size:
            raise VdafDecodeError(what=f"vector of {self.name}", bound=f"of {length * size} bytes", value=len(encoded))
        vector = [int.from_bytes(encoded[at : at + size], "little") for at in range(0, len(encoded), size)]
        for index, element in enumerate(vector):
            if element >= self.modulus:
                raise VdafDecodeError(what=f"element {index} of {self.name}", bound="below the modulus", value=element)
        return vector

    def invert(self, element: int) -> int:
        """Return the multiplicative inverse of an element that is not 0."""
        return pow(element, -1, self.modulus)

    def root_powers(self, n: int) -> tuple[int, ...]:
        """Return the first `n` powers of the principal `n`-th root of unity; `n` is a power of two."""
        return _root_powers(self, n)

    def subtract(self, left: list[int], right: list[int]) -> list[int]:
        """Return `left` - `right`, element by element."""
        return [(one - other) % self.modulus for one, other in zip(left, right, strict=True)]

    def add(self, left: list[int], right: list[int]) -> list[int]:
        """Return `left` + `right`, element by element."""
        return [(one + other) % self.modulus for one, other in zip(left, right, strict=True)]


@lru_cache(maxsize=64)
def _root_powers(of: Field, n: int) -> tuple[int, ...]:
    root = pow(of.generator, (1 << of.log_order) // n, of.modulus)
    powers = [1]
    while len(powers) < n:
        powers.append(powers[-1] * root % of.modulus)
    return tuple(powers)


_P64: Final = 2**32 * 4294967295 + 1
_P128: Final = 2**66 * 4611686018427387897 + 1

FIELD64: Final = Field(_P64, 8, pow(7, 4294967295, _P64), 32, "Field64")
"""Of Count and Sum."""

FIELD128: Final = Field(_P128, 16, pow(7, 4611686018427387897, _P128), 66, "Field128")
"""Of circuits with joint randomness: a forger may try many joint randomnesses on its own, so the field is larger."""
