"""Runs `alcove model import` for each kind of model: an architecture with weights, or an ONNX file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from alcove.platform.cli.importing.architectures import options_of
from alcove.platform.cli.importing.backbone import Int8, import_backbone
from alcove.platform.cli.importing.pictures import Pictures, three_numbers
from alcove.platform.cli.importing.show import facts_of, onnx_facts_of, show_import, show_onnx
from alcove.platform.cli.output import print_json

__all__ = ["Given", "Int8", "import_architecture", "import_onnx", "three_numbers", "validate_alone"]

SIZE = 224
"""Side of pictures where none is given, in pixels."""

Show = Callable[[bool], None]
"""Says what was made, as JSON or in words."""


@dataclass(frozen=True)
class Given:
    """What was given beside the model.

    Attributes:
        out: where the program goes.
        pictures: a folder of them, or None.
        size: side of the square that the model takes, or None.
        mean: of each channel, in [0, 1].
        std: of each channel.
        samples: largest number of pictures to calibrate on.
        int8: None for float32.
        classes: a file with the name of each output in a line, or None.
    """

    out: Path
    pictures: Path | None
    size: int | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    samples: int
    int8: Int8 | None
    classes: Path | None


def validate_alone(options: Mapping[str, object]) -> None:
    """Find out that options of the other kind of model are not given.

    Raises:
        typer.BadParameter: one is.
    """
    for name, value in options.items():
        if value:
            kind = "--onnx" if name in {"--input", "--outputs"} else "an architecture"
            raise typer.BadParameter(f"{name} goes with {kind}")


def import_architecture(given: Given, architecture: str | None, weights: Path | None, options: Sequence[str]) -> Show:
    """Write the program of an architecture with weights.

    Raises:
        typer.BadParameter: one of the three is missing, or as `import_backbone`.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    if architecture is None or weights is None or given.pictures is None:
        needed = {"--architecture": architecture, "--weights": weights, "--pictures": given.pictures}
        missing = [name for name, value in needed.items() if value is None]
        raise typer.BadParameter(f"missing {', '.join(missing)}; give these three, or --onnx FILE")
    side = given.size or SIZE
    imported = import_backbone(
        architecture,
        options_of(options),
        weights,
        given.pictures,
        Pictures((side, side), given.mean, given.std),
        samples=given.samples,
        int8=given.int8,
        classes=given.classes,
    )
    imported.program.save(given.out)
    return lambda as_json: print_json(facts_of(imported, given.out)) if as_json else show_import(imported, given.out)


def import_onnx(given: Given, path: Path, inputs: Sequence[str], outputs: str) -> Show:
    """Write the program of an ONNX file.

    Raises:
        typer.BadParameter: the package that reads them is not installed, or as `read_file` and `import_with_pictures`.
        ExportError: the module holds what no program can.
        CertificateError: native and torch differ.
    """
    try:
        from alcove.platform.cli.importing import onnx_program  # noqa: PLC0415 - needs onnx, which is optional
    except ImportError as error:
        raise typer.BadParameter(f"--onnx {path}: pip install onnx, or 'alcove[onnx]' ({error})") from None
    module = onnx_program.read_file(path, inputs, outputs, given.size)
    if given.pictures is None:
        result = onnx_program.import_plain(path, module)
    else:
        result = onnx_program.import_with_pictures(
            path,
            module,
            given.pictures,
            {"mean": given.mean, "std": given.std},
            samples=given.samples,
            int8=given.int8,
            classes=given.classes,
        )
    result.program.save(given.out)
    return lambda as_json: print_json(onnx_facts_of(result, given.out)) if as_json else show_onnx(result, given.out)
