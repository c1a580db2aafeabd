"""Lists the networks, sizes of frames and forms that are timed, and exports them with their inputs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from alcove.features.cutouts.deep_lab import PERSON, DeepLab
from alcove.features.style_transfer.config import ModelConfig
from alcove.features.style_transfer.network import StyleModule, StyleNetwork, one_style
from alcove.runtime import export
from torch import Tensor, from_numpy, manual_seed, nn, ones, softmax
from torch import export as torch_export
from torch.nn import functional

from benchmarks.models.cases import BUILT

FOLDER: Final = BUILT / "frames"
SIZES: Final = ((256, 144), (320, 184), (640, 360), (960, 544))
"""Columns and rows; of 320 x 180 and 960 x 540 the next that the style network takes, in multiples of 8."""
NETWORKS: Final = ("style", "people")
FORMS: Final = ("f32", "int8")
ENDINGS: Final = {"alcove": ".alc", "ort": ".onnx", "litert": ".tflite"}
"""Of the file of each engine."""
STYLE: Final = ModelConfig(width=32, blocks=5)
SEED: Final = 26


class PeopleModule(nn.Module):
    """Finds people in a frame: DeepLab v3 on MobileNetV2, the share of the class of people alone."""

    def __init__(self) -> None:
        super().__init__()
        self.network = DeepLab()

    def forward(self, frame: Tensor) -> Tensor:
        """Return how likely each pixel is of a person, f32 [rows, columns].

        Args:
            frame: uint8 [rows, columns, 3], red first.
        """
        pixels = frame.permute(2, 0, 1)[None].float() / 127.5 - 1.0
        scores = self.network.classes(self.network.maps(pixels)[-1])
        share = softmax(scores, 1)[:, PERSON : PERSON + 1]
        shown: Tensor = functional.interpolate(share, list(frame.shape[:2]), mode="bilinear", align_corners=False)
        return shown[0, 0]


@dataclass(frozen=True)
class Case:
    """One network at one size in one form.

    Attributes:
        network: one of `NETWORKS`.
        size: columns and rows of a frame.
        form: one of `FORMS`.
    """

    network: str
    size: tuple[int, int]
    form: str

    @property
    def name(self) -> str:
        """For files."""
        return f"{self.network}-{self.size[0]}x{self.size[1]}-{self.form}"

    @property
    def inputs(self) -> Path:
        """File of a frame and what goes with it, by the names of the inputs in their order."""
        return FOLDER / f"{self.network}-{self.size[0]}x{self.size[1]}.npz"

    @property
    def network_file(self) -> Path:
        """File of the network for converters of peers."""
        return self.inputs.with_suffix(".pt2")

    def model(self, engine: str) -> Path:
        """Return where an engine's file lies, whether it is there or not."""
        return FOLDER / f"{self.name}{ENDINGS[engine]}"


def list_cases(networks: Sequence[str] = NETWORKS) -> list[Case]:
    """Return all cases of some networks, those that have the same network and size beside each other."""
    return [Case(network, size, form) for network in networks for size in SIZES for form in FORMS]


def make_network(name: str) -> nn.Module:
    """Return a network with random weights, the same each time; speed does not depend on them."""
    manual_seed(SEED)
    return (StyleModule(StyleNetwork(STYLE)) if name == "style" else PeopleModule()).eval()


def make_inputs(name: str, size: tuple[int, int], seed: int = SEED) -> dict[str, Tensor]:
    """Return a frame of noise, and for the style network a style at full strength, in the order of the arguments."""
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    found = {"a_frame": from_numpy(pixels)}
    return found | ({"b_style": one_style(0), "c_strength": ones(1)} if name == "style" else {})


def export_case(case: Case) -> None:
    """Write a case's program, its inputs, and the network for the peers' converters.

    Raises:
        ExportError: see `alcove.runtime.export`.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    module, inputs = make_network(case.network), make_inputs(case.network, case.size)
    given = tuple(inputs.values())
    arrays: dict[str, Any] = {name: value.numpy() for name, value in inputs.items()}
    np.savez(case.inputs, **arrays)
    if case.form == "f32":
        program = export(module, given, growth_bytes=0)
        torch_export.save(torch_export.export(module, given), case.network_file)
    else:
        program = export(module, given, quantize="int8", calibration=[given])
    case.model("alcove").write_bytes(bytes(program))
