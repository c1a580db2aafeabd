"""Adds new items to a program on the device by a file of rows for that program, checked as a whole.

    "ALCITEMS" | header length, u32 little-endian | header, JSON | rows, int8 [count, dim + 1], row-major

The header holds `format` (1), `program` (SHA-256 of the program's bytes that the rows were made for: vectors mean
nothing beside other ones), `first_id` (the number of rows of that program's table: new items are numbered on from
there), `count`, `scales` (one a column) and `sha256` of the rows.  A delta replaces the one before as a whole, and
either all of it holds or `ItemDelta.read` raises: there is nothing in between.

The digest finds damage, not forgery: deliver deltas as programs are delivered, signed.
"""

import hashlib
import json
import struct
from typing import Any, Final, Self

import numpy as np
from alcove.features.feed_ranking.config import MAX_ADDED
from numpy.typing import NDArray

MAGIC: Final = b"ALCITEMS"
MAX_HEADER_BYTES: Final = 16_384
MAX_DIM: Final = 512
_KEYS: Final = {"format", "program", "first_id", "count", "scales", "sha256"}


class DeltaError(ValueError):
    """A delta cannot be used: damaged, of another program, or beyond a bound; the message says which."""


class ItemDelta:
    """Rows of items beyond a program's table; immutable. `read` makes it.

    Attributes:
        first_id: of the first item; the others follow.
        rows: vectors and popularity f32 [count, dim + 1], not writable.
    """

    __slots__ = ("first_id", "rows")

    def __init__(self, first_id: int, rows: NDArray[np.float32]) -> None:
        rows.flags.writeable = False
        self.first_id = first_id
        self.rows = rows

    @classmethod
    def read(cls, data: bytes, *, program: str, dim: int, first_id: int) -> Self:
        """Return the delta in some bytes.

        Args:
            data: of the file.
            program: `Model.digest` of the program that runs.
            dim: of its vectors.
            first_id: rows of its table.

        Raises:
            DeltaError: the bytes are no delta, are damaged, or are for another program; or a bound is exceeded.
        """
        if not data.startswith(MAGIC) or len(data) < len(MAGIC) + 4:
            raise DeltaError("these bytes are no item delta")
        (length,) = struct.unpack_from("<I", data, len(MAGIC))
        begin = len(MAGIC) + 4 + length
        if length > MAX_HEADER_BYTES or begin > len(data):
            raise DeltaError(f"its header has {length} bytes; allowed are {MAX_HEADER_BYTES}, and all must be there")
        header = _header(data[len(MAGIC) + 4 : begin])
        for name, wanted in (("format", 1), ("program", program), ("first_id", first_id)):
            if header[name] != wanted or type(header[name]) is not type(wanted):
                raise DeltaError(f"its {name} is {header[name]!r:.80}, not {wanted!r}")
        count, scales, body = header["count"], header["scales"], data[begin:]
        if type(count) is not int or not 1 <= count <= MAX_ADDED:
            raise DeltaError(f"it adds {count!r:.20} items; 1 to {MAX_ADDED} are allowed")
        if not isinstance(scales, list) or len(scales) != dim + 1:
            raise DeltaError(f"its rows must have {dim + 1} columns, as the program's table")
        if not all(type(scale) in {int, float} and 0 < scale < 1e6 for scale in scales):
            raise DeltaError("a scale is no number above 0 and below a million")
        if len(body) != count * (dim + 1):
            raise DeltaError(f"its rows have {len(body)} bytes, not {count * (dim + 1)}")
        if hashlib.sha256(body).hexdigest() != header["sha256"]:
            raise DeltaError("its rows are damaged: their SHA-256 is another")
        whole = np.frombuffer(body, np.int8).reshape(count, dim + 1)
        if (whole == -128).any():
            raise DeltaError("a row holds -128, which no row of a table does")
        if not whole.any(axis=1).all():
            raise DeltaError("a row is all zeros, which stands for no item")
        return cls(first_id, whole.astype(np.float32) * np.array(scales, np.float32))


def delta_bytes(rows: NDArray[np.float32], *, program: str, first_id: int) -> bytes:
    """Return the file for some rows, rounded to int8 with one scale a column.

    Args:
        rows: vectors and popularity f32 [count, dim + 1].
        program: digest of the program that they were made for.
        first_id: rows of its table.

    Raises:
        DeltaError: too many or no rows, numbers that are not finite, or a row that int8 rounds to all zeros.
    """
    if rows.ndim != 2 or not 1 <= len(rows) <= MAX_ADDED or not 2 <= rows.shape[1] <= MAX_DIM + 1:
        raise DeltaError(f"1 to {MAX_ADDED} rows of vectors and popularity expected, not the shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise DeltaError("a row holds a number that is not finite")
    scales = [float(scale) for scale in np.maximum(np.abs(rows).max(axis=0), 1e-6).astype(np.float32) / 127]
    body = np.clip(np.round(rows / np.array(scales, np.float32)), -127, 127).astype(np.int8).tobytes()
    header = json.dumps(
        {
            "format": 1,
            "program": program,
            "first_id": first_id,
            "count": len(rows),
            "scales": scales,
            "sha256": hashlib.sha256(body).hexdigest(),
        }
    ).encode()
    data = MAGIC + struct.pack("<I", len(header)) + header + body
    ItemDelta.read(data, program=program, dim=rows.shape[1] - 1, first_id=first_id)
    return data


def _header(data: bytes) -> dict[str, Any]:
    try:
        header = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DeltaError(f"its header is no JSON: {error}") from None
    if not isinstance(header, dict) or set(header) != _KEYS:
        raise DeltaError(f"its header must hold {', '.join(sorted(_KEYS))}")
    return header
