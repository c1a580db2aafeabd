"""Reads and writes WAV files and raw samples piece by piece, from files and pipes; needs numpy alone.

Source: "Multimedia Programming Interface and Data Specifications 1.0" (IBM, Microsoft, 1991) and the extensible format
of 2001.  Read: 8, 16, 24 and 32-bit integers, 32 and 64-bit floating point; of channels the mean is taken.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from alcove.features.noise_suppression.errors import AudioFormatError
from alcove.features.noise_suppression.resample import require_rate
from numpy.typing import NDArray

PCM: Final = 1
FLOAT: Final = 3
EXTENSIBLE: Final = 0xFFFE
UNKNOWN_SIZE: Final = 0xFFFFFFFF
"""What writers to a pipe say of a size that they cannot know."""
BLOCK_FRAMES: Final = 4_096
LARGEST_CHUNK: Final = 1 << 20
"""Bytes of a chunk before the samples that is skipped: more is no WAV."""
MOST_CHANNELS: Final = 64
KINDS: Final = ((PCM, 8), (PCM, 16), (PCM, 24), (PCM, 32), (FLOAT, 32), (FLOAT, 64))


class Readable(Protocol):
    """What is read from: a file or a pipe."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, none at the end."""
        ...


@dataclass(frozen=True)
class Format:
    """How samples are stored.

    Attributes:
        rate: samples a second of each channel.
        channels: one after the other in each frame.
        bits: of a sample.
        is_float: whether samples are floating point.
    """

    rate: int
    channels: int = 1
    bits: int = 16
    is_float: bool = False

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of each channel."""
        return self.channels * self.bits // 8


def read_header(stream: Readable) -> tuple[Format, int | None]:
    """Return how the samples are stored and how many bytes there are, None if the file does not say.

    The stream is left where the samples begin.

    Raises:
        AudioFormatError: this is no WAV, it ends before its samples begin, or they are of a kind that isn't read.
        SampleRateError: the rate is out of bounds.
    """
    if (start := _exactly(stream, 12))[:4] != b"RIFF" or start[8:] != b"WAVE":
        raise AudioFormatError(f"a WAV begins with RIFF and WAVE, not {start!r:.40}")
    found: Format | None = None
    while True:
        name, size = struct.unpack("<4sI", _exactly(stream, 8))
        if name == b"data":
            if found is None:
                raise AudioFormatError("the samples come before the chunk 'fmt ' that says what they are")
            return found, None if size == UNKNOWN_SIZE else size
        if size > LARGEST_CHUNK:
            raise AudioFormatError(f"chunk {name!r} must have at most {LARGEST_CHUNK:,} bytes, not {size:,}")
        body = _exactly(stream, size + size % 2)
        if name == b"fmt ":
            found = _format(body)


def _exactly(stream: Readable, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise AudioFormatError("the WAV ends before its samples begin")
    return data


def _format(body: bytes) -> Format:
    if len(body) < 16:
        raise AudioFormatError(f"the chunk 'fmt ' must have at least 16 bytes, not {len(body)}")
    kind, channels, rate, _, _, bits = struct.unpack("<HHIIHH", body[:16])
    if kind == EXTENSIBLE and len(body) >= 26:
        [kind] = struct.unpack("<H", body[24:26])
    if (kind, bits) not in KINDS:
        raise AudioFormatError(f"samples of kind {kind} with {bits} bits aren't read; (kind, bits) may be {KINDS}")
    if not 1 <= channels <= MOST_CHANNELS:
        raise AudioFormatError(f"a WAV must have 1 to {MOST_CHANNELS} channels, not {channels}")
    return Format(require_rate(rate), channels, bits, kind == FLOAT)


def read_blocks(stream: Readable, form: Format, size: int | None) -> Iterator[NDArray[np.float32]]:
    """Yield the sound in pieces f32 [samples], the mean of its channels, full scale 1.

    A file that ends early gives what is there, and a frame that is cut off is left out.

    Args:
        stream: where the samples begin.
        form: how they are stored.
        size: bytes of them; None reads to the end.
    """
    left = size
    rest = b""
    while left is None or left > 0:
        wanted = BLOCK_FRAMES * form.frame_bytes if left is None else min(BLOCK_FRAMES * form.frame_bytes, left)
        data = stream.read(wanted)
        if not data:
            return
        left = None if left is None else left - len(data)
        data = rest + data
        whole = len(data) // form.frame_bytes * form.frame_bytes
        rest = data[whole:]
        if whole:
            yield _samples(data[:whole], form).reshape(-1, form.channels).mean(axis=1, dtype=np.float32)


def _samples(data: bytes, form: Format) -> NDArray[np.float32]:
    if form.is_float:
        kind = np.dtype("<f4" if form.bits == 32 else "<f8")
        with np.errstate(over="ignore"):
            return np.frombuffer(data, kind).astype(np.float32)
    if form.bits == 8:
        return (np.frombuffer(data, np.uint8).astype(np.float32) - np.float32(128)) / np.float32(128)
    if form.bits == 24:
        three = np.frombuffer(data, np.uint8).reshape(-1, 3)
        wide = np.zeros((len(three), 4), np.uint8)
        wide[:, 1:] = three
        return wide.reshape(-1).view("<i4").astype(np.float32) / np.float32(2**31)
    integers = np.frombuffer(data, "<i2" if form.bits == 16 else "<i4")
    return integers.astype(np.float32) / np.float32(2 ** (form.bits - 1))


def encode(sound: NDArray[np.float32], *, is_float: bool) -> bytes:
    """Return samples as 32-bit floating point, or as 16-bit integers, in which what is beyond full scale is cut."""
    if is_float:
        return sound.astype("<f4").tobytes()
    return np.clip(np.rint(sound * 32768), -32768, 32767).astype("<i2").tobytes()


def header(form: Format, size: int | None) -> bytes:
    """Return what a WAV begins with, 44 bytes.

    Args:
        form: of one channel; 16-bit integers or 32-bit floating point.
        size: bytes of samples; None where that cannot be known.
    """
    whole = UNKNOWN_SIZE if size is None else min(36 + size, UNKNOWN_SIZE)
    kind = FLOAT if form.is_float else PCM
    frame = form.frame_bytes
    numbers = (16, kind, form.channels, form.rate, form.rate * frame, frame, form.bits)
    begin = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", whole, b"WAVE", b"fmt ", *numbers)
    return begin + struct.pack("<4sI", b"data", UNKNOWN_SIZE if size is None else size)
