"""Defines what a program computes: a picture's bytes and prompts in, mask, edges and maps out.

forward   the picture, taps, box and the mask so far → mask and edges, and the picture's maps
tap       the maps, gray, taps, box and the mask so far → mask and edges; the decoder alone

No state: the app keeps the maps, so that it may undo a tap or cut several things at once.
"""

import torch
from alcove.features.cutouts.edges import fit_edges
from alcove.features.cutouts.model import CutoutNetwork, Maps
from alcove.features.cutouts.prompts import draw_prompts
from torch import Tensor, nn
from torch.nn import functional

LUMA = (0.299, 0.587, 0.114)
"""Of red, green and blue in gray: ITU-R BT.601."""


class TapModule(nn.Module):
    """Corrects a mask."""

    def __init__(self, network: CutoutNetwork) -> None:
        super().__init__()
        self.decoder = network.decoder

    def forward(  # noqa: PLR0917 - the inputs of the method
        self,
        taps: Tensor,
        box: Tensor,
        before: Tensor,
        gray: Tensor,
        quarter: Tensor,
        eighth: Tensor,
        deep: Tensor,
        near_key: Tensor,
        deep_key: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return mask f32 [MASK, MASK] and edges f32 [2, MASK, MASK]; `answer`.

        Args:
            taps: f32 [TAPS, 3], across, down, and 1 to add, -1 to remove, 0 for none.
            box: f32 [4], left, top, right, bottom; all 0 for none.
            before: f32 [MASK, MASK], the mask so far, or 0.
            gray: of the whole module, as are the others.
            quarter: at stride 4,
            eighth: 8,
            deep: 16.
            near_key: at stride 4,
            deep_key: 16.
        """
        return answer(self.decoder, (quarter, eighth, deep, near_key, deep_key), gray, taps, box, before)


class CutoutModule(nn.Module):
    """Cuts the first time."""

    def __init__(self, network: CutoutNetwork) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("luma", torch.tensor(LUMA)[None, :, None, None])

    def forward(self, pixels: Tensor, taps: Tensor, box: Tensor, before: Tensor) -> tuple[Tensor, ...]:
        """Return mask and edges as `TapModule` does, gray f32 [1, 1, MASK, MASK], and the maps.

        Args:
            pixels: uint8 [SIZE, SIZE, 3].
            taps: see there.
            box: see there.
            before: see there.
        """
        x = (pixels.to(torch.float32) / 128 - 1).permute(2, 0, 1)[None]
        gray = ((functional.avg_pool2d(x, 2) + 1) * 128 / 255 * self.get_buffer("luma")).sum(1, keepdim=True)
        maps = self.network.encode(x)
        mask, edges = answer(self.network.decoder, maps, gray, taps, box, before)
        return mask, edges, gray, *maps


def answer(  # noqa: PLR0917 - as the inputs of the methods
    decoder: nn.Module, maps: Maps, gray: Tensor, taps: Tensor, box: Tensor, before: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the mask, f32 [MASK, MASK] in [0, 1], and slope and offset of alpha over gray, f32 [2, MASK, MASK]."""
    prompts = draw_prompts(taps[None], box[None], before.shape[0] // 2)
    mask = torch.sigmoid(decoder(maps, prompts, functional.avg_pool2d(before[None, None], 2)))
    return mask[0, 0], fit_edges(gray, mask)[0]
