"""Smooths a picture along the edges of another one: the guided filter, which gives coarse masks soft and true edges."""

from typing import Final

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from torch import Tensor, nn

__all__ = ["GuidedFilter", "box_mean"]

_COLORS: Final = 3


def box_mean(image: Tensor, radius: int) -> Tensor:
    """Return the mean of each pixel's window of (2 radius + 1)^2, of which only what is in the picture counts.

    Args:
        image: f32 [batch, channels, height, width].
        radius: in pixels, >= 0; must be below twice a side plus one.

    Raises:
        ValueError: the radius is negative.
    """
    if radius < 0:
        raise ValueError(f"radius must be 0 pixels or more, not {radius}")
    if radius == 0:
        return image
    # Windows are rectangles also at the edge, so the mean of rows' means is the mean of all.
    for kernel, padding in (((1, 2 * radius + 1), (0, radius)), ((2 * radius + 1, 1), (radius, 0))):
        image = F.avg_pool2d(image, kernel, 1, padding, count_include_pad=False)
    return image


class GuidedFilter(nn.Module):
    """The guided filter: in each window the answer is a linear function of the guide.

    Args:
        radius: of the windows, in pixels of the guide after `subsampling`, >= 1.
        eps: variance of the guide, in its own units squared, below which a window is smoothed.
        subsampling: windows are computed on pictures smaller by this factor (He and Sun 2015), >= 1; the guide's
            edges stay those of full size.

    Raises:
        ValueError: a number is out of its range.

    Source: He, Sun, Tang 2013, "Guided Image Filtering", equations 5, 6, 8 (gray guide), 14 to 16 (colors); He, Sun
        2015, "Fast Guided Filter", arXiv:1505.00996.
    """

    def __init__(self, radius: int, eps: float, *, subsampling: int = 1) -> None:
        super().__init__()
        if radius < 1:
            raise ValueError(f"radius must be 1 pixel or more, not {radius}")
        if not 0 < eps < float("inf"):
            raise ValueError(f"eps must be above 0 and finite, not {eps}")
        if subsampling < 1:
            raise ValueError(f"subsampling must be 1 or more, not {subsampling}")
        self.radius, self.eps, self.subsampling = radius, eps, subsampling

    def forward(self, guide: Tensor, image: Tensor) -> Tensor:
        """Return the image, smoothed along the edges of the guide.

        Args:
            guide: f32 [batch, 1 or 3, height, width].
            image: f32 [batch, 1, h, w]: of the guide's size, or coarser: then it is spread over the guide first.

        Returns:
            f32 [batch, 1, height, width].

        Raises:
            ValueError: the guide has another number of channels, or the image more than one.
        """
        if guide.shape[1] not in {1, _COLORS} or image.shape[1] != 1:
            raise ValueError(f"a guide of 1 or 3 channels and an image of 1, not {guide.shape[1]} and {image.shape[1]}")
        size = [max(1, side // self.subsampling) for side in guide.shape[2:]]
        small = guide if list(guide.shape[2:]) == size else F.interpolate(guide, size, mode="bilinear")
        target = image if list(image.shape[2:]) == size else F.interpolate(image, size, mode="bilinear")
        slope, offset = self._fit(small, target)
        slope, offset = box_mean(slope, self.radius), box_mean(offset, self.radius)
        if list(guide.shape[2:]) != size:
            slope = F.interpolate(slope, guide.shape[2:], mode="bilinear")
            offset = F.interpolate(offset, guide.shape[2:], mode="bilinear")
        return (slope * guide).sum(1, keepdim=True) + offset

    def _fit(self, guide: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
        """Return slopes [batch, channels, h, w] and offsets [batch, 1, h, w] of each window."""
        mean, target = box_mean(guide, self.radius), box_mean(image, self.radius)
        covariance = box_mean(guide * image, self.radius) - mean * target
        if guide.shape[1] == 1:
            slope = covariance / (box_mean(guide * guide, self.radius) - mean * mean + self.eps)
        else:
            slope = self._solve(guide, mean, covariance)
        return slope, target - (slope * mean).sum(1, keepdim=True)

    def _solve(self, guide: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
        """Return (variance + eps I)^-1 covariance of each window, by the adjugate of the symmetric 3 x 3 matrix."""
        pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
        products = torch.cat([guide[:, i : i + 1] * guide[:, j : j + 1] for i, j in pairs], 1)
        means = torch.cat([mean[:, i : i + 1] * mean[:, j : j + 1] for i, j in pairs], 1)
        rr, rg, rb, gg, gb, bb = (box_mean(products, self.radius) - means).chunk(6, 1)
        rr, gg, bb = rr + self.eps, gg + self.eps, bb + self.eps
        a, b, c = gg * bb - gb * gb, gb * rb - rg * bb, rg * gb - gg * rb
        d, e, f = rr * bb - rb * rb, rb * rg - rr * gb, rr * gg - rg * rg
        determinant = rr * a + rg * b + rb * c
        x, y, z = covariance.chunk(3, 1)
        slopes = torch.cat([a * x + b * y + c * z, b * x + d * y + e * z, c * x + e * y + f * z], 1)
        return slopes / determinant
