"""Makes a certified program of a picture model: architecture and weights, or a module that was read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.platform.cli.importing.architectures import make_architecture
from alcove.platform.cli.importing.arguments import Pictures
from alcove.platform.cli.importing.comparison import Reading, module_answers, read_classes
from alcove.platform.cli.importing.pictures import Pixels, picture_files, read_pictures, spread
from alcove.platform.cli.importing.programs import CERTIFIED, Imported, Int8, Labels, Samples, make_program
from alcove.platform.cli.importing.weights import load_weights, read_weights
from alcove.runtime.certificate import Procedural, Sample
from alcove.runtime.ops import ImageToTensor
from torch import Tensor, nn

LUMINANCE: Final = (0.299, 0.587, 0.114)
"""Of red, green and blue in gray, as image libraries have it."""
CONTRAST: Final = (2, 98)
"""Percentiles of all pixels between which those of a certificate lie."""


class PictureModel(nn.Module):
    """A backbone behind the normalization of pictures, so that an app gives bytes."""

    def __init__(self, backbone: nn.Module, pictures: Pictures) -> None:
        super().__init__()
        self.channels = pictures.channels
        order = slice(None, None, -1 if pictures.channels == "bgr" else 1)
        mean, std = pictures.mean[order], pictures.std[order]
        if pictures.channels == "gray":
            mean, std = (mean[0],) * 3, (std[0],) * 3  # weights of the colors sum to 1
        self.to_tensor = ImageToTensor(pictures.size, mean=mean, std=std)
        self.backbone = backbone

    def prepare(self, pixels: Tensor) -> Tensor:
        """Return what the backbone takes, f32 [1, channels, height, width]."""
        x: Tensor = self.to_tensor(pixels)
        if self.channels == "bgr":
            return x.flip(1)
        if self.channels == "gray":
            return (x * torch.tensor(LUMINANCE).reshape(1, 3, 1, 1)).sum(1, keepdim=True)
        return x

    def forward(self, pixels: Tensor) -> Any:
        """Return the outputs for RGB pixels uint8 [height, width, 3]; of a transformers model its tensors."""
        found = self.backbone(self.prepare(pixels))
        return found.to_tuple() if hasattr(found, "to_tuple") else found


def import_backbone(
    architecture: str,
    options: Mapping[str, Any],
    weights: Path,
    folder: Path,
    pictures: Pictures,
    *,
    samples: int,
    int8: Int8 | None,
    classes: Path | None = None,
) -> Imported:
    """Return the certified program of an architecture with a state dict, calibrated on pictures.

    Args:
        architecture: as `make_architecture` takes it.
        options: keyword arguments of the class.
        weights: state dict, `.safetensors` or what `torch.save` wrote; read without running code from it.
        folder: of pictures; those in its folders too, in order of name.
        pictures: how they become inputs.
        samples: at most this number for the calibration, and as many for the comparison.
        int8: None for float32.
        classes: a file with the name of each output in a line; None where folders that are as many as outputs are the
            classes, or where there are none.

    Raises:
        typer.BadParameter: anything of these is not as above; names the file, the keys or the argument.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    picture_files(folder)  # what is wrong with them comes first
    backbone = make_architecture(architecture, options)
    notes = load_weights(backbone, read_weights(weights), weights)
    return import_module(backbone, notes, folder, pictures, samples=samples, int8=int8, classes=classes)


def import_module(
    backbone: nn.Module,
    notes: tuple[str, ...],
    folder: Path,
    pictures: Pictures,
    *,
    samples: int,
    int8: Int8 | None,
    classes: Path | None = None,
) -> Imported:
    """Return the certified program of a module with its weights, calibrated on pictures, as `import_backbone` does.

    Args:
        backbone: takes f32 [1, 3, height, width].
        notes: how its weights were found.
        folder: of pictures; those in its folders too, in order of name.
        pictures: how they become inputs.
        samples: at most this number for the calibration, and as many for the comparison.
        int8: None for float32.
        classes: as `import_backbone` takes it.

    Raises:
        typer.BadParameter: there are no pictures, or classes are not as above.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    found = picture_files(folder)
    module = PictureModel(backbone.eval(), pictures).eval()
    paths, chosen, note = read_pictures(spread(found, 2 * samples), pictures.size, pictures.fit)
    notes = (*notes, note) if note else notes
    given = Samples(chosen, samples, _certificate_samples(chosen))
    reading = Reading()
    expected = module_answers(module, [chosen[i] for i in given.compared], reading)
    names, labels = read_classes(folder, [paths[i] for i in given.compared], expected.shape[2], classes)
    return make_program(module, given, expected, Labels(names, labels), reading=reading, int8=int8, notes=notes)


def _certificate_samples(pictures: Sequence[Pixels]) -> list[Sample]:
    """Return a certificate's samples: made by a rule, for no picture of the team's may travel, as bright as these."""
    low, high = (float(each) for each in np.percentile(np.stack(pictures), CONTRAST))
    return [
        Sample(
            inputs=(Procedural("smooth", "u8", pictures[0].shape, seed, low, max(high, low + 1)),),
            source="made by a rule",
        )
        for seed in range(CERTIFIED)
    ]
