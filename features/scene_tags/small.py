"""Defines the small variant: the first blocks of MobileNetV2 at 128 x 128, and layers that learned from the full one.

    picture 352 x 352 → 128 x 128 → blocks 0 to 14, the last two of them dilated → 8 x 8 places of 640 → tags, embedding

The last blocks keep the map at a sixteenth of the size and look as far by dilation (Chen et al., "Rethinking atrous
convolution", 2017): things are small at 128 pixels.
"""

from typing import Final

import torch
from alcove.features.scene_tags.config import EMBEDDING, KNOWN
from alcove.features.scene_tags.model import embed, map_of, signs
from alcove.features.scene_tags.networks.blaze_face import BlazeFace
from alcove.features.scene_tags.networks.mobilenet_v2 import InvertedResidual, MobileNetV2
from alcove.features.scene_tags.tags import TAGS
from torch import Tensor, nn
from torch.nn import functional

SIZE: Final = 128
BLOCKS: Final = 15
DILATED_FROM: Final = 13
CHANNELS: Final = 160
HEAD: Final = 640


class SmallModule(nn.Module):
    """The small variant.

    Args:
        mobilenet: whose first blocks it begins with.
        faces: with its weights.
    """

    def __init__(self, mobilenet: MobileNetV2, faces: BlazeFace) -> None:
        super().__init__()
        self.stem = mobilenet.stem
        self.blocks = nn.Sequential(*list(mobilenet.blocks)[:BLOCKS])
        for at, block in enumerate(list(self.blocks)[DILATED_FROM:]):
            if not isinstance(block, InvertedResidual):
                raise TypeError(f"blocks are inverted residuals, not {type(block).__name__}")
            block.depthwise.stride = (1, 1)
            block.depthwise.dilation = (2, 2) if at else (1, 1)
            block.depthwise.padding = block.depthwise.dilation
        self.head = nn.Conv2d(CHANNELS, HEAD, 1)
        self.tags = nn.Linear(HEAD, len(TAGS))
        self.document = nn.Linear(HEAD, 1)
        self.embedding = nn.Linear(HEAD, EMBEDDING)
        self.known = nn.Linear(EMBEDDING, KNOWN, bias=False)
        self.faces = faces

    def read(self, picture: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits of tags at each place f32 [n, 64, tags], logits of a document [n] and directions [n, 128].

        Args:
            picture: f32 [n, 3, 128, 128] in [-1, 1].
        """
        found = functional.relu6(self.head(self.blocks(functional.relu6(self.stem(picture)))))
        mean = found.mean((2, 3))
        return self.tags(found.flatten(2).transpose(1, 2)), self.document(mean)[:, 0], self.embedding(mean)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return what `SceneModule` does, from the same picture."""
        picture = pixels.to(torch.float32).permute(2, 0, 1).unsqueeze(0)
        # Linear between four pixels at once is their mean.
        half = functional.interpolate(picture, scale_factor=0.5, mode="bilinear")
        whole = functional.interpolate(half, (SIZE, SIZE), mode="bilinear") * (1 / 127.5) - 1
        at_places, document, direction = self.read(whole)
        scores = torch.sigmoid(pool(at_places))
        embedding, commonness = embed(direction, self.known)
        seen = torch.matmul(torch.sigmoid(at_places), (scores * scores).unsqueeze(2))[:, :, 0]
        side = round(at_places.shape[1] ** 0.5)
        return scores, embedding, map_of(seen, side), commonness, signs(self.faces, whole, torch.sigmoid(document))


def pool(at_places: Tensor) -> Tensor:
    """Return logits of the whole, between the mean of the places and the most of them, f32 [n, tags].

    Source: Pinheiro and Collobert, "From image-level to pixel-level labeling with convolutional networks" (2015).

    Args:
        at_places: f32 [n, places, tags].
    """
    most = at_places.amax(1, keepdim=True)
    return (torch.log(torch.exp(at_places - most).mean(1)) + most[:, 0]).contiguous()
