"""Joins networks with published weights to real data and a score that means something to their users."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from benchmarks.quantization import data, detections, photos, pretrained
from benchmarks.quantization.network import Network, accuracy, fidelity

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

SAMPLES: Final = 16
_IMAGES: Final = 400
_CUTOUTS: Final = 100
_SIDE: Final = 257  # of DeepLab's images; the source's is 513
_DETECTED: Final = 320
_FACES: Final = 400
_SURE: Final = 0.5


def mobilenet() -> Network:
    """Return MobileNetV2 on photos of 200 of its classes."""
    pixels, labels = data.tiny_imagenet(SAMPLES + _IMAGES)
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1
    images = torch.nn.functional.interpolate(images, (224, 224), mode="bilinear", antialias=True)
    module = pretrained.load_weights(pretrained.MobileNetV2(), "mobilenet_v2_imagenet")
    inputs = [image[None].numpy() for image in images[SAMPLES:]]
    tested = f"{_IMAGES} photos of 64x64 pixels, enlarged"
    score = accuracy(inputs, labels[SAMPLES:])
    return Network("MobileNetV2, ImageNet", module, _singly(images[:SAMPLES]), score, "accuracy %", tested)


def cutout() -> Network:
    """Return DeepLab on photos with one person."""
    loaded = photos.load("coco_single_person", SAMPLES + _CUTOUTS)
    images = [photos.resize(photo.pixels, _SIDE, _SIDE) / 128 - 1 for photo in loaded]
    masks = [photos.resize(photo.mask[:, :, None], _SIDE, _SIDE)[0, 0].numpy() > 0.5 for photo in loaded]
    module = pretrained.load_weights(pretrained.DeepLab(), "deeplab_v3_mobilenet_v2_voc")

    def score(run: Any) -> float:
        both = either = 0
        for image, mask in zip(images[SAMPLES:], masks[SAMPLES:], strict=True):
            found = run(image.numpy())[0][0].argmax(axis=0) == 15
            both, either = both + int((found & mask).sum()), either + int((found | mask).sum())
        return 100 * both / either

    tested = f"people in {_CUTOUTS} photos of {_SIDE}x{_SIDE} pixels"
    return Network("DeepLab v3, MobileNetV2", module, images[:SAMPLES], score, "IoU %", tested)


def super_resolution() -> Network:
    """Return RLFN on scenes, made small."""
    sharp = _scenes()
    small = torch.nn.functional.interpolate(sharp, (16, 16), mode="bicubic", antialias=True).clamp(0, 255)

    def score(run: Any) -> float:
        pairs = zip(_singly(small[SAMPLES:]), _singly(sharp[SAMPLES:]), strict=True)
        noise = [np.square(run(one.numpy())[0] - exact.numpy()).mean() for one, exact in pairs]
        return float(np.mean([10 * np.log10(255**2 / each) for each in noise]))

    module = pretrained.load_weights(pretrained.SuperResolution(), "rlfn_x4")
    samples = _singly(small[:SAMPLES])
    return Network("RLFN, four times the sides", module, samples, score, "PSNR dB", "32 scenes of 64x64 pixels")


def brightening() -> Network:
    """Return SCI on scenes, made dark."""
    images = _singly(_scenes() / 255 * 0.25)
    module = pretrained.load_weights(pretrained.LowLight(), "sci_low_light")
    return _beside_float("SCI, brightening", module, images, "32 darkened scenes")


def retouching() -> Network:
    """Return what mixes colour tables, on scenes; the look-up in the tables is float32, and part of the score."""
    images = _singly(_scenes() / 255)
    whole = pretrained.Retouching()
    pretrained.load_weights(whole, "image_adaptive_lut")

    def look_up(run: Any) -> Any:
        def pictures(x: Any) -> list[Any]:
            with torch.no_grad():
                return [whole.mix(torch.from_numpy(x), torch.from_numpy(run(x)[0])).numpy()]

        return pictures

    found = _beside_float("Image-adaptive 3D LUT, retouching", whole, images, "32 scenes")
    return replace(found, module=whole.model, score=lambda run: found.score(look_up(run)))


def objects() -> Network:
    """Return FastestDet on excerpts of COCO."""
    loaded = photos.load("coco_instances", SAMPLES + _DETECTED)
    images = [photos.resize(photo.pixels, 352, 352).flip(1) / 255 for photo in loaded]
    wanted = photos.boxes(loaded[SAMPLES:])
    names = (pretrained.SHARED / "fastestdet_coco/labels.txt").read_text(encoding="utf-8").splitlines()
    module = pretrained.load_weights(pretrained.FastestDet(), "fastestdet_coco")

    def score(run: Any) -> float:
        found = [detections.decode_objects(run(image.numpy())[0][0], names) for image in images[SAMPLES:]]
        return detections.average_precision(found, wanted)

    tested = f"average precision at half overlap, {_DETECTED} photos of COCO"
    return Network("FastestDet, COCO", module, images[:SAMPLES], score, "AP %", tested)


def faces() -> Network:
    """Return BlazeFace on heads from photos of clothes."""
    crops = [found for photo in photos.load("clothing_co_parsing", 900) if (found := photos.crop_head(photo))]
    crops = crops[: SAMPLES + _FACES]
    images = [photos.resize(pixels, 128, 128) / 127.5 - 1 for pixels, _ in crops]
    hair = [box.corners for _, box in crops[SAMPLES:]]
    module = pretrained.load_weights(pretrained.BlazeFace(), "blazeface")

    def score(run: Any) -> float:
        found = 0
        for image, corners in zip(images[SAMPLES:], hair, strict=True):
            scores, numbers = run(image.numpy())
            face = detections.best_face(scores[0], numbers[0])
            x, y = (face.corners[0] + face.corners[2]) / 2, (face.corners[1] + face.corners[3]) / 2
            is_there = corners[0] <= x <= corners[2] and corners[1] <= y <= corners[3] + 0.1
            found += face.score >= _SURE and is_there
        return 100 * found / len(hair)

    tested = f"{len(hair)} heads from whole-body photos"
    return Network("BlazeFace", module, images[:SAMPLES], score, "faces found %", tested)


ALL: Final[dict[str, Callable[[], Network]]] = {
    "mobilenet_v2_imagenet": mobilenet,
    "deeplab_v3_mobilenet_v2_voc": cutout,
    "fastestdet_coco": objects,
    "blazeface": faces,
    "rlfn_x4": super_resolution,
    "sci_low_light": brightening,
    "image_adaptive_lut": retouching,
}
"""By the folder of the weights."""


def _scenes() -> Tensor:
    pixels = data.scenes().test[:: 510 // 48][:48]
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float()


def _singly(images: Tensor) -> list[Tensor]:
    return [images[place : place + 1] for place in range(len(images))]


def _beside_float(title: str, module: torch.nn.Module, images: list[Tensor], tested: str) -> Network:
    with torch.no_grad():
        exact = [module(image).numpy() for image in images[SAMPLES:]]
    score = fidelity([image.numpy() for image in images[SAMPLES:]], exact)
    return Network(title, module, images[:SAMPLES], score, "PSNR dB to float32", tested)
