"""What becomes a program: bytes of a picture in; calibrated scores, embedding and map out."""

import torch
from alcove.features.scene_tags.config import TAGS
from alcove.features.scene_tags.network import SceneNetwork, normalised
from torch import Tensor, nn
from torch.nn import functional


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

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores f32 [1, tags], embedding f32 [1, 128] and map f32 [1, rows, columns].

        The map: of each place, what it adds to each tag, as far as it adds, weighted by the tag's score.

        Args:
            pixels: uint8 [size, size, 3].
        """
        x = normalised(pixels.to(torch.float32)).permute(2, 0, 1).unsqueeze(0)
        found, logits, embedding = self.network.read(x)
        scores = torch.sigmoid(logits * self.slope + self.shift)
        by_tag = functional.relu(functional.conv2d(found, self.network.tags.weight[:, :, None, None]))
        return scores, embedding, (by_tag * scores[:, :, None, None]).sum(dim=1)
