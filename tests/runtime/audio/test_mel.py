"""Mel bands are those of the formulas, and a session's rows of logarithms those of the whole signal."""

import math

import numpy as np
import pytest
import torch
from alcove.runtime.audio import LogMel, MelFilterbank, mel_weights
from alcove.runtime.audio.mel import Logarithm, Scale, hertz_to_mel, mel_to_hertz
from numpy.typing import NDArray
from torch import Tensor, nn

from tests.runtime.audio.streams import hops, run_session

RATE, SIZE, HOP = 16_000, 512, 160
LOGARITHMS: tuple[Logarithm, ...] = ("ln", "log10", "decibel", "log1p")


def to_mel(hertz: float, scale: str) -> float:
    """The formulas again, of one number."""
    if scale == "slaney":
        return hertz * 3 / 200 if hertz < 1000 else 15 + 27 * math.log(hertz / 1000) / math.log(6.4)
    return 2595 * math.log10(1 + hertz / 700) if scale == "htk" else 1127 * math.log(1 + hertz / 700)


def triangles(bands: int, scale: str, low: float, high: float) -> NDArray[np.float64]:
    """Peak 1, one frequency of one band at a time; an edge is found by bisection of `to_mel`."""
    found = np.zeros((bands, SIZE // 2 + 1))
    first, last = to_mel(low, scale), to_mel(high, scale)
    edges = []
    for i in range(bands + 2):
        below, above = 0.0, RATE / 2
        for _ in range(80):
            middle = (below + above) / 2
            is_below = to_mel(middle, scale) < first + (last - first) * i / (bands + 1)
            below, above = (middle, above) if is_below else (below, middle)
        edges.append(below)
    for band in range(bands):
        for bin_ in range(SIZE // 2 + 1):
            at, left, peak, right = (bin_ * RATE / SIZE, *edges[band : band + 3])
            if scale == "kaldi":
                at, left, peak, right = (to_mel(hertz, scale) for hertz in (at, left, peak, right))
            found[band, bin_] = max(0.0, min((at - left) / (peak - left), (right - at) / (right - peak)))
    return found


@pytest.mark.parametrize("scale", ["slaney", "htk", "kaldi"])
def test_triangles_are_those_of_the_formula(scale: Scale) -> None:
    """Between 60 and 7,000 Hz, so that neither end is a default; the areas of Slaney's norm are equal."""
    found = mel_weights(24, SIZE, RATE, low_hz=60, high_hz=7000, scale=scale, has_equal_areas=False)
    wanted = triangles(24, scale, 60, 7000)
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    normed = mel_weights(24, SIZE, RATE, low_hz=60, high_hz=7000, scale=scale)
    edges = mel_to_hertz(np.linspace(hertz_to_mel(60, scale), hertz_to_mel(7000, scale), 26), scale)
    np.testing.assert_allclose(normed, wanted * (2 / (edges[2:] - edges[:-2]))[:, None], atol=1e-9)


@pytest.mark.parametrize(
    ("scale", "hertz", "mels"),
    [("slaney", 200.0, 3.0), ("slaney", 6400.0, 42.0), ("htk", 700.0, 781.17), ("htk", 1000.0, 999.99)],
)
def test_a_frequency_has_the_mels_that_are_published(scale: Scale, hertz: float, mels: float) -> None:
    """3 mels at 200 Hz, 27 more for a factor of 6.4; about 1,000 mels at 1,000 Hz of HTK's; and back."""
    assert float(hertz_to_mel(hertz, scale)) == pytest.approx(mels, abs=0.01)
    assert float(mel_to_hertz(hertz_to_mel(hertz, scale), scale)) == pytest.approx(hertz)


class Logarithms(nn.Module):
    """A stream's rows of every kind, side by side."""

    def __init__(self) -> None:
        super().__init__()
        bands = MelFilterbank(32, SIZE, RATE)
        self.kinds = nn.ModuleList(LogMel(SIZE, HOP, bands, logarithm=kind, floor=1e-6) for kind in LOGARITHMS)

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [kinds, bands] of f32 [1, hop]."""
        return torch.cat([kind(samples) for kind in self.kinds])


def test_rows_of_a_session_are_the_logarithms_of_the_formula() -> None:
    """Bands of torch.stft's powers; silence has the logarithm of the floor."""
    torch.manual_seed(0)
    module = Logarithms()
    signal = torch.cat([torch.zeros(1, 4 * HOP), torch.randn(1, 6 * HOP)], 1)
    found = torch.stack(run_session(module, hops(signal, HOP)), 1)
    padded = torch.nn.functional.pad(signal, (SIZE - HOP, 0))
    spectra = torch.stft(padded, SIZE, HOP, window=torch.hann_window(SIZE), center=False, return_complex=True)[0]
    energy = (torch.from_numpy(mel_weights(32, SIZE, RATE)) @ spectra.abs().double().square()).T
    floored = energy.clamp(min=1e-6)
    wanted = torch.stack([floored.log(), floored.log10(), 10 * floored.log10(), energy.log1p()])
    whole = torch.stack([kind.whole(signal)[0] for kind in module.kinds])  # type: ignore[operator]
    torch.testing.assert_close(found.double(), wanted, atol=2e-4, rtol=1e-4)
    torch.testing.assert_close(whole.double(), wanted, atol=2e-4, rtol=1e-4)


def test_a_stream_of_logarithms_begins_again_when_it_is_reset() -> None:
    """The first row once more."""
    module = LogMel(SIZE, HOP, MelFilterbank(16, SIZE, RATE))
    part = torch.randn(1, HOP)
    first = module(part).clone()
    assert not torch.equal(module(part), first)
    module.reset()
    assert torch.equal(module(part), first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bands": 0}, "bands must be at least 1"),
        ({"size": 401}, "size even.*401"),
        ({"high_hz": 8001.0}, "<= 8000 must hold.*8001"),
        ({"low_hz": 500.0, "high_hz": 400.0}, "not 500 and 400"),
        ({"scale": "bark"}, "slaney, htk, kaldi, not bark"),
        ({"bands": 128, "scale": "htk"}, r"band \d+ of 128 lies between two frequencies, which are 31.25 Hz apart"),
    ],
)
def test_bands_that_cannot_be_are_refused(arguments: dict[str, object], message: str) -> None:
    """The message names the bound and the value."""
    with pytest.raises(ValueError, match=message):
        MelFilterbank(**{"bands": 40, "size": SIZE, "rate": RATE} | arguments)  # type: ignore[arg-type]


def test_logarithms_of_another_size_or_kind_are_refused() -> None:
    """A filterbank of 400 points, an unknown logarithm, no floor."""
    bands = MelFilterbank(20, SIZE, RATE)
    with pytest.raises(ValueError, match="of 400 points, not 512"):
        LogMel(400, HOP, bands)
    with pytest.raises(ValueError, match="ln, log10, decibel, log1p, not log2"):
        LogMel(SIZE, HOP, bands, logarithm="log2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="floor must be above 0, not 0"):
        LogMel(SIZE, HOP, bands, floor=0)
