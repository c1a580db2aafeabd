"""The recipe is chosen layer by layer: what one range cannot hold gets more precision, the rest stays in int8."""

from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import Quantization, export, load
from alcove.runtime.compiler.quantize.recipe import NARROW
from torch import Tensor, nn


def report_of(model: nn.Module, calibration: list[Tensor], **options: Any) -> tuple[Any, float]:
    """The report of a module's int8 program, and its signal to noise in dB on the last sample."""
    program = export(model, (calibration[0],), quantize=Quantization("int8", **options), calibration=calibration)
    exact = model(calibration[-1]).detach().numpy().astype(np.float64)
    noise = exact - load(bytes(program))(calibration[-1].numpy())[0]
    return program.quantization, float(10 * np.log10(np.square(exact).sum() / np.square(noise).sum()))


def precisions(report: Any) -> dict[str, str]:
    """Precision of each layer by name."""
    return {layer.layer: layer.precision for layer in report.layers}


class MassiveRows(nn.Module):
    """A norm, so that small rows count as much as a huge one, between linears."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 8]."""
        result: Tensor = self.last(self.norm(self.first(x)))
        return result


def massive_samples() -> list[Tensor]:
    """One row of eight is a thousand times the others."""
    random = torch.Generator().manual_seed(1)
    scale = torch.tensor([1.0] * 7 + [1000.0])[:, None]
    return [torch.randn(8, 16, generator=random) * scale for _ in range(12)]


def test_a_linear_with_a_massive_row_quantizes_its_rows_as_they_come() -> None:
    """One range rounds seven rows of eight away; the linear behind the norm only leaves its result unrounded."""
    torch.manual_seed(2)
    model = MassiveRows().eval()
    report, snr = report_of(model, massive_samples())
    assert precisions(report)["first"] == "int8 dynamic"
    last = next(layer for layer in report.layers if layer.layer == "last")
    assert last.precision == "int8 dynamic"
    assert "what it gives is not rounded" in last.chosen
    assert "each row by its own range" in next(layer.chosen for layer in report.layers if layer.layer == "first")
    _, pinned = report_of(model, massive_samples(), layers={"first": "int8", "last": "int8"})
    assert pinned < 12
    assert snr > 25


def test_what_the_caller_pins_is_not_chosen() -> None:
    """Static, by rows, and float32, by name."""
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    calibration = [torch.randn(4, 8) for _ in range(8)]
    report, _ = report_of(model, calibration, layers={"0": "int8 dynamic", "2": "float32", "4": "int8"})
    assert precisions(report) == {"0": "int8 dynamic", "2": "float32", "4": "int8"}
    assert next(layer.reason for layer in report.layers if layer.layer == "2") == "the caller wants it so"
    with pytest.raises(ValueError, match="'nine', which is no layer"):
        report_of(model, calibration, layers={"nine": "int8"})


class Ends(nn.Module):
    """Two results: of each pixel, and of the whole image."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.pixels = nn.Conv2d(8, 5, 1)
        self.whole = nn.Conv2d(8, 4, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return [n, 5, 6, 6] and [n, 4, 1, 1] for [n, 3, 6, 6]."""
        y = torch.relu(self.stem(x))
        return self.pixels(y), self.whole(y)


def test_the_last_convolutions_give_float32_where_they_are_products_of_rows() -> None:
    """A window of one pixel or of the whole image is a row; what the layers give is not rounded to 256 steps."""
    torch.manual_seed(7)
    model = Ends().eval()
    calibration = [torch.randn(2, 3, 6, 6) for _ in range(8)]
    options = Quantization("int8", layers={"stem": "float32"})
    program = export(model, (calibration[0],), quantize=options, calibration=calibration)
    assert precisions(program.quantization) == {"stem": "float32", "pixels": "int8 dynamic", "whole": "int8 dynamic"}
    found = load(bytes(program))(calibration[0].numpy())
    for seen, exact in zip(found, model(calibration[0]), strict=True):
        assert len(np.unique(seen)) > 7 * seen.size // 8
        assert np.abs(seen - exact.detach().numpy()).max() < 0.05


class Pair(nn.Module):
    """Two linears with a relu between."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8, bias=False)
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return [n, 4]."""
        result: Tensor = self.last(torch.relu(self.first(x)))
        return result


def test_channels_far_apart_are_equalized_and_the_report_says_so() -> None:
    """Scaled up in one layer and down in the next; only then is it said that they were equalized."""
    torch.manual_seed(4)
    model = Pair().eval()
    spread = torch.logspace(-2, 2, 8)
    with torch.no_grad():
        model.first.weight *= spread[:, None]
        model.last.weight /= spread
    calibration = [torch.randn(16, 8) for _ in range(8)]
    report, snr = report_of(model, calibration)
    assert snr > 28
    last = next(layer for layer in report.layers if layer.layer == "last")
    assert "equalized (" in last.chosen
    assert "of the noise of not equalized" in last.chosen


def test_a_convolution_of_few_outputs_stays_float32_unless_it_is_asked_for() -> None:
    """A picture's last layer: its int8 form computes 16 outputs and throws 13 away."""
    torch.manual_seed(7)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 5, padding=2)).eval()
    calibration = [torch.randn(1, 3, 20, 20) for _ in range(4)]
    report, _ = report_of(model, calibration)
    assert precisions(report) == {"0": "int8", "2": "float32"}
    assert next(layer.reason for layer in report.layers if layer.layer == "2") == NARROW
    report, _ = report_of(model, calibration, layers={"2": "int8"})
    assert precisions(report)["2"] == "int8"
