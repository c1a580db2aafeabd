"""`alcove model import`: a trained model that a team brings becomes a certified program."""

from pathlib import Path
from typing import Annotated, Any

import typer
from alcove.platform.cli.importing.options import Model, PictureOptions, Precision, TextAndSound
from alcove.platform.cli.output import AsJson, make_console

__all__ = ["import_command"]


def import_command(
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the program to.")],
    model: Model,
    pictures: PictureOptions,
    text_and_sound: TextAndSound,
    precision: Precision,
    as_json: AsJson = False,
) -> None:
    """Compile a trained model of yours: architecture and weights, or an ONNX file; a certified program out.

    With --pictures it takes pixels, with --texts a text, with --sounds a sound, and is int8. The answers are compared
    with torch's in float32 on your samples, those of an ONNX file with ONNX Runtime's too, if it is installed. Inputs
    of the certificate, which travels in the program, are texts of ours or made by a rule.
    """
    from alcove.platform.cli.exporting import validate_out_path  # noqa: PLC0415
    from alcove.platform.cli.importing import arguments, validation  # noqa: PLC0415

    # What is wrong with options is said before torch is loaded.
    validate_out_path(out)
    folder = validation.find_folder(model)
    validation.validate_kind(model, pictures, text_and_sound, folder)
    validation.check_packages(model, folder)
    validation.check_files(model, folder)
    options = arguments.parse_options(model.option or [])
    fixed: dict[str, Any] = {
        "shapes": arguments.parse_shapes(model.inputs or []),
        "constants": arguments.parse_constants(model.constant or []),
        "outputs": model.outputs,
        "size": arguments.parse_size(pictures.size),
    }
    fitted = validation.fit_pictures(pictures, fixed["size"], folder)
    validation.validate_samples(pictures, text_and_sound)
    try:
        from alcove.platform.cli.importing import commands  # noqa: PLC0415 - loads torch
    except ImportError as error:
        raise typer.BadParameter(f"needs torch: pip install 'alcove-platform[export]' ({error})") from None
    int8 = None if precision.is_float else commands.Int8(precision.max_drop)
    given = commands.Given(out, pictures.pictures, fitted, precision.samples, int8, precision.classes)
    with make_console(err=True).status("reading, exporting, calibrating, certifying") as status:
        if model.onnx is not None:
            show = commands.import_onnx(given, model.onnx, fixed)
        elif folder is not None and text_and_sound.texts is not None:
            texts = text_and_sound
            show = commands.import_text_folder(given, folder, text_and_sound.texts, texts.task, texts.length)
        elif folder is not None and text_and_sound.sounds is not None:
            sounds = text_and_sound
            show = commands.import_sound_folder(given, folder, text_and_sound.sounds, sounds.task, sounds.seconds)
        else:
            weights = model.weights or (None if folder is None else folder.weights)
            assert model.architecture is not None and weights is not None  # noqa: S101, PT018 - as validated
            show = commands.import_architecture(given, model.architecture, weights, options)
        status.stop()
        show(as_json)
