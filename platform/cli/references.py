"""Parses and resolves names of versions: `feature@1.2.0`, or `feature@production` by an alias."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient

__all__ = ["Reference", "VersionArgument", "parse_reference", "resolve"]

VersionArgument = Annotated[
    str,
    typer.Argument(metavar="FEATURE@VERSION", help="A version by number or alias: polite@1.2.0, polite@stable."),
]


@dataclass(frozen=True)
class Reference:
    """A named version; exactly one of `version` and `alias` is set, the other is ""."""

    feature: str
    version: str
    alias: str


def parse_reference(text: str) -> Reference:
    """Return what `FEATURE@VERSION` or `FEATURE@ALIAS` names; aliases begin with a letter, versions with a digit.

    Raises:
        typer.BadParameter: it names nothing.
    """
    feature, at, name = text.partition("@")
    if not (feature and at and name):
        raise typer.BadParameter(f"name a version as FEATURE@VERSION or FEATURE@ALIAS, got {text!r}")
    return Reference(feature, name, "") if name[0].isdigit() else Reference(feature, "", name)


def resolve(client: "PlatformClient", text: str) -> tuple[str, str]:
    """Return feature and version number of what `text` names now.

    Raises:
        typer.BadParameter: it names nothing.
        ClientError: there is no such alias, or no answer.
    """
    named = parse_reference(text)
    if named.version:
        return named.feature, named.version
    return named.feature, client.version_details(named.feature, alias=named.alias).version.version
