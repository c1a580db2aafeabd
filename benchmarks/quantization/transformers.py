"""Defines a vision transformer and a ConvNeXt, both small, for 32x32 images.

Sources: Dosovitskiy et al., "An image is worth 16x16 words", ICLR 2021, with the convolutional stem of Xiao et al.,
"Early convolutions help transformers see better", NeurIPS 2021; Liu et al., "A ConvNet for the 2020s", CVPR 2022.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Self-attention over tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, tokens, width]."""
        n, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        result: Tensor = self.out(y.transpose(1, 2).reshape(n, tokens, width))
        return result


class Block(nn.Module):
    """Attention and a multilayer perceptron, each after a norm and beside its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, tokens, width]."""
        x = x + self.attention(self.norm1(x))
        result: Tensor = x + self.mlp(self.norm2(x))
        return result


class VisionTransformer(nn.Module):
    """Of 32x32 images: 64 tokens, three blocks."""

    def __init__(self, classes: int = 10, width: int = 64, heads: int = 2, depth: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, width, 3, 2, 1)
        )
        self.position = nn.Parameter(0.02 * torch.randn(1, 64, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits for f32 [n, 3, 32, 32]."""
        tokens = self.stem(x).flatten(2).transpose(1, 2) + self.position
        result: Tensor = self.head(self.norm(self.blocks(tokens)).mean(1))
        return result


class ConvNeXtBlock(nn.Module):
    """A wide depthwise convolution, a norm over channels, a multilayer perceptron, a scale for each channel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the result for f32 [n, width, height, width]."""
        y = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1))) * self.scale
        result: Tensor = x + y.permute(0, 3, 1, 2)
        return result


class ConvNeXt(nn.Module):
    """Of 32x32 images: three stages of 32, 64 and 128 channels."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        widths = (32, 64, 128)
        layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 2, 2)]
        for stage, width in enumerate(widths):
            if stage > 0:
                layers += [nn.BatchNorm2d(widths[stage - 1]), nn.Conv2d(widths[stage - 1], width, 2, 2)]
            layers += [ConvNeXtBlock(width), ConvNeXtBlock(width)]
        self.layers = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(widths[-1])
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits for f32 [n, 3, 32, 32]."""
        result: Tensor = self.head(self.norm(self.layers(x).mean((2, 3))))
        return result
