"""Translates the errors of a command to the message that a person reads and to the exit code."""

import re
from collections.abc import Collection
from pathlib import Path
from types import MappingProxyType
from typing import Final

import typer
from alcove.platform.cli.exit_codes import FAILED, FORBIDDEN, NO_ANSWER, NOT_FOUND
from alcove.platform.cli.output import plain
from alcove.platform.client.errors import (
    ClientError,
    DeadlineError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)
from alcove.platform.domain.errors import PlatformError, ResourceNotFoundError
from alcove.registry.canonical import fault_text
from alcove.registry.errors import RegistryError, SignatureError
from alcove.runtime.errors import AlcoveRuntimeError
from pydantic import ValidationError

__all__ = ["explain", "name_options"]

_OTHERWISE: Final = MappingProxyType({"share_basis_points": "--share", "lifetime_s": "--days"})
"""Options by the fields that are called otherwise."""
_BASIS_POINTS: Final = re.compile(
    r"^(?P<field>(?:\w+\.)*share_basis_points): expected (?P<bound>.*), got '?(?P<got>\d+)'?$", re.DOTALL
)


def explain(error: Exception, options: Collection[str] = ()) -> tuple[str, int] | None:
    """Return the sentence and the exit code of an error that a user can cause; None for a fault of ours.

    `options` are those of the command that ran; the sentence names fields by them.
    """
    if isinstance(error, UnavailableError | DeadlineError):
        return _no_answer(error), NO_ANSWER
    if isinstance(error, typer.Abort):
        return "stopped", FAILED
    message = _message(error)
    return None if message is None else (name_options(message.removeprefix("value: "), options), _code(error))


def _no_answer(error: ClientError) -> str:
    """Return what is known of a server that did not answer, without gRPC's words where they say no more."""
    message = plain(error.message)
    cause = message.rpartition("Failed to connect to remote host: ")[2]
    if any(sign in message for sign in ("Socket closed", "Connection reset", "EOF was observed")):
        cause += "\nDoes the server speak TLS?  Then name the certificate to trust: --tls-root."
    elif "Failed parsing HTTP/2" in message:
        cause = "what answers there is no gRPC server (devices ask at another port than alcove's commands)"
    elif "handshake" in message.lower() or "ssl" in message.lower():
        cause += "\nIs the server's certificate one that --tls-root trusts, and does it speak TLS at all?"
    return f"no answer: {cause}\nIs the server running (alcove serve)?  Repeating is safe."


def name_options(message: str, options: Collection[str]) -> str:
    """Return a message of the server in the words of a command: fields that are options of it by their options' names.

    Args:
        message: names fields as the wire does: "override_reason", or "version: expected …".
        options: of the command, such as "--override-reason".
    """
    message = _BASIS_POINTS.sub(_in_percent, message)
    if "--set" in options:  # of parameters' values, such as values.threshold and arms.tight.values.threshold
        message = re.sub(r"^(?:arms\.)?(?:([^: ]+?)\.)?values\.(?:name|(?P<name>\w+))(?=: )", _set_option, message)
    if "--arm" in options:  # which holds an arm's name, version and share
        message = re.sub(r"^arms\.(?:name|version|share_basis_points)(?=: )", "--arm", message)
    for field, option in ((option.removeprefix("--").replace("-", "_"), option) for option in options):
        named = "|".join([field, *(other for other, its in _OTHERWISE.items() if its == option)])
        message = re.sub(rf"^(?:{named})(?=: )", option, message)
        if "_" in named:
            words = "|".join(word for word in named.split("|") if "_" in word)
            message = re.sub(rf"(?<![\w.-])(?:{words})(?![\w-])", option, message)
    return message


def _in_percent(match: re.Match[str]) -> str:
    """Return a refusal of a share as people type shares: 5 %, where the wire has 500 basis points."""
    bound = match["bound"].replace("0 (left out)", "nothing")
    bound = re.sub(r"\d+(?: basis points)? \(([\d.]+ %)\)", r"\1", bound)
    bound = re.sub(r"(?<![\d.])(\d+)(?! ?%|[\d.])", lambda number: f"{int(number[1]) / 100:g} %", bound)
    return f"{match['field']}: expected {bound}, got {int(match['got']) / 100:g} %"


def _set_option(match: re.Match[str]) -> str:
    words = [word for word in (match[1], match["name"]) if word]
    return " ".join(["--set", ".".join(words)]).strip()


def _code(error: Exception) -> int:
    if isinstance(error, NotFoundError | ResourceNotFoundError):
        return NOT_FOUND
    if isinstance(error, UnauthenticatedError | PermissionDeniedError):
        return FORBIDDEN
    return FAILED


def _message(error: Exception) -> str | None:
    match error:
        case UnauthenticatedError():
            message = f"{plain(error.message)}\nGive the token's file with --token-file or ALCOVE_TOKEN_FILE."
        case ClientError():
            message = plain(error.message)
        case SignatureError() if error.role in ("root", "targets"):
            message = f"{plain(error)}\nWho still has to sign: alcove keys status CHANGE"
        case SignatureError():
            message = f"{plain(error)}\nIs this the key of the team that owns the feature?"
        case PlatformError() | RegistryError() | AlcoveRuntimeError():
            # The runtime's has a line for each finding of an export, of the caller's own module.
            message = str(error) if isinstance(error, AlcoveRuntimeError) else plain(error)
        case ValidationError():
            fault = error.errors(include_url=False)[0]
            text, value = fault_text(fault), fault["input"]
            if isinstance(value, int | float) and fault["type"] != "value_error":
                text = f"expected {text}, got {value}"  # a text, such as the URL of a store, may hold a secret
            message = f"{'.'.join(map(str, fault['loc'])) or 'value'}: {text}"
        case OSError(filename=str() | Path()):
            message = f"{error.filename}: {error.strerror}"
        case _:
            return None
    return message
