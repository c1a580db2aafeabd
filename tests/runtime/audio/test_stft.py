"""Streams are transformed as torch transforms whole signals, hop by hop, in eager mode and in a program's session."""

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from alcove.runtime.audio import StreamingIstft, StreamingStft
from torch import Tensor, nn

from tests.runtime.audio.streams import hops, run_session

GEOMETRIES = [(512, 256), (96, 31), (64, 1)]


class Analysis(nn.Module):
    """A stream's spectra, as numbers that a program can return."""

    def __init__(self, size: int, hop: int, channels: int = 1) -> None:
        super().__init__()
        self.stft = StreamingStft(size, hop, channels=channels)

    def forward(self, samples: Tensor) -> Tensor:
        """Return f32 [channels, bins, 2]."""
        return torch.view_as_real(self.stft(samples))


class There(nn.Module):
    """To spectra and back."""

    def __init__(self, size: int, hop: int, window: Tensor | None = None, channels: int = 1) -> None:
        super().__init__()
        self.stft = StreamingStft(size, hop, window, channels=channels)
        self.istft = StreamingIstft(size, hop, window, channels=channels)

    def forward(self, samples: Tensor) -> Tensor:
        """Return the stream, later."""
        made: Tensor = self.istft(self.stft(samples))
        return made


@pytest.mark.parametrize(("size", "hop"), GEOMETRIES)
def test_a_session_that_is_fed_hops_gives_the_spectra_of_torch_stft(size: int, hop: int) -> None:
    """Each frame is that of torch.stft over the same samples with zeros before them."""
    torch.manual_seed(0)
    module = Analysis(size, hop, channels=2)
    signal = torch.randn(2, 12 * hop)
    found = torch.stack(run_session(module, hops(signal, hop)), 2)
    padded = torch.nn.functional.pad(signal, (size - hop, 0))
    window = torch.hann_window(size).sqrt()
    wanted = torch.view_as_real(torch.stft(padded, size, hop, window=window, center=False, return_complex=True))
    torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(torch.view_as_real(module.stft.whole(signal)), wanted)


@pytest.mark.parametrize(("size", "hop"), GEOMETRIES)
def test_a_stream_that_goes_there_and_back_is_the_same_one_frame_less_a_hop_later(size: int, hop: int) -> None:
    """Perfect reconstruction, from the very first sample, delayed by `size - hop`."""
    torch.manual_seed(0)
    delay = size - hop
    signal = torch.randn(1, (delay // hop + 9) * hop)
    found = torch.cat(run_session(There(size, hop), hops(signal, hop)), -1)
    torch.testing.assert_close(found[:, delay:], signal[:, :-delay], atol=3e-6, rtol=0)
    assert found[:, :delay].abs().max() < 1e-6


def test_spectra_that_were_changed_come_back_as_torch_istft_brings_them() -> None:
    """A mask on the spectra, so that frames disagree where they overlap: weights and normalization are torch's."""
    torch.manual_seed(0)
    size, hop = 512, 128
    window = torch.hamming_window(size)
    stft, istft = StreamingStft(size, hop, window), StreamingIstft(size, hop, window)
    spectra = stft.whole(torch.randn(1, 30 * hop)) * torch.rand(1, size // 2 + 1, 30)
    found = torch.cat([istft(spectra[..., i]) for i in range(30)], -1)
    wanted = torch.istft(spectra, size, hop, window=window, center=False)
    middle = slice(size - hop, 30 * hop)
    torch.testing.assert_close(found[:, middle], wanted[:, middle], atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(istft.whole(spectra)[:, : -size + hop], found[:, size - hop :], atol=2e-6, rtol=1e-5)


def test_a_stream_that_is_reset_begins_again() -> None:
    """In eager mode as in a session: nothing of the stream before is left."""
    torch.manual_seed(0)
    module = There(64, 16).eval()
    parts = hops(torch.randn(1, 160), 16)
    first = [module(part).clone() for part in parts]
    module.stft.reset()
    module.istft.reset()
    assert all(torch.equal(module(part), one) for part, one in zip(parts, first, strict=True))
    module.stft.reset()
    module.istft.reset()
    session = load(bytes(export(module, (parts[0],)))).session()
    answers = [session(part.numpy())[0] for part in parts]
    session.reset()
    for part, answer in zip(parts, answers, strict=True):
        np.testing.assert_array_equal(session(part.numpy())[0], answer)


def test_nan_leaves_a_stream_after_two_frames() -> None:
    """One bad sample spoils what its frames reach and nothing later; silence and full scale come back as they are."""
    size, hop = 64, 16
    signal = torch.zeros(1, 320)
    signal[:, 160:] = 1.0
    signal[0, 3] = torch.nan
    found = torch.cat(run_session(There(size, hop), hops(signal, hop)), -1)
    assert found[:, :hop].isnan().all()
    assert not found[:, 2 * size :].isnan().any()
    torch.testing.assert_close(
        found[:, 2 * size :], signal[:, 2 * size - (size - hop) : -(size - hop)], atol=1e-5, rtol=0
    )


def test_a_whole_signal_teaches_what_comes_before_the_transform() -> None:
    """Gradients flow through both transforms: of a perfect reconstruction they are one."""
    signal = torch.randn(3, 512, requires_grad=True)
    stft, istft = StreamingStft(64, 32), StreamingIstft(64, 32)
    istft.whole(stft.whole(signal))[:, :-32].sum().backward()  # type: ignore[no-untyped-call]
    assert signal.grad is not None
    torch.testing.assert_close(signal.grad[:, :-32], torch.ones(3, 480), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("size", "hop", "window", "message"),
    [
        (511, 256, None, "size must be even and in .2, 65536., not 511"),
        (65538, 256, None, "not 65538"),
        (512, 0, None, r"hop must be in \[1, 512\).*not 0"),
        (512, 512, None, "not 512"),
        (512, 256, torch.ones(400), r"window must be \[512\], not \[400\]"),
        (512, 511, None, "windows must overlap: over one sample"),
        (512, 256, torch.zeros(512), "sum to 0 of"),
    ],
)
def test_a_geometry_that_loses_samples_is_refused(size: int, hop: int, window: Tensor | None, message: str) -> None:
    """The message names the argument, the bound and the value."""
    with pytest.raises(ValueError, match=message):
        StreamingIstft(size, hop, window)


def test_a_stream_without_channels_is_refused() -> None:
    """None is no number of streams."""
    with pytest.raises(ValueError, match="channels must be at least 1, not 0"):
        StreamingStft(512, 256, channels=0)
