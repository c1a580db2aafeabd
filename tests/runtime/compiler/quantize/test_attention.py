"""A transformer runs in int8 from the first product to the last, attention's own products among them."""

from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import Quantization, export, load
from torch import Tensor, nn


class Block(nn.Module):
    """Attention after a norm, beside its input."""

    def __init__(self, *, is_masked: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)
        self.mask: Tensor | None
        self.register_buffer("mask", torch.rand(9, 9) > 0.4 if is_masked else None)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 9, 16] for tokens of that shape."""
        q, k, v = self.qkv(self.norm(x)).reshape(-1, 9, 3, 2, 8).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        result: Tensor = x + self.out(y.transpose(1, 2).reshape(-1, 9, 16))
        return result


def export_block(model: nn.Module, **options: Any) -> Any:
    """A program of the block with every node in static int8 where it can be."""
    calibration = [torch.randn(2, 9, 16) for _ in range(12)]
    return export(model, (calibration[0],), quantize=Quantization("int8", **options), calibration=calibration)


def test_attention_between_int8_layers_is_int8() -> None:
    """Its products are on what the layers give; heads are taken apart in int8; the result is close to float32."""
    for is_masked in (False, True):
        torch.manual_seed(5)
        model = Block(is_masked=is_masked).eval()
        program = export_block(model)
        names = [op.name for op in program.spec.ops]
        assert "attention_i8" in names
        assert "attention" not in names
        assert names.count("linear_i8") + names.count("linear_qd8_qc8w") == 2
        x = torch.randn(2, 9, 16)
        exact = model(x).detach().numpy()
        assert np.abs(load(bytes(program))(x.numpy())[0] - exact).max() < 0.06


def test_attention_on_float32_stays_float32() -> None:
    """Where the layer before it is pinned to float32; the report names the operator."""
    torch.manual_seed(6)
    model = Block().eval()
    program = export_block(model, layers={"qkv": "float32"})
    names = [op.name for op in program.spec.ops]
    assert "attention" in names
    assert "attention_i8" not in names
    layers = {(layer.op, layer.precision) for layer in program.quantization.layers}
    assert ("attention", "float32") in layers


class Written(nn.Module):
    """Attention written out, of one head."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, length, 16] for tokens of that shape."""
        y = self.norm(x)
        scores = self.q(y) @ self.k(y).transpose(-1, -2) * 0.25
        result: Tensor = x + self.out(torch.softmax(scores, -1) @ self.v(y))
        return result


@pytest.mark.parametrize("length", [5, 10, 33])
def test_attention_that_is_written_out_is_quantized_as_well(length: int) -> None:
    """Its room to work in is not that of its float32 form, which stands beside it while noise is measured."""
    torch.manual_seed(7)
    model = nn.Sequential(Written(), Written()).eval()
    calibration = [torch.randn(2, length, 16) for _ in range(6)]
    program = export(model, (calibration[0],), quantize="int8", calibration=calibration)
    x = torch.randn(2, length, 16)
    exact = model(x).detach().numpy()
    assert np.abs(load(bytes(program))(x.numpy())[0] - exact).max() < 0.1
