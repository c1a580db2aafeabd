"""Whole modules of signals and boxes (fast NMS, spectra, analytic signals) give what eager gives."""

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from torch import Tensor, nn

FRAMES = (64, 128, 256)


class FastNms(nn.Module):
    """A detector's head: for each class the best boxes, without those that a better one overlaps."""

    def __init__(self, top: int = 20, kept: int = 8) -> None:
        super().__init__()
        self.top, self.kept = top, kept
        self.box, self.scores = nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return boxes, scores and indices of the boxes that stay."""
        box = self.box(x).sigmoid()
        corners = torch.cat([box[:, :2] - box[:, 2:] / 2, box[:, :2] + box[:, 2:] / 2], 1)
        scores, order = self.scores(x).softmax(-1).t().sort(dim=1, descending=True, stable=True)
        scores, order = scores[:, : self.top], order[:, : self.top]
        classes, count = order.shape
        found = corners[order.reshape(-1)].view(classes, count, 4)
        low = torch.maximum(found[:, :, None, :2], found[:, None, :, :2])
        high = torch.minimum(found[:, :, None, 2:], found[:, None, :, 2:])
        both = (high - low).clamp(min=0).prod(-1)
        area = (found[..., 2] - found[..., 0]) * (found[..., 3] - found[..., 1])
        overlap = (both / (area[:, :, None] + area[:, None] - both)).triu(diagonal=1)
        left = (scores * (overlap.amax(1) <= 0.5)).reshape(-1)
        best, places = left.sort(descending=True, stable=True)
        return found.reshape(-1, 4)[places[: self.kept]], best[: self.kept], places[: self.kept]


class Spectra(nn.Module):
    """Short-time transforms of three lengths: magnitudes, their logarithms' means, and phases as points of a circle."""

    def __init__(self) -> None:
        super().__init__()
        for count in FRAMES:
            self.register_buffer(f"window{count}", torch.hann_window(count))

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return all of them."""
        results: list[Tensor] = []
        for count in FRAMES:
            window = self.get_buffer(f"window{count}")
            spectrum = torch.stft(x, count, count // 4, count, window, return_complex=True)
            size, angle = spectrum.abs(), spectrum.angle()
            results += [size, size.clamp(min=1e-3).log().mean((1, 2)), size * angle.cos(), size * angle.sin()]
        return results


class Analytic(nn.Module):
    """A signal's envelope and phase: the transform without negative frequencies, back."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the envelope, both parts, and how fast the phase turns."""
        count = x.shape[-1]
        kept = torch.zeros(count)
        kept[0] = 1
        kept[1 : (count + 1) // 2] = 2
        if count % 2 == 0:
            kept[count // 2] = 1
        signal = torch.fft.ifft(torch.fft.fft(x) * kept)
        turned = signal[..., 1:] * signal[..., :-1].conj()
        return signal.abs(), signal.real, signal.imag, turned.angle() * turned.abs()


def compare(module: nn.Module, *inputs: Tensor, atol: float = 2e-5) -> None:
    """Compare a module's program with eager; integers exactly."""
    module = module.eval()
    with torch.no_grad():
        theirs = list(module(*inputs))
    ours = load(bytes(export(module, inputs)))(*(each.numpy() for each in inputs))
    for mine, wanted in zip(ours, theirs, strict=True):
        if wanted.dtype == torch.float32:
            np.testing.assert_allclose(mine, wanted.numpy(), rtol=2e-5, atol=atol)
        else:
            np.testing.assert_array_equal(mine, wanted.numpy())


@pytest.mark.parametrize("kind", ["random", "doubled", "nothing"])
def test_fast_nms_keeps_what_eager_keeps(kind: str) -> None:
    """Equal scores too, where the module asks for a stable order: boxes in pairs, and all alike."""
    torch.manual_seed(0)
    x = torch.randn(40, 8)
    x = {"random": x, "doubled": x[:20].repeat_interleave(2, 0), "nothing": torch.zeros(40, 8)}[kind]
    compare(FastNms(), x)


@pytest.mark.parametrize("k", [1, 3, 20, 40])
def test_equal_values_leave_topk_by_their_index(k: int) -> None:
    """Where torch promises no order, ours is that of a stable sort."""
    x = torch.randint(0, 3, (5, 40)).float()
    (indices,) = load(bytes(export(TopK(k).eval(), (x,))))(x.numpy())
    np.testing.assert_array_equal(indices, x.sort(dim=-1, descending=True, stable=True).indices[:, :k].numpy())


class TopK(nn.Module):
    """The places of the greatest."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Tensor) -> Tensor:
        """Return indices."""
        return x.topk(self.k).indices


@pytest.mark.parametrize("kind", ["noise", "tone", "silence"])
def test_spectra_of_three_lengths_are_eagers(kind: str) -> None:
    """Noise, a tone whose quiet bins are quiet, and silence."""
    torch.manual_seed(0)
    tone = torch.cos(2 * torch.pi * 0.1 * torch.arange(2048.0)).repeat(2, 1)
    compare(Spectra(), {"noise": torch.randn(2, 2048), "tone": tone, "silence": torch.zeros(2, 2048)}[kind], atol=1e-4)


@pytest.mark.parametrize("count", [64, 127, 128, 1000, 4096])
def test_an_analytic_signal_is_eagers(count: int) -> None:
    """Direct and divided transforms, of even and odd sizes."""
    torch.manual_seed(0)
    compare(Analytic(), torch.randn(3, count))


@pytest.mark.parametrize("count", [8, 64, 128, 400, 1024])
def test_what_is_real_by_symmetry_has_no_phase(count: int) -> None:
    """The first and the middle frequency of a real signal: an imaginary part of +0, as eager's."""

    class Ends(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.view_as_real(torch.fft.rfft(x))[:, [0, -1]]

    torch.manual_seed(0)
    (ours,) = load(bytes(export(Ends().eval(), (torch.randn(9, count),))))(
        np.random.default_rng(0).normal(size=(9, count)).astype(np.float32)
    )
    assert not ours[..., 1].any()


@pytest.mark.parametrize("count", [512, 1000, 4095, 4096])
def test_long_transforms_keep_their_digits(count: int) -> None:
    """Within eight units in the last place of float64's greatest value; one product of a matrix loses tens."""

    class Transform(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.view_as_real(torch.fft.fft(x))

    torch.manual_seed(0)
    x = torch.randn(4, count)
    (ours,) = load(bytes(export(Transform().eval(), (x,))))(x.numpy())
    truth = torch.view_as_real(torch.fft.fft(x.double())).numpy()
    assert np.abs(ours - truth).max() <= 8 * 2.0**-24 * np.abs(truth).max()


def test_magnitudes_beyond_the_range_of_squares_are_right() -> None:
    """1e30 and 1e-30."""

    class Size(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.view_as_complex(x).abs()

    x = torch.tensor([[3e30, 4e30], [3e-30, 4e-30]])
    (ours,) = load(bytes(export(Size().eval(), (x,))))(x.numpy())
    np.testing.assert_allclose(ours, [5e30, 5e-30], rtol=1e-6)
