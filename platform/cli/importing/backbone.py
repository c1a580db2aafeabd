"""`alcove model import`: makes a certified program of a team's own architecture and weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from alcove.platform.cli.exporting import take_rounded_weights
from alcove.platform.cli.importing.architectures import make_architecture
from alcove.platform.cli.importing.pictures import Pictures, Pixels, picture_files, read_picture, spread
from alcove.platform.cli.importing.weights import load_weights, read_weights
from alcove.runtime import load
from alcove.runtime.certificate import Procedural, Sample, embed_certificate
from alcove.runtime.compiler import export, load_state
from alcove.runtime.compiler.certify import certify
from alcove.runtime.ops import ImageToTensor
from alcove.runtime.program import Program
from torch import Tensor, nn

CERTIFIED: Final = 2


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Attributes:
        program: certified.
        calibrated_on: pictures from which int8 ranges were taken; 0 for float32.
        compared_on: further pictures whose answers were compared with the module's, or the same ones if there are few.
        same_best: share of these with the same greatest output.
        notes: how the weights were found in their file.
    """

    program: Program
    calibrated_on: int
    compared_on: int
    same_best: float
    notes: tuple[str, ...]


class PictureModel(nn.Module):
    """A backbone behind the normalization of pictures, so that an app gives bytes."""

    def __init__(self, backbone: nn.Module, pictures: Pictures) -> None:
        super().__init__()
        self.to_tensor = ImageToTensor((pictures.size, pictures.size), mean=pictures.mean, std=pictures.std)
        self.backbone = backbone

    def forward(self, pixels: Tensor) -> Any:
        """Return the backbone's outputs for RGB pixels uint8 [size, size, 3]; of a transformers model its tensors."""
        found = self.backbone(self.to_tensor(pixels))
        return found.to_tuple() if hasattr(found, "to_tuple") else found


def import_backbone(
    architecture: str,
    options: Mapping[str, Any],
    weights: Path,
    folder: Path,
    pictures: Pictures,
    *,
    samples: int,
    is_quantized: bool,
) -> Imported:
    """Return the certified program of an architecture with a state dict, calibrated on pictures.

    Args:
        architecture: as `make_architecture` takes it.
        options: keyword arguments of the class.
        weights: state dict, `.safetensors` or what `torch.save` wrote; read without running code from it.
        folder: of pictures; those in its folders too, in order of name.
        pictures: how they become inputs.
        samples: at most this number for the calibration, and as many for the comparison.
        is_quantized: int8; else float32.

    Raises:
        typer.BadParameter: anything of these is not as above; names the file, the keys or the argument.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    found = picture_files(folder)
    backbone = make_architecture(architecture, options)
    notes = load_weights(backbone, read_weights(weights), weights)
    module = PictureModel(backbone.eval(), pictures).eval()
    chosen = [read_picture(path, pictures.size) for path in spread(found, 2 * samples)]
    calibration, compared = (chosen[::2], chosen[1::2]) if len(chosen) > samples else (chosen, chosen)
    example = (torch.from_numpy(chosen[0]),)
    program = export(
        module,
        example,
        quantize="int8" if is_quantized else None,
        calibration=[torch.from_numpy(pixels) for pixels in calibration] if is_quantized else None,
    )
    same = _same_best(program, module, compared)
    if is_quantized:
        take_rounded_weights(module, load_state(program.spec))
    given = [
        Sample(inputs=(Procedural("smooth", "u8", chosen[0].shape, seed, 0.0, 255.0),), source="made by a rule")
        for seed in range(CERTIFIED)
    ]
    certificate = certify(
        bytes(program), module, given, licence="procedural", tolerance="quantised" if is_quantized else "standard"
    )
    program = program.with_bytes(embed_certificate(bytes(program), certificate))
    return Imported(program, len(calibration) if is_quantized else 0, len(compared), same, notes)


def _same_best(program: Program, module: nn.Module, pictures: Sequence[Pixels]) -> float:
    session = load(bytes(program)).session()
    answers = zip(_native_best(session, pictures), _torch_best(module, pictures), strict=True)
    return float(np.mean([one == other for one, other in answers]))


def _native_best(session: Any, pictures: Sequence[Pixels]) -> Iterator[int]:
    for pixels in pictures:
        yield int(np.argmax(session(pixels)[0]))


def _torch_best(module: nn.Module, pictures: Sequence[Pixels]) -> Iterator[int]:
    with torch.no_grad():
        for pixels in pictures:
            first = module(torch.from_numpy(pixels))
            yield int((first if isinstance(first, Tensor) else first[0]).argmax())
