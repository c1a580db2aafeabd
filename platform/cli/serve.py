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
    client_ca: Annotated[
        Path | None, typer.Option(help="PEM certificates of the CA of client certificates; opens their port.")
    ] = None,
    client_certificates: Annotated[
        Path | None, typer.Option(help='JSON file of their names and roles: {"dns:deploy.acme.example": "operator"}.')
    ] = None,
    mtls_port: Annotated[int, typer.Option(help="For callers with client certificates; 0: any free port.")] = 7444,
    metrics_port: Annotated[
        int | None, typer.Option(help="Answers Prometheus at /metrics, without TLS; 0: any free port.")
    ] = None,
    traces: Annotated[
        str | None, typer.Option(help="OTLP collector for traces, http(s)://host:4317, or console.")
    ] = None,
    reflection: Annotated[bool, typer.Option("--reflection", help="Tell known callers which calls there are.")] = False,
    calls_per_second: Annotated[int, typer.Option(help="gRPC calls that one caller may make a second.")] = 1000,
    call_seconds: Annotated[float, typer.Option(help="Seconds that a gRPC call may run, but for a stream.")] = 120.0,
    reports_per_second: Annotated[int, typer.Option(help="Reports accepted a second, of all devices.")] = 100_000,
    bodies_per_second: Annotated[int, typer.Option(help="Bodies of reports read a second, good or bad.")] = 1000,
) -> None:
    """Run the server; prints one line of JSON with its addresses when it answers."""
    from alcove.platform.server.serve import serve  # noqa: PLC0415 - other verbs need no database and no web server
    from alcove.platform.server.settings import Settings  # noqa: PLC0415

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
        client_ca=client_ca,
        client_certificates=client_certificates,
        mtls_port=mtls_port,
        metrics_port=metrics_port,
        traces=traces,
        reflection=reflection,
        calls_per_second=calls_per_second,
        call_s_max=call_seconds,
        reports_per_second=reports_per_second,
        bodies_per_second=bodies_per_second,
    )
    asyncio.run(serve(settings))
