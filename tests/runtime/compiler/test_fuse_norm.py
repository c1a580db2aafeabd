"""Norms and activations written out by hand become one operator each, and norms take over the bounds after them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import export, load
from torch import Tensor, nn
from torch.export import Dim

from tests.runtime.compiler.fusing import Of, fuse_ops

X = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(1)) * 3
WEIGHT = torch.randn(6, generator=torch.Generator().manual_seed(2))
SHIFT = torch.randn(6, generator=torch.Generator().manual_seed(3))
EPS = 1e-5


def center(x: Tensor) -> Tensor:
    """Without its mean."""
    return x - x.mean(-1, keepdim=True)


def layer(x: Tensor) -> Tensor:
    """A layer norm with one deviation for its square and its result."""
    d = center(x)
    return d / torch.sqrt(d.pow(2).mean(-1, keepdim=True) + EPS)


NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "rms": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS),
    "rms of a product": lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * WEIGHT,
    "rms divided": lambda x: WEIGHT * (x / torch.sqrt((x**2).mean(dim=-1, keepdim=True) + EPS)),
    "rms by a reciprocal": lambda x: (1 / torch.sqrt(x.square().mean(-1, keepdim=True) + EPS)) * x,
    "rms with a mean that is widened": lambda x: x * torch.rsqrt(x.square().mean(-1).unsqueeze(-1) + EPS),
    "rms over two dimensions": lambda x: x * torch.rsqrt(x.square().mean((-2, -1), keepdim=True) + EPS),
    "rms with one more": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * (1 + WEIGHT) + SHIFT,
    "layer": layer,
    "layer with weights": lambda x: layer(x) * WEIGHT + SHIFT,
    "layer with wide weights": lambda x: WEIGHT.view(1, 1, 6) * layer(x) + SHIFT,
    "layer with two deviations": lambda x: (
        center(x) * torch.rsqrt((center(x) ** 2).mean(-1, keepdim=True) + EPS) * WEIGHT
    ),
    "layer with a variance": lambda x: (
        (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + EPS) * WEIGHT + SHIFT
    ),
}


@pytest.mark.parametrize("form", NORMS)
def test_norms_by_hand_are_one_operator(form: str) -> None:
    """With mean and without, with weights on either side."""
    assert fuse_ops(NORMS[form], X) == {"layer_norm": 1}


def test_channels_first_norm_of_images() -> None:
    """Between convolutions the channels lie last, so it is over rows."""

    def norm(x: Tensor, a: nn.Module, b: nn.Module) -> Any:
        x = a(x)
        d = x - x.mean(1, keepdim=True)
        x = d / torch.sqrt(d.pow(2).mean(1, keepdim=True) + 1e-6)
        return b(WEIGHT[:, None, None] * x + SHIFT[:, None, None])

    module = Of(norm, nn.Conv2d(3, 6, 3), nn.Conv2d(6, 4, 1))
    assert fuse_ops(module, torch.randn(1, 3, 9, 7)) == {"conv2d": 2, "layer_norm": 1}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ((m := x.pow(2).mean(-1, keepdim=True)), x * torch.rsqrt(m + EPS)),
        lambda x: x * torch.rsqrt(x.pow(2).mean(-2, keepdim=True) + EPS),
        lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + EPS),
        lambda x: x * torch.sqrt(x.pow(2).mean(-1, keepdim=True) + EPS),
        lambda x: center(x) / torch.sqrt(x.var(-1, keepdim=True) + EPS),
        lambda x: (x + 1) * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS),
    ],
)
def test_what_is_no_norm_or_read_elsewhere_stays(function: Callable[..., Any]) -> None:
    """Another dimension, a sum, a corrected variance, a mean square that is an output."""
    assert fuse_ops(function, X)["layer_norm"] == 0


def test_a_norm_of_varying_rows_and_columns() -> None:
    """The number of elements follows the size."""
    module = Of(lambda x: layer(x) + x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)).eval()
    sizes = (({0: Dim("rows", min=2, max=9), 1: Dim("columns", min=2, max=50)},),)
    program = export(module, (torch.randn(3, 7),), dynamic_shapes=sizes)
    assert [op.name for op in program.spec.ops].count("layer_norm") == 2
    run = load(bytes(program))
    for rows, columns in ((2, 2), (5, 33), (9, 50)):
        x = torch.randn(rows, columns)
        np.testing.assert_allclose(run(x.numpy())[0], module(x).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bound", [F.relu, F.relu6, lambda x: x.clamp(-0.3, 0.7), lambda x: x.clamp(max=0.1)])
def test_norms_take_bounds_over(bound: Callable[[Tensor], Tensor]) -> None:
    """Rows, groups, channels of images; a bound of what others read stays."""
    image = torch.randn(2, 6, 4, 3)
    for norm in (nn.GroupNorm(3, 6), nn.InstanceNorm2d(6)):
        assert fuse_ops(Of(lambda x, n: bound(n(x)), norm), image) == {"group_norm": 1}
    assert fuse_ops(Of(lambda x, n: bound(n(x)), nn.LayerNorm(6)), X) == {"layer_norm": 1}
    assert fuse_ops(Of(lambda x, n: bound(n(x) * 2), nn.LayerNorm(6)), X) == {
        "layer_norm": 1,
        "binary": 1,
        "unary": 1,
    }
    assert fuse_ops(Of(lambda x, n: ((y := n(x)), bound(y)), nn.LayerNorm(6)), X) == {
        "layer_norm": 1,
        "unary": 1,
    }


def test_nan_passes_a_norm_with_bounds() -> None:
    """As it passes a relu of torch."""
    x = X.clone()
    x[1, 2, 3] = math.nan
    assert fuse_ops(Of(lambda x, n: F.relu(n(x)), nn.LayerNorm(6)), x) == {"layer_norm": 1}


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu, a half first": lambda x: 0.5 * (x * (torch.erf(x * 0.70710678) + 1.0)),
    "gelu, halved": lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2,
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3)))),
    "gelu_tanh, factored": lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x))),
    "gelu_tanh, a product": lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
    "silu": lambda x: x * torch.sigmoid(x),
    "silu, gate first": lambda x: torch.sigmoid(x) * x,
    "silu, divided": lambda x: x / (1 + torch.exp(-x)),
    "hardswish": lambda x: x * F.relu6(x + 3) / 6,
    "hardswish, a sixth": lambda x: x * (F.relu6(x + 3) / 6),
    "hardswish, clamped": lambda x: x * (x + 3).clamp(0, 6) * (1 / 6),
    "hardswish, its gate": lambda x: x * F.hardsigmoid(x),
}


@pytest.mark.parametrize("form", ACTIVATIONS)
def test_activations_by_hand_are_one_function(form: str) -> None:
    """Numbers and factors in any order."""
    assert fuse_ops(ACTIVATIONS[form], X) == {"unary": 1}
    module = Of(lambda x, a: ACTIVATIONS[form](a(x)), nn.Linear(6, 4))
    assert fuse_ops(module, X) == {"linear": 1, "unary": 1}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * torch.sigmoid(1.702 * x),
        lambda x: 2 * x * torch.sigmoid(x),
        lambda x: x * torch.sigmoid(x + 1),
        lambda x: x * (1 + torch.erf(x)) * 0.5,
        lambda x: x * F.relu6(x + 3) / 5,
        lambda x: ((gate := torch.sigmoid(x)), x * gate),
    ],
)
def test_other_functions_stay(function: Callable[..., Any]) -> None:
    """Other numbers, or a gate that is an output."""
    assert fuse_ops(function, X)["binary"] >= 1
