"""Streams of sound and labelings of frames have the same bits on every instruction set, and those of threads."""

from collections.abc import Callable
from typing import Any

import torch
from alcove.runtime import _native, export
from alcove.runtime.audio import LogMel, MelFilterbank, Resample, StreamingIstft, StreamingStft, ctc_beam, ctc_greedy
from torch import Tensor, nn

LEVELS = [isa for isa in _native.machine_isas() if isa in {"scalar", "avx2", "avx512", "neon"}]


class Everything(nn.Module):
    """Two hops in a row: there and back, two rates, bands, labelings of the bands."""

    def __init__(self) -> None:
        super().__init__()
        self.stft, self.istft = StreamingStft(400, 160), StreamingIstft(400, 160)
        self.up, self.down = Resample(16_000, 44_100), Resample(44_100, 16_000)
        self.mel = LogMel(400, 160, MelFilterbank(24, 400, 16_000))

    def forward(self, signal: Tensor) -> tuple[Tensor, ...]:
        """Return what each gives."""
        back, again, rows = [], [], []
        for hop in torch.split(signal, 160, -1):
            back.append(self.istft(self.stft(hop)))
            again.append(self.down(self.up(hop)))
            rows.append(self.mel(hop))
        scores = torch.stack(rows, 1)
        return (
            torch.cat(back, 1),
            torch.cat(again, 1),
            scores,
            *ctc_beam(scores, 9, 3, paths=4),
            *ctc_greedy(scores, 3),
        )


def test_sound_has_the_same_bits_at_every_level(run_with: Callable[..., Any]) -> None:
    """Against the first of them, which is scalar; loud, quiet, silent and clipped samples."""
    torch.manual_seed(0)
    signal = torch.randn(1, 320) * torch.logspace(-6, 1, 320)
    signal = signal.clamp(-1, 1)
    signal[:, 150:170] = 0
    program = bytes(export(Everything().eval(), (signal,)))
    first, *others = (run_with(isa, {"sound": (program, [signal.numpy()])})["sound"] for isa in LEVELS)
    assert len(first) == 9
    assert all(other == first for other in others)
