"""`alcove model import`: makes a certified program of a team's own architecture and weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.platform.cli.exporting import take_rounded_weights
from alcove.platform.cli.importing.architectures import make_architecture
from alcove.platform.cli.importing.certifying import certify_float32
from alcove.platform.cli.importing.comparison import (
    Comparison,
    compare_answers,
    module_answers,
    program_answers,
    read_classes,
)
from alcove.platform.cli.importing.pictures import Pictures, Pixels, picture_files, read_picture, spread
from alcove.platform.cli.importing.weights import load_weights, read_weights
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.compiler import export, load_state
from alcove.runtime.compiler.certify import certify
from alcove.runtime.compiler.quantize.options import Run
from alcove.runtime.ops import ImageToTensor
from alcove.runtime.program import Program
from torch import Tensor, nn

CERTIFIED: Final = 2
LUMINANCE: Final = (0.299, 0.587, 0.114)
"""Of red, green and blue in gray, as image libraries have it."""
CONTRAST: Final = (2, 98)
"""Percentiles of all pixels between which those of a certificate lie."""


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        program: certified.
        calibrated_on: pictures from which int8 ranges were taken; 0 for float32.
        kept_float: layers with weights that stayed float32 in an int8 program, to lose no more than is allowed.
        comparison: with the module in float32, on further pictures, or the same ones if there are few.
        notes: how the weights were found in their file.
        tolerance: class of the certificate's.
    """

    program: Program
    calibrated_on: int
    kept_float: tuple[str, ...]
    comparison: Comparison
    notes: tuple[str, ...]
    tolerance: str


@dataclass(frozen=True)
class Int8:
    """How a program is quantized.

    Attributes:
        max_drop: the share of calibration pictures whose best output may differ from the module's; layers stay float32,
            the worst first, till no more do.
    """

    max_drop: float


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
    paths = spread(found, 2 * samples)
    chosen = [read_picture(path, pictures.size, pictures.fit) for path in paths]
    is_apart = len(chosen) > samples
    calibration = chosen[::2] if is_apart else chosen
    compared, compared_paths = (chosen[1::2], paths[1::2]) if is_apart else (chosen, paths)
    expected = module_answers(module, compared)
    names, labels = read_classes(folder, compared_paths, expected.shape[1], classes)
    program = _export(module, calibration, int8)
    native = program_answers(bytes(program), compared)
    kept = program.quantization.kept_float if int8 is not None and program.quantization is not None else ()
    if int8 is not None:
        take_rounded_weights(module, load_state(program.spec))
    certified = _samples(chosen)
    if int8 is None:
        certificate, tolerance = certify_float32(bytes(program), module, certified)
    else:
        tolerance = "quantised_range"
        certificate = certify(bytes(program), module, certified, licence="procedural", tolerance=tolerance)
    return Imported(
        program.with_bytes(embed_certificate(bytes(program), certificate)),
        0 if int8 is None else len(calibration),
        tuple(layer.layer for layer in kept if layer.float_bytes > 0),
        compare_answers(expected, native, names, labels),
        notes,
        tolerance,
    )


def _export(module: nn.Module, calibration: Sequence[Pixels], int8: Int8 | None) -> Program:
    example = (torch.from_numpy(calibration[0]),)
    if int8 is None:
        return export(module, example)
    best = module_answers(module, calibration).argmax(axis=1)

    def agreement(run: Run) -> float:
        answers = [np.argmax(run(pixels)[0]) for pixels in calibration]
        return float(np.mean(answers == best))

    given = [torch.from_numpy(pixels) for pixels in calibration]
    return export(module, example, quantize="int8", calibration=given, max_drop=int8.max_drop, metric=agreement)


def _samples(pictures: Sequence[Pixels]) -> list[Sample]:
    """Return a certificate's samples: made by a rule, for no picture of the team's may travel, as bright as these."""
    low, high = (float(each) for each in np.percentile(np.stack(pictures), CONTRAST))
    return [
        Sample(
            inputs=(Procedural("smooth", "u8", pictures[0].shape, seed, low, max(high, low + 1)),),
            source="made by a rule",
        )
        for seed in range(CERTIFIED)
    ]
