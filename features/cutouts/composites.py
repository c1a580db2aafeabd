"""Makes training pictures of photos whose license allows it: crops, things of one photo on another, drawn shapes.

Needs Pillow (the `dev` extra).
"""

import io
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from alcove.features.cutouts.config import TRAINED
from alcove.features.cutouts.dataset import Photo
from numpy.typing import NDArray

LEAST: Final = 0.008
"""Share of a picture from which on a thing in it is trained on."""
DRAWN: Final = 200
"""First number of things that are pasted; those of a photo itself come before."""
CUT: Final = 0.015
"""Share of its photo from which on a thing is cut out to be pasted."""


@dataclass(frozen=True)
class Picture:
    """A training picture.

    Attributes:
        pixels: uint8 [TRAINED, TRAINED, 3].
        objects: uint8 [TRAINED, TRAINED], the number of the thing at each pixel; 0 is background.
        values: numbers of the things that may be trained on.
        salient: the number of the one that stands out, or 0.
    """

    pixels: NDArray[np.uint8]
    objects: NDArray[np.uint8]
    values: tuple[int, ...]
    salient: int


class PictureMaker:
    """Makes training pictures, each a new one.

    Args:
        photos: that may be trained on; they are decoded once.
        seed: of the choices.
    """

    def __init__(self, photos: list[Photo], seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._photos = [(photo.pixels(), photo.objects(), photo.kind) for photo in photos]
        self._cuts: list[NDArray[np.uint8]] = []
        for pixels, objects, _ in self._photos:
            for value in np.unique(objects[objects > 0]):
                if (objects == value).mean() >= CUT:
                    self._cuts.append(_cut(pixels, objects == value))

    def make(self) -> Picture:
        """Return the next picture; it has at least one thing."""
        while True:
            found = self._try()
            if found.values:
                return found

    def _try(self) -> Picture:
        rng = self._rng
        people = rng.random() < 0.5
        while True:
            pixels, objects, kind = self._photos[rng.integers(len(self._photos))]
            if (kind == "people") == people:
                break
        pixels, objects = self._crop(pixels, objects)
        for each in range(int(rng.choice([0, 0, 1, 1, 2, 3]))):
            self._paste(pixels, objects, DRAWN + each)
        pixels = self._spoil(pixels)
        if rng.random() < 0.5:
            pixels, objects = pixels[:, ::-1], objects[:, ::-1]
        return _finish(np.ascontiguousarray(pixels), np.ascontiguousarray(objects))

    def _crop(self, pixels: NDArray[np.uint8], objects: NDArray[np.uint8]) -> tuple[Any, Any]:
        """Return a part of a photo, squeezed into the square, that has most of one of its things."""
        from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

        rng = self._rng
        height, width = objects.shape
        values = [int(each) for each in np.unique(objects[objects > 0])]
        box = (0.0, 0.0, float(width), float(height))
        if values and rng.random() < 0.65:
            value = values[rng.integers(len(values))]
            down, across = np.nonzero(objects == value)
            margin = np.exp(rng.uniform(np.log(0.05), np.log(2.5), 4)) * max(np.ptp(down) + 1, np.ptp(across) + 1)
            if rng.random() < 0.25:
                margin[3] = -rng.uniform(0.1, 0.6) * np.ptp(down)  # head and shoulders
            box = (
                max(0.0, across.min() - margin[0]),
                max(0.0, down.min() - margin[1]),
                min(float(width), across.max() + 1 + margin[2]),
                min(float(height), down.max() + 1 + margin[3]),
            )
            aspect = (box[2] - box[0]) / max(1.0, box[3] - box[1])
            if not 0.5 < aspect < 2.0 or min(box[2] - box[0], box[3] - box[1]) < 32:
                box = (0.0, 0.0, float(width), float(height))
        image = Image.fromarray(pixels).resize((TRAINED, TRAINED), Image.Resampling.BILINEAR, box=box)
        mask = Image.fromarray(objects).resize((TRAINED, TRAINED), Image.Resampling.NEAREST, box=box)
        return np.array(image), np.array(mask)

    def _paste(self, pixels: NDArray[np.uint8], objects: NDArray[np.uint8], value: int) -> None:
        from PIL import Image, ImageFilter  # noqa: PLC0415 - not a dependency of the feature

        rng = self._rng
        if rng.random() < 0.75:
            cut = Image.fromarray(self._cuts[rng.integers(len(self._cuts))])
        else:
            cut = Image.fromarray(self._shape())
        side = TRAINED * np.exp(rng.uniform(np.log(0.2), np.log(0.95)))
        scale = side / max(cut.size)
        size = tuple(max(8, int(each * scale * rng.uniform(0.85, 1.15))) for each in cut.size)
        cut = cut.resize((size[0], size[1]), Image.Resampling.BILINEAR)
        if rng.random() < 0.3:
            cut = cut.rotate(float(rng.uniform(-35, 35)), Image.Resampling.BILINEAR, expand=True)
        if rng.random() < 0.5:
            cut = cut.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.3, 1.0))))
        drawn = np.asarray(cut, np.float32)
        if rng.random() < 0.6:
            drawn = drawn * np.array([*rng.uniform(0.75, 1.25, 3), 1.0], np.float32)
        high, wide = drawn.shape[:2]
        top, left = (
            int(rng.integers(-high // 4, TRAINED - high // 2)),
            int(rng.integers(-wide // 4, TRAINED - wide // 2)),
        )
        rows, columns = slice(max(0, top), min(TRAINED, top + high)), slice(max(0, left), min(TRAINED, left + wide))
        part = drawn[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]
        alpha = np.clip(part[..., 3:] / 255, 0, 1)
        mixed = pixels[rows, columns] * (1 - alpha) + np.clip(part[..., :3], 0, 255) * alpha
        pixels[rows, columns] = mixed.astype(np.uint8)
        objects[rows, columns][alpha[..., 0] > 0.5] = value

    def _shape(self) -> NDArray[np.uint8]:
        """Return a drawn thing: a blob or polygon with the texture of a piece of a photo, or of one color."""
        from PIL import Image, ImageDraw  # noqa: PLC0415 - not a dependency of the feature

        rng = self._rng
        side = 256
        corners = int(rng.integers(3, 14))
        angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
        radius = rng.uniform(0.35, 1.0, corners) if rng.random() < 0.6 else np.ones(corners)
        if rng.random() < 0.5:
            fine = np.linspace(0, 2 * np.pi, 90)
            radius = np.interp(fine, np.concatenate([angles, [2 * np.pi + angles[0]]]), np.append(radius, radius[0]))
            angles = fine
        points = [
            (side / 2 + side / 2.05 * r * np.cos(a), side / 2 + side / 2.05 * r * np.sin(a))
            for a, r in zip(angles, radius, strict=True)
        ]
        mask = Image.new("L", (side, side))
        ImageDraw.Draw(mask).polygon(points, fill=255)
        if rng.random() < 0.6:
            pixels = self._photos[rng.integers(len(self._photos))][0]
            height, width = pixels.shape[:2]
            part = int(rng.integers(20, min(height, width, 160)))
            top, left = int(rng.integers(0, height - part)), int(rng.integers(0, width - part))
            fill = np.asarray(Image.fromarray(pixels[top : top + part, left : left + part]).resize((side, side)))
        else:
            ends = rng.integers(0, 256, (2, 3))
            shade = np.linspace(0, 1, side)[:, None, None] * rng.random()
            fill = np.broadcast_to(ends[0] * (1 - shade) + ends[1] * shade, (side, side, 3))
        return np.dstack([fill.astype(np.uint8), np.asarray(mask)])

    def _spoil(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the picture in another light, and sometimes blurred, noisy or compressed."""
        from PIL import Image, ImageFilter  # noqa: PLC0415 - not a dependency of the feature

        rng = self._rng
        if rng.random() < 0.7:
            light = rng.uniform(0.7, 1.3) * rng.uniform(0.9, 1.1, 3)
            middle = pixels.mean()
            contrast = rng.uniform(0.75, 1.25)
            pixels = np.clip(((pixels - middle) * contrast + middle) * light, 0, 255).astype(np.uint8)
        kind = rng.random()
        if kind < 0.1:
            return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(float(rng.uniform(0.5, 1.5)))))
        if kind < 0.2:
            noise = rng.normal(0, rng.uniform(2, 14), pixels.shape)
            return np.clip(pixels + noise, 0, 255).astype(np.uint8)
        if kind < 0.3:
            data = io.BytesIO()
            Image.fromarray(pixels).save(data, "JPEG", quality=int(rng.integers(30, 85)))
            with Image.open(data) as image:
                return np.array(image)
        return pixels


def _cut(pixels: NDArray[np.uint8], mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    down, across = np.nonzero(mask)
    rows, columns = slice(down.min(), down.max() + 1), slice(across.min(), across.max() + 1)
    return np.dstack([pixels[rows, columns], (mask[rows, columns] * 255).astype(np.uint8)])


def _finish(pixels: NDArray[np.uint8], objects: NDArray[np.uint8]) -> Picture:
    """Return the picture with the things that are large enough, and the one that stands out."""
    values, counts = np.unique(objects[objects > 0], return_counts=True)
    keep = counts >= LEAST * objects.size
    weight = []
    for value, count in zip(values[keep], counts[keep], strict=True):
        down, across = np.nonzero(objects == value)
        off = np.hypot(down.mean() / TRAINED - 0.5, across.mean() / TRAINED - 0.5)
        weight.append(count / objects.size * (1 - off))
    order = np.argsort(weight)[::-1]
    is_clear = (
        len(order) > 0 and weight[order[0]] > 0.03 and (len(order) == 1 or weight[order[0]] > 1.5 * weight[order[1]])
    )
    salient = int(values[keep][order[0]]) if is_clear else 0
    return Picture(pixels, objects, tuple(int(each) for each in values[keep]), salient)
