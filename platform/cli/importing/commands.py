"""Runs `alcove model import` for each kind of model: an architecture with weights, or an ONNX file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from alcove.platform.cli.importing.backbone import Int8, import_backbone
from alcove.platform.cli.importing.pictures import Pictures
from alcove.platform.cli.importing.show import facts_of, onnx_facts_of, show_import, show_onnx
from alcove.platform.cli.output import print_json

__all__ = ["Given", "Int8", "import_architecture", "import_onnx"]

Show = Callable[[bool], None]
"""Says what was made, as JSON or in words."""


@dataclass(frozen=True)
class Given:
    """What was given beside the model.

    Attributes:
        out: where the program goes.
        folder: of pictures, or None.
        pictures: how they become inputs; the size is that of a model without one of its own.
        samples: largest number of pictures to calibrate on.
        int8: None for float32.
        classes: a file with the name of each output in a line, or None.
    """

    out: Path
    folder: Path | None
    pictures: Pictures
    samples: int
    int8: Int8 | None
    classes: Path | None


def import_architecture(given: Given, architecture: str, weights: Path, options: Mapping[str, Any]) -> Show:
    """Write the program of an architecture with weights.

    Raises:
        typer.BadParameter: as `import_backbone`.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    assert given.folder is not None  # noqa: S101 - the command has found out
    imported = import_backbone(
        architecture,
        options,
        weights,
        given.folder,
        given.pictures,
        samples=given.samples,
        int8=given.int8,
        classes=given.classes,
    )
    imported.program.save(given.out)
    return lambda as_json: print_json(facts_of(imported, given.out)) if as_json else show_import(imported, given.out)


def import_onnx(given: Given, path: Path, fixed: Mapping[str, Any]) -> Show:
    """Write the program of an ONNX file; `fixed` are the attributes of `onnx_program.Fixed`.

    Raises:
        typer.BadParameter: the package that reads them is not installed, or as `read_file` and `import_with_pictures`.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    try:
        from alcove.platform.cli.importing import onnx_program  # noqa: PLC0415 - needs onnx, which is optional
    except ImportError as error:
        raise typer.BadParameter(f"--onnx {path}: pip install onnx, or 'alcove[onnx]' ({error})") from None
    module = onnx_program.read_file(path, onnx_program.Fixed(**fixed))
    if given.folder is None:
        result = onnx_program.import_plain(path, module)
    else:
        result = onnx_program.import_with_pictures(
            path,
            module,
            given.folder,
            given.pictures,
            samples=given.samples,
            int8=given.int8,
            classes=given.classes,
        )
    result.program.save(given.out)
    return lambda as_json: print_json(onnx_facts_of(result, given.out)) if as_json else show_onnx(result, given.out)
