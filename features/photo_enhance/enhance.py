"""Changes photos of any size by a program's methods, with memory for the result and one block or tile.

A block is what a processor's cache holds.  Light, which the program estimates on a small picture, lies linearly between
that picture's pixels.
"""

from typing import Any, Final

import numpy as np
from alcove.features.photo_enhance.answer import EnhanceAnswer, Recipe, decode, prepare, program_path
from alcove.features.photo_enhance.config import BLOCK_COLUMNS, BLOCK_ROWS, DEFAULT_VERSION, TILE_PX
from alcove.features.picture import ALPHA, GREY, check_pixels, check_size, colors_of, resize
from alcove.runtime import Model, load
from alcove.runtime.tiles import run_tiled
from numpy.typing import NDArray

_UPSCALE: Final = {2: ("upscale2", "tiling2"), 4: ("upscale4", "tiling4")}
"""Methods by scale: the network and its tiling."""
_LUMA: Final = np.array([0.299, 0.587, 0.114], np.float32)


class Enhancer:
    """Changes pictures; one for each thread.

    Args:
        model: a program of the feature; None for the one that ships.
        workers: threads for tiles of super-resolution.
    """

    def __init__(self, model: Model | None = None, *, workers: int = 1) -> None:
        self._model = load(program_path(DEFAULT_VERSION)) if model is None else model
        self._workers = workers
        self._forward = self._model.session()
        self._apply = self._model.method("apply").session()

    def analyze(self, pixels: NDArray[Any]) -> EnhanceAnswer:
        """Return what a picture needs.

        Raises:
            PictureError: `picture.check_pixels`.
        """
        return decode(self._forward(*prepare(pixels)))

    def enhance(
        self, pixels: NDArray[Any], recipe: Recipe | None = None, answer: EnhanceAnswer | None = None
    ) -> NDArray[np.uint8]:
        """Return a picture, changed; of the shape that was given, times the scale.  Alpha is kept, grey stays grey.

        Args:
            pixels: `picture.check_pixels`; not changed.
            recipe: how much of what; None for what is suggested, without enlarging.
            answer: to `pixels`, where there is one.

        Raises:
            PictureError: `picture.check_pixels`, or the result would be too large.
        """
        view = check_pixels(pixels)
        height, width, channels = view.shape
        answer = self.analyze(view) if answer is None else answer
        recipe = Recipe(light=answer.light, colors=answer.colors) if recipe is None else recipe
        check_size(width * recipe.scale, height * recipe.scale)
        changed = self._change(view, recipe, answer)
        if recipe.scale > 1:
            larger = self.upscale(changed[..., :3] if channels == ALPHA else changed, recipe.scale)
            if channels == ALPHA:
                alpha = resize(np.repeat(view[..., 3:], 3, axis=2), *larger.shape[:2])[..., :1]
                larger = np.concatenate([larger, alpha], axis=2)
            changed = larger
        return changed.reshape(*changed.shape[:2], *pixels.shape[2:])

    def _change(self, view: NDArray[np.uint8], recipe: Recipe, answer: EnhanceAnswer) -> NDArray[np.uint8]:
        """Return the picture with its light and colours changed, uint8 of the same shape."""
        changed = np.array(view, order="C") if recipe.light == recipe.colors == 0 else np.empty(view.shape, np.uint8)
        if recipe.light == recipe.colors == 0:
            return changed
        height, width, channels = view.shape
        missing: NDArray[np.float32] = vars(answer)["missing_light"]
        table: NDArray[np.float32] = vars(answer)["color_table"]
        strengths = np.array([recipe.light, recipe.colors], np.float32)
        for top in range(0, height, BLOCK_ROWS):
            light = between(missing, top, BLOCK_ROWS, height)
            for left in range(0, width, BLOCK_COLUMNS):
                part = view[top : top + BLOCK_ROWS, left : left + BLOCK_COLUMNS]
                own = between(light.transpose(1, 0, 2), left, BLOCK_COLUMNS, width).transpose(1, 0, 2)
                rows, columns = part.shape[:2]
                block = np.zeros((BLOCK_ROWS, BLOCK_COLUMNS, 3), np.uint8)
                block[:rows, :columns] = colors_of(part)
                whole = self._apply(block, np.ascontiguousarray(own), table, strengths)[0][:rows, :columns]
                to = changed[top : top + rows, left : left + columns]
                to[..., :3] = np.rint(whole @ _LUMA).astype(np.uint8)[..., None] if channels == GREY else whole
                if channels == ALPHA:
                    to[..., 3] = part[..., 3]
        return changed

    def upscale(self, pixels: NDArray[Any], scale: int) -> NDArray[np.uint8]:
        """Return a picture with 2 or 4 times the sides, in tiles; without alpha.

        Args:
            pixels: uint8 [height, width, 3], or grey.
            scale: 2 or 4.

        Raises:
            PictureError: `picture.check_pixels`, or the result would be too large.
            ValueError: another scale.
        """
        if scale not in _UPSCALE:
            raise ValueError(f"scale must be 2 or 4, not {scale}")
        view = check_pixels(pixels)
        height, width, channels = view.shape
        check_size(width * scale, height * scale)
        colors = colors_of(view)
        below, right = max(0, TILE_PX - height), max(0, TILE_PX - width)
        if below or right:
            colors = np.pad(colors, ((0, below), (0, right), (0, 0)), mode="edge")
        network, tiling = _UPSCALE[scale]
        larger = run_tiled(self._model.method(network), colors, workers=self._workers, method=tiling)
        larger = larger[: height * scale, : width * scale]
        return np.rint(larger @ _LUMA).astype(np.uint8)[..., None] if channels == GREY else larger


def between(missing: NDArray[np.float32], first: int, count: int, size: int) -> NDArray[np.float32]:
    """Return light for rows of a picture, linear between the rows of the small one, f32 [count, columns, 3].

    Args:
        missing: f32 [256, columns, 3].
        first: row.
        count: of rows; those beyond the picture have the light of the last.
        size: rows of the picture.
    """
    last = missing.shape[0] - 1
    place = np.clip((np.arange(first, first + count) + 0.5) * ((last + 1) / size) - 0.5, 0, last)
    above = np.minimum(place.astype(np.int64), last - 1)
    share = (place - above).astype(np.float32)[:, None, None]
    found: NDArray[np.float32] = missing[above] * (1 - share) + missing[above + 1] * share
    return found
