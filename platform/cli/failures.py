"""Translates the errors of a command to the message that a person reads and to the exit code."""

from pathlib import Path
from typing import Any

import typer
from alcove.platform.cli.output import plain
from alcove.platform.client.errors import ClientError, DeadlineError, UnauthenticatedError, UnavailableError
from alcove.platform.domain.errors import PlatformError
from alcove.registry.errors import RegistryError, SignatureError
from alcove.runtime.errors import AlcoveRuntimeError
from pydantic import ValidationError

__all__ = ["FAILED", "NO_ANSWER", "explain"]

FAILED = 1
MISUSED = 2
NO_ANSWER = 3

_UsageError = typer.BadParameter.__mro__[1]  # Typer has no public name for it


def explain(error: Exception) -> tuple[str, int] | None:
    """Return the sentence and the exit code of an error that a user can cause; None for a fault of ours."""
    if isinstance(error, UnavailableError | DeadlineError):
        return (
            f"no answer: {plain(error.message)}\nIs the server running (alcove serve)?  Repeating is safe.",
            NO_ANSWER,
        )
    if isinstance(error, _UsageError):
        return _usage(error), MISUSED
    if isinstance(error, typer.Abort):
        return "stopped", FAILED
    message = _message(error)
    return None if message is None else (message, FAILED)


def _usage(error: Any) -> str:
    """Return what is wrong with the arguments, which others may have written; nothing where help was shown."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return ""
    context = error.ctx
    hint = f"\nTry '{context.command_path} --help'." if context is not None else ""
    return f"{plain(error.format_message())}{hint}"


def _message(error: Exception) -> str | None:
    match error:
        case UnauthenticatedError():
            message = f"{plain(error.message)}\nGive the token's file with --token-file or ALCOVE_TOKEN_FILE."
        case ClientError():
            message = plain(error.message)
        case SignatureError():
            message = f"{plain(error)}\nIs this the key of the team that owns the feature?"
        case PlatformError() | RegistryError() | AlcoveRuntimeError():
            # The runtime's has a line for each finding of an export, of the caller's own module.
            message = str(error) if isinstance(error, AlcoveRuntimeError) else plain(error)
        case ValidationError():
            fault = error.errors(include_url=False)[0]
            message = f"{'.'.join(map(str, fault['loc'])) or 'value'}: {fault['msg'].removeprefix('Value error, ')}"
        case OSError(filename=str() | Path()):
            message = f"{error.filename}: {error.strerror}"
        case _:
            return None
    return message
