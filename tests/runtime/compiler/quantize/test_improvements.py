"""Equalization, bias correction and the accuracy budget each improve a case that needs it, and are chosen there."""

from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from alcove.runtime.compiler.quantize import Quantization
from torch import Tensor, nn

from tests.runtime.compiler.quantize.nets import SmallCnn, accuracy, bars, samples, train_net


def snr_db(exact: Any, rough: Any) -> float:
    """Signal to noise of one array against another."""
    noise = np.square(exact.astype(np.float64) - rough).sum()
    return float(10 * np.log10(np.square(exact.astype(np.float64)).sum() / noise))


def all_int8(model: nn.Module) -> dict[str, Any]:
    """Options that leave every layer in static int8."""
    return {"layers": {name: "int8" for name, layer in model.named_modules() if hasattr(layer, "weight")}}


def quantized_snr(model: nn.Module, calibration: list[Tensor], x: Tensor, **options: Any) -> float:
    """Signal to noise of a module's int8 program on `x`."""
    program = export(model, (x,), quantize=Quantization("int8", **options), calibration=calibration)
    return snr_db(model(x).detach().numpy(), load(bytes(program))(x.numpy())[0])


@pytest.mark.parametrize("depthwise", [False, True])
def test_equalization_rescues_channels_of_very_different_ranges(depthwise: bool) -> None:
    """Channels a thousand times apart in one layer and back in the next: one scale cannot hold them unequalized."""
    torch.manual_seed(4)
    first = nn.Conv2d(3, 16, 3, padding=1)
    second = nn.Conv2d(16, 16, 3, padding=1, groups=16) if depthwise else nn.Conv2d(16, 8, 1)
    model = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Conv2d(second.out_channels, 4, 1)).eval()
    spread = torch.logspace(-1.5, 1.5, 16)
    with torch.no_grad():
        first.weight *= spread[:, None, None, None]
        first.get_parameter("bias").mul_(spread)
        second.weight /= spread[:, None, None, None] if depthwise else spread[None, :, None, None]
    calibration = [torch.randn(1, 3, 12, 12) for _ in range(16)]
    x = torch.randn(1, 3, 12, 12)
    without = quantized_snr(model, calibration, x, equalize=False, **all_int8(model))
    equal = quantized_snr(model, calibration, x, equalize=True, **all_int8(model))
    assert equal > without + 8
    assert equal > 30
    assert quantized_snr(model, calibration, x, **all_int8(model)) > equal - 1


def test_bias_correction_removes_a_mean_error() -> None:
    """Many small weights that all round down beside a large one, on inputs that are never negative."""
    torch.manual_seed(5)
    model = nn.Linear(256, 12).eval()
    with torch.no_grad():
        model.weight.fill_(0.4 / 127)
        model.weight[:, 0] = 1.0
        model.bias.zero_()
    calibration = [torch.rand(4, 256) for _ in range(16)]
    x = torch.rand(4, 256)
    without = quantized_snr(model, calibration, x, correct_bias=False, layers={"%linear": "int8"})
    corrected = quantized_snr(model, calibration, x, correct_bias=True, layers={"%linear": "int8"})
    assert without < 12
    assert corrected > without + 15
    assert quantized_snr(model, calibration, x) > without + 15


class Poisoned(nn.Module):
    """One layer of three has weights and inputs that 256 steps cannot hold."""

    def __init__(self) -> None:
        super().__init__()
        self.good = nn.Linear(16, 16)
        self.poisoned = nn.Linear(17, 16)
        self.last = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 8]; the last input is a thousand times the others and hardly counts."""
        y = torch.tanh(self.good(x[:, :16]))
        mixed = torch.cat([y, 1000 * x[:, 16:]], 1)
        result: Tensor = self.last(torch.tanh(self.poisoned(mixed)))
        return result


@pytest.fixture(scope="module")
def poisoned() -> nn.Module:
    """With small weights for the large input."""
    torch.manual_seed(6)
    model = Poisoned().eval()
    with torch.no_grad():
        model.poisoned.weight[:, 16] = 1e-5
    return model


def poisoned_samples(count: int) -> list[Tensor]:
    """Inputs."""
    random = torch.Generator().manual_seed(7)
    return [torch.randn(4, 17, generator=random) for _ in range(count)]


def test_the_budget_keeps_the_poisoned_layer_in_float32(poisoned: nn.Module) -> None:
    """That one and no other layer; the report says why."""
    calibration = poisoned_samples(16)
    options = Quantization("int8", clipping="minmax", **all_int8(poisoned))
    free = export(poisoned, (calibration[0],), quantize=options, calibration=calibration).quantization
    options = Quantization("int8", clipping="minmax")
    bound = export(poisoned, (calibration[0],), quantize=options, calibration=calibration, max_drop=0.01).quantization
    assert free is not None
    assert bound is not None
    assert free.drop is not None
    assert bound.drop is not None
    assert free.drop > 0.05
    assert bound.drop <= 0.01
    kept = {layer.layer for layer in bound.kept_float if layer.op == "linear"}
    assert kept == {"poisoned"}
    assert next(layer for layer in bound.layers if layer.layer == "poisoned").reason == "it costs too much accuracy"
    assert {layer.layer for layer in bound.layers if layer.precision == "int8" and layer.op == "linear"} == {
        "good",
        "last",
    }


def test_a_budget_of_zero_is_kept_at_the_price_of_int8(poisoned: nn.Module) -> None:
    """No noise is allowed, so nothing is left in int8."""
    calibration = poisoned_samples(4)
    program = export(poisoned, (calibration[0],), quantize="int8", calibration=calibration, max_drop=0.0)
    assert program.quantization is not None
    assert program.quantization.drop == 0.0
    assert not any(op.name.endswith(("_i8", "_qc8w")) for op in program.spec.ops)


@pytest.mark.thorough
def test_the_callers_metric_decides() -> None:
    """Accuracy on images that calibration does not see; called with float32 first, then with what is tried."""
    model = train_net(SmallCnn)
    seen = []

    def metric(run: Any) -> float:
        seen.append(accuracy(run, 64))
        return seen[-1]

    program = export(model, (bars(1, 9)[0],), quantize="int8", calibration=samples(16), max_drop=0.05, metric=metric)
    assert program.quantization is not None
    assert program.quantization.drop == seen[0] - seen[-1]
    assert program.quantization.drop <= 0.05
