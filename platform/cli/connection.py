"""Connects a command to its server, and defines the options and environment variables that say where and as whom."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from alcove.platform.cli.files import read_secret
from alcove.platform.cli.output import AsJson, Wide
from alcove.platform.cli.profiles import Profile, ProfileName, find_profile

if TYPE_CHECKING:
    from alcove.platform.client import PlatformClient

__all__ = ["LOCAL_SERVER", "Blobs", "CallOptions", "Database", "has_certificate", "make_client"]

Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar="ALCOVE_DATABASE",
        help="postgresql:// URL of the database of several servers; its password is better in PGPASSFILE.",
    ),
]
Blobs = Annotated[
    str | None,
    typer.Option(
        "--blobs",
        envvar="ALCOVE_BLOBS",
        help="s3://bucket/prefix of the blobs, if they are not in the data folder; keys as AWS_… in the environment.",
    ),
]


LOCAL_SERVER: Final = "127.0.0.1:7443"


@dataclass(frozen=True)
class CallOptions:
    """Options of every command that calls the server: where it is, as whom, and how to print what it answers."""

    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            envvar="ALCOVE_SERVER",
            help=f"host:port of the gRPC server; TLS unless this machine.  Else the profile's, else {LOCAL_SERVER}.",
        ),
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", envvar="ALCOVE_TOKEN_FILE", help="File with the API token (alcove token create)."),
    ] = None
    tls_root: Annotated[
        Path | None, typer.Option("--tls-root", envvar="ALCOVE_TLS_ROOT", help="PEM file of certificates to trust.")
    ] = None
    profile: ProfileName = None
    is_wide: Wide = False
    as_json: AsJson = False

    def connect(self) -> "PlatformClient":
        """Return a client; the token is read from a file, so that no process list or shell history shows it.

        What is not given is the profile's.  Where ALCOVE_CLIENT_CERTIFICATE and ALCOVE_CLIENT_KEY name PEM files, they
        are shown to the server, and a token is not needed.

        Raises:
            typer.BadParameter: neither a token's file nor a certificate, one of its two files, or no such profile.
            InvalidFieldError: the token's file or the profiles are not to be read.
            OSError: a file cannot be read.
        """
        kept = find_profile(self.profile, server=self.server) or Profile(LOCAL_SERVER)
        token_file = self.token_file or (Path(kept.token_file) if kept.token_file else None)
        tls_root = self.tls_root or (Path(kept.tls_root) if kept.tls_root else None)
        if token_file is None and not has_certificate():
            problem = (
                "name the token's file, set ALCOVE_TOKEN_FILE, or keep both once with alcove login"
                " (make a token: alcove token create --out FILE)"
            )
            raise typer.BadParameter(problem, param_hint="--token-file")
        token = "" if token_file is None else read_secret(token_file).strip()
        return make_client(self.server or kept.server, token, tls_root)


def make_client(server: str, token: str, tls_root: Path | None) -> "PlatformClient":
    """Return a client of a server, which is shown the caller's certificate where the environment names one.

    Raises:
        typer.BadParameter: the server is a URL of another protocol, or the environment names one file of two.
        OSError: a file cannot be read.
    """
    if "://" in server and not server.startswith(("dns://", "unix://", "xds://")):
        problem = (
            f"gRPC is at HOST:PORT, such as {LOCAL_SERVER}, without {server.partition('://')[0]}://; got {server!r}"
        )
        raise typer.BadParameter(problem, param_hint="--server")
    from alcove.platform.client import PlatformClient  # noqa: PLC0415 - a mistake in the options needs no gRPC

    trusted = None if tls_root is None else tls_root.read_bytes()
    return PlatformClient(server, token, tls_root=trusted, certificate=_certificate())


def has_certificate() -> bool:
    """Return whether the environment names a certificate of the caller."""
    return any(os.environ.get(f"ALCOVE_CLIENT_{part}") for part in ("KEY", "CERTIFICATE"))


def _certificate() -> tuple[bytes, bytes] | None:
    """Return key and certificate of the caller, as the environment names their files; None where it names none."""
    if not has_certificate():
        return None
    key, chain = (os.environ.get(f"ALCOVE_CLIENT_{part}") for part in ("KEY", "CERTIFICATE"))
    if not key or not chain:
        problem = "ALCOVE_CLIENT_CERTIFICATE and ALCOVE_CLIENT_KEY come together"
        raise typer.BadParameter(problem)
    from alcove.registry.keys import check_private_file  # noqa: PLC0415 - loads TUF

    check_private_file(Path(key))
    return Path(key).read_bytes(), Path(chain).read_bytes()
