"""Finds out that the options of `alcove model import` go together, before anything large is loaded."""

import difflib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

import typer
from alcove.platform.cli.importing import arguments, first_look
from alcove.platform.cli.importing.arguments import FITS, Pictures
from alcove.platform.cli.importing.folders import Folder, is_folder, read_folder
from alcove.platform.cli.importing.options import TASKS, Model, PictureOptions, TextAndSound

PACKAGES: Final = ("onnx", "timm", "torchvision", "transformers")
"""Optional ones, each for a kind of model."""
SIZE: Final = (224, 224)
"""Of pictures where none is given, in pixels."""


def find_folder(model: Model) -> Folder | None:
    """Return the folder of transformers that is the architecture, or None.

    Raises:
        typer.BadParameter: it has no config, or options and weights that it has itself are given.
    """
    if model.onnx is not None or model.architecture is None or not is_folder(model.architecture):
        return None
    if model.option:
        raise typer.BadParameter("--option goes with MODULE:CLASS; a transformers config holds its own")
    folder = read_folder(model.architecture)
    if model.weights is None and folder.weights is None:
        raise typer.BadParameter(
            f"--architecture {model.architecture}: no weights there (model.safetensors or pytorch_model.bin); give "
            "--weights, or put them there"
        )
    return folder


def check_packages(model: Model, folder: Folder | None) -> None:
    """Find out that the package that a model needs is installed.

    Raises:
        typer.BadParameter: it is not; says how it is.
    """
    prefix = (model.architecture or "").partition(":")[0]
    needed = "onnx" if model.onnx is not None else "transformers" if folder is not None else prefix
    if needed in PACKAGES and find_spec(needed) is None:
        given = f"--onnx {model.onnx}" if model.onnx is not None else f"--architecture {model.architecture}"
        raise typer.BadParameter(f"{given}: pip install {needed}")
    if model.onnx is None and folder is None and prefix and not prefix.endswith(".py"):
        near = difflib.get_close_matches(prefix, PACKAGES, 1)
        if near and prefix != near[0] and find_spec(prefix.partition(".")[0]) is None:
            hint = f"no package {prefix!r}; near it: {near[0]}:NAME"
            raise typer.BadParameter(f"--architecture {model.architecture}: {hint}")


def check_files(model: Model, folder: Folder | None) -> None:
    """Find out that the files of a model may be what its options say, and that its class is named.

    Raises:
        typer.BadParameter: one is something else.
    """
    if model.onnx is not None:
        first_look.check_onnx(model.onnx)
    if model.weights is not None:
        first_look.check_weights(model.weights)
    if model.onnx is None and folder is None and model.architecture is not None:
        first_look.check_class(model.architecture)


def fit_pictures(pictures: PictureOptions, size: tuple[int, int] | None, folder: Folder | None) -> Pictures:
    """Return how pictures become inputs: as given, else as a folder's preprocessor says.

    Raises:
        typer.BadParameter: a value is none.
    """
    if pictures.fit not in FITS:
        raise typer.BadParameter(f"--fit is {', '.join(FITS)}; got {pictures.fit!r}")
    own = {} if folder is None else folder.picture_settings
    channels = own.get("channels", "rgb") if pictures.channels is None else pictures.channels
    mean, std = pictures.mean, pictures.std
    if mean is None and std is None and pictures.white is None:
        mean, std = own.get("mean"), own.get("std")
    means, deviations = arguments.parse_normalization(mean, std, channels, pictures.white)
    return Pictures(size or own.get("size") or SIZE, means, deviations, channels, pictures.fit)


def validate_samples(pictures: PictureOptions, text_and_sound: TextAndSound) -> None:
    """Find out that there are samples, and that the task is one.

    Raises:
        typer.BadParameter: there are none.
    """
    from alcove.platform.cli.importing.pictures import picture_files  # noqa: PLC0415 - loads numpy

    if text_and_sound.task is not None and text_and_sound.task not in TASKS:
        raise typer.BadParameter(f"--task is {', '.join(TASKS)}; got {text_and_sound.task!r}")
    if pictures.pictures is not None:
        picture_files(pictures.pictures)


def validate_kind(model: Model, pictures: PictureOptions, text_and_sound: TextAndSound, folder: Folder | None) -> None:
    """Find out that all that a kind of model needs is given, and nothing of another kind.

    Raises:
        typer.BadParameter: something is missing, or goes with another kind.
    """
    of_files = {"--input": model.inputs, "--constant": model.constant, "--outputs": model.outputs}
    of_classes = {"--architecture": model.architecture, "--weights": model.weights, "--option": model.option}
    of_folders = {"--texts": text_and_sound.texts, "--sounds": text_and_sound.sounds, "--task": text_and_sound.task}
    if model.onnx is not None:
        _refuse(of_classes, "an architecture")
    else:
        _refuse(of_files, "--onnx")
    if folder is None:
        _refuse(of_folders, "a folder of transformers (--architecture FOLDER)")
    needed: dict[str, object] = {"--architecture": model.architecture, "--weights": model.weights}
    if folder is not None:
        needed = {}
        samples = {"--pictures": pictures.pictures, **of_folders}
        given = [name for name in ("--pictures", "--texts", "--sounds") if samples[name] is not None]
        if len(given) > 1:
            raise typer.BadParameter(f"{' and '.join(given)}: one of these; {model.architecture} takes {folder.kind}")
        if not given or (given[0] != folder.kind):
            what = f"a {folder.config.get('model_type')} model, give {folder.kind}"
            raise typer.BadParameter(
                f"--architecture {model.architecture}: {what} FILE or FOLDER with samples of yours"
            )
        if given != ["--texts"] and text_and_sound.length is not None:
            raise typer.BadParameter("--length goes with --texts")
        if given != ["--sounds"] and text_and_sound.seconds is not None:
            raise typer.BadParameter("--seconds goes with --sounds")
    if model.onnx is None and folder is None:
        needed["--pictures"] = pictures.pictures
        missing = [name for name, value in needed.items() if value is None]
        if missing:
            raise typer.BadParameter(f"missing {', '.join(missing)}; give these three, or --onnx FILE")
    if pictures.pictures is None:
        _refuse({"--mean": pictures.mean, "--std": pictures.std, "--white": pictures.white}, "--pictures")


def _refuse(options: Mapping[str, object], kind: str) -> None:
    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"{name} goes with {kind}")
