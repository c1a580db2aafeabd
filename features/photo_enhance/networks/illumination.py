"""The network that brightens: Ma et al., "Toward fast, flexible, and robust low-light image enhancement" (2022)."""

import torch
from torch import Tensor, nn

CHANNELS = 3


class SelfCalibratedIllumination(nn.Module):
    """Estimates how much light a picture lacks; 265 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.in_conv = nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1))
        self.conv = nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS))
        self.out_conv = nn.Sequential(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1))

    def forward(self, picture: Tensor) -> Tensor:
        """Return what the light is above the picture, f32 [n, 3, height, width] in [0, 1]: light = picture + it.

        Args:
            picture: f32 [n, 3, height, width] in [0, 1].
        """
        found = torch.relu(self.in_conv(picture))
        residual: Tensor = torch.sigmoid(self.out_conv(found + torch.relu(self.conv(found))))
        return residual


def relight(picture: Tensor, residual: Tensor) -> Tensor:
    """Return the picture in the light that it lacks, in [0, 1]: Retinex, picture / light."""
    return torch.clamp(picture / torch.clamp(picture + residual, 0.0001, 1), 0, 1)
