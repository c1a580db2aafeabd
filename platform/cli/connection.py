"""Connects a command to its server, and defines the options and environment variables that say where and as whom."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.files import read_secret
from alcove.platform.cli.output import AsJson
from alcove.platform.client import PlatformClient
from alcove.registry.keys import check_private_file

__all__ = ["Blobs", "CallOptions", "Database"]

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


@dataclass(frozen=True)
class CallOptions:
    """Options of every command that calls the server: where it is, as whom, and how to print what it answers."""

    server: Annotated[
        str,
        typer.Option("--server", envvar="ALCOVE_SERVER", help="host:port of the gRPC server; TLS unless this machine."),
    ] = "127.0.0.1:7443"
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", envvar="ALCOVE_TOKEN_FILE", help="File with the API token (alcove token create)."),
    ] = None
    tls_root: Annotated[
        Path | None, typer.Option("--tls-root", envvar="ALCOVE_TLS_ROOT", help="PEM file of certificates to trust.")
    ] = None
    as_json: AsJson = False

    def connect(self) -> PlatformClient:
        """Return a client; the token is read from a file, so that no process list or shell history shows it.

        Where ALCOVE_CLIENT_CERTIFICATE and ALCOVE_CLIENT_KEY name PEM files, they are shown to the server, and a token
        is not needed.

        Raises:
            typer.BadParameter: neither a token's file nor a certificate, or one of its two files.
            InvalidFieldError: the token's file is not UTF-8.
            OSError: a file cannot be read.
        """
        certificate = _certificate()
        if self.token_file is None and certificate is None:
            problem = "name the token's file, or set ALCOVE_TOKEN_FILE (make one: alcove token create --out FILE)"
            raise typer.BadParameter(problem, param_hint="--token-file")
        token = "" if self.token_file is None else read_secret(self.token_file).strip()
        trusted = None if self.tls_root is None else self.tls_root.read_bytes()
        return PlatformClient(self.server, token, tls_root=trusted, certificate=certificate)


def _certificate() -> tuple[bytes, bytes] | None:
    """Return key and certificate of the caller, as the environment names their files; None where it names none."""
    names = [os.environ.get(f"ALCOVE_CLIENT_{part}") for part in ("KEY", "CERTIFICATE")]
    if not any(names):
        return None
    key, chain = names
    if not key or not chain:
        problem = "ALCOVE_CLIENT_CERTIFICATE and ALCOVE_CLIENT_KEY come together"
        raise typer.BadParameter(problem)
    check_private_file(Path(key))
    return Path(key).read_bytes(), Path(chain).read_bytes()
