"""Defines the timed layers and their sizes in torch alone: the peers' environments export the same modules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import nn

SEED: Final = 4
IMAGE: Final = 28
"""Height and width of what convolutions of several channel counts see."""


class Separable(nn.Module):
    """A depthwise 3x3 over 32 channels and a 1x1 to 64, each with a relu."""

    def __init__(self) -> None:
        super().__init__()
        self.deep = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.wide = nn.Conv2d(32, 64, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [1, 64, h, w] of [1, 32, h, w]."""
        deep: torch.Tensor = self.deep(x)
        wide: torch.Tensor = self.wide(torch.relu(deep))
        return torch.relu(wide)


class Attention(nn.Module):
    """Self-attention of width 64 in 4 heads, with its projections."""

    def __init__(self) -> None:
        super().__init__()
        self.project_in, self.project_out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return [1, n, 64] of [1, n, 64]."""
        n = x.shape[1]
        q, k, v = self.project_in(x).reshape(1, n, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        heads = nn.functional.scaled_dot_product_attention(q, k, v)
        project_out: torch.Tensor = self.project_out(heads.transpose(1, 2).reshape(1, n, 64))
        return project_out


@dataclass(frozen=True)
class Curve:
    """One layer at several sizes.

    Attributes:
        name: of files and of the plot.
        title: for people.
        axis: what varies.
        sizes: its values.
        module: makes the layer for a size.
        shape: of its input, at a size.
        flops: multiplications and additions at a size.
        by_threads: whether the size is how many threads run the layer; one does elsewhere.
    """

    name: str
    title: str
    axis: str
    sizes: Sequence[int]
    module: Callable[[int], nn.Module]
    shape: Callable[[int], tuple[int, ...]]
    flops: Callable[[int], int]
    by_threads: bool = False

    def threads(self, size: int) -> int:
        """Return how many threads run a point."""
        return size if self.by_threads else 1

    def model(self, size: int) -> str:
        """Return the name of one point's files."""
        return f"{self.name}_{size}"


CURVES: Final = (
    Curve(
        "conv3x3",
        "3x3 convolution, 28x28, as many channels in as out",
        "channels",
        (16, 32, 64, 128, 256),
        lambda c: nn.Conv2d(c, c, 3, padding=1),
        lambda c: (1, c, IMAGE, IMAGE),
        lambda c: 2 * 9 * c * c * IMAGE * IMAGE,
    ),
    Curve(
        "conv1x1",
        "1x1 convolution, 28x28, as many channels in as out",
        "channels",
        (16, 32, 64, 128, 256, 512),
        lambda c: nn.Conv2d(c, c, 1),
        lambda c: (1, c, IMAGE, IMAGE),
        lambda c: 2 * c * c * IMAGE * IMAGE,
    ),
    Curve(
        "separable",
        "depthwise 3x3 over 32 channels, then 1x1 to 64",
        "height and width",
        (7, 14, 28, 56, 112),
        lambda _: Separable(),
        lambda r: (1, 32, r, r),
        lambda r: 2 * (9 * 32 + 32 * 64) * r * r,
    ),
    Curve(
        "depthwise",
        "depthwise convolution with stride 1, 28x28, 128 channels",
        "kernel",
        (3, 5, 7),
        lambda k: nn.Conv2d(128, 128, k, padding=k // 2, groups=128),
        lambda _: (1, 128, IMAGE, IMAGE),
        lambda k: 2 * k * k * 128 * IMAGE * IMAGE,
    ),
    Curve(
        "doubling",
        "depthwise convolution with stride 2 and two outputs a channel, 56x56, 64 channels",
        "kernel",
        (3, 7),
        lambda k: nn.Conv2d(64, 128, k, 2, padding=k // 2, groups=64),
        lambda _: (1, 64, 2 * IMAGE, 2 * IMAGE),
        lambda k: 2 * k * k * 128 * IMAGE * IMAGE,
    ),
    Curve(
        "grouped",
        "3x3 convolution in groups, 28x28, 128 channels",
        "channels a group",
        (4, 8, 16, 32, 64),
        lambda c: nn.Conv2d(128, 128, 3, padding=1, groups=128 // c),
        lambda _: (1, 128, IMAGE, IMAGE),
        lambda c: 2 * 9 * c * 128 * IMAGE * IMAGE,
    ),
    Curve(
        "attention",
        "self-attention, width 64, 4 heads, projections included",
        "sequence length",
        (8, 32, 128, 256, 512),
        lambda _: Attention(),
        lambda n: (1, n, 64),
        lambda n: 2 * (n * 64 * 256 + 2 * n * n * 64),
    ),
    Curve(
        "batch",
        "two linear layers 256 to 256 with a relu between",
        "batch",
        (1, 2, 4, 16, 64),
        lambda _: nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)),
        lambda b: (b, 256),
        lambda b: 2 * 2 * b * 256 * 256,
    ),
    Curve(
        "threads_conv3x3",
        "3x3 convolution, 28x28, 128 channels, by several threads",
        "threads",
        (1, 2),
        lambda _: nn.Conv2d(128, 128, 3, padding=1),
        lambda _: (1, 128, IMAGE, IMAGE),
        lambda _: 2 * 9 * 128 * 128 * IMAGE * IMAGE,
        by_threads=True,
    ),
    Curve(
        "threads_linear",
        "linear, 64 rows, 512 to 512, by several threads",
        "threads",
        (1, 2),
        lambda _: nn.Linear(512, 512),
        lambda _: (64, 512),
        lambda _: 2 * 64 * 512 * 512,
        by_threads=True,
    ),
)


def build(curve: Curve, size: int) -> nn.Module:
    """Return the layer of a point, with fixed random weights."""
    torch.manual_seed(SEED)
    return curve.module(size).eval().requires_grad_(requires_grad=False)


def inputs(curve: Curve, size: int) -> tuple[torch.Tensor]:
    """Return the input of a point."""
    return (torch.randn(curve.shape(size), generator=torch.Generator().manual_seed(SEED)),)
