"""Weights in float16 and bfloat16 give the bits of a module whose weights were rounded before, in half the bytes."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import Method, QuantizationError, export, load
from alcove.runtime.compiler.layers import is_quantized
from alcove.runtime.compiler.weights import load_state
from alcove.runtime.format.spec import HALVES, DType
from torch import Tensor, nn
from torch.export import Dim

TYPES = {"float16_weights": torch.float16, "bfloat16_weights": torch.bfloat16}


class Rows(nn.Module):
    """A table that its head shares, and one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.tied, self.other = nn.Embedding(40, 24), nn.Embedding(50, 24)
        self.head = nn.Linear(24, 40, bias=False)
        self.head.weight = self.tied.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Return [n, 40] of [n]."""
        result: Tensor = self.head(torch.tanh(self.tied(ids) + self.other(ids)))
        return result


class Separable(nn.Module):
    """Expand, depthwise, squeeze and excite, project, and a sum: fused operators."""

    def __init__(self) -> None:
        super().__init__()
        self.expand, self.project = nn.Conv2d(16, 48, 1), nn.Conv2d(48, 16, 1)
        self.deep = nn.Conv2d(48, 48, 3, padding=1, groups=48)
        self.squeeze, self.excite = nn.Conv2d(48, 8, 1), nn.Conv2d(8, 48, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return [b, 16, h, w]."""
        y = nn.functional.hardswish(self.deep(torch.relu(self.expand(x))))
        gate = nn.functional.hardsigmoid(self.excite(torch.relu(self.squeeze(y.mean((2, 3), keepdim=True)))))
        result: Tensor = self.project(y * gate) + x
        return result


class First(nn.Module):
    """Gives the first of several results."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        result: Tensor = self.inner(x)[0]
        return result


class Several(nn.Module):
    """Layers side by side, each with an input of its own."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        """Run."""
        return [layer(x) for layer, x in zip(self.layers, inputs, strict=True)]


FAMILIES: dict[str, Callable[[], list[tuple[nn.Module, tuple[int, ...]]]]] = {
    "linears": lambda: [
        (nn.Linear(70, 50), (37, 70)),
        (nn.Linear(1500, 50), (1, 1500)),
        (nn.Sequential(nn.Linear(40, 40), nn.Hardswish(), nn.Linear(40, 33)), (5, 40)),
    ],
    "convolutions": lambda: [
        (nn.Conv2d(32, 32, 3, padding=1), (1, 32, 20, 20)),
        (nn.Conv2d(8, 3, 5, padding=2), (2, 8, 9, 40)),
        (nn.Conv2d(12, 18, 3, padding=2, groups=3), (2, 12, 6, 7)),
        (nn.Conv2d(24, 24, 3, groups=24), (1, 24, 9, 9)),
        (nn.ConvTranspose2d(9, 11, 3, stride=2), (1, 9, 5, 6)),
        (nn.Conv1d(9, 20, 5, padding=2), (2, 9, 61)),
        (Separable(), (1, 16, 14, 14)),
    ],
    "recurrent layers": lambda: [
        (First(nn.RNN(12, 20)), (5, 2, 12)),
        (First(nn.GRU(12, 20, bidirectional=True)), (5, 2, 12)),
        (First(nn.LSTM(12, 20, num_layers=2)), (5, 2, 12)),
    ],
    "tables": lambda: [(nn.EmbeddingBag(60, 12), (4, 6)), (Rows(), (7,))],
}


def round_parameters(module: nn.Module, mode: str) -> nn.Module:
    """A copy with every parameter rounded."""
    return copy.deepcopy(module).to(TYPES[mode]).float()


def bits(program: bytes, *inputs: Any, threads: int = 1) -> list[Any]:
    """Of all outputs."""
    return [output.view(np.uint32).tolist() for output in load(program).session(threads=threads)(*inputs)]


@pytest.mark.parametrize("mode", TYPES)
@pytest.mark.parametrize("family", FAMILIES)
def test_program_has_the_bits_of_the_rounded_module(family: str, mode: str) -> None:
    """Every kind of layer, any number of threads; all that is stored has 16 bits."""
    layers = FAMILIES[family]()
    module = Several(layer for layer, _ in layers).eval()
    inputs = tuple(torch.randint(0, 40, shape) if family == "tables" else torch.randn(shape) for _, shape in layers)
    program = export(module, inputs, quantize=mode)
    arrays = [x.numpy() for x in inputs]
    wanted = bits(bytes(export(round_parameters(module, mode), inputs, growth_bytes=0)), *arrays)
    for threads in (1, 3):
        assert bits(bytes(program), *arrays, threads=threads) == wanted
    stored = [tensor for tensor in program.spec.tensors if len(tensor.data) > 64]
    assert stored
    assert all(tensor.dtype in HALVES for tensor in stored)
    report = program.quantization
    assert report is not None
    assert not report.kept_float
    assert {layer.precision for layer in report.layers} == {mode.replace("_", " ")}
    assert all(layer.snr_db is None or layer.snr_db > 50 for layer in report.layers)
    assert is_quantized(bytes(program))


def test_folded_weights_are_rounded_as_the_program_has_them() -> None:
    """A norm is folded first; the program is close to the module."""
    module = nn.Sequential(nn.Conv2d(8, 24, 3), nn.BatchNorm2d(24), nn.ReLU()).eval()
    x = torch.randn(1, 8, 9, 9)
    program = export(module, (x,), quantize="float16_weights")
    assert [t.dtype for t in program.spec.tensors if t.data] == [DType.F16]
    (seen,) = load(bytes(program))(x.numpy())
    np.testing.assert_allclose(seen, module(x).detach().numpy(), atol=4e-3)


def test_layers_that_float16_cannot_hold_stay_float32() -> None:
    """Too large, too small, not finite, or sharing a weight with one of these; the report says which."""
    layers = [nn.Linear(20, 20) for _ in range(5)]
    layers[1].bias.data *= 1e6
    layers[2].weight.data *= 1e-6
    layers[2].bias.data *= 1e-6
    layers[3].bias.data[0] = float("inf")
    layers[4].weight = layers[1].weight
    module = nn.Sequential(*layers).eval()
    x = torch.randn(2, 20)
    report = export(module, (x,), quantize="float16_weights").quantization
    assert report is not None
    reasons = [layer.reason for layer in report.layers]
    assert reasons[0] == ""
    assert "beyond the largest float16" in reasons[1]
    assert "too small for float16" in reasons[2]
    assert "not finite" in reasons[3]
    assert "shares a weight with 1," in reasons[4]
    report = export(module, (x,), quantize="bfloat16_weights").quantization
    assert report is not None
    assert [bool(layer.reason) for layer in report.layers] == [False, False, False, True, False]


def test_modules_without_such_weights_are_refused() -> None:
    """The program would be the float32 one."""
    with pytest.raises(QuantizationError, match="16 bits"):
        export(nn.ReLU(), (torch.randn(3),), quantize="float16_weights")


@pytest.mark.parametrize("dtype", TYPES.values())
def test_weights_of_a_cast_module_keep_their_16_bits(dtype: torch.dtype) -> None:
    """Without being asked, and without loss; those of a module in double stay float32."""
    module = nn.Sequential(nn.Linear(30, 40), nn.LayerNorm(40), nn.Linear(40, 9)).eval()
    x = torch.randn(4, 30)
    half = module.to(dtype)
    program = export(half, (x.to(dtype),), cast="float32")
    wide = bytes(export(copy.deepcopy(half).float(), (x,)))
    assert bits(bytes(program), x.numpy()) == bits(wide, x.numpy())
    assert len(bytes(program)) < len(wide)
    assert program.quantization is None
    state = load_state(program.spec)
    for name, parameter in half.named_parameters():
        np.testing.assert_array_equal(state[name], parameter.float().detach().numpy())
    double = export(copy.deepcopy(half).double(), (x.double(),), cast="float32")
    assert not any(tensor.dtype in HALVES for tensor in double.spec.tensors)


def test_methods_and_sizes_that_vary_have_them_too() -> None:
    """One constant for two methods."""
    module = nn.Linear(48, 40).eval()
    shapes = {"input": {0: Dim("n", max=9)}}
    methods = {"many": Method(module, (torch.randn(4, 48),), shapes), "one": Method(module, (torch.randn(1, 48),))}
    program = bytes(export(methods, quantize="bfloat16_weights"))
    model, plain = (
        load(program),
        load(bytes(export(round_parameters(module, "bfloat16_weights"), (torch.randn(1, 48),)))),
    )
    x = np.random.default_rng(1).standard_normal((7, 48), np.float32)
    many = model.session().run("many", x)[0]
    for row, values in zip(many, x, strict=True):
        (wanted,) = plain(values[None])
        np.testing.assert_array_equal(row, wanted[0])
        np.testing.assert_array_equal(model.session().run("one", values[None])[0][0], wanted[0])
    assert len(program) < 16384 + 2 * 49 * 48 + 4096
