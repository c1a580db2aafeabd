"""Modules that torch.ao quantized are exported with their own numbers: eager, by graph, reference and dynamic forms."""

import copy
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import ExportError, export, load
from torch import Tensor, nn

quantization: Any = import_module("torch.ao.quantization")
quantize_fx: Any = import_module("torch.ao.quantization.quantize_fx")
FloatFunctional: Any = import_module("torch.ao.nn.quantized").FloatFunctional
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class Residual(nn.Module):
    """Convolutions with and without a norm, a sum, a joined image, pools, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=4)
        self.third = nn.Conv2d(8, 4, 1)
        self.functions = FloatFunctional()
        self.joined = FloatFunctional()
        self.last = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 5]."""
        x = self.first(self.quant(x))
        x = nn.functional.max_pool2d(self.functions.add_relu(self.second(x), x), 2)
        x = self.joined.cat([x, nn.functional.relu6(self.third(x))], 1)
        x = nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        result: Tensor = self.dequant(self.last(x))
        return result


class Plain(nn.Module):
    """The same kind, written as any float module: torch's graph pass finds what to quantize."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 5]."""
        x = nn.functional.relu(self.norm(self.first(x)))
        x = nn.functional.hardswish(self.second(x)) + x
        x = x.mean((2, 3)) * 2
        result: Tensor = self.last(x)
        return result


def make_eager() -> nn.Module:
    """Return the eager form."""
    module: Any = Residual().eval()
    module.qconfig = quantization.get_default_qconfig("x86")
    quantization.fuse_modules(module.first, [["0", "1", "2"]], inplace=True)
    prepared = quantization.prepare(module)
    for _ in range(4):
        prepared(torch.randn(2, 3, 16, 16))
    made: nn.Module = quantization.convert(prepared)
    return made


def make_graph(convert: Callable[..., Any]) -> nn.Module:
    """Return the form that torch's graph pass makes."""
    torch.backends.quantized.engine = "x86"
    example = (torch.randn(2, 3, 16, 16),)
    prepared = quantize_fx.prepare_fx(Plain().eval(), quantization.get_default_qconfig_mapping("x86"), example)
    for _ in range(4):
        prepared(torch.randn(2, 3, 16, 16))
    made: nn.Module = convert(copy.deepcopy(prepared))
    return made


def make_dynamic() -> nn.Module:
    """Return linear layers that quantize what comes."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(768, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    made: nn.Module = quantization.quantize_dynamic(module, {nn.Linear}, dtype=torch.qint8)
    return made


@pytest.mark.parametrize(
    "make",
    [
        make_eager,
        lambda: make_graph(quantize_fx.convert_fx),
        lambda: make_graph(quantize_fx.convert_to_reference_fx),
        make_dynamic,
    ],
    ids=["eager", "graph", "reference", "dynamic"],
)
def test_module_that_torch_quantized_gives_its_own_numbers(make: Callable[[], nn.Module]) -> None:
    """On other values than the example's; nearly all of them, since another order of rounding may break a tie."""
    torch.manual_seed(3)
    module = make()
    program = load(bytes(export(module, (torch.randn(1, 3, 16, 16),))))
    for factor in (0.5, 1.0, 3.0):
        x = torch.randn(1, 3, 16, 16) * factor
        expected = module(x).detach().numpy()
        np.testing.assert_allclose(program(x.numpy())[0], expected, atol=np.abs(expected).max() * 0.02)
        assert (np.abs(program(x.numpy())[0] - expected) < 1e-5 * np.abs(expected).max()).mean() >= 0.5


def test_function_of_a_quantized_tensor_that_nothing_defines_is_refused() -> None:
    """By its name, with where to call it."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.quant = quantization.QuantStub()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = torch.sort(self.layer(self.quant(x)))[0]
            return result

    module: Any = Odd().eval()
    module.qconfig = quantization.get_default_qconfig("x86")
    prepared = quantization.prepare(module)
    prepared(torch.randn(2, 4))
    with pytest.raises(ExportError, match="sort is not known: call it between dequantize and quantize"):
        export(quantization.convert(prepared), (torch.randn(2, 4),))
