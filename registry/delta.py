"""Makes and applies deltas, which turn a program that a device has into the next one in fewer bytes.

::

    "ALCD" | version u16 | method u16 | size of the program u64 | Zstandard frame          all little-endian

    method 1, references    the frame is the program, compressed with the base as its dictionary: for programs that
                            share stretches of bytes wherever they lie, such as one layer replaced
    method 2, differences   the frame is (program - base) modulo 256, byte by byte, then what is longer than the base:
                            for weights that were trained a little further, where most bytes change by little

`make_delta` tries both and keeps the smaller.  A binary diff of the kind of Percival ("Naive differences of executable
code", 2003) never won on our pairs (`python -m benchmarks.deltas`).

Digests of base, delta and program are in the signed manifest and are checked by the caller; the bounds here hold for
any bytes.
"""

from __future__ import annotations

import struct
from typing import Final

import zstandard
from alcove.registry import limits
from alcove.registry.errors import DeltaError

MAGIC: Final = b"ALCD"
VERSION: Final = 1
REFERENCES: Final = 1
DIFFERENCES: Final = 2
LEVEL: Final = 19
"""Of Zstandard: a delta is made once and fetched by every device."""
LARGE_BYTES: Final = 32 * 1024 * 1024
"""From which on a program's delta is made at a lower level, so that four of them take a minute or two and not ten."""
LEVEL_OF_LARGE: Final = 14
"""The lowest at which Zstandard finds what a base of tens of megabytes shares with a program."""
WORTH: Final = 0.5
"""Share of the program's own size from which on a delta is not kept: two requests and a second copy in memory."""

_PACKED_FURTHER: Final = 0.8  # of what level 1 leaves of a program's own bytes, at the highest level

_HEAD: Final = struct.Struct("<4sHHQ")
_WINDOW_LOG_MIN: Final = zstandard.WINDOWLOG_MIN
_WINDOW_LOG_MAX: Final = 27  # 128 MiB, what readers of Zstandard accept by default


def can_win(base: bytes, program: bytes) -> bool:
    """Tell whether a delta from `base` could be worth it: what a short base cannot have must be packed by itself.

    Takes a few hundredths of a second for ten megabytes; a delta that is made takes seconds.
    """
    missing = len(program) - len(base)
    if missing <= WORTH * len(program):
        return True
    packed = len(zstandard.ZstdCompressor(level=1).compress(program)) / len(program)
    return missing * packed * _PACKED_FURTHER < WORTH * len(program)


def make_delta(base: bytes, program: bytes) -> bytes:
    """Return what makes `program` of `base`; the same bytes for the same arguments and the same Zstandard.

    Raises:
        ValueError: one of them is empty or larger than `limits.PROGRAM_MAX_BYTES`.
    """
    return min((make_delta_by(method, base, program) for method in (REFERENCES, DIFFERENCES)), key=len)


def make_delta_by(method: int, base: bytes, program: bytes) -> bytes:
    """Return what makes `program` of `base` by one method.

    Raises:
        ValueError: one of them is empty or larger than `limits.PROGRAM_MAX_BYTES`, or there is no such method.
    """
    for name, data in (("base", base), ("program", program)):
        if not 1 <= len(data) <= limits.PROGRAM_MAX_BYTES:
            msg = f"a delta's {name} has 1 to {limits.PROGRAM_MAX_BYTES} bytes, not {len(data)}"
            raise ValueError(msg)
    if method == REFERENCES:
        frame = _compressor(base, len(program), _level(program)).compress(program)
    elif method == DIFFERENCES:
        frame = zstandard.ZstdCompressor(level=_level(program)).compress(_subtract(program, base))
    else:
        msg = f"a delta's method is {REFERENCES} or {DIFFERENCES}, not {method}"
        raise ValueError(msg)
    return _HEAD.pack(MAGIC, VERSION, method, len(program)) + frame


def apply_delta(base: bytes, delta: bytes, size_bytes: int) -> bytes:
    """Return the program that `delta` makes of `base`.

    Args:
        base: what the delta was made from; with other bytes the result is another, or none.
        delta: as `make_delta` returned it.
        size_bytes: of the program, as it was signed; never more is allocated for it.

    Raises:
        DeltaError: not a delta, of an unknown kind, of another size, or damaged.
    """
    if len(delta) < _HEAD.size:
        raise DeltaError(f"a delta has at least {_HEAD.size} bytes, not {len(delta)}")
    magic, version, method, stated = _HEAD.unpack_from(delta)
    if (magic, version) != (MAGIC, VERSION):
        raise DeltaError(f"a delta begins with {MAGIC!r} and version {VERSION}, not {magic!r} and {version}")
    if stated != size_bytes or size_bytes > limits.PROGRAM_MAX_BYTES:
        bound = min(size_bytes, limits.PROGRAM_MAX_BYTES)
        raise DeltaError(f"the delta makes {stated} bytes; {bound} were signed")
    frame = delta[_HEAD.size :]
    if method == REFERENCES:
        return _decompress(frame, size_bytes, _dictionary(base))
    if method == DIFFERENCES:
        return _add(_decompress(frame, size_bytes, None), base)
    raise DeltaError(f"its method is {REFERENCES} or {DIFFERENCES}, not {method}")


def _level(program: bytes) -> int:
    return LEVEL if len(program) < LARGE_BYTES else LEVEL_OF_LARGE


def _compressor(base: bytes, size_bytes: int, level: int) -> zstandard.ZstdCompressor:
    window_log = min(_WINDOW_LOG_MAX, max(_WINDOW_LOG_MIN, (len(base) + size_bytes).bit_length()))
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level, window_log=window_log, enable_ldm=True, write_content_size=True
    )
    return zstandard.ZstdCompressor(compression_params=parameters, dict_data=_dictionary(base))


def _dictionary(base: bytes) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(base, dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _decompress(frame: bytes, size_bytes: int, base: zstandard.ZstdCompressionDict | None) -> bytes:
    try:
        # What a frame says of its size decides how much is allocated, so it is looked at first.
        if zstandard.get_frame_parameters(frame).content_size != size_bytes:
            raise DeltaError(f"its frame does not hold {size_bytes} bytes")
        reader = zstandard.ZstdDecompressor(dict_data=base, max_window_size=1 << _WINDOW_LOG_MAX)
        data: bytes = reader.decompress(frame, max_output_size=size_bytes)
    except zstandard.ZstdError as error:
        raise DeltaError(f"damaged: {error}") from error
    if len(data) != size_bytes:
        raise DeltaError(f"it makes {len(data)} bytes; {size_bytes} were signed")
    return data


def _subtract(program: bytes, base: bytes) -> bytes:
    import numpy as np  # noqa: PLC0415 - a device without a delta of this kind does not need it

    both = min(len(program), len(base))
    ours, theirs = (np.frombuffer(each, np.uint8, count=both) for each in (program, base))
    return (ours - theirs).tobytes() + program[both:]


def _add(differences: bytes, base: bytes) -> bytes:
    import numpy as np  # noqa: PLC0415

    both = min(len(differences), len(base))
    ours, theirs = (np.frombuffer(each, np.uint8, count=both) for each in (differences, base))
    return (ours + theirs).tobytes() + differences[both:]
