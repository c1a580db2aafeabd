"""Reads the published weights that photo enhancement is made of.

Each folder holds `model.safetensors` (numbers only) and the `LICENSE` of its source: sci_low_light is MIT,
image_adaptive_lut and rlfn_x4 are Apache-2.0.
"""

from pathlib import Path
from typing import Final

from alcove.features.photo_enhance.networks.adaptive_table import AdaptiveTable
from alcove.features.photo_enhance.networks.illumination import SelfCalibratedIllumination
from alcove.features.photo_enhance.networks.residual_features import ResidualLocalFeatures
from torch import nn

FOLDERS: Final = {
    SelfCalibratedIllumination: "sci_low_light",
    AdaptiveTable: "image_adaptive_lut",
    ResidualLocalFeatures: "rlfn_x4",
}
"""By network."""


def load_networks(folder: Path) -> tuple[SelfCalibratedIllumination, AdaptiveTable, ResidualLocalFeatures]:
    """Return the three networks, ready to answer.

    Args:
        folder: with the folders of `FOLDERS`.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it holds other tensors than the network has.
    """
    light, table, features = SelfCalibratedIllumination(), AdaptiveTable(), ResidualLocalFeatures()
    for network in (light, table, features):
        _load(network, folder / FOLDERS[type(network)] / "model.safetensors")
    return light, table, features


def _load(network: nn.Module, path: Path) -> None:
    from safetensors.torch import load_file  # noqa: PLC0415 - not a dependency of the feature

    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: --weights is the folder of the published weights")
    network.load_state_dict(load_file(path))
    network.eval().requires_grad_(requires_grad=False)
