"""Defines the network: a frame in, the frame as the style has it out, all styles in one.

    frame [3, h, w] ─▶ conv ↓2 ─▶ conv ↓2 ───────────────┐ skip
          │                       └▶ conv ↓2 ─▶ blocks ─▶ ↑2 conv + skip ─▶ ↑2 conv ─▶ conv, pixels shuffled ↑2
          └──────────────────────────────────────────────────────────────────────────────────────┴▶ sum ─▶ sigmoid

The network starts at a flatter copy of the frame and learns what to add to it: fine detail costs it nothing.  How much
of the frame's red, green and blue is kept is up to the style.

A style is one scale and one shift a channel behind each instance norm: a row of a table, mixed by weights (Dumoulin,
Shlens and Kudlur, "A learned representation for artistic style", 2017).  Norms stand at an eighth of the size alone:
there they cost little, and what is between them can be int8.  Sizes double by repeating pixels before a convolution,
which leaves no checkerboard (Odena, Dumoulin and Olah, "Deconvolution and checkerboard artifacts", 2016).
"""

from typing import Final

import torch
from alcove.features.style_transfer.config import STYLES, ModelConfig
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["ConditionalAffine", "ConditionalNorm", "StyleModule", "StyleNetwork", "one_style"]

STEEPNESS: Final = 3.0
"""Of the frame in the sum before the sigmoid, at the start; 4 would keep the contrast of grays."""
INITIAL_SPREAD: Final = 0.02
"""Standard deviation of the styles' scales around 1 and shifts around 0, at the start: none is like another."""


class ConditionalAffine(nn.Module):
    """Scales and shifts each channel by what a mix of styles says.

    Args:
        channels: of the map.
        styles: rows of the table.
    """

    def __init__(self, channels: int, styles: int) -> None:
        super().__init__()
        self.scale = nn.Linear(styles, channels, bias=False)
        self.shift = nn.Linear(styles, channels, bias=False)
        nn.init.normal_(self.scale.weight, 1.0, INITIAL_SPREAD)
        nn.init.normal_(self.shift.weight, 0.0, INITIAL_SPREAD)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Return f32 [n, channels, rows, columns].

        Args:
            x: of that shape.
            style: f32 [n, styles], weights of sum 1.
        """
        scale, shift = self.scale(style), self.shift(style)
        found: Tensor = x * scale[:, :, None, None] + shift[:, :, None, None]
        return found


class ConditionalNorm(ConditionalAffine):
    """The same behind an instance norm."""

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Return f32 [n, channels, rows, columns]; arguments as `ConditionalAffine`."""
        return super().forward(functional.instance_norm(x), style)


class ResidualBlock(nn.Module):
    """Two convolutions and a conditional norm, added to the input."""

    def __init__(self, channels: int, styles: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = ConditionalNorm(channels, styles)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        """Return a map of the input's shape."""
        found: Tensor = x + self.norm(self.second(functional.relu(self.first(x))), style)
        return found


class StyleNetwork(nn.Module):
    """Paints a frame in a mix of styles.

    Args:
        config: width and depth.
        styles: how many it knows.
    """

    def __init__(self, config: ModelConfig, styles: int = len(STYLES)) -> None:
        super().__init__()
        width = config.width
        self.down_2 = nn.Conv2d(3, width // 2, 3, 2, 1)
        self.down_4 = nn.Conv2d(width // 2, width, 3, 2, 1)
        self.down_8 = nn.Conv2d(width, 2 * width, 3, 2, 1)
        self.norm = ConditionalNorm(2 * width, styles)
        self.blocks = nn.ModuleList(ResidualBlock(2 * width, styles) for _ in range(config.blocks))
        self.up_4 = nn.Conv2d(2 * width, width, 3, padding=1)
        self.color = ConditionalAffine(width, styles)
        self.up_2 = nn.Conv2d(width, width // 2, 3, padding=1)
        self.stroke = ConditionalAffine(width // 2, styles)
        self.paint = nn.Conv2d(width // 2, 12, 3, padding=1)
        self.kept = ConditionalAffine(3, styles)
        nn.init.constant_(self.kept.scale.weight, STEEPNESS)
        nn.init.constant_(self.kept.shift.weight, -0.5 * STEEPNESS)

    def forward(self, frame: Tensor, style: Tensor) -> Tensor:
        """Return the painted frame, f32 [n, 3, h, w] in (0, 1).

        Args:
            frame: f32 [n, 3, h, w], red first, in [0, 1]; h and w multiples of 8.
            style: f32 [n, styles], weights of sum 1.
        """
        skip = functional.relu(self.down_4(functional.relu(self.down_2(frame))))
        x = functional.relu(self.norm(self.down_8(skip), style))
        for block in self.blocks:
            x = block(x, style)
        x = functional.relu(self.color(self.up_4(_double(x)), style)) + skip
        x = functional.relu(self.stroke(self.up_2(_double(x)), style))
        return torch.sigmoid(functional.pixel_shuffle(self.paint(x), 2) + self.kept(frame, style))


class StyleModule(nn.Module):
    """What becomes a program: bytes of a frame in and out, with a slider of strength.

    Args:
        network: with its weights.
    """

    def __init__(self, network: StyleNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, frame: Tensor, style: Tensor, strength: Tensor) -> Tensor:
        """Return the frame to show, uint8 [h, w, 3].

        Args:
            frame: uint8 [h, w, 3], red first; h and w multiples of 8.
            style: f32 [1, styles], weights of sum 1.
            strength: f32 [1], 0 the frame as it is, 1 painted.
        """
        pixels = frame.permute(2, 0, 1)[None].to(torch.float32) / 255.0
        painted = self.network(pixels, style)
        shown = pixels + strength * (painted - pixels)
        return (torch.clamp(shown, 0.0, 1.0) * 255.0 + 0.5).to(torch.uint8)[0].permute(1, 2, 0)


def _double(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


def one_style(number: int, styles: int = len(STYLES)) -> Tensor:
    """Return the weights of one style alone, f32 [1, styles]."""
    weights = torch.zeros(1, styles)
    weights[0, number] = 1.0
    return weights
