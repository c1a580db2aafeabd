"""Activations take the cheaper of their formulas, whatever wrote them."""

import pytest
import torch
from alcove.runtime import load
from alcove.runtime.compiler import export
from alcove.runtime.profile.fused import parts_of
from torch import Tensor, nn


class WrittenOut(nn.Module):
    """A silu as models write it."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return x * torch.sigmoid(x)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (nn.GELU(), "gelu_exp"),
        (nn.GELU("tanh"), "gelu_tanh_exp"),
        (nn.SiLU(), "silu_exp"),
        (WrittenOut(), "silu_exp"),
        (nn.Tanh(), "tanh"),
    ],
)
def test_an_activation_takes_one_exponential(module: nn.Module, name: str) -> None:
    """Its answers are torch's."""
    x = torch.linspace(-6, 6, 50).reshape(5, 10)
    program = export(module, (x,))
    assert [parts_of(op)[0] for op in program.spec.ops] == [name]
    torch.testing.assert_close(torch.from_numpy(load(bytes(program))(x.numpy())[0]), module(x), rtol=3e-6, atol=1e-6)
