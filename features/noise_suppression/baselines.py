"""The published networks that the feature is compared with, as they are: GTCRN and DTLN.

Source of DTLN's layers: "Dual-Signal Transformation LSTM Network for Real-Time Noise Suppression" (Westhausen, Meyer,
Interspeech 2020), written from the description of the published weights (MIT).
"""

from pathlib import Path
from typing import Final

import torch
from alcove.features.noise_suppression.weights import load_state
from torch import Tensor, nn
from torch.nn import functional

WINDOW: Final = 512
"""Samples of a frame of DTLN: 32 ms."""
STEP: Final = 128
"""Samples between them: 8 ms."""
UNITS: Final = 128
CODE: Final = 256

MULTIPLY_ADDS: Final = {"GTCRN": 26e6, "DTLN": 40e6}
"""Of a second of sound, as the description of the weights counts them."""


class MaskCore(nn.Module):
    """Two recurrent layers and a mask, 0 to 1, of what they read.

    Args:
        size: of what is read, and of the mask.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.lstm = nn.ModuleList([nn.LSTM(size, UNITS, batch_first=True), nn.LSTM(UNITS, UNITS, batch_first=True)])
        self.mask = nn.Linear(UNITS, size)

    def forward(self, values: Tensor) -> Tensor:
        """Return the mask, [n, frames, size], of values of that shape."""
        for layer in self.lstm:
            values = layer(values)[0]
        return torch.sigmoid(self.mask(values))


class LearnedCore(MaskCore):
    """The same behind a norm over the code."""

    def __init__(self) -> None:
        super().__init__(CODE)
        self.norm = nn.LayerNorm(CODE, eps=1e-7)

    def forward(self, values: Tensor) -> Tensor:
        """Return the mask, [n, frames, 256], of a code of that shape."""
        return super().forward(self.norm(values))


class Dtln(nn.Module):
    """A mask over the spectrum, then one over a learned code, frame by frame."""

    def __init__(self) -> None:
        super().__init__()
        self.spectrum = MaskCore(WINDOW // 2 + 1)
        self.encoder = nn.Conv1d(WINDOW, CODE, 1, bias=False)
        self.learned = LearnedCore()
        self.decoder = nn.Conv1d(CODE, WINDOW, 1, bias=False)

    def forward(self, sound: Tensor) -> Tensor:
        """Return the clean sound, f32 [n, samples], of a noisy one, samples a multiple of 128."""
        ahead = WINDOW - STEP
        frames = functional.pad(sound, (ahead, ahead)).unfold(-1, WINDOW, STEP)
        spectrum = torch.fft.rfft(frames)
        first = torch.fft.irfft(spectrum * self.spectrum(spectrum.abs()), n=WINDOW)
        code = self.encoder(first.transpose(1, 2)).transpose(1, 2)
        second = self.decoder((code * self.learned(code)).transpose(1, 2))
        size = (1, (second.shape[-1] - 1) * STEP + WINDOW)
        added = functional.fold(second, size, (1, WINDOW), stride=(1, STEP))[:, 0, 0]
        return added[:, ahead : ahead + sound.shape[-1]]


def load_dtln(folder: Path) -> Dtln:
    """Return DTLN with the published weights.

    Args:
        folder: with the folder "dtln".

    Raises:
        FileNotFoundError: the weights are missing.
        RuntimeError: they hold other tensors than the network has.
    """
    network = Dtln()
    network.load_state_dict(load_state(folder / "dtln"))
    return network.eval()
