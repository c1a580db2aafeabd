"""`alcove login` and `alcove profile`: keeps a server's address, trusted certificates and token under a name."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.confirmation import Yes, confirm
from alcove.platform.cli.connection import LOCAL_SERVER, has_certificate, make_client
from alcove.platform.cli.files import read_secret
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import AsJson, print_json, print_rows, say
from alcove.platform.cli.profiles import (
    DEFAULT_PROFILE,
    Profile,
    profiles_file,
    read_profiles,
    token_path,
    write_profiles,
    write_secret,
)

__all__ = ["login", "profiles"]

profiles = CommandGroup(no_args_is_help=True, help="Servers that alcove login keeps by name.")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")


def login(
    *,
    profile: Annotated[
        str, typer.Option(envvar="ALCOVE_PROFILE", help="Name of the profile; 'default' is used where none is named.")
    ] = DEFAULT_PROFILE,
    server: Annotated[
        str, typer.Option(envvar="ALCOVE_SERVER", help="host:port of the gRPC server; TLS unless this machine.")
    ] = LOCAL_SERVER,
    token_file: Annotated[
        Path | None,
        typer.Option(
            envvar="ALCOVE_TOKEN_FILE", help="File with the API token, which stays where it is; else it is asked for."
        ),
    ] = None,
    tls_root: Annotated[
        Path | None, typer.Option(envvar="ALCOVE_TLS_ROOT", help="PEM file of certificates to trust.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Call a server once, and keep its address, certificates and token for the commands that follow.

    A token that is asked for is kept in a file of its own (0600) beside the profiles.
    """
    if _NAME.fullmatch(profile) is None:
        problem = f"a name is 1 to 32 lower-case letters, digits, - and _; got {profile!r}"
        raise typer.BadParameter(problem, param_hint="--profile")
    kept = token_file
    if token_file is not None:
        token = read_secret(token_file).strip()
    elif has_certificate():
        token = ""
    else:
        if not sys.stdin.isatty():
            problem = "name the token's file: there is no terminal to ask for the token at"
            raise typer.BadParameter(problem, param_hint="--token-file")
        token = str(typer.prompt("API token (alcove token create)", hide_input=True, err=True)).strip()
        kept = token_path(profile)
    with make_client(server, token, tls_root) as client:
        client.versions(limit=1)
    if token_file is None and kept is not None:
        write_secret(kept, token + "\n")
    made = Profile(
        server=server,
        token_file="" if kept is None else str(kept.resolve()),
        tls_root="" if tls_root is None else str(tls_root.resolve()),
    )
    write_profiles(read_profiles() | {profile: made})
    if as_json:
        print_json({"profile": profile, **vars(made)})
    else:
        more = "" if profile == DEFAULT_PROFILE else f" --profile {profile}"
        say(f"profile {profile} calls {server}; next: alcove model list{more}")


@profiles.command("list")
def list_command(*, as_json: AsJson = False) -> None:
    """List the profiles: which server each calls, and with which files."""
    rows = [{"profile": name, **vars(profile)} for name, profile in sorted(read_profiles().items())]
    if not as_json:
        rows = [{key: value or "-" for key, value in row.items()} for row in rows]
    print_rows(rows, as_json=as_json, empty=f"no profile in {profiles_file()}: alcove login")


@profiles.command("delete")
def delete(
    *,
    name: Annotated[str, typer.Argument(help="Name of the profile.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Delete a profile, and the token's file if alcove login wrote it; the token itself stays valid."""
    found = read_profiles()
    if name not in found:
        raise typer.BadParameter(f"no profile {name!r}; there are: {', '.join(sorted(found)) or 'none'}")
    gone = found.pop(name)
    own_token = gone.token_file == str(token_path(name).resolve())
    if own_token:
        confirm(f"{gone.token_file} is deleted with the profile", f"Delete profile {name}", yes=yes)
        token_path(name).unlink(missing_ok=True)
    write_profiles(found)
    if as_json:
        print_json({"profile": name, **vars(gone)})
    else:
        say(f"profile {name} is deleted")
