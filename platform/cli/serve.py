"""`alcove serve`: run the server until told to stop."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.cli.connection import Blobs, Database
from pydantic import SecretStr

__all__ = ["serve_command"]


def serve_command(
    *,
    data_dir: Annotated[Path, typer.Option(help="Database, blobs and signed tree (made by alcove keys create).")],
    keys: Annotated[Path, typer.Option(help="Folder with the four online keys, and no other key.")],
    database: Database = None,
    blobs: Blobs = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    grpc_port: Annotated[int, typer.Option(help="For teams and operators; 0: any free port.")] = 7443,
    http_port: Annotated[int, typer.Option(help="For devices; 0: any free port.")] = 7480,
    tls_certificate: Annotated[Path | None, typer.Option(help="PEM certificate chain for both ports.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM key of the certificate.")] = None,
    reports_per_second: Annotated[int, typer.Option(help="Reports accepted a second, of all devices.")] = 100_000,
) -> None:
    """Run the server; prints one line of JSON with its addresses when it answers."""
    from alcove.platform.server import Settings, serve  # noqa: PLC0415 - other verbs need no database and no web server

    settings = Settings(
        data_dir=data_dir,
        online_keys=keys,
        database_url=None if database is None else SecretStr(database),
        blobs=blobs,
        host=host,
        grpc_port=grpc_port,
        http_port=http_port,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        reports_per_second=reports_per_second,
    )
    asyncio.run(serve(settings))
