"""Defines the layout of each record of a `.alc` file; docs/format.md specifies, core/format.h is the twin."""

import struct
from enum import IntEnum
from typing import Final

MAGIC: Final = b"\x89ALC\r\n\x1a\n"
MAJOR: Final = 2
MINOR: Final = 2
"""Of programs with constants of 16 bits."""
METHODS_MINOR: Final = 1
"""Of programs with several methods, or with states that are written in place; of all others it is 0."""

HEADER: Final = struct.Struct("<8sHHIQQ32s")
DIGESTED_HEADER_BYTES: Final = 32
SECTION: Final = struct.Struct("<IIQQ32s8x")
PROGRAM: Final = struct.Struct("<6IQ4I16x")
TENSOR: Final = struct.Struct("<4B3IQQ8I")
OP: Final = struct.Struct("<H3B3xII16I4I20Q")
PORT: Final = struct.Struct("<4I")
LABEL: Final = struct.Struct("<I")
STATE: Final = struct.Struct("<4I")
SYMBOL: Final = struct.Struct("<5I4x")
EXPRESSION: Final = struct.Struct("<B7x2q")
BUCKET: Final = struct.Struct("<Q16I")
PLACE: Final = struct.Struct("<2Q")

METHODS: Final = struct.Struct("<2I8x")
METHOD: Final = struct.Struct("<I4xQ")

SECTION_ALIGNMENT: Final = 64
WEIGHTS_ALIGNMENT: Final = 16384
TENSOR_ALIGNMENT: Final = 64
STATE_BYTES: Final = 16
"""What a session keeps for each tensor; part of the memory ceiling."""
BOUND_TENSOR_BYTES: Final = 80
BOUND_OP_BYTES: Final = 288
BOUND_EXPRESSION_BYTES: Final = 8
BOUND_INPUT_BYTES: Final = 32
"""What a session keeps besides, for each of these, if sizes come with the inputs."""

CRITICAL: Final = 1
RAGGED: Final = 1
MAX_RANK: Final = 8
MAX_OP_INPUTS: Final = 16
MAX_OP_OUTPUTS: Final = 4
MAX_OP_ATTRIBUTES: Final = 20
MAX_SYMBOLS: Final = 16


class SectionKind(IntEnum):
    """What a section holds; sections stand in the order of these numbers."""

    PROGRAM = 1
    CERTIFICATE = 2
    WEIGHTS = 3
    METHODS = 4


def align_up(offset: int, alignment: int) -> int:
    """Return the first multiple of `alignment` that is not below `offset`."""
    return -(-offset // alignment) * alignment
