"""Defines the options of `alcove model import`, a group for each thing they say."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer
from alcove.platform.cli.importing.arguments import FITS

TASKS: Final = ("classification", "tokens", "embedding")
"""What a model of texts or sounds gives: a score for each label, one for each token and label, or a vector."""


@dataclass(frozen=True)
class Model:
    """Options that say which model it is."""

    architecture: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:CLASS|timm:NAME|torchvision:NAME|FOLDER",
            help="A module or a .py file and a torch class in it, an architecture of timm or torchvision, or a folder "
            "of transformers (config.json, weights, tokenizer).",
        ),
    ] = None
    weights: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Its state dict: .pt or .safetensors; no code in it runs. A folder of transformers has its own.",
        ),
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
        str | None,
        typer.Option(
            metavar="rgb|bgr|gray", help="The model's order of channels, rgb if not given; the app gives RGB."
        ),
    ] = None
    fit: Annotated[
        str,
        typer.Option(
            metavar="|".join(FITS),
            help="How pictures of other sizes are fitted: crop (middle, at 256/224 of the size), center (middle), "
            "stretch, letterbox (gray beside it, as for detectors).",
        ),
    ] = "crop"


@dataclass(frozen=True)
class TextAndSound:
    """Options of folders of transformers that take texts or sounds."""

    texts: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Texts like those that the app will give, one a line; or label, tab and text in each line.",
        ),
    ] = None
    sounds: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="A folder of WAV files like the sounds that the app will give; its folders are labels where they have "
            "the names of the model's.",
        ),
    ] = None
    task: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(TASKS),
            help="What a model of texts or sounds gives; what its weights were trained for if it is not given.",
        ),
    ] = None
    length: Annotated[int | None, typer.Option(min=2, max=8192, help="Most tokens of a text; 128 if not given.")] = None
    seconds: Annotated[
        float | None, typer.Option(min=0.1, max=60.0, help="Length of a sound; the model's own, or 5 if not given.")
    ] = None


@dataclass(frozen=True)
class Precision:
    """Options that say how exact the program is, and how that is found out."""

    samples: Annotated[int, typer.Option(min=1, max=4096, help="Largest number of samples to calibrate on.")] = 64
    max_drop: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=1.0,
            help="The share of calibration samples whose best output int8 may change; layers stay float32, the worst "
            "first, till it changes no more.",
        ),
    ] = 0.05
    classes: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A file with the name of each output in a line: folders of pictures and sounds, and labels of texts "
            "are by these names. Without it folders of pictures are labels where they are as many as outputs, in "
            "order of name.",
        ),
    ] = None
    is_float: Annotated[
        bool, typer.Option("--float32", help="Keep float32 in place of int8: exact, four times the bytes, slower.")
    ] = False
