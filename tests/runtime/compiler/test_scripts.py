"""Traced modules are exported as the modules that they were made from; scripted ones are refused."""

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, export, load
from alcove.runtime.compiler import load_state
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")


class Branches(nn.Module):
    """A branch on data."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        if bool(x.sum() > 0):
            return x + 1
        return x


def test_traced_module_is_exported() -> None:
    """Its weights keep their names."""
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU()).eval()
    traced = torch.jit.trace(module, EXAMPLE)  # type: ignore[no-untyped-call]
    program = export(traced, (EXAMPLE,))
    assert "0.weight" in load_state(program.spec)
    got = load(bytes(program))(EXAMPLE.numpy())[0]
    np.testing.assert_allclose(got, module(EXAMPLE).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_scripted_module_is_refused() -> None:
    """With what to export instead."""
    with pytest.raises(ExportError, match=r"export the torch\.nn\.Module that it was made from"):
        export(torch.jit.script(Branches()), (torch.randn(3),))


EXAMPLE = torch.randn(3, 4)
