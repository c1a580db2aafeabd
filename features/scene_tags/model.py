"""Defines the module that becomes a program: picture bytes in; calibrated scores, embedding, map, commonness out."""

from typing import Final

import torch
from alcove.features.scene_tags.config import TAGS
from alcove.features.scene_tags.network import SceneNetwork, normalize
from torch import Tensor, nn
from torch.nn import functional

NOTHING: Final = 0.5
"""Added to the sum of a map, which is about 10: where nothing adds to any tag the map is nearly 0, not noise."""


SHORTEST: Final = 1e-12
"""Length of an embedding before it is made 1, at least; as `torch.nn.functional.normalize` has it."""


SHARPNESS: Final = 8.0
"""Of the known classes' directions, which pictures are spread about."""


class SceneModule(nn.Module):
    """A network and its calibration.

    Args:
        network: with trained weights.
    """

    def __init__(self, network: SceneNetwork) -> None:
        super().__init__()
        self.network = network
        self.slope = nn.Parameter(torch.ones(len(TAGS)), requires_grad=False)
        self.shift = nn.Parameter(torch.zeros(len(TAGS)), requires_grad=False)
        rows = network.classes.weight.detach()
        self.known = nn.Parameter(rows[rows.norm(dim=1) > 0], requires_grad=False)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return scores f32 [1, tags], embedding f32 [1, 128], map f32 [1, rows, columns] and commonness f32 [1, 1].

        The map: of each place, what it adds to each tag, as far as it adds, weighted by the tag's score; as shares of
        the whole.

        Commonness: how near the embedding is to the classes that are known, log(mean(exp(8 cosine))) / 8.  Up to a
        constant it is what a mixture of von Mises-Fisher distributions about them says, so that a cosine less the
        commonness is a ratio of likelihoods: of the tag, and of everything else (Reynolds, Quatieri and Dunn, "Speaker
        verification using adapted Gaussian mixture models", 2000, for the like of it).

        Args:
            pixels: uint8 [size, size, 3].
        """
        x = normalize(pixels.to(torch.float32)).permute(2, 0, 1).unsqueeze(0)
        found: Tensor = self.network.features(x)
        mean = functional.adaptive_avg_pool2d(found, 1).flatten(1)
        # One, but not known before a picture is: weights that are computed stay float32, and so do what they give. In
        # int8 logits have a hundred values, and ranking by them loses a point to ties; and an embedding's directions
        # are of so different lengths that the short ones would be lost.
        one = mean[:, :1].clamp(1.0, 1.0)
        direction = functional.linear(mean, self.network.embedding.weight * one, self.network.embedding.bias)
        length = torch.linalg.vector_norm(direction, dim=1, keepdim=True)
        embedding = direction / length.clamp_min(SHORTEST)
        cosines = functional.linear(embedding, self.known * one)
        commonness = torch.log(torch.exp(SHARPNESS * cosines).mean(dim=1, keepdim=True)) / SHARPNESS
        logits = functional.linear(mean, self.network.tags.weight * one, self.network.tags.bias)
        scores = torch.sigmoid(logits * self.slope + self.shift)
        by_tag = functional.relu(functional.conv2d(found, self.network.tags.weight[:, :, None, None]))
        added = (by_tag * scores[:, :, None, None]).sum(dim=1)
        return scores, embedding, added / (added.sum(dim=(1, 2), keepdim=True) + NOTHING), commonness
