"""Modules in half, bfloat16 and double are exported as float32 where that is asked for, and refused else."""

import numpy as np
import pytest
import torch
from alcove.runtime import ArgumentError, ExportError, export, load
from torch import Tensor, nn


class Halves(nn.Module):
    """Casts within."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return x.half() * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_cast_module_is_its_float32_form(dtype: torch.dtype) -> None:
    """The program equals the module that was cast by hand, and the module stays as it was."""
    module = nn.Sequential(nn.Linear(4, 5), nn.Tanh()).to(dtype).eval()
    x = torch.randn(2, 4).to(dtype)
    with pytest.raises(ExportError, match='cast="float32"'):
        export(module, (x,))
    program = load(bytes(export(module, (x,), cast="float32")))
    assert all(parameter.dtype is dtype for parameter in module.parameters())
    wanted = module.float()(x.float())
    np.testing.assert_allclose(program(x.float().numpy())[0], wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_cast_that_the_module_makes_itself_is_refused() -> None:
    """Only parameters, buffers and inputs are cast; other types of cast there are not."""
    with pytest.raises(ExportError, match="float16"):
        export(Halves(), (torch.randn(3).half(),), cast="float32")
    with pytest.raises(ValueError, match="float32"):
        export(Halves(), (torch.randn(3),), cast="float64")
    with pytest.raises(ArgumentError, match=r"torch\.nn\.Module"):
        export(3, (), cast="float32")  # type: ignore[arg-type]
