"""Takes the noise out of a WAV or of raw samples, file to file or pipe to pipe, in bounded memory."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

import numpy as np
from alcove.features.noise_suppression.config import SAMPLE_RATE
from alcove.features.noise_suppression.stream import NoiseStream
from alcove.features.noise_suppression.wav import Format, Readable, encode, header, read_blocks, read_header
from alcove.runtime import Model
from numpy.typing import NDArray

SPEECH_FROM: Final = 0.5
MAGIC: Final = b"RIFF"


@dataclass(frozen=True, kw_only=True)
class Converted:
    """What was done.

    Attributes:
        rate: samples a second, of what came and of what went.
        samples: of the output's one channel; as many came in each channel.
        speech_share: of the pieces, those at whose end someone spoke, 0 to 1; 0 without any.
    """

    rate: int
    samples: int
    speech_share: float


class _Begun:
    """A stream whose first bytes have been read already."""

    def __init__(self, first: bytes, stream: Readable) -> None:
        self._first, self._stream = io.BytesIO(first), stream

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer at the end alone."""
        data = self._first.read(size)
        while len(data) < size and (more := self._stream.read(size - len(data))):
            data += more
        return data


def convert(model: Model, source: Readable, sink: BinaryIO, rate: int = SAMPLE_RATE) -> Converted:
    """Write what comes, without its noise: a WAV as a WAV of one channel, raw samples as raw samples.

    Integers go out as 16-bit integers, floating point as 32-bit floating point, at the rate at which they came.

    Args:
        model: a loaded program of the feature.
        source: a WAV, or 16-bit integers of one channel, lower byte first.
        sink: may be a pipe; then a WAV's header says that its length is not known.
        rate: samples a second of raw samples; a WAV says its own.

    Raises:
        AudioFormatError: the WAV cannot be read.
        SampleRateError: the rate is out of bounds.
    """
    first = _Begun(b"", source).read(len(MAGIC))
    begun = _Begun(first, source)
    is_wav = first == MAGIC
    form, size = read_header(begun) if is_wav else (Format(rate), None)
    out = Format(form.rate, 1, 32 if form.is_float else 16, form.is_float)
    stream = NoiseStream(model, form.rate)
    start = sink.tell() if is_wav and sink.seekable() else None
    if is_wav:
        sink.write(header(out, None))
    samples = 0
    spoken = []
    for sound in _clean_blocks(stream, read_blocks(begun, form, size)):
        sink.write(encode(sound, is_float=out.is_float))
        spoken.append(stream.speech >= SPEECH_FROM)
        samples += len(sound)
    if start is not None:
        sink.seek(start)
        sink.write(header(out, samples * out.frame_bytes))
        sink.seek(0, io.SEEK_END)
    sink.flush()
    return Converted(rate=form.rate, samples=samples, speech_share=float(np.mean(spoken)) if spoken else 0.0)


def _clean_blocks(stream: NoiseStream, blocks: Iterator[NDArray[np.float32]]) -> Iterator[NDArray[np.float32]]:
    for block in blocks:
        yield stream.push(block)
    yield stream.flush()
