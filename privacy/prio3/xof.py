"""Expands seeds into seeds and field elements: XofTurboShake128.

Sources: draft-irtf-cfrg-vdaf, section 6.2; RFC 9861, section 2 (TurboSHAKE128: Keccak-p[1600, 12], rate 168 bytes).
"""

import struct
from collections.abc import Sequence
from typing import Final

from alcove.privacy.errors import ParameterError
from alcove.privacy.prio3.fields import Field

SEED_BYTES: Final = 32
"""Size of a seed."""

_RATE_BYTES: Final = 168
_BLOCK: Final = struct.Struct(f"<{_RATE_BYTES // 8}Q")
_STATE: Final = struct.Struct("<25Q")
_STATE_BYTES: Final = 200
_DOMAIN: Final = 1
_ROUND_CONSTANTS: Final = (
    0x000000008000808B,
    0x800000000000008B,
    0x8000000000008089,
    0x8000000000008003,
    0x8000000000008002,
    0x8000000000000080,
    0x000000000000800A,
    0x800000008000000A,
    0x8000000080008081,
    0x8000000000008080,
    0x0000000080000001,
    0x8000000080008008,
)
"""The last 12 of Keccak-f[1600]."""


def _rho_and_pi() -> tuple[tuple[int, int], ...]:
    """Return, for each lane after the step pi, the lane it comes from and by how many bits its double is shifted."""
    rotations = [0] * 25
    x, y = 1, 0
    for step in range(24):
        rotations[x + 5 * y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    moves = [(0, 0)] * 25
    for x in range(5):
        for y in range(5):
            moves[y + 5 * ((2 * x + 3 * y) % 5)] = (x + 5 * y, 64 - rotations[x + 5 * y])
    return tuple(moves)


def _repeat(bits: int, count: int, distance: int) -> int:
    """Return a mask of the same bits, `count` times, `distance` apart."""
    return sum(bits << place * distance for place in range(count))


_MOVES: Final = _rho_and_pi()
_LANE: Final = _repeat(1, 64, 1)
_DOUBLE: Final = 1 | 1 << 64
"""A lane times this, shifted and cut off, is the lane rotated."""

_PLANE: Final = _repeat(1, 320, 1)
_PLANES: Final = _repeat(1, 5, 320)
_LOWEST: Final = _repeat(1, 5, 64)
_HIGHER: Final = _PLANE ^ _LOWEST
_FIRST, _FIRST_TWO, _FIRST_THREE, _FIRST_FOUR = (_repeat(_repeat(1, 64 * lanes, 1), 5, 320) for lanes in (1, 2, 3, 4))


def permute(lanes: Sequence[int]) -> list[int]:
    """Return Keccak-p[1600, 12] of 25 lanes; lane x + 5 y is at (x, y).

    The state is one integer of 25 lanes, five planes of 320 bits: Python takes about as long for a wide one as for one
    lane. Only the rotations by different distances (rho) take the lanes apart.
    """
    state = int.from_bytes(_STATE.pack(*lanes), "little")
    for constant in _ROUND_CONSTANTS:
        column = (state ^ state >> 320 ^ state >> 640 ^ state >> 960 ^ state >> 1280) & _PLANE
        before = column << 64 & _PLANE | column >> 256  # at x, that of x - 1
        after = column >> 64 | (column & _LANE) << 256  # at x, that of x + 1
        state ^= (before ^ (after << 1 & _HIGHER | after >> 63 & _LOWEST)) * _PLANES
        apart = _STATE.unpack(state.to_bytes(_STATE_BYTES, "little"))
        moved = [apart[source] * _DOUBLE >> bits & _LANE for source, bits in _MOVES]
        state = int.from_bytes(_STATE.pack(*moved), "little")
        second = state >> 64 & _FIRST_FOUR | (state & _FIRST) << 256
        third = state >> 128 & _FIRST_THREE | (state & _FIRST_TWO) << 192
        state ^= ~second & third ^ constant
    return list(_STATE.unpack(state.to_bytes(_STATE_BYTES, "little")))


class Xof:
    """A stream of pseudorandom bytes for a seed, a domain separation tag and a binder string.

    Raises:
        ParameterError: the seed has more than 255 bytes or the tag more than 65,535.
    """

    def __init__(self, seed: bytes, tag: bytes, binder: bytes) -> None:
        if len(seed) > 0xFF:
            raise ParameterError(name="seed", bound="at most 255 bytes", value=len(seed))
        if len(tag) > 0xFFFF:
            raise ParameterError(name="tag", bound="at most 65535 bytes", value=len(tag))
        message = len(tag).to_bytes(2, "little") + tag + bytes([len(seed)]) + seed + binder + bytes([_DOMAIN])
        padded = bytearray(message + bytes(-len(message) % _RATE_BYTES))
        padded[-1] ^= 0x80
        lanes = [0] * 25
        for block in _BLOCK.iter_unpack(padded):
            lanes[: len(block)] = [lane ^ word for lane, word in zip(lanes, block, strict=False)]
            lanes = permute(lanes)
        self._lanes = lanes
        self._squeezed = self._block()

    def next(self, size_bytes: int) -> bytes:
        """Return the next `size_bytes` of the stream."""
        while len(self._squeezed) < size_bytes:
            self._lanes = permute(self._lanes)
            self._squeezed += self._block()
        output, self._squeezed = self._squeezed[:size_bytes], self._squeezed[size_bytes:]
        return output

    def next_vector(self, field: Field, length: int) -> list[int]:
        """Return the next `length` uniform elements: words that are not below the modulus are drawn again."""
        size, modulus = field.encoded_size, field.modulus
        vector: list[int] = []
        while len(vector) < length:
            missing = self.next(size * (length - len(vector)))
            words = (int.from_bytes(missing[at : at + size], "little") for at in range(0, len(missing), size))
            vector += [word for word in words if word < modulus]
        return vector

    def _block(self) -> bytes:
        return _BLOCK.pack(*self._lanes[: _RATE_BYTES // 8])


def derive_seed(seed: bytes, tag: bytes, binder: bytes) -> bytes:
    """Return a new seed."""
    return Xof(seed, tag, binder).next(SEED_BYTES)


def expand_into_vector(field: Field, seed: bytes, tag: bytes, binder: bytes, length: int) -> list[int]:
    """Return `length` field elements of a seed."""
    return Xof(seed, tag, binder).next_vector(field, length)
