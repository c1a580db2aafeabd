"""`alcove model import`: a trained model that a team brings becomes a certified program."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from alcove.platform.cli.importing import arguments
from alcove.platform.cli.output import AsJson, make_console

__all__ = ["import_command"]

SIZE: Final = (224, 224)
"""Of pictures where none is given, in pixels."""
FITS: Final = ("crop", "center", "stretch", "letterbox")


@dataclass(frozen=True)
class Model:
    """Options that say which model it is."""

    architecture: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:CLASS|timm:NAME|torchvision:NAME|CONFIG",
            help="A module or a .py file and a torch class in it, an architecture of timm or torchvision, or a "
            "transformers config.json (or its folder).",
        ),
    ] = None
    weights: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Its state dict: .pt or .safetensors; no code in it runs."),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Argument of the class, whose value is JSON or text; repeatable."),
    ] = None
    onnx: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="An ONNX file in place of --architecture and --weights; without --pictures its program is float32 and "
            "takes what the file takes.",
        ),
    ] = None
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="NAME=1x3x224x224",
            help="Shape of an input of the ONNX file whose sizes vary (a batch that varies is 1); repeatable.",
        ),
    ] = None
    constant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="An input of the ONNX file that is always the same, such as a sampling rate; repeatable.",
        ),
    ] = None
    outputs: Annotated[
        str,
        typer.Option(
            metavar="NAME,NAME",
            help="Tensors of the ONNX file to give in place of its outputs: cuts off what follows them.",
        ),
    ] = ""


@dataclass(frozen=True)
class PictureOptions:
    """Options that say how pictures become inputs."""

    pictures: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="A folder of pictures like those that the app will give."),
    ] = None
    size: Annotated[
        str | None,
        typer.Option(
            metavar="PIXELS|HEIGHTxWIDTH",
            help="Of the pictures that the model takes; 224 if it is not given, or the ONNX file's own.",
        ),
    ] = None
    mean: Annotated[
        str | None,
        typer.Option(
            help="Means of the channels over the training pictures, in the model's order, from 0 to 1, or to 255 if "
            "one of these numbers is above 1. Without --mean and --std those of ImageNet; without one of them 0 and 1."
        ),
    ] = None
    std: Annotated[str | None, typer.Option(help="Standard deviations of the channels, likewise.")] = None
    white: Annotated[
        int | None,
        typer.Option(
            metavar="1|255", help="What white is before means and deviations, where these do not say it themselves."
        ),
    ] = None
    channels: Annotated[
        str, typer.Option(metavar="rgb|bgr|gray", help="The model's order of channels; the app gives RGB.")
    ] = "rgb"
    fit: Annotated[
        str,
        typer.Option(
            metavar="|".join(FITS),
            help="How pictures of other sizes are fitted: crop (middle, at 256/224 of the size), center (middle), "
            "stretch, letterbox (gray beside it, as for detectors).",
        ),
    ] = "crop"


@dataclass(frozen=True)
class Precision:
    """Options that say how exact the program is, and how that is found out."""

    samples: Annotated[int, typer.Option(min=1, max=4096, help="Largest number of pictures to calibrate on.")] = 64
    max_drop: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="The share of calibration pictures whose best output int8 may change; layers stay float32, the worst "
            "first, till it changes no more.",
        ),
    ] = 0.05
    classes: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A file with the name of each output in a line: the pictures' folders are labels by these names. "
            "Without it they are where there are as many folders as outputs, in order of name.",
        ),
    ] = None
    is_float: Annotated[
        bool, typer.Option("--float32", help="Keep float32 in place of int8: exact, four times the bytes, slower.")
    ] = False


def import_command(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the program to.")],
    model: Model,
    pictures: PictureOptions,
    precision: Precision,
    as_json: AsJson = False,
) -> None:
    """Compile a trained model of yours: architecture and state dict, or an ONNX file; a certified program out.

    With pictures it takes pixels and is int8. The answers are compared with torch's in float32 on your pictures, those
    of an ONNX file with ONNX Runtime's too, if it is installed. Inputs of the certificate, which travels in the
    program, are made by a rule, as bright and as dark as your pictures.
    """
    from alcove.platform.cli.exporting import validate_out_path  # noqa: PLC0415
    from alcove.platform.cli.importing.pictures import Pictures, picture_files  # noqa: PLC0415 - loads numpy

    # What is wrong with options is said before torch is loaded.
    validate_out_path(out)
    validate_kind(model, pictures)
    options = arguments.parse_options(model.option or [])
    fixed: dict[str, Any] = {
        "shapes": arguments.parse_shapes(model.inputs or []),
        "constants": arguments.parse_constants(model.constant or []),
        "outputs": model.outputs,
        "size": arguments.parse_size(pictures.size),
    }
    mean, std = arguments.parse_normalization(pictures.mean, pictures.std, pictures.channels, pictures.white)
    if pictures.fit not in FITS:
        raise typer.BadParameter(f"--fit is {', '.join(FITS)}; got {pictures.fit!r}")
    if pictures.pictures is not None:
        picture_files(pictures.pictures)
    try:
        from alcove.platform.cli.importing import commands  # noqa: PLC0415 - loads torch
    except ImportError as error:
        raise typer.BadParameter(f"needs alcove[export]: pip install 'alcove[export]' ({error})") from None
    given = commands.Given(
        out,
        pictures.pictures,
        Pictures(fixed["size"] or SIZE, mean, std, pictures.channels, pictures.fit),
        precision.samples,
        None if precision.is_float else commands.Int8(precision.max_drop),
        precision.classes,
    )
    with make_console(err=True).status("reading, exporting, calibrating, certifying") as status:
        if model.onnx is not None:
            show = commands.import_onnx(given, model.onnx, fixed)
        else:
            assert model.architecture is not None and model.weights is not None  # noqa: S101, PT018 - as validated
            show = commands.import_architecture(given, model.architecture, model.weights, options)
        status.stop()
        show(as_json)


def validate_kind(model: Model, pictures: PictureOptions) -> None:
    """Find out that all that a kind of model needs is given, and nothing of the other kind.

    Raises:
        typer.BadParameter: something is missing, or goes with the other kind.
    """
    of_files = {"--input": model.inputs, "--constant": model.constant, "--outputs": model.outputs}
    of_classes = {"--architecture": model.architecture, "--weights": model.weights, "--option": model.option}
    others, kind = (of_files, "--onnx") if model.onnx is None else (of_classes, "an architecture")
    for name, value in others.items():
        if value:
            raise typer.BadParameter(f"{name} goes with {kind}")
    if model.onnx is None:
        needed = {"--architecture": model.architecture, "--weights": model.weights, "--pictures": pictures.pictures}
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise typer.BadParameter(f"missing {', '.join(missing)}; give these three, or --onnx FILE")
    if pictures.pictures is None:
        unused = {"--mean": pictures.mean, "--std": pictures.std, "--white": pictures.white}
        for name, value in unused.items():
            if value is not None:
                raise typer.BadParameter(
                    f"{name} goes with --pictures; without them a program takes what the file takes"
                )
