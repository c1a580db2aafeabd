"""Modules in torch's reference form of PT2E agree with torch: quantize and dequantize between layers."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import_module("torch.ao.quantization.fx._decomposed")  # registers the operators
Q: Any = torch.ops.quantized_decomposed


class Quantized(nn.Module):
    """What convert_pt2e makes of a linear layer and a relu."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (5, 8), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(5) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(5, dtype=torch.int64))
        self.bias = nn.Parameter(torch.randn(5))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        bounds = (-128, 127, torch.int8)
        x = Q.dequantize_per_tensor(Q.quantize_per_tensor(x, 0.0213, -3, *bounds), 0.0213, -3, *bounds)
        weight = Q.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, torch.int8)
        y = torch.relu(nn.functional.linear(x, weight, self.bias))
        return Q.dequantize_per_tensor(
            Q.quantize_per_tensor(y, 0.031, 7, 0, 255, torch.uint8), 0.031, 7, 0, 255, torch.uint8
        )


def test_quantized_layers_give_their_own_numbers(agrees: Callable[..., None]) -> None:
    """Signed and unsigned, beyond both ends, weights by channel."""
    agrees(Quantized().eval(), torch.randn(6, 8) * 3)


def test_integers_themselves_are_the_same(agrees: Callable[..., None]) -> None:
    """Halves are rounded to even, and what is beyond the ends is brought within."""
    x = torch.cat([torch.linspace(-20, 20, 41) * 0.05, torch.tensor([1e9, -1e9])])
    agrees({"q": lambda x: Q.quantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8)}, x)


class QuantizedAsItComes(nn.Module):
    """What convert_pt2e makes of a linear layer with dynamic quantization."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 8))

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        bounds = (-128, 127)
        scale, zero = Q.choose_qparams.tensor(x, *bounds, 1e-7, torch.int8)
        q = Q.quantize_per_tensor.tensor(x, scale, zero, *bounds, torch.int8)
        return nn.functional.linear(Q.dequantize_per_tensor.tensor(q, scale, zero, *bounds, torch.int8), self.weight)


@pytest.mark.parametrize(("factor", "shift"), [(3.0, 0.0), (0.1, 9.0), (0.1, -9.0), (0.0, 0.0)])
def test_layers_quantized_as_values_come_give_their_own_numbers(
    factor: float, shift: float, agrees: Callable[..., None]
) -> None:
    """The range of the run counts, not that of the example: both signs, one sign, zeros alone."""
    agrees(QuantizedAsItComes().eval(), torch.randn(6, 8) * factor + shift)
