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

import io
import struct
from typing import Final

from alcove.registry import limits
from alcove.registry.errors import DeltaError
from alcove.registry.zstd import zstd

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
_WINDOW_LOG_MIN: Final = zstd.CompressionParameter.window_log.bounds()[0]
_WINDOW_LOG_MAX: Final = 27  # 128 MiB, what readers of Zstandard accept by default
_PIECE_BYTES: Final = 1024 * 1024  # at a time
_DICTIONARY_BYTES_MIN: Final = 8  # Zstandard takes a shorter one for none


def can_win(base: bytes, program: bytes) -> bool:
    """Tell whether a delta from `base` could be worth it: what a short base cannot have must be packed by itself.

    Takes a few hundredths of a second for ten megabytes; a delta that is made takes seconds.
    """
    missing = len(program) - len(base)
    if missing <= WORTH * len(program):
        return True
    packed = len(zstd.compress(program, 1)) / len(program)
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
        frame = zstd.compress(program, options=_options(base, program), zstd_dict=_prefix(base))
    elif method == DIFFERENCES:
        frame = zstd.compress(_subtract(program, base), _level(program))
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
        return _decompress(frame, size_bytes, _prefix(base))
    if method == DIFFERENCES:
        return _add(_decompress(frame, size_bytes, None), base)
    raise DeltaError(f"its method is {REFERENCES} or {DIFFERENCES}, not {method}")


def _level(program: bytes) -> int:
    return LEVEL if len(program) < LARGE_BYTES else LEVEL_OF_LARGE


def _options(base: bytes, program: bytes) -> dict[int, int]:
    """Return parameters of Zstandard by which a program can refer to all of its base."""
    parameter = zstd.CompressionParameter
    window_log = min(_WINDOW_LOG_MAX, max(_WINDOW_LOG_MIN, (len(base) + len(program)).bit_length()))
    return {
        parameter.compression_level: _level(program),
        parameter.window_log: window_log,
        parameter.enable_long_distance_matching: 1,
        parameter.content_size_flag: 1,
    }


def _prefix(base: bytes) -> tuple[zstd.ZstdDict, int] | None:
    """Return a base as what a frame may refer to, its bytes as they are; None where it is too short."""
    return zstd.ZstdDict(base, is_raw=True).as_prefix if len(base) >= _DICTIONARY_BYTES_MIN else None


def _decompress(frame: bytes, size_bytes: int, base: tuple[zstd.ZstdDict, int] | None) -> bytes:
    try:
        # What a frame says of its size bounds what is allocated, so it is looked at first.
        if zstd.get_frame_info(frame).decompressed_size != size_bytes:
            raise DeltaError(f"its frame does not hold {size_bytes} bytes")
        limits_of_reader: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
        reader = zstd.ZstdDecompressor(zstd_dict=base, options=limits_of_reader)
        made = io.BytesIO()  # piece by piece: a whole result would be joined from parts, and be in memory twice
        given = frame
        while piece := reader.decompress(given, max_length=_PIECE_BYTES):
            made.write(piece)
            if reader.eof or made.tell() > size_bytes:
                break
            given = b""
    except zstd.ZstdError as error:
        raise DeltaError(f"damaged: {error}") from error
    if not reader.eof or made.tell() != size_bytes:
        end = "an" if reader.eof else "no"
        raise DeltaError(f"it makes {made.tell()} bytes and has {end} end; {size_bytes} bytes were signed")
    return made.getvalue()


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
