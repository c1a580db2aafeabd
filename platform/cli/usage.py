"""Says what is wrong with a command's arguments, without loading what the command would need."""

from typing import Any

import typer
from alcove.platform.cli.output import plain

__all__ = ["UsageError", "explain_usage"]

UsageError: Any = typer.BadParameter.__mro__[1]
"""Root of what Typer and our commands raise about arguments; Typer has no public name for it."""


def explain_usage(error: Any) -> str:
    """Return what is wrong with the arguments, which others may have written; the help where there are none."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(error.ctx.get_help())
    context = error.ctx
    hint = f"\nTry '{context.command_path} --help'." if context is not None else ""
    return f"alcove: {plain(error.format_message())}{hint}"
