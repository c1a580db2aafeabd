"""A fixture that compares operators with eager torch: many functions of the same inputs, exported as one module."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from torch import Tensor, nn
from torch.utils._pytree import keystr, tree_flatten_with_path

Functions: TypeAlias = Mapping[str, Callable[..., Any]]
"""By a name that says what is tried; each gives a tensor, or a tuple or list of tensors."""


class Each(nn.Module):
    """Every function of the same inputs."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self.functions = dict(functions)

    # Torch's tracer wants arguments by name.
    def forward(
        self, a: Tensor, b: Tensor | None = None, c: Tensor | None = None, d: Tensor | None = None
    ) -> dict[str, Any]:
        """Run."""
        inputs = [tensor for tensor in (a, b, c, d) if tensor is not None]
        return {name: function(*inputs) for name, function in self.functions.items()}


def flat(outputs: Any) -> dict[str, Tensor]:
    """Return the tensors of nested outputs, in order, under names of their own."""
    leaves, _ = tree_flatten_with_path(outputs)
    return {keystr(path): tensor for path, tensor in leaves if tensor is not None}


@pytest.fixture
def agrees() -> Callable[..., None]:
    """Compare natively run functions with eager: f32 within the tolerance, all else exactly."""

    def compare(functions: Functions | nn.Module, *inputs: Tensor, rtol: float = 1e-4, atol: float = 1e-5) -> None:
        module = functions if isinstance(functions, nn.Module) else Each(functions).eval()
        with torch.no_grad():
            expected = flat(module(*inputs))
        seen = load(bytes(export(module, inputs)))(*(tensor.numpy() for tensor in inputs))
        assert len(seen) == len(expected)
        for (name, wanted), got in zip(expected.items(), seen, strict=True):
            array = wanted.numpy()
            assert got.dtype == array.dtype, name
            assert got.shape == array.shape, name
            if array.dtype == np.float32:
                np.testing.assert_allclose(got, array, rtol=rtol, atol=atol, err_msg=name)
            else:
                np.testing.assert_array_equal(got, array, err_msg=name)

    return compare
