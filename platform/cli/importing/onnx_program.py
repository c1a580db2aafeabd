"""`alcove model import --onnx`: makes a certified program of a file in the ONNX format."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import typer
from alcove.platform.cli.importing.arguments import CHANNELS, Pictures
from alcove.platform.cli.importing.backbone import PictureModel, import_module
from alcove.platform.cli.importing.certifying import certify_float32
from alcove.platform.cli.importing.onnx_files import OnnxError, OnnxModule, read_onnx
from alcove.platform.cli.importing.onnx_parity import Arrays, Parity, compare_with_runtime, procedural_inputs
from alcove.platform.cli.importing.pictures import picture_files, read_pictures, spread
from alcove.platform.cli.importing.programs import CERTIFIED, Imported, Int8
from alcove.runtime import load
from alcove.runtime.certificate import SAMPLE_DTYPES, Sample, embed_certificate
from alcove.runtime.compiler import export
from alcove.runtime.compiler.certify import certify
from alcove.runtime.program import Program
from torch import Tensor, nn

COMPARED: Final = 3
"""Samples for ONNX Runtime: each is a run of the float32 model."""


@dataclass(frozen=True)
class ImportedOnnx:
    """The result of an import.

    Attributes:
        program: certified.
        imported: what was found on the pictures; None without them.
        parity: with ONNX Runtime: of the program, or of the module in float32 where there are pictures.
        inputs: name, shape and element type of each, as they were fixed.
        tolerance: class of the certificate's.
        left: what the file computes and the program leaves to the app, in words; empty for nothing.
        replaced: names of the file's outputs, where the program gives others because of that.
    """

    program: Program
    imported: Imported | None
    parity: Parity
    inputs: tuple[tuple[str, tuple[int, ...], str], ...]
    tolerance: str
    left: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()


class PlainPicture(nn.Module):
    """A module that takes pictures as the file has them, behind one place for f32 [1, channels, height, width]."""

    def __init__(self, module: OnnxModule, *, channels_last: bool) -> None:
        super().__init__()
        self.module = module
        self.channels_last = channels_last
        self.dtype = module.shapes[0][1]

    def prepare(self, x: Tensor) -> Tensor:
        """Return the input of the file."""
        x = x.permute(0, 2, 3, 1) if self.channels_last else x
        return x if self.dtype.is_floating_point else x.round().to(self.dtype)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Return the outputs by name."""
        found: dict[str, Tensor] = self.module(self.prepare(x))
        return found


@dataclass(frozen=True)
class Fixed:
    """What is fixed of a file whose shapes or answers vary.

    Attributes:
        shapes: of inputs.
        constants: inputs that are always the same.
        outputs: names of tensors, with commas between them; empty for the file's own.
        size: height and width of pictures whose sizes vary, or None.
    """

    shapes: Mapping[str, tuple[int, ...]]
    constants: Mapping[str, Any]
    outputs: str
    size: tuple[int, int] | None


def read_file(path: Path, fixed: Fixed) -> OnnxModule:
    """Return the module of a file.

    Raises:
        typer.BadParameter: the file is damaged, holds what is not supported, or inputs and outputs do not fit it.
    """
    names = [name for name in fixed.outputs.split(",") if name]
    try:
        return read_onnx(path, fixed.shapes, names, fixed.size, constants=fixed.constants)
    except OnnxError as error:
        words = str(error).removeprefix(f"{path}: ")
        raise typer.BadParameter(f"--onnx {path}: {words}") from error


def import_plain(path: Path, module: OnnxModule) -> ImportedOnnx:
    """Return the certified float32 program of a file, whose inputs are those of the file.

    Raises:
        typer.BadParameter: an input has a type that programs do not take.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    ports = _ports(module)
    program = export(module, module.examples)
    shapes = [(shape, kind) for _, shape, kind in ports]
    session = load(bytes(program)).session()

    def run(sample: Arrays) -> Arrays:
        return session(*sample)

    samples = [[each.elements() for each in procedural_inputs(shapes, CERTIFIED + seed)] for seed in range(COMPARED)]
    parity = compare_with_runtime(path, module.input_names, module.order, samples, run, fixed=module.fixed)
    made = [Sample(inputs=procedural_inputs(shapes, seed), source="made by a rule") for seed in range(CERTIFIED)]
    if module.is_quantized:
        tolerance = "quantised_range"
        certificate = certify(bytes(program), module, made, licence="procedural", tolerance=tolerance)
    else:
        certificate, tolerance = certify_float32(bytes(program), module, made)
    done = program.with_bytes(embed_certificate(bytes(program), certificate))
    return ImportedOnnx(done, None, parity, tuple(ports), tolerance, module.left, module.replaced)


def import_with_pictures(
    path: Path,
    module: OnnxModule,
    folder: Path,
    pictures: Pictures,
    *,
    samples: int,
    int8: Int8 | None,
    classes: Path | None,
) -> ImportedOnnx:
    """Return the certified program of a file, behind the normalization of pictures.

    Args:
        path: of the file.
        module: of it.
        folder: of pictures.
        pictures: how they become inputs; their size and their gray are the file's.
        samples: as `import_module` takes it.
        int8: None for float32.
        classes: as `import_module` takes it.

    Raises:
        typer.BadParameter: the file takes no pictures, or as `import_module`.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    ports = _ports(module)
    size, channels_last = _picture_size(path, module, pictures)
    if not module.shapes[0][1].is_floating_point:
        pictures = replace(pictures, mean=(0.0,) * len(pictures.mean), std=(1 / 255,) * len(pictures.std))
    pictures = replace(pictures, size=size)
    backbone = PlainPicture(module, channels_last=channels_last).eval()
    _, chosen, _ = read_pictures(spread(picture_files(folder), 2 * COMPARED), size, pictures.fit)
    prepare = PictureModel(backbone, pictures).prepare
    given = [[backbone.prepare(prepare(torch.from_numpy(pixels))).contiguous().numpy()] for pixels in chosen[:COMPARED]]

    def run(sample: Arrays) -> Arrays:
        with torch.no_grad():
            return [found.numpy() for found in module(*map(torch.from_numpy, sample)).values()]

    parity = compare_with_runtime(path, module.input_names, module.order, given, run, fixed=module.fixed)
    imported = import_module(backbone, (), folder, pictures, samples=samples, int8=int8, classes=classes)
    return ImportedOnnx(
        imported.program, imported, parity, tuple(ports), imported.tolerance, module.left, module.replaced
    )


def _ports(module: OnnxModule) -> list[tuple[str, tuple[int, ...], str]]:
    """Return name, shape and element type of each input.

    Raises:
        typer.BadParameter: a type is none of a program's.
    """
    names = {dtype: name for name, dtype in SAMPLE_DTYPES.items()}
    found = []
    for name, (shape, dtype) in zip(module.input_names, module.shapes, strict=True):
        kind: Any = np.dtype(str(dtype).removeprefix("torch."))
        if kind not in names:
            raise typer.BadParameter(f"input {name!r} is {kind}; a program takes {', '.join(SAMPLE_DTYPES)}")
        found.append((name, shape, names[kind]))
    return found


def _picture_size(path: Path, module: OnnxModule, pictures: Pictures) -> tuple[tuple[int, int], bool]:
    """Return height and width of the pictures that a module takes, and whether channels come last.

    Raises:
        typer.BadParameter: it takes something else.
    """
    count = CHANNELS[pictures.channels]
    shape, dtype = module.shapes[0] if module.shapes else ((), torch.float32)
    if len(module.shapes) == 1 and dtype in {torch.float32, torch.uint8} and len(shape) == 4 and shape[0] == 1:
        if shape[1] == count:
            return (shape[2], shape[3]), False
        if shape[3] == count:
            return (shape[1], shape[2]), True
        if 1 in {shape[1], shape[3]}:
            raise typer.BadParameter(f"--onnx {path} takes pictures of one channel: give --channels gray")
    have = ", ".join(
        f"{name} {'x'.join(map(str, shape))} {str(dtype).removeprefix('torch.')}"
        for name, (shape, dtype) in zip(module.input_names, module.shapes, strict=True)
    )
    raise typer.BadParameter(
        f"--pictures go with one float32 or uint8 input 1x{count}xHxW or 1xHxWx{count}; {path} takes {have}: leave "
        "--pictures away for a float32 program that takes these"
        + ("" if len(module.shapes) < 2 else ", or fix the other inputs: --constant NAME=VALUE")
    )
