"""Reads a team's sounds, and puts an audio model behind its front end: sound in, labels or a vector out."""

import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
import typer
from alcove.platform.cli.importing.folders import Folder
from alcove.platform.cli.importing.front_ends import FrontEnd
from alcove.platform.cli.importing.pretrained import Pretrained
from alcove.runtime.audio import Resample
from alcove.runtime.ops import LabelledTopK
from numpy.typing import NDArray
from torch import Tensor, nn

SECONDS: Final = 5.0
"""Of sound where no number is given."""
MOST_SECONDS: Final = 60.0
WIDTHS: Final = {2: "<i2", 4: "<i4"}
"""Types of samples by their bytes."""

Sound = NDArray[np.float32]


def sound_files(folder: Path) -> list[Path]:
    """Return the sounds in a folder and its folders, by name.

    Raises:
        typer.BadParameter: there are none.
    """
    found = sorted(path for path in folder.rglob("*") if path.suffix.lower() == ".wav" and path.is_file())
    if not found:
        raise typer.BadParameter(f"--sounds {folder}: no sound there (files ending in .wav, PCM)")
    return found


def read_sound(path: Path, rate: int, count: int) -> Sound:
    """Return a sound as f32 [count] in [-1, 1]: the mean of its channels, cut or followed by silence.

    Raises:
        typer.BadParameter: the file is no WAV with samples of 8, 16, 24 or 32 bits, or has a rate that is no simple
            ratio of the model's.
    """
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, own = file.getnchannels(), file.getsampwidth(), file.getframerate()
            data = file.readframes(min(file.getnframes(), int(own * MOST_SECONDS) + 1))
    except (wave.Error, OSError, EOFError) as error:
        raise typer.BadParameter(f"{path}: no WAV of PCM samples ({error})") from None
    if width == 3:
        raw = np.frombuffer(data[: len(data) // 3 * 3], np.uint8).reshape(-1, 3)
        levels = np.pad(raw, ((0, 0), (1, 0))).view("<i4")[:, 0].astype(np.float64) / 2**31
    elif width == 1:
        levels = (np.frombuffer(data, np.uint8).astype(np.float64) - 128) / 128
    else:
        levels = np.frombuffer(data, WIDTHS[width]).astype(np.float64) / 2 ** (8 * width - 1)
    mono = levels[: len(levels) // channels * channels].reshape(-1, channels).mean(1)
    if own != rate:
        mono = _resample(path, mono, own, rate)
    return np.pad(mono[:count], (0, max(count - len(mono), 0))).astype(np.float32)


def _resample(path: Path, mono: NDArray[np.float64], own: int, rate: int) -> NDArray[np.float64]:
    try:
        resample = Resample(own, rate)
    except ValueError as error:
        raise typer.BadParameter(
            f"{path}: {own} samples a second, and the model takes {rate}: convert the file ({error})"
        ) from None
    found: NDArray[np.float64] = resample.whole(torch.from_numpy(mono.astype(np.float32))).numpy().astype(np.float64)
    return found


def check_seconds(front: FrontEnd, seconds: float | None) -> int:
    """Return how many samples a program takes.

    Raises:
        typer.BadParameter: the model takes another length alone, or more than a minute is asked for.
    """
    if front.fixed_samples is not None:
        own = front.fixed_samples / front.rate
        if seconds is not None and abs(seconds - own) > 1 / front.rate:
            raise typer.BadParameter(f"--seconds {seconds:g}: the model takes {own:g}")
        return front.fixed_samples
    return round((seconds or SECONDS) * front.rate)


class SoundModel(nn.Module):
    """An audio model behind its front end: f32 [samples] in, scores of labels, of frames, or a vector out."""

    def __init__(self, pretrained: Pretrained, front: FrontEnd) -> None:
        super().__init__()
        self.front = front
        self.model = pretrained.module
        self.task = pretrained.task
        self.label = LabelledTopK(pretrained.labels, 1) if pretrained.task == "classification" else None

    def forward(self, samples: Tensor) -> dict[str, Tensor]:
        """Return what is known of f32 [samples] in [-1, 1]."""
        found: Any = self.model(self.front(samples))
        if self.task == "embedding":
            return {"embedding": F.normalize(found.last_hidden_state.mean(1), dim=-1)}
        if self.label is None:
            return {"scores": torch.log_softmax(found.logits[0], -1), "tokens": found.logits[0].argmax(-1)}
        scores = torch.softmax(found.logits, -1)
        return {"scores": scores, "label": self.label(scores).indices}


def feature_difference(folder: Folder, front: FrontEnd, sounds: Sequence[Sound]) -> float | None:
    """Return how far the front end is from transformers' own, as a share of its range; None where it can't be asked."""
    try:
        import transformers  # noqa: PLC0415 - optional

        own = transformers.AutoFeatureExtractor.from_pretrained(str(folder.path), local_files_only=True)
        largest = 0.0
        for sound in sounds:
            used = sound[: max(int(np.flatnonzero(sound)[-1]) + 1, 1)] if sound.any() else sound
            theirs = np.asarray(next(iter(own(used, sampling_rate=front.rate, return_tensors="np").values())))
            with torch.no_grad():
                ours = front(torch.from_numpy(sound)).numpy()[..., : theirs.shape[-1]]
            largest = max(largest, float(np.abs(theirs - ours).max() / max(np.ptp(theirs), 1e-6)))
    except Exception:  # noqa: BLE001 - a comparison more; the certificate does not depend on it
        return None
    return largest
