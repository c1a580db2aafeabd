"""`alcove feature`: lists the features that come with alcove, and runs them on your own input."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from alcove.features import catalogue
from alcove.platform.cli.exit_codes import FAILED
from alcove.platform.cli.feature_sound import convert_sound
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import print_table, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from alcove.features import Feature

_PICTURES: Final = (b"\xff\xd8\xff", b"\x89PNG", b"GIF8", b"II*\0", b"MM\0*")
"""How files of pictures begin: JPEG, PNG, GIF, TIFF."""
_PIXELS_RANK: Final = 3  # height, width, channels

app = CommandGroup(
    no_args_is_help=True, help="List the features that come with alcove, and try them on your own input."
)


def answers(name: str, lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Yield one answer per input line, for empty and bad lines too; the newline is not part of it.

    All lines are of one session: of a feature that remembers, they are the ticks of one call.
    """
    from alcove.runtime import load  # noqa: PLC0415 - loads the runtime
    from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415 - loads the runtime

    feature = catalogue()[name]
    model = load(feature.default_program)
    session = model.session()
    for line in lines:
        try:
            value = feature.decode(session(*feature.parse(line.rstrip(b"\r\n"))))
            yield {"value": asdict(value), "version": feature.default_version}
        except (AlcoveRuntimeError, ValueError) as error:
            problem = {"type": type(error).__name__, "message": str(error)}
            yield {"value": None, "version": feature.default_version, "error": problem}


def _require_known(name: str, features: Mapping[str, Feature]) -> str:
    if name not in features:
        raise typer.BadParameter(f"no feature {name!r} comes with alcove; there are: {', '.join(sorted(features))}")
    return name


@app.command("list")
def list_features(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False
) -> None:
    """List the features that come with alcove."""
    features = sorted(catalogue().items())
    if as_json:
        rows = [
            {
                "feature": name,
                "version": feature.default_version,
                "size_bytes": feature.default_program.stat().st_size,
                "summary": feature.summary,
            }
            for name, feature in features
        ]
        say(json.dumps(rows))
        return
    table = [
        [name, feature.default_version, f"{feature.default_program.stat().st_size / 1e6:.2f} MB", feature.summary]
        for name, feature in features
    ]
    print_table(["feature", "version", "size", "what it does"], table)


@app.command("run")
def run_feature(
    name: Annotated[str, typer.Argument(help="The feature, e.g. language_id.")],
    source: Annotated[
        str,
        typer.Option("--input", "-i", metavar="FILE", help="A file with one input a line, or - for standard input."),
    ] = "-",
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where what a feature makes of one file goes: a picture, or a sound (- for standard output).",
        ),
    ] = "",
    *,
    style: Annotated[
        str | None, typer.Option(help="Whose manner a picture is painted in, with --output; of style_transfer.")
    ] = None,
    strength: Annotated[
        float | None, typer.Option(help="Of the style, 0 the picture as it is to 1, with --output.")
    ] = None,
    rate: Annotated[
        int, typer.Option(help="Samples a second of raw 16-bit samples, with --output; a WAV says its own.")
    ] = 16000,
    mode: Annotated[
        str | None,
        typer.Option(help="What becomes of the background, with --output: blur, replace or stage; of `background`."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The background or stage, with --mode replace or stage; of `background`."),
    ] = None,
    as_json: Annotated[  # noqa: ARG001 - the lines are JSON either way
        bool, typer.Option("--json", help="Print JSON, a line for each input, as it does without this option.")
    ] = False,
) -> None:
    """Answer each line of a file with one line of JSON, by the committed version; a picture by itself is one input.

    With --output one file is written: an enhanced or painted photo, a frame with another background (of a folder of
    frames, a folder), or a sound (WAV or raw 16-bit samples) without its noise.
    Exits with 1 where not one line could be answered, or the file not be read.
    """
    _require_known(name, catalogue())
    if output:
        convert = getattr(catalogue()[name], "convert", None)
        given = {"mode": mode, "picture": picture, "style": style, "strength": strength}
        choices = _choices_of(name, convert, given)
        if convert is None:
            convert_sound(name, source, output, rate)
        else:
            _convert(name, convert, source, Path(output), choices)
        return
    if source != "-" and not Path(source).is_file():
        raise typer.BadParameter(f"{source} is not a file", param_hint="--input")
    seen = answered = 0
    with nullcontext(sys.stdin.buffer) if source == "-" else Path(source).open("rb") as stream:
        lines = iter(stream) if source == "-" or not _is_picture(Path(source)) else _one_picture(name, source)
        for answer in answers(name, lines):
            say(json.dumps(answer, ensure_ascii=False))
            seen += 1
            answered += "error" not in answer
    if seen and not answered:
        raise typer.Exit(FAILED)


def _choices_of(name: str, convert: Callable[..., Any] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was chosen of `convert`'s own parameters.

    Raises:
        typer.BadParameter: the feature has no such choice.
    """
    chosen = {key: value for key, value in given.items() if value is not None}
    for key in chosen:
        if convert is None or key not in signature(convert).parameters:
            raise typer.BadParameter(f"{name} has no {key}", param_hint=f"--{key}")
    return chosen


def _convert(name: str, convert: Callable[..., Any], source: str, target: Path, choices: Mapping[str, Any]) -> None:
    """Write what a feature's own `convert(source, target)` makes of a file or folder, and print its answer.

    Raises:
        typer.BadParameter: there is no input file.
        typer.Exit: the file cannot be read.
    """
    if source == "-":
        raise typer.BadParameter(f"{name} takes a file with --output: --input FILE", param_hint="--input")
    takes_folders = getattr(catalogue()[name], "converts_folders", False)
    if not Path(source).is_file() and not (takes_folders and Path(source).is_dir()):
        raise typer.BadParameter(f"{source} is not a file", param_hint="--input")
    version = catalogue()[name].default_version
    try:
        answer: dict[str, Any] = {"value": asdict(convert(Path(source), target, **choices)), "version": version}
    except ValueError as error:
        problem = {"type": type(error).__name__, "message": str(error)}
        answer = {"value": None, "version": version, "error": problem}
    say(json.dumps(answer, ensure_ascii=False))
    if "error" in answer:
        raise typer.Exit(FAILED)


def _is_picture(path: Path) -> bool:
    """Tell whether a file is a picture and no lines of text."""
    with path.open("rb") as file:
        return file.read(max(map(len, _PICTURES))).startswith(_PICTURES)


def _one_picture(name: str, source: str) -> Iterator[bytes]:
    """Return the line that names a picture, of a feature whose lines do.

    Raises:
        typer.BadParameter: the feature takes none.
    """
    from alcove.runtime import load  # noqa: PLC0415 - loads the runtime

    takes = load(catalogue()[name].default_program).inputs[0]
    if len(takes.shape) != _PIXELS_RANK:
        raise typer.BadParameter(f"{source} is a picture; {name} takes lines of text", param_hint="--input")
    return iter((source.encode(),))
