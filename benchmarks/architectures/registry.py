"""Collects the architectures to try, one entry a model; the modules beside this one list their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

MODULES: Final = (
    "convnets", "dense", "transformers_vision", "transformers_text", "decoders", "speech", "audio", "ranking",
    "recognition", "spectral", "families",
)  # fmt: skip

Call = tuple[Tensor, ...]


@dataclass(frozen=True)
class Architecture:
    """A model that must export.

    Attributes:
        name: unique, as the literature writes it in lower case.
        family: what it is for.
        build: makes the module; called right after seeding torch.
        inputs: makes the arguments of one or more calls in a row (state is kept between them); called after seeding.
        is_small: part of the tests; the others are tried by the command alone.
    """

    name: str
    family: str
    build: Callable[[], nn.Module]
    inputs: Callable[[], list[Call]]
    is_small: bool = True

    def make(self) -> tuple[nn.Module, list[Call]]:
        """Return the module in eval mode and its calls; the same ones every time."""
        torch.manual_seed(7)
        module = self.build().eval()
        enliven(module)
        torch.manual_seed(8)
        calls = self.inputs()
        settle(module, calls[0])
        return module, calls


NORMALISING: Final = (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d)
WEIGHED: Final = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.ConvTranspose1d, nn.ConvTranspose2d)


@torch.no_grad()
def enliven(module: nn.Module) -> None:
    """Give a fresh module numbers as training leaves them, so that a mistake anywhere shows in its outputs.

    Layers get weights that keep the size of activations, normalisation gets statistics, embeddings spread, and
    what was filled with one number (scales, biases, tokens, positions) varies around it.
    """
    for layer in module.modules():
        mean, variance = getattr(layer, "running_mean", None), getattr(layer, "running_var", None)
        if isinstance(mean, Tensor) and isinstance(variance, Tensor):
            mean.normal_(0.0, 0.1)
            variance.uniform_(0.5, 1.5)
        if isinstance(layer, NORMALISING) and isinstance(layer.weight, Tensor):
            layer.weight.uniform_(0.5, 1.5)
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
            layer.weight.normal_(0.0, 0.7)
        elif isinstance(layer, WEIGHED) and "weight" in layer._parameters:  # noqa: SLF001 - a normalised one is computed
            layer.weight.normal_(0.0, 1.2 / layer.weight[0].numel() ** 0.5)
    for parameter in module.parameters():
        if parameter.numel() > 1 and bool((parameter == parameter.reshape(-1)[0]).all()):
            parameter.add_(torch.randn_like(parameter), alpha=0.2)


@torch.no_grad()
def settle(module: nn.Module, call: Call) -> None:
    """Let batch norm take the statistics of one call, so that signals keep their size through many layers."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]  # noqa: SLF001 - the base of three
    if not layers:
        return
    for layer in layers:
        layer.momentum, layer.training = 0.9, True
    module(*call)
    for layer in layers:
        layer.momentum, layer.training = 0.1, False


def image(*shape: int) -> Callable[[], list[Call]]:
    """Return inputs: one normal tensor."""
    return lambda: [(torch.randn(shape),)]


def tokens(vocabulary: int, *shape: int) -> Callable[[], list[Call]]:
    """Return inputs: one tensor of ids."""
    return lambda: [(torch.randint(1, vocabulary, shape),)]


class Picked(nn.Module):
    """A `transformers` model of which one field of the result is the output; what it takes is named."""

    def __init__(self, model: nn.Module, field: str, names: tuple[str, ...], **fixed: Any) -> None:
        super().__init__()
        self.model = model
        self.field = field
        self.names = names
        self.fixed = fixed

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the field."""
        result = self.model(**dict(zip(self.names, inputs, strict=True)), **self.fixed)
        value: Tensor = getattr(result, self.field)
        return value


@cache
def architectures() -> tuple[Architecture, ...]:
    """Return all entries, in the order of `MODULES`."""
    found = [entry for name in MODULES for entry in import_module(f"benchmarks.architectures.{name}").ARCHITECTURES]
    return tuple(found)
