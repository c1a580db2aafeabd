"""Runs `alcove model import` for each kind of model: an architecture, a folder of transformers, an ONNX file."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from alcove.platform.cli.importing.arguments import Pictures
from alcove.platform.cli.importing.backbone import import_backbone
from alcove.platform.cli.importing.folders import Folder
from alcove.platform.cli.importing.programs import Imported, Int8
from alcove.platform.cli.importing.show import facts_of, onnx_facts_of, show_import, show_onnx
from alcove.platform.cli.output import print_json

__all__ = ["Given", "Int8", "import_architecture", "import_onnx", "import_sound_folder", "import_text_folder"]

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
    return _save(imported, given.out, "pictures")


def import_text_folder(given: Given, folder: Folder, texts: Path, task: str | None, length: int | None) -> Show:
    """Write the program of a text model in a folder of transformers.

    Raises:
        typer.BadParameter: as `import_texts`.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    from alcove.platform.cli.importing.pretrained_program import import_texts  # noqa: PLC0415 - loads the tokenizers

    imported = import_texts(
        folder,
        texts,
        task=task,
        length=length,
        samples=given.samples,
        int8=given.int8,
        classes=given.classes,
    )
    return _save(imported, given.out, "texts")


def import_sound_folder(given: Given, folder: Folder, sounds: Path, task: str | None, seconds: float | None) -> Show:
    """Write the program of an audio model in a folder of transformers.

    Raises:
        typer.BadParameter: as `import_sounds`.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    from alcove.platform.cli.importing.pretrained_program import import_sounds  # noqa: PLC0415 - likewise

    imported = import_sounds(
        folder,
        sounds,
        task=task,
        seconds=seconds,
        samples=given.samples,
        int8=given.int8,
        classes=given.classes,
    )
    return _save(imported, given.out, "sounds")


def _save(imported: Imported, out: Path, samples: str) -> Show:
    imported.program.save(out)
    return lambda as_json: print_json(facts_of(imported, out)) if as_json else show_import(imported, out, samples)


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
        raise typer.BadParameter(f"--onnx {path}: pip install onnx, or 'alcove-platform[onnx]' ({error})") from None
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
