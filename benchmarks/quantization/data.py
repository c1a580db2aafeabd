"""Loads the images that the vision models are trained on, and those held out to test them.

CIFAR-10's training images (the last 5,000 of a fixed shuffle are held out) and the Intel scenes (the split that comes
with them), from the packed files of `shared/data/tagging`; its DATA.md has sources and licences.  Decoding JPEGs needs
Pillow or torchvision, which are not among this project's dependencies: `pip install pillow`.
"""

from __future__ import annotations

import csv
import io
import lzma
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHARED: Final = Path(__file__).resolve().parents[2].parent / "shared/data/tagging"
CACHE: Final = Path(os.environ.get("ALCOVE_QUANTIZATION_CACHE", Path.home() / ".cache/alcove/quantization"))
HELD_OUT: Final = 5000
SCENE_PIXELS: Final = 64


@dataclass(frozen=True)
class Images:
    """A set of images.

    Attributes:
        train: uint8 [n, height, width, 3].
        train_labels: int64 [n].
        test: uint8 images that training never sees.
        test_labels: int64.
        names: of the classes.
    """

    train: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.int64]
    names: tuple[str, ...]


def cifar10(folder: Path = SHARED) -> Images:
    """Return CIFAR-10, 32x32: 45,000 images to train, 5,000 held out."""
    return _load_cached("cifar10", lambda: _cifar10(folder))


def scenes(folder: Path = SHARED) -> Images:
    """Return the Intel scenes at 64x64: 4,590 images to train, 510 held out."""
    return _load_cached("scenes", lambda: _scenes(folder))


def tiny_imagenet(count: int, folder: Path = SHARED) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return images kept back from 200 classes, uint8 [count, 64, 64, 3], and their places among ImageNet's 1000."""
    with (folder / "tiny_imagenet_classes.csv").open(encoding="utf-8", newline="") as file:
        places = {row["wnid"]: int(row["imagenet_index"]) for row in csv.DictReader(file)}
    rows = [row for row in _rows(folder / "tiny_imagenet_train.csv") if row["split"] == "dev"]
    chosen = [rows[place] for place in np.random.default_rng(11).permutation(len(rows))[:count]]
    pixels = _decode((folder / "tiny_imagenet_train.jpegs").read_bytes(), chosen, 64)
    return pixels, np.array([places[row["wnid"]] for row in chosen], np.int64)


def _cifar10(folder: Path) -> Images:
    rows = _rows(folder / "cifar10_train.csv")
    pixels = _decode(lzma.decompress((folder / "cifar10_train.jpegs.xz").read_bytes()), rows, 32)
    labels = np.array([int(row["label"]) for row in rows], np.int64)
    order = np.random.default_rng(10).permutation(len(rows))
    train, test = order[:-HELD_OUT], order[-HELD_OUT:]
    return Images(pixels[train], labels[train], pixels[test], labels[test], _names(rows))


def _scenes(folder: Path) -> Images:
    rows = _rows(folder / "intel_scenes_train.csv")
    pixels = _decode((folder / "intel_scenes_train.jpegs").read_bytes(), rows, SCENE_PIXELS)
    labels = np.array([int(row["label"]) for row in rows], np.int64)
    is_train = np.array([row["split"] == "train" for row in rows])
    return Images(pixels[is_train], labels[is_train], pixels[~is_train], labels[~is_train], _names(rows))


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _names(rows: list[dict[str, str]]) -> tuple[str, ...]:
    names = {int(row["label"]): row["name"] for row in rows}
    return tuple(names[label] for label in sorted(names))


def _decode(packed: bytes, rows: list[dict[str, str]], size: int) -> NDArray[np.uint8]:
    pixels = np.empty((len(rows), size, size, 3), np.uint8)
    for index, row in enumerate(rows):
        start = int(row["offset"])
        pixels[index] = _jpeg(packed[start : start + int(row["size"])], size)
    return pixels


def _jpeg(data: bytes, size: int) -> NDArray[np.uint8]:
    """Return one image of size x size, bilinear where it has another size."""
    try:
        from PIL import Image
    except ImportError:
        return _jpeg_by_torchvision(data, size)
    image = Image.open(io.BytesIO(data)).convert("RGB")
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8)


def _jpeg_by_torchvision(data: bytes, size: int) -> NDArray[np.uint8]:
    import importlib

    import torch

    reader: Any = importlib.import_module("torchvision.io")
    image = reader.decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8), reader.ImageReadMode.RGB)
    if image.shape[1:] != (size, size):
        functional = torch.nn.functional
        resized = functional.interpolate(image[None].float(), (size, size), mode="bilinear", antialias=True)
        image = resized[0].round().clamp(0, 255).to(torch.uint8)
    result: NDArray[np.uint8] = image.permute(1, 2, 0).contiguous().numpy()
    return result


def _load_cached(name: str, make: Any) -> Images:
    path = CACHE / f"{name}.npz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        images: Images = make()
        temporary = path.with_suffix(".part.npz")
        np.savez(
            temporary,
            train=images.train,
            train_labels=images.train_labels,
            test=images.test,
            test_labels=images.test_labels,
            names=np.array(images.names),
        )
        temporary.replace(path)
    with np.load(path) as stored:
        arrays = {key: stored[key] for key in stored.files}
    names = tuple(str(name) for name in arrays.pop("names"))
    return Images(**arrays, names=names)
