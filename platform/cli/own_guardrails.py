"""Parses guardrails of a team's own metrics, metric:NAME[@VERSION]:MARGIN, and tells them from the others."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer
from alcove.platform.cli.shares import parts_of

if TYPE_CHECKING:
    from alcove.platform.client import OwnGuardrail

__all__ = ["OWN_GUARD_HELP", "own_difference_of", "own_guardrails_of", "own_spreads_of", "without_own"]

OWN_GUARD_HELP: Final = "metric:NAME:MARGIN for a metric of your own (`alcove metric create`), the margin in its unit"
_PREFIX: Final = "metric:"
_OWN: Final = re.compile(r"metric:([a-z][a-z0-9_]*)(?:@(\d{1,4}))?:(\d+(?:\.\d+)?)", re.ASCII)


def own_guardrails_of(texts: Sequence[str]) -> "tuple[OwnGuardrail, ...]":
    """Return the guardrails of own metrics among the texts.

    Raises:
        typer.BadParameter: one reads otherwise.
    """
    return tuple(map(_own_guardrail_of, (text for text in texts if text.startswith(_PREFIX))))


def without_own(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of all other guardrails."""
    return tuple(text for text in texts if not text.startswith(_PREFIX))


def own_spreads_of(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Return the part of the devices in each bin of own metrics, of texts such as metric:undone_edits=57%,24%,19%.

    Raises:
        typer.BadParameter: one that begins so reads otherwise.
    """
    found = {}
    for text in texts:
        if text.startswith(_PREFIX):
            name, _, parts = text.removeprefix(_PREFIX).partition("=")
            found[name] = parts_of(parts)
    return found


def own_difference_of(text: str) -> tuple[str, float] | None:
    """Return the metric and the difference that metric:NAME:DIFFERENCE means; None: it reads otherwise."""
    match = _OWN.fullmatch(text)
    return None if match is None else (match[1], float(match[3]))


def _own_guardrail_of(text: str) -> "OwnGuardrail":
    from alcove.platform.client import OwnGuardrail  # noqa: PLC0415 - loads gRPC

    match = _OWN.fullmatch(text)
    if match is None:
        problem = (
            f"an own metric's guardrail is written metric:undone_edits:0.2 or metric:undone_edits@2:0.2; got {text!r}"
        )
        raise typer.BadParameter(problem, param_hint="--guard")
    return OwnGuardrail(metric=match[1], metric_version=int(match[2] or 0), margin=float(match[3]))
