"""Reads the packed speech and noise, and makes mixtures of them: training ones by chance, development ones by number.

Only sources whose licence allows it are read (`config.PERMITTED`, `config.SPEECH_SOURCES`).  `soundfile` decodes the
clips once; decoded clips are kept as float16 in a folder of one's own.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np
from alcove.features.noise_suppression.config import HOP, PERMITTED, SAMPLE_RATE, SNRS_DB, SPEECH_SOURCES
from numpy.typing import NDArray

Split = Literal["train", "dev"]
Sound = NDArray[np.float32]

FRACTION_OF_HALF: Final = 0.5
LONGEST: Final = 3 * SAMPLE_RATE // HOP * HOP
"""Samples of a development mixture, at most."""


@dataclass(frozen=True)
class Clip:
    """A decoded recording.

    Attributes:
        source: of the collection, as DATA.md names it.
        name: speaker and utterance, or kind and clip.
        kind: of a noise; language of speech.
        sound: f32 [samples], 16 kHz, -1 to 1.
    """

    source: str
    name: str
    kind: str
    sound: Sound


def read_clips(folder: Path, what: Literal["speech", "noise"], split: Split, cache: Path | None = None) -> list[Clip]:
    """Return the clips of one half of a collection that committed weights may learn from, in the file's order.

    Args:
        folder: with `speech.oggs`, `speech.csv`, `noise.oggs`, `noise.csv`.
        what: which of the two.
        split: "train" or "dev".
        cache: where decoded clips are kept; None decodes each time.

    Raises:
        FileNotFoundError: the files are not there.
        ModuleNotFoundError: `soundfile` is not installed; says how to.
    """
    table, audio = folder / f"{what}.csv", folder / f"{what}.oggs"
    if not table.is_file() or not audio.is_file():
        raise FileNotFoundError(f"expected {table} and {audio}: --data is the folder of the packed calls")
    lines = table.read_text(encoding="utf-8").splitlines()
    rows = [row for row in csv.DictReader(lines) if row["split"] == split and _is_permitted(row)]
    kept = None if cache is None else cache / f"{what}-{split}.npy"
    lengths = None if cache is None else cache / f"{what}-{split}-lengths.npy"
    if kept is not None and lengths is not None and kept.is_file() and lengths.is_file():
        ends = np.cumsum(np.load(lengths))
        joined = np.load(kept, mmap_mode="r")
        if len(ends) == len(rows):
            return [_clip(row, part) for row, part in zip(rows, np.split(joined, ends[:-1]), strict=True)]
    data = audio.read_bytes()
    sounds = [_decode(data, row) for row in rows]
    if kept is not None and lengths is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, np.concatenate(sounds).astype(np.float16))
        np.save(lengths, np.array([len(sound) for sound in sounds]))
    return [_clip(row, sound) for row, sound in zip(rows, sounds, strict=True)]


def _is_permitted(row: dict[str, str]) -> bool:
    if "licence" in row:
        return row["licence"] in PERMITTED
    return row["source"] in SPEECH_SOURCES


def _clip(row: dict[str, str], sound: NDArray[np.floating]) -> Clip:
    name = f"{row['speaker']}/{row['utterance']}" if "speaker" in row else row["clip"]
    return Clip(row["source"], name, row.get("kind") or row["language"], sound.astype(np.float32, copy=False))


def _decode(data: bytes, row: dict[str, str]) -> Sound:
    try:
        import soundfile  # noqa: PLC0415 - only training decodes  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        raise ModuleNotFoundError("decoding the packed clips needs soundfile: pip install soundfile") from None
    start = int(row["offset"])
    sound, rate = soundfile.read(io.BytesIO(data[start : start + int(row["size"])]), dtype="float32")
    if rate != SAMPLE_RATE or sound.ndim != 1:
        raise ValueError(f"expected one channel of {SAMPLE_RATE} samples a second, not {sound.shape} of {rate}")
    return np.asarray(sound, np.float32)


def mix(speech: Sound, noise: Sound, snr_db: float) -> Sound:
    """Return the speech with the noise at a ratio of energies over the whole, f32 [samples].

    Args:
        speech: f32 [samples].
        noise: f32 [any]; repeated or cut to the speech's length.
        snr_db: energy of the speech over the noise's, dB.
    """
    repeated = np.resize(noise, len(speech))
    ratio = np.sqrt(np.sum(speech**2, dtype=np.float64) / max(np.sum(repeated**2, dtype=np.float64), 1e-9))
    return (speech + repeated * np.float32(ratio * 10 ** (-snr_db / 20))).astype(np.float32)


def mixtures(speech: list[Clip], noise: list[Clip]) -> list[tuple[str, float, Sound, Sound]]:
    """Return kind of noise, SNR in dB, speech and mixture for every noise at every level; speech goes by turns."""
    found = []
    for number, clip in enumerate(noise):
        sound = speech[number % len(speech)].sound
        sound = sound[: min(len(sound) // HOP * HOP, LONGEST)]
        found += [(clip.kind, snr, sound, mix(sound, clip.sound, snr)) for snr in SNRS_DB]
    return found
