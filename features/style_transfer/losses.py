"""Defines the losses: a painting's manner, what the frame shows, smoothness, and that a moving picture does not boil.

    manner      Gram matrices of MobileNetV2's maps, against the painting's (Gatys, Ecker and Bethge, "Image style
                transfer using convolutional neural networks", 2016; Johnson, Alahi and Fei-Fei, "Perceptual losses for
                real-time style transfer", 2016), each relative to the painting's own, so that styles weigh alike
    content     a map in the middle, against the frame's
    time        the painted second frame, against the painted first one moved as the camera moved (Ruder, Dosovitskiy
                and Brox, "Artistic style transfer for videos", 2016; motion is known here, since it is made)

The maps are the widened ones behind a relu6, as the VGG network's maps are in those works: the narrow ones between
MobileNetV2's blocks are linear, and their Gram matrices say less.
"""

from pathlib import Path
from typing import Final

import torch
from alcove.features.scene_tags.networks.mobilenet_v2 import InvertedResidual, MobileNetV2
from torch import Tensor, nn
from torch.nn import functional

__all__ = [
    "PerceptualMaps",
    "camera_motion",
    "content_loss",
    "gram",
    "load_maps",
    "move",
    "style_loss",
    "temporal_loss",
    "variation_loss",
]

WIDE: Final = (1, 3, 6, 10)
"""Blocks whose widened maps are read, at 1/2, 1/4, 1/8 and 1/16 of the size; before them the stem's, at 1/2."""
CONTENT: Final = 3
"""Which of the maps says what a frame shows: at 1/8 of the size."""
LEAST: Final = 1e-8
"""Added to what is divided by."""


class PerceptualMaps(nn.Module):
    """Gives MobileNetV2's maps of pictures.

    Args:
        network: with its weights; they are not trained.
    """

    def __init__(self, network: MobileNetV2) -> None:
        super().__init__()
        self.stem = network.stem
        self.blocks = nn.ModuleList(list(network.blocks)[: WIDE[-1] + 1])
        self.eval().requires_grad_(requires_grad=False)

    def forward(self, pictures: Tensor) -> list[Tensor]:
        """Return maps, finest first.

        Args:
            pictures: f32 [n, 3, h, w], red first, in [0, 1].
        """
        x = functional.relu6(self.stem(pictures * 2.0 - 1.0))
        found = [x]
        for number, block in enumerate(self.blocks):
            if number in WIDE and isinstance(block, InvertedResidual) and block.expand is not None:
                found.append(functional.relu6(block.expand(x)))
                if number == WIDE[-1]:
                    break
            x = block(x)
        return found


def load_maps(folder: Path) -> PerceptualMaps:
    """Return the maps of the published network.

    Args:
        folder: with `mobilenet_v2_imagenet/model.safetensors`.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it holds other tensors than the network has.
    """
    from safetensors.torch import load_file  # noqa: PLC0415 - not a dependency of the feature

    path = folder / "mobilenet_v2_imagenet" / "model.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: --weights is the folder of the published weights")
    network = MobileNetV2()
    network.load_state_dict(load_file(path))
    return PerceptualMaps(network)


def gram(maps: Tensor) -> Tensor:
    """Return the mean product of each two channels, f32 [n, channels, channels], of f32 [n, channels, h, w]."""
    flat = maps.flatten(2)
    return flat @ flat.transpose(1, 2) / flat.shape[2]


def style_loss(maps: list[Tensor], targets: list[Tensor]) -> Tensor:
    """Return by how much Gram matrices differ from a painting's, relative to its own; the mean over maps.

    Args:
        maps: of painted frames, as `PerceptualMaps` gives them.
        targets: f32 [1 or n, channels, channels], one for each map.
    """
    parts = [
        ((gram(each) - target) ** 2).sum((1, 2)) / ((target**2).sum((1, 2)) + LEAST)
        for each, target in zip(maps, targets, strict=True)
    ]
    return torch.stack(parts).mean()


def content_loss(maps: list[Tensor], shown: list[Tensor]) -> Tensor:
    """Return by how much a painted frame shows something else, relative to the energy of what the frame shows."""
    painted, frame = maps[CONTENT], shown[CONTENT]
    return functional.mse_loss(painted, frame) / ((frame**2).mean() + LEAST)


def variation_loss(pictures: Tensor) -> Tensor:
    """Return the mean square of the difference of neighbors, of f32 [n, channels, rows, columns]."""
    down = (pictures[:, :, 1:] - pictures[:, :, :-1]) ** 2
    right = (pictures[:, :, :, 1:] - pictures[:, :, :, :-1]) ** 2
    return down.mean() + right.mean()


def camera_motion(count: int, generator: torch.Generator, *, shift: float = 0.06, zoom: float = 0.03) -> Tensor:
    """Return how a camera moves between two frames, f32 [count, 2, 3]: `torch.nn.functional.affine_grid`'s matrices.

    Args:
        count: of motions.
        generator: of chance.
        shift: farthest, in halves of the frame's side.
        zoom: largest change of size, and of angle in radians.
    """
    drawn = torch.rand(count, 4, generator=generator) * 2.0 - 1.0
    size, angle = 1.0 + zoom * drawn[:, 0], zoom * drawn[:, 1]
    cosine, sine = size * torch.cos(angle), size * torch.sin(angle)
    across, along = shift * drawn[:, 2], shift * drawn[:, 3]
    return torch.stack((torch.stack((cosine, -sine, across), 1), torch.stack((sine, cosine, along), 1)), 1)


def move(pictures: Tensor, motion: Tensor) -> tuple[Tensor, Tensor]:
    """Return pictures as the moved camera sees them, and where it sees something, f32 [n, 1, rows, columns] of 0 and 1.

    Args:
        pictures: f32 [n, channels, rows, columns].
        motion: as `camera_motion` gives it.
    """
    grid = functional.affine_grid(motion, list(pictures.shape), align_corners=False)
    moved = functional.grid_sample(pictures, grid, padding_mode="reflection", align_corners=False)
    is_seen = (grid.abs() <= 1.0).all(-1)[:, None]
    return moved, is_seen.to(pictures.dtype)


def temporal_loss(first: Tensor, second: Tensor, motion: Tensor) -> Tensor:
    """Return the mean square by which the painted second frame is not the painted first one moved, where both are seen.

    Args:
        first: f32 [n, 3, rows, columns], painted.
        second: of that shape, painted, of the frame that `move` gave.
        motion: between them.
    """
    expected, is_seen = move(first, motion)
    return (((second - expected) ** 2) * is_seen).sum() / (is_seen.sum() * first.shape[1] + LEAST)
