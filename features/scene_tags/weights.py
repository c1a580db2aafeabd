"""Reads the published weights that scene tags begin with.

Each folder holds `model.safetensors` (numbers only) and the `LICENSE` of its source: mobilenet_v2_imagenet and
blazeface are Apache-2.0, fastestdet_coco is BSD-3-Clause.
"""

from pathlib import Path

from alcove.features.scene_tags.networks.blaze_face import BlazeFace
from alcove.features.scene_tags.networks.fastest_det import FastestDet
from alcove.features.scene_tags.networks.mobilenet_v2 import MobileNetV2
from torch import nn

FOLDERS = {MobileNetV2: "mobilenet_v2_imagenet", FastestDet: "fastestdet_coco", BlazeFace: "blazeface"}
"""By network."""


def load_networks(folder: Path) -> tuple[MobileNetV2, FastestDet, BlazeFace]:
    """Return the three networks, ready to answer; the detector takes red first, as the others do.

    Args:
        folder: with the folders of `FOLDERS`.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it holds other tensors than the network has.
    """
    mobilenet, detector, faces = MobileNetV2(), FastestDet(), BlazeFace()
    for network in (mobilenet, detector, faces):
        _load(network, folder / FOLDERS[type(network)] / "model.safetensors")
    first = detector.backbone.first_conv[0].get_parameter("weight")
    first.data = first.data.flip(1)
    return mobilenet, detector, faces


def _load(network: nn.Module, path: Path) -> None:
    from safetensors.torch import load_file  # noqa: PLC0415 - not a dependency of the feature

    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: --weights is the folder of the published weights")
    network.load_state_dict(load_file(path))
    network.eval().requires_grad_(requires_grad=False)
