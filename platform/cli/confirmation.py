"""Shows what a command would do that cannot be undone, and asks before it does it."""

import sys
from typing import Annotated

import typer
from alcove.platform.cli.output import plain, say

__all__ = ["Yes", "confirm"]

Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Don't ask; without a terminal to ask at, this is how a script says yes.")
]


def confirm(*preview: str, yes: bool) -> None:
    """Return if the person agrees to what the lines of `preview` say; they are printed to standard error.

    Args:
        preview: what would happen, for people; the last line is the question, without its mark.
        yes: whether it was agreed to on the command line; then nothing is printed or asked.

    Raises:
        typer.BadParameter: there is no terminal to ask at.
        typer.Abort: the answer is no.
    """
    if yes:
        return
    say(*preview[:-1], err=True)
    if not sys.stdin.isatty():
        raise typer.BadParameter(
            f"{preview[-1]}: there is no way back, and no terminal to ask at; add --yes", param_hint="--yes"
        )
    typer.confirm(f"{plain(preview[-1])}?", abort=True, err=True)
