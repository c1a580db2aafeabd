"""What does a person read when a command fails, and which exit code does it end with?"""

from pathlib import Path

from alcove.platform.cli.output import plain
from alcove.platform.client.errors import ClientError, DeadlineError, UnauthenticatedError, UnavailableError
from alcove.platform.core.errors import PlatformError
from alcove.registry.errors import RegistryError, SignatureError
from alcove.runtime.errors import AlcoveRuntimeError
from pydantic import ValidationError

__all__ = ["FAILED", "NO_ANSWER", "explain"]

FAILED = 1
NO_ANSWER = 3


def explain(error: Exception) -> tuple[str, int] | None:
    """Return the sentence and the exit code of an error that a user can cause; None for a fault of ours."""
    if isinstance(error, UnavailableError | DeadlineError):
        return (
            f"no answer: {plain(error.message)}\nIs the server running (alcove serve)?  Repeating is safe.",
            NO_ANSWER,
        )
    message = _message(error)
    return None if message is None else (message, FAILED)


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
