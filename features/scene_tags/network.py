"""Defines the network, and the plain network that it is compared with.

    picture → 3x3, halving → [3x3, halving or not → inverted residuals] x stages → 1x1 → mean → tags
                                                                                              → embedding

An inverted residual widens, convolves each channel by itself, weighs the channels (squeeze and excite) and narrows:
Howard et al., "Searching for MobileNetV3" (2019).  Halving by a whole 3x3 convolution: Tan and Le, "EfficientNetV2"
(2021).  The plain network has 3x3 convolutions, batch norm and ReLU only: Simonyan and Zisserman (2014).
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import torch
from alcove.features.scene_tags.config import CLASSES, EMBEDDING, TAGS, ModelConfig
from torch import Tensor, nn
from torch.nn import functional

CLASS_SCALE: Final = 16.0
"""Of cosines between an embedding and the classes of training, before their softmax."""
KINDS: Final = ("scene_tags", "plain")


def convolution(
    inputs: int, outputs: int, kernel: int, act: nn.Module, *, stride: int = 1, groups: int = 1
) -> nn.Module:
    """Return a convolution with batch norm and its function."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(outputs), act
    )


class SqueezeExcite(nn.Module):
    """Weighs channels by what all of the picture holds; f32 [n, channels, h, w] to the same."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, channels // 4, 1)
        self.expand = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the weighed channels."""
        squeezed = functional.adaptive_avg_pool2d(x, 1)
        return x * functional.hardsigmoid(self.expand(functional.relu(self.reduce(squeezed))))


class InvertedResidual(nn.Module):
    """Adds to a feature map what a wide, cheap detour finds; f32 [n, channels, h, w] to the same."""

    def __init__(self, channels: int, expansion: int, *, squeezes: bool) -> None:
        super().__init__()
        wide = channels * expansion
        act = nn.Hardswish if squeezes else nn.ReLU
        self.layers = nn.Sequential(
            convolution(channels, wide, 1, act()),
            convolution(wide, wide, 3, act(), groups=wide),
            SqueezeExcite(wide) if squeezes else nn.Identity(),
            convolution(wide, channels, 1, nn.Identity()),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum."""
        detour: Tensor = self.layers(x)
        return x + detour


def features_of(config: ModelConfig) -> tuple[nn.Sequential, int]:
    """Return the layers to the last feature map, and its channels."""
    layers: list[nn.Module] = [convolution(3, config.widths[0], 3, nn.Hardswish(), stride=2)]
    before = config.widths[0]
    stages = zip(config.widths[1:], config.depths, config.expansions, config.strides, strict=True)
    for stage, (width, depth, expansion, stride) in enumerate(stages):
        layers.append(convolution(before, width, 3, nn.Identity(), stride=stride))
        layers += [InvertedResidual(width, expansion, squeezes=stage > 0) for _ in range(depth)]
        before = width
    layers.append(convolution(before, config.head, 1, nn.Hardswish()))
    return nn.Sequential(*layers), config.head


def plain_features_of(widths: Sequence[int], strides: Sequence[int]) -> tuple[nn.Sequential, int]:
    """Return the plain network's layers to its last feature map, and its channels."""
    layers: list[nn.Module] = [convolution(3, widths[0], 3, nn.ReLU(), stride=2)]
    for (before, width), stride in zip(pairwise(widths), strides, strict=True):
        layers += [convolution(before, width, 3, nn.ReLU(), stride=stride), convolution(width, width, 3, nn.ReLU())]
    return nn.Sequential(*layers), widths[-1]


class SceneNetwork(nn.Module):
    """Feature map, and what is read from it.

    Args:
        config: shape.
        kind: "scene_tags" or "plain".
    """

    def __init__(self, config: ModelConfig, kind: str = "scene_tags") -> None:
        super().__init__()
        is_plain = kind == "plain"
        self.features, channels = plain_features_of(config.plain, config.strides) if is_plain else features_of(config)
        self.tags = nn.Linear(channels, len(TAGS))
        self.embedding = nn.Linear(channels, EMBEDDING)
        self.classes = nn.Linear(EMBEDDING, CLASSES, bias=False)

    def read(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return feature map [n, c, h, w], logits of tags [n, tags] and embeddings of length 1 [n, 128] of pictures.

        Args:
            x: f32 [n, 3, height, width], about in [-2, 2].
        """
        found: Tensor = self.features(x)
        mean = functional.adaptive_avg_pool2d(found, 1).flatten(1)
        return found, self.tags(mean), functional.normalize(self.embedding(mean), dim=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return what training needs: logits of tags [n, tags] and of classes [n, classes]."""
        _, tags, embedding = self.read(x)
        return tags, CLASS_SCALE * functional.linear(embedding, functional.normalize(self.classes.weight, dim=1))


def normalize(pixels: Tensor) -> Tensor:
    """Return f32 pictures [n, 3, h, w] about in [-2, 2] of such in [0, 255]."""
    return pixels * (1 / 63.75) - 2.0


def multiply_adds(network: SceneNetwork, size: int) -> int:
    """Return the multiply-adds of one picture of size x size pixels; the classes of training are not counted."""
    total = 0

    def count(layer: nn.Module, _: object, out: Tensor) -> None:
        nonlocal total
        if isinstance(layer, nn.Conv2d):
            total += layer.weight.numel() * out.shape[2] * out.shape[3]
        elif isinstance(layer, nn.Linear):
            total += layer.weight.numel()

    hooks = [layer.register_forward_hook(count) for layer in network.modules()]
    was_training = network.training
    with torch.no_grad():
        network.eval().read(torch.zeros(1, 3, size, size))
    network.train(was_training)
    for hook in hooks:
        hook.remove()
    return total
