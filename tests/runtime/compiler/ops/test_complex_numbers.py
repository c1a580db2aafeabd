"""Complex numbers within a program, and Fourier transforms, agree with torch."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, export, load
from torch import Tensor, nn
from torch.export import Dim

Agrees = Callable[..., None]
WINDOW = torch.hann_window(16)


def stft(x: Tensor) -> Tensor:
    """Return a short-time transform."""
    return torch.stft(x, 16, 4, window=WINDOW, return_complex=True)


def test_transforms_of_all_kinds_and_norms(agrees: Agrees) -> None:
    """Real to complex, complex to complex, back; odd and even sizes, one and two dimensions, each norm."""
    view = torch.view_as_real
    agrees(
        {
            "rfft": lambda x: view(torch.fft.rfft(x)),
            "rfft longer": lambda x: view(torch.fft.rfft(x, n=14, dim=0, norm="ortho")),
            "rfft2": lambda x: view(torch.fft.rfft2(x, norm="forward")),
            "fft": lambda x: view(torch.fft.fft(x)),
            "ifft": lambda x: view(torch.fft.ifft(torch.fft.fft(x), norm="ortho")),
            "fft2 real": lambda x: torch.fft.fft2(x).real,
            "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x)),
            "irfft odd": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=9),
            "irfft2": lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho") * (1 + 2j), s=(7, 10), norm="ortho"),
            "shift": lambda x: view(torch.fft.fftshift(torch.fft.fft(x), -1)),
        },
        torch.randn(7, 10),
    )


@pytest.mark.parametrize("size", [32, 45, 97, 120, 210, 509, 512, 675, 1018])
def test_transforms_of_sizes_with_small_and_large_factors(agrees: Agrees, size: int) -> None:
    """Each form: together or by itself, even or odd, a matrix or a convolution with a chirp; there and back."""
    agrees(
        {
            "real": lambda x: torch.view_as_real(torch.fft.rfft(x)),
            "whole": lambda x: torch.view_as_real(torch.fft.fft(x, dim=0, norm="ortho")) * 0.1,
            "complex": lambda x: torch.view_as_real(torch.fft.ifft(torch.complex(x, x.flip(1)))),
            "back": lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]),
        },
        torch.randn(3, size),
        atol=2e-4,
    )


def test_functions_of_complex_numbers(agrees: Agrees) -> None:
    """Logarithm, root, reciprocal, direction, sine and cosine, in all four quarters and on the axes."""
    view = torch.view_as_real
    plane = torch.tensor([1.5, 0.3, 0.0, -0.4, -2.0])
    agrees(
        {
            name: lambda x, y, name=name: view(getattr(torch, name)(torch.complex(x, y)))
            for name in ("log", "sqrt", "sin", "cos", "square", "sgn")
        }
        | {"reciprocal": lambda x, y: view(torch.complex(x + 3, y).reciprocal())},
        plane.repeat(4),
        plane.repeat_interleave(4),
    )


def test_short_time_transform_and_its_inverse(agrees: Agrees) -> None:
    """Magnitudes, powers, phases of frames, and the signal back from masked frames."""
    agrees(
        {
            "magnitude": lambda x: stft(x).abs(),
            "power": lambda x: stft(x).real ** 2 + stft(x).imag ** 2,
            "square": lambda x: stft(x).abs().pow(2).clamp(min=1e-5).log(),
            "masked": lambda x: torch.istft(stft(x) * torch.sigmoid(stft(x).abs()), 16, 4, window=WINDOW, length=64),
        },
        torch.randn(2, 64),
    )


def test_arithmetic_of_complex_numbers(agrees: Agrees) -> None:
    """Real and complex operands on either side, numbers, products of matrices, movements."""
    agrees(
        {
            "rotate": lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.polar(torch.ones(3), y)),
            "angle": lambda x, y: torch.view_as_complex(x).angle(),
            "sums": lambda x, y: torch.view_as_real(2 - torch.complex(y, y * 2) + y),
            "quotient": lambda x, y: torch.view_as_real(y / torch.view_as_complex(x)),
            "half": lambda x, y: torch.view_as_real(torch.view_as_complex(x) / 2),
            "conjugate": lambda x, y: torch.view_as_real(torch.view_as_complex(x).conj() * (1j * y)),
            "exp": lambda x, y: torch.view_as_real(torch.exp(1j * y)),
            "square": lambda x, y: (torch.view_as_complex(x) ** 2).imag,
            "product": lambda x, y: torch.view_as_real(torch.view_as_complex(x).T @ torch.view_as_complex(x)),
            "einsum": lambda x, y: torch.einsum("ni,nj->ij", torch.view_as_complex(x), torch.complex(y, y)).real,
            "moved": lambda x, y: torch.view_as_real(torch.view_as_complex(x).flip(0)[1:, ::2].t().reshape(-1)),
            "written": lambda x, y: write(torch.view_as_complex(x)).abs(),
        },
        torch.randn(4, 3, 2),
        torch.randn(4, 3),
    )


def write(z: Tensor) -> Tensor:
    """Return zeros with `z` in one corner."""
    whole = torch.zeros(6, 5, dtype=torch.cfloat)
    whole[:4, 2:] = z
    return whole


def test_complex_weights_are_constants(agrees: Agrees) -> None:
    """A filter in the frequency domain: the parameter holds both parts in its last dimension."""

    class Filter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, 5, 2))

        def forward(self, x: Tensor) -> Tensor:
            frequencies = torch.fft.rfft2(x, norm="ortho") * torch.view_as_complex(self.weight)
            return torch.fft.irfft2(frequencies, s=(8, 8), norm="ortho")

    agrees(Filter(), torch.randn(2, 8, 8))


def test_conditions_layers_and_new_tensors(agrees: Agrees) -> None:
    """One side of a condition may be real; the imaginary part of a conjugate is a view with the other sign."""
    torch.manual_seed(0)
    layer = nn.Linear(3, 2, dtype=torch.cfloat)
    agrees(
        {
            "where": lambda x: torch.where(x > 0, torch.complex(x, -x), torch.complex(x, x)).abs(),
            "number": lambda x: torch.view_as_real(torch.where(x > 0, torch.complex(x, x), 0.0)),
            "linear": lambda x: torch.view_as_real(layer(torch.complex(x, 2 * x))),
            "weight": lambda x: torch.nn.functional.linear(torch.complex(x, x), torch.complex(x, x + 1)).abs(),
            "conjugate": lambda x: torch.complex(x, x).conj().imag * 1,
        },
        torch.randn(4, 3),
    )


class Spectral(nn.Module):
    """The lowest frequencies, written into zeros of as many rows as come."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        known = torch.fft.rfft(x)
        kept = torch.zeros(x.shape[0], known.shape[1], dtype=torch.cfloat)
        kept[:, :3] = known[:, :3] * torch.ones_like(known[:, :3])
        return torch.fft.irfft(kept, n=x.shape[1])


def test_complex_zeros_of_a_size_that_varies() -> None:
    """At every size."""
    module = Spectral().eval()
    model = load(bytes(export(module, (torch.randn(2, 12),), dynamic_shapes=({0: Dim("rows", min=1, max=5)},))))
    for rows in range(1, 6):
        x = torch.randn(rows, 12)
        np.testing.assert_allclose(model(x.numpy())[0], module(x).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (torch.fft.rfft, "view_as_real"),
        (lambda x: torch.fft.rfft(x).sinh().real, "view_as_real"),
        (lambda x: torch.fft.rfft(x.repeat(1, 20000)).abs(), "65536 points"),
    ],
)
def test_complex_results_and_unknown_functions_are_refused(function: Callable[[Tensor], Tensor], sentence: str) -> None:
    """The refusal tells what to do."""

    class One(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    with pytest.raises(ExportError, match=sentence):
        export(One(), (torch.randn(1, 4),))
