"""Buffers of one element are numbers at export if they never change, and states if they do."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export, load
from torch import Tensor, nn


class Codec(nn.Module):
    """A convolution that pads to whole frames, with its numbers in buffers, as audio codecs do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 4, stride=2)
        self.register_buffer("stride", torch.tensor(2))
        self.register_buffer("kernel", torch.tensor(4))
        self.register_buffer("is_trained", torch.tensor([True]))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        kernel, stride = self.get_buffer("kernel"), self.get_buffer("stride")
        frames = torch.ceil((x.shape[-1] - kernel) / stride + 1).to(torch.int64)
        extra = (frames - 1) * stride + kernel - x.shape[-1]
        if not self.get_buffer("is_trained"):
            x = x * 0
        return self.conv(F.pad(x, (0, int(extra)))) * stride


class Counting(nn.Module):
    """Counts its calls and takes the count as a tensor, or as a number."""

    def __init__(self, *, as_number: bool) -> None:
        super().__init__()
        self.as_number = as_number
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        calls = self.get_buffer("calls")
        result = x * int(calls) if self.as_number else x * calls
        calls.add_(1)
        return result


def test_size_that_follows_from_buffers_is_known() -> None:
    """A number read out of them decides the margin; a flag decides the branch."""
    module = Codec().eval()
    x = torch.randn(1, 1, 17)
    with torch.no_grad():
        expected = module(x).numpy()
    (found,) = load(bytes(export(module, (x,))))(x.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_buffer_that_changes_stays_a_state() -> None:
    """Its element at export is not taken for the one of every call."""
    x = torch.ones(2)
    session = load(bytes(export(Counting(as_number=False).eval(), (x,)))).session()
    assert [session(x.numpy())[0].tolist() for _ in range(3)] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


def test_number_of_a_buffer_that_changes_is_refused() -> None:
    """It depends on the calls before."""
    with pytest.raises(ExportError, match="depend on"):
        export(Counting(as_number=True).eval(), (torch.ones(2),))


def test_imaginary_part_of_a_conjugate_keeps_its_sign() -> None:
    """Torch negates it by a bit, not in memory."""

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("phases", torch.complex(torch.zeros(2), torch.ones(2)).conj())

        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            return x + self.get_buffer("phases").imag

    (found,) = load(bytes(export(Shifted().eval(), (torch.zeros(2),))))(np.zeros(2, np.float32))
    assert found.tolist() == [-1.0, -1.0]
