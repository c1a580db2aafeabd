"""Makes frames as webcams see them of photos: crops around people, and people cut out and put before other pictures.

Needs Pillow (the `dev` extra).  Training and evaluation use the same maker, on photos of different splits.
"""

import io
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from alcove.features.background.config import HEIGHT, WIDTH
from alcove.features.background.dataset import Still
from numpy.typing import NDArray

ASPECT: Final = WIDTH / HEIGHT
LEAST: Final = 0.03
"""Share of its photo from which on people are cropped or cut out."""
EMPTY: Final = 0.004
"""Share of a photo up to which it counts as one without people."""
CLEAR: Final = 0.5
"""How much of a pixel a person must cover to count."""

Frame = tuple[NDArray[np.uint8], NDArray[np.float32]]
"""Pixels uint8 [HEIGHT, WIDTH, 3] and alpha f32 [HEIGHT, WIDTH]."""


@dataclass(frozen=True, eq=False)
class Layer:
    """A person cut out of a photo.

    Attributes:
        pixels: uint8 [rows, columns, 4], with transparency.
    """

    pixels: NDArray[np.uint8]


class FrameMaker:
    """Makes frames, each a new one.

    Args:
        stills: that people and backgrounds come from.
        seed: of the choices.
    """

    def __init__(self, stills: list[Still], seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._people = [still for still in stills if still.person.mean() >= LEAST]
        self._empty = [still for still in stills if still.person.mean() <= EMPTY]
        self._layers = [cut_out(still) for still in self._people if still.kind != "things"]

    def make(self) -> Frame:
        """Return the next frame: a crop, a person before another picture, or now and then nobody."""
        rng, chance = self._rng, self._rng.random()
        if chance < 0.08:
            pixels, alpha = self.background(), np.zeros((HEIGHT, WIDTH), np.float32)
        elif chance < 0.5:
            pixels, alpha = self.crop()
        else:
            pixels, alpha = self.webcam()
        pixels = self._spoil(pixels)
        if rng.random() < 0.5:
            pixels, alpha = pixels[:, ::-1], alpha[:, ::-1]
        return np.ascontiguousarray(pixels), np.ascontiguousarray(alpha)

    def background(self) -> NDArray[np.uint8]:
        """Return a part of a photo without people, or soft colors now and then."""
        rng = self._rng
        if rng.random() < 0.08:
            ends = rng.integers(0, 256, (2, 3))
            shade = np.linspace(0, 1, HEIGHT)[:, None, None] * rng.random()
            return np.broadcast_to(ends[0] * (1 - shade) + ends[1] * shade, (HEIGHT, WIDTH, 3)).astype(np.uint8)
        still = self._empty[rng.integers(len(self._empty))]
        return resize(still.pixels, random_box(still.person.shape, rng))

    def crop(self) -> Frame:
        """Return a part of a photo with people in it, as wide as a frame for its height."""
        rng = self._rng
        still = self._people[rng.integers(len(self._people))]
        box = random_box(still.person.shape, rng) if rng.random() < 0.25 else around(still.person, rng)
        return resize(still.pixels, box), resize_mask(still.person, box)

    def webcam(self) -> Frame:
        """Return head and shoulders of somebody before another picture; now and then two people, or more of them."""
        rng = self._rng
        pixels, alpha = self.background().astype(np.float32), np.zeros((HEIGHT, WIDTH), np.float32)
        if rng.random() < 0.25:
            pixels = gaussian_blur(pixels, float(rng.uniform(0.6, 2.5)))
        for _ in range(1 if rng.random() < 0.88 else 2):
            drawn, left, top = self.person()
            paste(pixels, alpha, drawn, left, top)
        return np.clip(pixels, 0, 255).astype(np.uint8), alpha

    def person(self) -> tuple[NDArray[np.float32], int, int]:
        """Return a person's pixels f32 [rows, columns, 4], and where their upper left is in the frame."""
        from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

        rng = self._rng
        layer = self._layers[rng.integers(len(self._layers))].pixels
        if rng.random() < 0.75:  # head and shoulders: the upper part of who stands
            share = 1.0 if layer.shape[0] < 1.2 * layer.shape[1] else float(rng.uniform(0.25, 0.65))
            layer = layer[: max(8, int(share * layer.shape[0]))]
            filled = layer[..., 3].max(0) > 0
            layer = layer[:, filled.argmax() : len(filled) - filled[::-1].argmax()]
        high = HEIGHT * float(rng.uniform(0.45, 1.0))
        scale = min(high / layer.shape[0], 1.15 * WIDTH / layer.shape[1])
        size = max(8, int(layer.shape[1] * scale * rng.uniform(0.92, 1.08))), max(8, int(layer.shape[0] * scale))
        image = Image.fromarray(layer).resize(size, Image.Resampling.BILINEAR)
        if rng.random() < 0.25:
            image = image.rotate(float(rng.uniform(-12, 12)), Image.Resampling.BILINEAR, expand=True)
        drawn = np.asarray(image, np.float32)
        if rng.random() < 0.5:
            drawn = drawn * np.array([*rng.uniform(0.8, 1.2) * rng.uniform(0.93, 1.07, 3), 1.0], np.float32)
        left = int(WIDTH / 2 - drawn.shape[1] / 2 + rng.normal(0, 0.14) * WIDTH)
        top = (
            HEIGHT
            - drawn.shape[0]
            + (
                int(rng.uniform(0, 0.12) * HEIGHT)
                if rng.random() < 0.8
                else -int(rng.uniform(0, 0.3) * (HEIGHT - drawn.shape[0]))
            )
        )
        return drawn, left, top

    def _spoil(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the frame in another light, and sometimes blurred, noisy or compressed, as small cameras make it."""
        from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

        rng = self._rng
        if rng.random() < 0.7:
            light = rng.uniform(0.65, 1.3) * rng.uniform(0.9, 1.1, 3)
            middle, contrast = pixels.mean(), rng.uniform(0.75, 1.25)
            pixels = np.clip(((pixels - middle) * contrast + middle) * light, 0, 255).astype(np.uint8)
        kind = rng.random()
        if kind < 0.1:
            return np.clip(gaussian_blur(pixels.astype(np.float32), float(rng.uniform(0.4, 1.1))), 0, 255).astype(
                np.uint8
            )
        if kind < 0.35:
            noise = rng.normal(0, rng.uniform(1, 9), pixels.shape)
            return np.clip(pixels + noise, 0, 255).astype(np.uint8)
        if kind < 0.5:
            data = io.BytesIO()
            Image.fromarray(pixels).save(data, "JPEG", quality=int(rng.integers(35, 85)))
            with Image.open(data) as image:
                return np.array(image)
        return pixels


def cut_out(still: Still) -> Layer:
    """Return the people of a photo without what is around them; the edge is softened, as masks are coarse."""
    down, across = np.nonzero(still.person)
    rows, columns = slice(down.min(), down.max() + 1), slice(across.min(), across.max() + 1)
    mask = still.person[rows, columns].astype(np.float32)[..., None] * 255
    soft = np.clip(
        gaussian_blur(np.pad(mask, ((2, 2), (2, 2), (0, 0)), mode="edge"), 0.8)[2:-2, 2:-2] * 1.3 - 48, 0, 255
    )
    return Layer(np.dstack([still.pixels[rows, columns], soft.astype(np.uint8)]))


def paste(
    pixels: NDArray[np.float32], alpha: NDArray[np.float32], drawn: NDArray[np.float32], left: int, top: int
) -> None:
    """Put what is drawn, f32 [rows, columns, 4], on a frame, and its transparency on the frame's alpha, in place."""
    high, wide = drawn.shape[:2]
    rows = slice(max(0, top), max(0, min(pixels.shape[0], top + high)))
    columns = slice(max(0, left), max(0, min(pixels.shape[1], left + wide)))
    part = drawn[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]
    if not part.size:
        return
    cover = np.clip(part[..., 3:] / 255, 0, 1)
    pixels[rows, columns] = pixels[rows, columns] * (1 - cover) + np.clip(part[..., :3], 0, 255) * cover
    alpha[rows, columns] = np.maximum(alpha[rows, columns], cover[..., 0])


def random_box(shape: tuple[int, ...], rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Return left, top, right, bottom of a random part of a photo, as wide for its height as a frame."""
    height, width = shape
    most = min(float(height), width / ASPECT)
    high = most * float(rng.uniform(0.55, 1.0))
    left, top = rng.uniform(0, width - high * ASPECT), rng.uniform(0, height - high)
    return float(left), float(top), float(left + high * ASPECT), float(top + high)


def around(person: NDArray[np.bool_], rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Return a part of a photo around the upper part of a person, as wide for its height as a frame."""
    height, width = person.shape
    down, across = np.nonzero(person)
    tall = float(np.ptp(down) + 1)
    high = float(np.clip(tall * rng.uniform(0.35, 1.5), 48, min(float(height), width / ASPECT)))
    upper = across[down <= down.min() + high / 2]
    left = float(upper.mean()) - high * ASPECT * float(rng.uniform(0.38, 0.62))
    top = float(down.min()) - high * float(rng.uniform(0.02, 0.3))
    left, top = float(np.clip(left, 0, width - high * ASPECT)), float(np.clip(top, 0, height - high))
    return left, top, left + high * ASPECT, top + high


def resize(pixels: NDArray[np.uint8], box: tuple[float, float, float, float]) -> NDArray[np.uint8]:
    """Return a part of a photo at the size of a frame."""
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    return np.array(Image.fromarray(pixels).resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR, box=box))


def resize_mask(mask: NDArray[np.bool_], box: tuple[float, float, float, float]) -> NDArray[np.float32]:
    """Return a part of a mask at the size of a frame, f32 in [0, 1]."""
    from PIL import Image  # noqa: PLC0415 - not a dependency of the feature

    image = Image.fromarray(mask.astype(np.float32))
    resized = np.asarray(image.resize((WIDTH, HEIGHT), Image.Resampling.BILINEAR, box=box), np.float32)
    return resized.clip(0, 1)


def gaussian_blur(pixels: NDArray[Any], deviation: float) -> NDArray[np.float32]:
    """Return a picture [rows, columns, channels] out of focus by so many pixels."""
    reach = max(1, int(np.ceil(2.5 * deviation)))
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * deviation**2))
    weights /= weights.sum()
    found = np.asarray(pixels, np.float32)
    for axis in (0, 1):
        pad = [(reach, reach) if each == axis else (0, 0) for each in range(3)]
        wide = np.pad(found, pad, mode="edge")
        parts = [np.take(wide, np.arange(at, at + found.shape[axis]), axis=axis) for at in range(2 * reach + 1)]
        found = np.sum([part * weight for part, weight in zip(parts, weights, strict=True)], axis=0, dtype=np.float32)
    return np.asarray(found, np.float32)
