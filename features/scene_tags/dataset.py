"""Reads the training pictures, and draws batches from them.

Three sets (CARD.md has sources and terms): Tiny ImageNet without the classes of `config.LEFT_OUT`, the Intel scenes,
CIFAR-10.  Five pictures of each class of the first and one in twenty of the second
are kept from training: scores are calibrated on them.  Decoding needs Pillow (the `dev` extra).

A batch depends on the seed and its step alone, so that a training that was cut off continues as if nothing had
happened.
"""

import csv
import io
import lzma
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.features.scene_tags.config import CLASSES, LEFT_OUT, TAGS
from alcove.features.scene_tags.network import normalize
from alcove.features.scene_tags.picture import fit
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

SIZES: Final = {"tiny": 64, "scenes": 80, "cifar": 32}
"""Width and height that pictures are kept in, in pixels; the scenes have 150."""
FIRST_CLASS: Final = {"tiny": 0, "scenes": 200, "cifar": 206}
CALIBRATION_EACH: Final = 5
SCENES_CALIBRATION: Final = 20
CIFAR_TAGS: Final = (
    "",
    "road_vehicle",
    "animal bird",
    "animal mammal cat",
    "animal mammal",
    "animal mammal dog",
    "animal reptile_amphibian",
    "animal mammal",
    "boat",
    "road_vehicle",
)
"""Of its classes in the order of their labels, as the tags of Tiny ImageNet's like classes are."""


@dataclass(frozen=True)
class Pictures:
    """A set of pictures.

    Attributes:
        pixels: uint8 [n, size, size, 3].
        classes: int64 [n], in [0, `CLASSES`).
        tags: float32 [n, tags], 1 for those that it has.
    """

    pixels: NDArray[np.uint8]
    classes: NDArray[np.int64]
    tags: NDArray[np.float32]

    def where(self, mask: NDArray[np.bool_]) -> "Pictures":
        """Return those of a mask."""
        return Pictures(self.pixels[mask], self.classes[mask], self.tags[mask])

    def squares(self, size: int) -> NDArray[np.uint8]:
        """Return the pictures as the program takes them, uint8 [n, size, size, 3]."""
        if self.pixels.shape[1] == size:
            return np.array(self.pixels)
        return np.stack([fit(np.array(each), size) for each in self.pixels])

    def __len__(self) -> int:
        return len(self.classes)


@dataclass(frozen=True)
class Corpus:
    """All pictures by use.

    Attributes:
        train: by set, what is learnt from.
        calibration: by set, what scores are calibrated on.
        dev: by set, what figures are of; classes that are trained on.
        left_out: of Tiny ImageNet, classes that nothing was trained on; all splits.
    """

    train: dict[str, Pictures]
    calibration: dict[str, Pictures]
    dev: dict[str, Pictures]
    left_out: Pictures


def tags_of(text: str) -> NDArray[np.float32]:
    """Return the row of tags named in a text with blanks between."""
    named = text.split()
    return np.array([tag in named for tag in TAGS], np.float32)


def read(folder: Path, cache: Path) -> Corpus:
    """Read the sets; decoded pictures are kept in `cache`.

    Raises:
        FileNotFoundError: a file of the data is missing.
        ImportError: Pillow is not installed and nothing is in the cache.
    """
    tiny, tiny_split = _read_set("tiny", folder / "tiny_imagenet_train", cache)
    scenes, scenes_split = _read_set("scenes", folder / "intel_scenes_train", cache)
    cifar, _ = _read_set("cifar", folder / "cifar10_train", cache)
    is_left_out = np.isin(tiny.classes, LEFT_OUT)
    tiny_kept = _calibration(tiny, tiny_split, CALIBRATION_EACH) & ~is_left_out
    scenes_kept = _calibration(scenes, scenes_split, int(np.sum(scenes_split)) // (6 * SCENES_CALIBRATION))
    return Corpus(
        train={
            "tiny": tiny.where(tiny_split & ~is_left_out & ~tiny_kept),
            "scenes": scenes.where(scenes_split & ~scenes_kept),
            "cifar": cifar,
        },
        calibration={"tiny": tiny.where(tiny_kept), "scenes": scenes.where(scenes_kept)},
        dev={"tiny": tiny.where(~tiny_split & ~is_left_out), "scenes": scenes.where(~scenes_split)},
        left_out=tiny.where(is_left_out),
    )


def _calibration(pictures: Pictures, is_train: NDArray[np.bool_], each: int) -> NDArray[np.bool_]:
    """Return where the first pictures of each class are, `each` of them, in the training split."""
    kept = np.zeros(len(pictures), bool)
    for label in np.unique(pictures.classes):
        kept[np.flatnonzero((pictures.classes == label) & is_train)[:each]] = True
    return kept


def _read_set(name: str, path: Path, cache: Path) -> tuple[Pictures, NDArray[np.bool_]]:
    with path.with_suffix(".csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kept = cache / f"{name}.npy"
    if not kept.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        np.save(kept, _decode_pixels(path, rows, SIZES[name]))
    labels = np.array([int(row["label"]) for row in rows], np.int64)
    tags = np.stack([tags_of(row["tags"] if "tags" in row else CIFAR_TAGS[int(row["label"])]) for row in rows])
    pictures = Pictures(np.load(kept, mmap_mode="r"), labels + FIRST_CLASS[name], tags)
    return pictures, np.array([row.get("split", "train") == "train" for row in rows])


def _decode_pixels(path: Path, rows: Sequence[dict[str, str]], size: int) -> NDArray[np.uint8]:
    from PIL import Image  # noqa: PLC0415 - not needed where there is a cache

    plain = path.with_suffix(".jpegs")
    packed = plain.read_bytes() if plain.is_file() else lzma.decompress(path.with_suffix(".jpegs.xz").read_bytes())
    pixels = np.empty((len(rows), size, size, 3), np.uint8)
    for index, row in enumerate(rows):
        start = int(row["offset"])
        with Image.open(io.BytesIO(packed[start : start + int(row["size"])])) as image:
            picture = image.convert("RGB")
            if picture.size != (size, size):
                picture = picture.resize((size, size), Image.Resampling.BOX)
            pixels[index] = np.asarray(picture)
    return pixels


@dataclass(frozen=True)
class Batch:
    """What one step learns from.

    Attributes:
        pictures: f32 [n, 3, size, size], normalised.
        tags: f32 [n, tags], in [0, 1].
        classes: f32 [n, classes], rows add up to 1.
    """

    pictures: Tensor
    tags: Tensor
    classes: Tensor


class Sampler:
    """Draws batches: random pieces of pictures, mirrored, recoloured, mixed in pairs.

    Args:
        corpus: the training pictures by set.
        shares: pictures of each set in a batch.
        seed: of everything random.
        smoothing: of the classes: so much of a target is spread over all.
    """

    def __init__(self, corpus: dict[str, Pictures], shares: dict[str, int], seed: int, smoothing: float = 0.1) -> None:
        self.sets = {name: corpus[name] for name in shares}
        self.pixels = {name: torch.from_numpy(np.array(each.pixels)) for name, each in self.sets.items()}
        self.shares = shares
        self.seed = seed
        self.smoothing = smoothing
        self._orders: dict[tuple[str, int], NDArray[np.int64]] = {}

    def batch(self, step: int, size: int) -> Batch:
        """Return the batch of a step, in pictures of size x size pixels."""
        rng = np.random.default_rng([self.seed, step])
        pictures, tags, classes = [], [], []
        for name, count in self.shares.items():
            rows = self._rows(name, step * count, count)
            chosen = self.pixels[name][torch.from_numpy(rows)].permute(0, 3, 1, 2).float()
            pictures.append(pieces(chosen, size, rng))
            tags.append(self.sets[name].tags[rows])
            classes.append(self.sets[name].classes[rows])
        x = jitter_color(torch.cat(pictures), rng)
        targets = functional.one_hot(torch.from_numpy(np.concatenate(classes)), CLASSES).float()
        targets = targets * (1 - self.smoothing) + self.smoothing / CLASSES
        return mix_batch(normalize(x), torch.from_numpy(np.concatenate(tags)), targets, rng)

    def _rows(self, name: str, first: int, count: int) -> NDArray[np.int64]:
        """Return `count` rows of a set from the `first` on: one shuffle after the other."""
        length = len(self.sets[name])
        found = []
        for at in range(first, first + count):
            turn, place = divmod(at, length)
            if (name, turn) not in self._orders:
                self._orders = {key: value for key, value in self._orders.items() if key[0] != name}
                seed = [self.seed, turn, length]
                self._orders[name, turn] = np.random.default_rng(seed).permutation(length)
            found.append(self._orders[name, turn][place])
        return np.array(found, np.int64)


def pieces(x: Tensor, size: int, rng: np.random.Generator) -> Tensor:
    """Return random pieces of pictures, half of them mirrored, resized to size x size.

    A piece has 30 to 100 % of the area, sides of 3:4 to 4:3.  Source: Szegedy et al., "Going deeper" (2015).
    """
    count = len(x)
    area = rng.uniform(0.3, 1.0, count)
    aspect = np.exp(rng.uniform(-math.log(4 / 3), math.log(4 / 3), count))
    width, height = (np.minimum(np.sqrt(area * each), 1.0) for each in (aspect, 1 / aspect))
    theta = np.zeros((count, 2, 3), np.float32)
    theta[:, 0, 0] = width * np.where(rng.random(count) < 0.5, -1, 1)
    theta[:, 1, 1] = height
    theta[:, 0, 2] = rng.uniform(-1, 1, count) * (1 - width)
    theta[:, 1, 2] = rng.uniform(-1, 1, count) * (1 - height)
    grid = functional.affine_grid(torch.from_numpy(theta), [count, 3, size, size], align_corners=False)
    return functional.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


def jitter_color(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Return pictures in [0, 255] with other brightness, contrast and saturation, each by a third at most."""

    def draw_factor() -> Tensor:
        return torch.from_numpy(rng.uniform(0.67, 1.33, (len(x), 1, 1, 1)).astype(np.float32))

    brightness, contrast, saturation = draw_factor(), draw_factor(), draw_factor()
    grey = x.mean(dim=1, keepdim=True)
    x = grey + (x - grey) * saturation
    middle = grey.mean(dim=(2, 3), keepdim=True)
    return ((x - middle) * contrast + middle * brightness).clamp(0, 255)


def mix_batch(x: Tensor, tags: Tensor, classes: Tensor, rng: np.random.Generator) -> Batch:
    """Return a batch in which, two times of three, each picture is mixed with another or has a piece of it.

    Sources: Zhang et al., "mixup" (2018); Yun et al., "CutMix" (2019).
    """
    kind = rng.integers(3)
    if kind == 0:
        return Batch(x, tags, classes)
    other = torch.from_numpy(rng.permutation(len(x)))
    share = float(rng.beta(0.3, 0.3)) if kind == 1 else float(rng.beta(1.0, 1.0))
    share = max(share, 1 - share)
    if kind == 1:
        x = share * x + (1 - share) * x[other]
    else:
        size = x.shape[2]
        side = round(size * math.sqrt(1 - share))
        top, left = (int(each) for each in rng.integers(0, size - side + 1, 2))
        x[:, :, top : top + side, left : left + side] = x[other][:, :, top : top + side, left : left + side]
        share = 1 - side * side / (size * size)
    return Batch(x, share * tags + (1 - share) * tags[other], share * classes + (1 - share) * classes[other])


def summary(corpus: Corpus) -> dict[str, Any]:
    """Return how many pictures each use has, for run records."""
    parts = {"train": corpus.train, "calibration": corpus.calibration, "dev": corpus.dev}
    counts: dict[str, Any] = {
        use: {name: len(each) for name, each in by_name.items()} for use, by_name in parts.items()
    }
    return {**counts, "left_out": len(corpus.left_out)}
