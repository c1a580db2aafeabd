"""Sounds in and out: WAV files of every kind, pipes, sample rates, and what is no sound."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
from alcove.features.noise_suppression import AudioError, AudioFormatError, NoiseStream, SampleRateError, convert
from alcove.features.noise_suppression.contract import NoiseSuppression
from alcove.features.noise_suppression.made import made_speech
from alcove.features.noise_suppression.resample import Resampler
from alcove.features.noise_suppression.wav import Format, encode, header, read_blocks, read_header
from alcove.platform.cli.main import app_of
from alcove.runtime import Model, load
from typer.testing import CliRunner

RATE = 16_000


@pytest.fixture(scope="module")
def model() -> Model:
    """The committed program."""
    return load(NoiseSuppression.default_program)


def wav(sound: np.ndarray, rate: int = RATE, kind: str = "<i2", tag: int = 1) -> bytes:
    """Return a WAV whose samples are stored as they are given, [samples] or [samples, channels]."""
    channels = 1 if sound.ndim == 1 else sound.shape[1]
    data = sound.astype(kind).tobytes()
    size = np.dtype(kind).itemsize
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * channels * size, channels * size, 8 * size)
    chunks = b"LIST" + struct.pack("<I", 3) + b"odd\0" + b"fmt " + struct.pack("<I", 16) + form
    chunks += b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def output_of(model: Model, data: bytes, rate: int = RATE) -> bytes:
    """Return what `convert` writes."""
    sink = io.BytesIO()
    convert(model, io.BytesIO(data), sink, rate)
    return sink.getvalue()


def read(data: bytes) -> tuple[Format, np.ndarray]:
    """Return the format of a WAV and its samples, the mean of the channels."""
    stream = io.BytesIO(data)
    form, size = read_header(stream)
    return form, np.concatenate([np.zeros(0, np.float32), *read_blocks(stream, form, size)])


@pytest.mark.parametrize(
    ("kind", "tag", "scale", "shift"),
    [
        ("<u1", 1, 127, 128),
        ("<i2", 1, 32767, 0),
        ("<i4", 1, 2**31 - 256, 0),
        ("<f4", 3, 1, 0),
        ("<f8", 3, 1, 0),
    ],
)
def test_every_kind_of_sample_is_read_at_its_scale(kind: str, tag: int, scale: int, shift: int) -> None:
    """Full scale is 1, silence is 0; two channels become their mean; a chunk of odd size is stepped over."""
    left = np.array([0.5, -1.0, 0.0, 0.25])
    pair = np.stack([left, np.zeros(4)], axis=1) * scale + shift
    form, sound = read(wav(pair, 44_100, kind, tag))
    assert (form.rate, form.channels) == (44_100, 2)
    np.testing.assert_allclose(sound, left / 2, atol=0.005)


def test_samples_of_24_bits_are_read_with_their_sign() -> None:
    """Three bytes, the lowest first."""
    data = b"".join(int(value).to_bytes(3, "little", signed=True) for value in (2**22, -(2**23), -1))
    [sound] = read_blocks(io.BytesIO(data), Format(RATE, 1, 24), len(data))
    np.testing.assert_allclose(sound, [0.5, -1, -(2.0**-23)])


def test_what_is_written_is_read_again_and_cut_at_full_scale() -> None:
    """Integers are rounded, never wrapped: 1.5 is full scale, not silence."""
    sound = np.array([0.0, 0.25, -0.25, 1.5, -1.5], np.float32)
    form = Format(RATE)
    _, back = read(header(form, 10) + encode(sound, is_float=False))
    np.testing.assert_allclose(back, [0, 0.25, -0.25, 32767 / 32768, -1], atol=1e-6)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"RIFF", "ends before"),
        (b"RIFF\0\0\0\0AVI junk", "RIFF and WAVE"),
        (wav(np.zeros(9))[:30], "ends before"),
        (wav(np.zeros(9), tag=2), "aren't read"),
        (b"RIFF\0\0\0\0WAVEdata\0\0\0\0", "before the chunk"),
        (b"RIFF\0\0\0\0WAVEfmt \2\0\0\0ab", "at least 16 bytes"),
        (b"RIFF\0\0\0\0WAVEjunk\xff\xff\xff\x7f", "at most"),
        (wav(np.zeros((9, 65))), "channels"),
    ],
)
def test_what_is_no_wav_is_refused_by_what_is_wrong(model: Model, data: bytes, says: str) -> None:
    """A typed error, whatever comes."""
    with pytest.raises(AudioFormatError, match=says):
        output_of(model, data)


@pytest.mark.parametrize("rate", [0, 3_999, 384_001])
def test_rate_out_of_bounds_is_refused_by_its_bounds(model: Model, rate: int) -> None:
    """Of a WAV and of raw samples."""
    with pytest.raises(SampleRateError, match=r"4,000 to 384,000"):
        output_of(model, wav(np.zeros(9), rate))
    with pytest.raises(SampleRateError, match=r"4,000 to 384,000"):
        output_of(model, b"\0\0", rate)


@pytest.mark.parametrize("samples", [0, 1, 255, 256, 257, 5000])
@pytest.mark.parametrize("rate", [8_000, 16_000, 44_100, 48_000])
def test_as_many_samples_go_as_came(model: Model, rate: int, samples: int) -> None:
    """Even none and one, at every rate; the file's header says so."""
    form, sound = read(output_of(model, wav(np.full(samples, 1000), rate)))
    assert (form.rate, form.bits, form.channels, len(sound)) == (rate, 16, 1, samples)


def test_wav_that_is_cut_off_gives_what_is_there(model: Model) -> None:
    """A recorder that stopped: whole frames are kept, half a frame is not."""
    _, sound = read(output_of(model, wav(np.full(3000, 1000))[:-1001]))
    assert len(sound) == 2499


def test_sound_keeps_its_place_in_time(model: Model) -> None:
    """Speech without noise goes through neither early nor late, at 16 and at 48 kHz."""
    speech = made_speech(RATE, seed=3)
    for rate, given in ((RATE, speech), (48_000, Resampler(RATE, 48_000).push(speech))):
        stream = NoiseStream(model, rate)
        heard = np.concatenate([stream.push(given), stream.flush()])
        lags = np.arange(-400, 401)
        inner = slice(400, len(given) - 400)
        likeness = [np.dot(given[inner], np.roll(heard, -lag)[inner]) for lag in lags]
        assert abs(lags[int(np.argmax(likeness))]) <= rate // RATE


def test_pieces_of_any_size_give_the_same_sound(model: Model) -> None:
    """Where a stream is cut says nothing of the sound: 1, 7, 300 and 4,000 samples at a time."""
    sound = made_speech(9000, seed=4)
    whole = NoiseStream(model, 48_000)
    expected = np.concatenate([whole.push(sound), whole.flush()])
    parts = NoiseStream(model, 48_000)
    cuts = np.cumsum([1, 7, 300, 4000, 0])
    heard = [parts.push(part) for part in np.split(sound, cuts)]
    np.testing.assert_allclose(np.concatenate([*heard, parts.flush()]), expected, atol=1e-6)


def test_silence_stays_silence(model: Model) -> None:
    """Not a sound is made up, and nobody is said to speak."""
    stream = NoiseStream(model)
    heard = stream.push(np.zeros(RATE, np.float32))
    assert np.abs(heard).max() < 1e-4
    assert stream.speech < 0.5


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e30])
def test_sample_that_is_no_number_is_forgotten(model: Model, bad: float) -> None:
    """It counts as 0 and spoils nothing after it, at 16 kHz and behind a resampler."""
    speech = made_speech(RATE, seed=5)
    for rate in (RATE, 48_000):
        spoilt = speech.copy()
        spoilt[5000] = bad
        zeroed = speech.copy()
        zeroed[5000] = 0
        streams = NoiseStream(model, rate), NoiseStream(model, rate)
        heard, expected = (stream.push(sound) for stream, sound in zip(streams, (spoilt, zeroed), strict=True))
        np.testing.assert_array_equal(heard, expected)


def test_clipped_speech_is_answered_within_full_scale(model: Model) -> None:
    """Overdriven by 20 dB and cut: numbers, and the file holds no wrapped peaks."""
    loud = np.clip(10 * made_speech(RATE, seed=6), -1, 1)
    _, sound = read(output_of(model, wav(np.rint(loud * 32767))))
    assert np.isfinite(sound).all()
    assert np.abs(np.diff(sound)).max() < 1.9


def test_two_channels_at_once_are_refused(model: Model) -> None:
    """By their shape; the stream goes on as if nothing had been."""
    stream = NoiseStream(model)
    with pytest.raises(AudioError, match=r"\[3, 2\]"):
        stream.push(np.zeros((3, 2), np.float32))
    assert len(stream.flush()) == 0


@pytest.mark.parametrize(("source", "target"), [(48_000, RATE), (RATE, 48_000), (44_100, RATE), (8_000, RATE)])
def test_tone_is_the_same_tone_at_another_rate(source: int, target: int) -> None:
    """1 kHz, in phase, 60 dB above what is wrong with it; and as long as before."""
    resampler = Resampler(source, target)
    tone = np.sin(2 * np.pi * 1000 * np.arange(source // 2) / source).astype(np.float32)
    heard = np.concatenate([resampler.push(tone[:1001]), resampler.push(tone[1001:]), resampler.flush()])
    assert len(heard) == target // 2
    expected = np.sin(2 * np.pi * 1000 * np.arange(target // 2) / target)
    inner = slice(500, -500)
    assert np.abs(heard[inner] - expected[inner]).max() < 1e-3


def test_tone_that_the_lower_rate_cannot_hold_is_gone() -> None:
    """10 kHz at 48 kHz must not come back as 6 kHz at 16 kHz."""
    tone = np.sin(2 * np.pi * 10_000 * np.arange(24_000) / 48_000).astype(np.float32)
    assert np.abs(Resampler(48_000, RATE).push(tone)[500:]).max() < 1e-3


def test_command_writes_the_sound_to_a_file_and_to_a_pipe(tmp_path: Path) -> None:
    """The same samples, as a WAV and raw; nothing half-written is left; not of another feature, nor onto the input."""
    sound = np.rint(made_speech(6000, seed=7) * 32767)
    source, sink = tmp_path / "in.wav", tmp_path / "out.wav"
    source.write_bytes(wav(sound))
    command = ["feature", "run", "noise_suppression", "--input", str(source), "--output"]
    run = CliRunner().invoke(app_of("feature"), [*command, str(sink)])
    assert run.exit_code == 0, run.output
    assert "0.38 s at 16,000 samples a second" in run.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.wav", "out.wav"]
    raw = sound.astype("<i2").tobytes()
    piped = ["feature", "run", "noise_suppression", "--input", "-", "--output", "-"]
    heard = CliRunner().invoke(app_of("feature"), piped, input=raw)
    assert heard.stdout_bytes == sink.read_bytes()[44:]
    assert CliRunner().invoke(app_of("feature"), [*command, str(source)]).exit_code == 2
    wrong = ["feature", "run", "language_id", "--input", str(source), "--output", "x"]
    assert CliRunner().invoke(app_of("feature"), wrong).exit_code == 2


def test_command_says_why_a_sound_cannot_be_read(tmp_path: Path) -> None:
    """Exit code 1, the reason, and no output file."""
    source = tmp_path / "in.wav"
    source.write_bytes(wav(np.zeros(9), tag=85))
    sink = tmp_path / "out.wav"
    run = CliRunner().invoke(
        app_of("feature"), ["feature", "run", "noise_suppression", "--input", str(source), "--output", str(sink)]
    )
    assert run.exit_code == 1
    assert "aren't read" in run.output
    assert [path.name for path in tmp_path.iterdir()] == ["in.wav"]
