"""`alcove model tag`: sets and removes the tags by which versions are found."""

from typing import TYPE_CHECKING, Annotated

import typer
from alcove.platform.cli.connection import CallOptions
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import print_json, say
from alcove.platform.cli.references import VersionArgument, resolve

if TYPE_CHECKING:
    from alcove.platform.client import Version

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="Attach tags to versions, by which they are found.")


@app.command("set")
def set_command(
    *,
    name: VersionArgument,
    tag: Annotated[str, typer.Argument(metavar="KEY=VALUE", help="Tag to attach; it replaces one with the same key.")],
    call: CallOptions,
) -> None:
    """Give a version a tag, or its tag another value."""
    key, equals, value = tag.partition("=")
    if not equals:
        raise typer.BadParameter(f"write KEY=VALUE, got {tag!r}")
    with call.connect() as client:
        version = client.set_tag(*resolve(client, name), key, value)
    _tell(version, as_json=call.as_json)


@app.command("remove")
def remove(
    *,
    name: VersionArgument,
    key: Annotated[str, typer.Argument(help='Key of the tag, the part before "=".')],
    call: CallOptions,
) -> None:
    """Take a tag from a version."""
    with call.connect() as client:
        version = client.remove_tag(*resolve(client, name), key)
    _tell(version, as_json=call.as_json)


def _tell(version: "Version", *, as_json: bool) -> None:
    if as_json:
        print_json(version)
    else:
        tags = ", ".join(f"{tag.key}={tag.value}" for tag in version.tags) or "no tags"
        say(f"{version.feature} {version.version}: {tags}")
