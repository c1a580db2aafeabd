"""Defines what a program computes: a frame's bytes in, its matte out, with the state of the stream in buffers.

Where the picture did not change the matte follows slowly, and at once where it did: a filter of first order whose gain
follows the change of the picture.  So noise of the camera does not make edges flicker, and what moves is not smeared.
When most of the picture changes at once (a cut, another camera, another size) the stream begins anew by itself.
"""

from typing import Final

import torch
from alcove.features.background.config import HEIGHT, WIDTH
from alcove.features.background.model import BackgroundNetwork
from torch import Tensor, nn
from torch.nn import functional

LEAST_GAIN: Final = 0.25
"""Share of a new matte where the picture did not change."""
STILL: Final = 0.035
"""Mean change of red, green and blue, of values in [-1, 1], up to which a place counts as unchanged: noise."""
MOVED: Final = 0.1
"""And from which on only the new matte counts."""
SAME_SCENE: Final = 0.15
"""Mean change of the whole picture up to which a frame belongs to the scene before,"""
NEW_SCENE: Final = 0.25
"""and from which on it begins one."""


class BackgroundModule(nn.Module):
    """A frame to its matte.

    Args:
        network: trained.
    """

    before: Tensor
    picture: Tensor
    seen: Tensor

    def __init__(self, network: BackgroundNetwork) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("before", torch.zeros(1, 1, HEIGHT, WIDTH))
        self.register_buffer("picture", torch.zeros(1, 3, HEIGHT // 2, WIDTH // 2))
        self.register_buffer("seen", torch.zeros(1, 1, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        """Return the matte, f32 [HEIGHT, WIDTH] in [0, 1]: 1 where there are people.

        Args:
            pixels: uint8 [HEIGHT, WIDTH, 3], red, green, blue.
        """
        x = (pixels.to(torch.float32) / 128 - 1).permute(2, 0, 1)[None]
        small = functional.avg_pool2d(x, 2)
        change = torch.abs(small - self.picture).mean(1, keepdim=True)
        cut = torch.clamp((change.mean((2, 3), keepdim=True) - SAME_SCENE) / (NEW_SCENE - SAME_SCENE), 0, 1)
        known = self.seen * (1 - cut)
        matte = torch.sigmoid(self.network(x, functional.avg_pool2d(self.before, 4) * known))
        moved = torch.clamp((functional.avg_pool2d(change, 3, 1, 1) - STILL) / (MOVED - STILL), 0, 1)
        gain = torch.clamp(functional.max_pool2d(moved, 3, 1, 1) + (1 - known), LEAST_GAIN, 1)
        gain = functional.interpolate(gain, scale_factor=2.0, mode="nearest")
        mixed = self.before + gain * (matte - self.before)
        self.before.copy_(mixed)
        self.picture.copy_(small)
        self.seen.copy_(torch.ones_like(self.seen))
        return mixed[0, 0]
