"""Takes the noise out of a sound for `alcove feature run noise_suppression --output`: files and pipes."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import typer
from alcove.features import catalogue
from alcove.platform.cli.exit_codes import FAILED
from alcove.platform.cli.output import plain, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from alcove.features.noise_suppression.files import Converted

FEATURE = "noise_suppression"


def convert_sound(name: str, source: str, output: str, rate: int) -> None:
    """Write a sound without its noise, and say what was done where the sound itself isn't printed.

    Args:
        name: of the feature.
        source: a file or "-".
        output: a file or "-"; no file stays that holds half a sound.
        rate: samples a second of raw samples.

    Raises:
        typer.BadParameter: another feature, no such file, or the output is the input.
        typer.Exit: the sound cannot be read.
    """
    if name != FEATURE:
        raise typer.BadParameter(f"{name} gives no sound; {FEATURE} does", param_hint="--output")
    if source != "-" and not Path(source).is_file():
        raise typer.BadParameter(f"{source} is not a file", param_hint="--input")
    if "-" not in (source, output) and Path(output).exists() and os.path.samefile(source, output):  # noqa: PTH121
        raise typer.BadParameter(f"{output} is the input itself", param_hint="--output")
    done = _convert(source, output, rate)
    if output != "-":
        seconds = done.samples / done.rate
        say(f"{output}: {seconds:.2f} s at {done.rate:,} samples a second, speech in {done.speech_share:.0%}")


def _convert(source: str, output: str, rate: int) -> Converted:
    from alcove.features.noise_suppression import AudioError, convert  # noqa: PLC0415 - loads the runtime
    from alcove.runtime import load  # noqa: PLC0415 - loads the runtime

    model = load(catalogue()[FEATURE].default_program)
    with ExitStack() as stack:
        heard: BinaryIO = sys.stdin.buffer if source == "-" else stack.enter_context(Path(source).open("rb"))
        if output == "-":
            return _convert_or_exit(lambda: convert(model, heard, sys.stdout.buffer, rate), AudioError)
        partial = Path(f"{output}.partial")
        stack.callback(partial.unlink, missing_ok=True)
        with partial.open("wb") as sink:
            done = _convert_or_exit(lambda: convert(model, heard, sink, rate), AudioError)
        partial.replace(output)
        return done


def _convert_or_exit(work: Callable[[], Converted], problem: type[ValueError]) -> Converted:
    try:
        return work()
    except problem as error:
        say(plain(error), err=True)
        raise typer.Exit(FAILED) from None
