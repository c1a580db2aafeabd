"""Hard gates (hardswish, hardsigmoid) are fused into the products that they alone read, with the same bits."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from torch import Tensor, nn


class Gated(nn.Module):
    """A product, a gate, and what else reads the product."""

    def __init__(self, product: nn.Module, gate: Callable[[Tensor], Tensor], *, is_read_twice: bool = False) -> None:
        super().__init__()
        self.product, self.gate, self.is_read_twice = product, gate, is_read_twice

    def forward(self, x: Tensor) -> Tensor:
        """Return the gated product."""
        result = self.product(x)
        gated = self.gate(result)
        return gated + result if self.is_read_twice else gated


PRODUCTS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(20, 33), (7, 20)),
    "conv2d": (lambda: nn.Conv2d(5, 18, 3, stride=2, padding=1), (1, 5, 9, 14)),
    "depthwise_conv2d": (lambda: nn.Conv2d(19, 19, 5, padding=2, groups=19), (1, 19, 9, 9)),
}
GATES = {"hardswish": (nn.functional.hardswish, 2), "hardsigmoid": (nn.functional.hardsigmoid, 3)}


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize("gate", GATES)
def test_a_gate_becomes_part_of_its_product(product: str, gate: str) -> None:
    """One op, and the bits of two: NaN, infinities and a residual included."""
    make, shape = PRODUCTS[product]
    function, number = GATES[gate]
    torch.manual_seed(3)
    module = Gated(make(), function).eval()
    x = torch.randn(shape) * 3
    program, apart = (
        export(module, (x,)),
        export(Gated(module.product, function, is_read_twice=True), (x,)),
    )
    (op,) = [op for op in program.spec.ops if op.name == product]
    assert number in op.attributes
    assert "unary" not in {op.name for op in program.spec.ops}
    assert "unary" in {op.name for op in apart.spec.ops}
    plain = load(bytes(export(module.product, (x,))))
    alone = load(bytes(export(Gated(nn.Identity(), function), (plain_output(module, x),))))
    x.view(-1)[::11] = torch.tensor([torch.inf, -torch.inf, torch.nan, 3e38, -3e38]).repeat(99)[: len(x.view(-1)[::11])]
    (seen,) = load(bytes(program))(x.numpy())
    (expected,) = alone(plain(x.numpy())[0])
    assert seen.tobytes() == expected.tobytes()
    with torch.inference_mode():
        np.testing.assert_allclose(seen, module(x).numpy(), rtol=1e-4, atol=1e-4)


def plain_output(module: Gated, x: Tensor) -> Tensor:
    """Return what the product gives, without its gate."""
    with torch.inference_mode():
        output: Tensor = module.product(x)
    return output.clone()


def test_a_gate_follows_a_sum() -> None:
    """The residual comes first, as it is written."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x: Tensor) -> Tensor:
            """Return hardswish(linear(x) + x)."""
            return nn.functional.hardswish(self.linear(x) + x)

    module, x = Residual().eval(), torch.randn(3, 16)
    program = export(module, (x,))
    assert [op.name for op in program.spec.ops] == ["linear"]
    with torch.inference_mode():
        np.testing.assert_allclose(load(bytes(program))(x.numpy())[0], module(x).numpy(), rtol=1e-5, atol=1e-6)


def test_a_clamped_product_keeps_its_bounds() -> None:
    """relu, then hardswish: two functions, and a product has room for one."""
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Hardswish()).eval()
    assert [op.name for op in export(module, (torch.randn(2, 8),)).spec.ops] == ["linear", "unary"]
