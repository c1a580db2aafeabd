"""The layer-by-layer comparison names the first layer whose result departs from torch's."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.layers import PORTS, LayerComparison, compare_layers, compare_program
from alcove.runtime.compiler.rules import RULES, Call
from torch import Tensor, nn


class Classifier(nn.Module):
    """Convolutions, norms and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        x = self.stem(x)
        x = x + F.silu(self.depth(x))  # silu line
        return self.out(F.max_pool2d(x, 2).mean((2, 3))).softmax(-1)


def _transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


def _first(found: list[LayerComparison]) -> LayerComparison | None:
    return next((layer for layer in found if not layer.is_within), None)


@pytest.mark.parametrize(("make", "shape"), [(Classifier, (2, 3, 8, 8)), (_transformer, (1, 7, 16))])
def test_every_layer_of_a_healthy_model_is_within(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    """In the order of the run, each with torch's name, its shape and where it comes from; the last is the output."""
    module, x = make().eval(), torch.randn(shape)
    found = compare_layers(module, (x,), tolerance="standard")
    assert _first(found) is None
    assert len({layer.layer for layer in found}) == len(found)
    assert all(layer.difference < 1e-4 for layer in found)
    assert found[-1].shape == tuple(module(x).shape)
    assert any("linear" in layer.op for layer in found)
    assert any(layer.module_path for layer in found)


def test_layers_of_a_text_model_compare(text_model: nn.Module) -> None:
    """A text goes in as it is; labels are compared as indices."""
    found = compare_layers(text_model, ("Wo ist der Bahnhof?",))
    assert _first(found) is None
    assert {"aten.topk.default", "alcove.ngram_hash.default"} <= {layer.op for layer in found}


def test_first_layer_that_departs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong rule: its operator, module and line; what comes before is within, what follows departs too."""

    def wrong(call: Call, b: Builder) -> Value:
        x = call.tensor("self")
        return b.unary("relu", x)

    monkeypatch.setitem(RULES, "aten.silu.default", wrong)
    module, x = Classifier().eval(), torch.randn(2, 3, 8, 8)
    found = compare_layers(module, (x,))
    first = _first(found)
    assert first is not None
    assert first.op == "aten.silu.default"
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (line,) = [number for number, text in enumerate(lines, 1) if text.endswith("# silu line")]
    assert first.source.endswith(f"{Path(__file__).name}:{line}")
    assert first.difference > 0.01
    place = found.index(first)
    assert all(layer.is_within for layer in found[:place])
    assert not found[place + 1].is_within
    assert compare_program(bytes(export(module, (x,))), module, (x,)) > 1e-4


def test_wrong_numbers_and_types_depart(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN where torch has a number is infinitely far; so is one wrong integer."""

    class Both(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            """Run."""
            return x.sigmoid(), x.argmax(-1)

    monkeypatch.setitem(RULES, "aten.sigmoid.default", lambda call, b: b.unary("log", call.tensor("self")))
    argmax = RULES["aten.argmax.default"]

    def worst(call: Call, b: Builder) -> Value:
        best = argmax(call, b)
        assert isinstance(best, Value)
        return b.binary("add", best, b.scalar(1, best.dtype))

    monkeypatch.setitem(RULES, "aten.argmax.default", worst)
    found = {layer.op: layer for layer in compare_layers(Both().eval(), (-torch.ones(2, 4),))}
    assert found["aten.sigmoid.default"].difference == math.inf
    assert found["aten.argmax.default"].difference == math.inf
    assert not any(layer.is_within for layer in found.values())


def test_more_layers_than_a_program_has_ports_compare() -> None:
    """They are run in parts, each result once."""
    layers = [part for _ in range(PORTS) for part in (nn.Linear(4, 4), nn.Tanh())]
    found = compare_layers(nn.Sequential(*layers).eval(), (torch.randn(1, 4),))
    assert len(found) == 2 * PORTS > 64
    assert _first(found) is None
    assert found[-1].module_path == str(2 * PORTS - 1)


def test_what_cannot_be_exported_or_compared_is_an_error() -> None:
    """The findings of export; a tolerance that there is not."""

    class Random(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            """Run."""
            return x + torch.rand(4)

    with pytest.raises(ExportError, match="outside the program"):
        compare_layers(Random().eval(), (torch.zeros(4),))
    with pytest.raises(KeyError):
        compare_layers(nn.ReLU(), (torch.zeros(4),), tolerance="none such")


def test_program_is_compared_with_its_module() -> None:
    """The largest difference of the outputs; of another module's program it is large."""
    one, other = Classifier().eval(), Classifier().eval()
    x = torch.randn(1, 3, 8, 8)
    program = bytes(export(one, (x,)))
    assert compare_program(program, one, (x,)) < 1e-5
    assert compare_program(program, other, (x,)) > 1e-3
    assert np.isfinite(compare_program(program, other, (x,)))
