"""`alcove serve`: runs the server until a signal stops it."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from alcove.platform.cli.connection import Blobs, Database
from alcove.platform.cli.files import online_folder
from pydantic import SecretStr

__all__ = ["serve_command"]


class Part(StrEnum):
    """The part that one command serves alone."""

    GRPC = "grpc"
    INGRESS = "ingress"


def serve_command(
    *,
    data_dir: Annotated[Path, typer.Option(help="Database, blobs and signed tree (made by alcove keys create).")],
    keys: Annotated[
        Path | None,
        typer.Option(help="Folder with the four online keys, and no other key; DATA_DIR-keys by default."),
    ] = None,
    database: Database = None,
    blobs: Blobs = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    grpc_port: Annotated[int, typer.Option(help="Port for teams and operators; 0: any free port.")] = 7443,
    http_port: Annotated[int, typer.Option(help="Port for devices; 0: any free port.")] = 7480,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM file with the TLS certificate chain of both ports.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file with the private key of the TLS certificate.")] = None,
    client_ca: Annotated[
        Path | None, typer.Option(help="PEM certificates of the CA of client certificates; opens their port.")
    ] = None,
    client_certificates: Annotated[
        Path | None, typer.Option(help='JSON file of their names and roles: {"dns:deploy.acme.example": "operator"}.')
    ] = None,
    mtls_port: Annotated[int, typer.Option(help="Port for callers with client certificates; 0: any free port.")] = 7444,
    console: Annotated[
        bool | None,
        typer.Option(
            "--console/--no-console",
            help="Show the console, a web page; by default where --host is this machine.",
        ),
    ] = None,
    console_port: Annotated[
        int | None,
        typer.Option(help="Port of the console; 0: any free port; by default 7481, if that is free."),
    ] = None,
    console_url: Annotated[
        str, typer.Option(help="Address of the console behind a proxy of your own, https://console.example.")
    ] = "",
    console_certificates: Annotated[
        bool,
        typer.Option(
            "--console-certificates",
            help="Sign people in to the console by the client certificates of --client-certificates.",
        ),
    ] = False,
    session_idle_minutes: Annotated[
        int, typer.Option(help="Minutes after which a session of the console ends that nobody uses.")
    ] = 60,
    oidc_issuer: Annotated[
        str | None, typer.Option(help="URL of a provider of OpenID Connect that signs people in to the console.")
    ] = None,
    oidc_client_id: Annotated[str | None, typer.Option(help="Id of this server at the provider.")] = None,
    oidc_client_secret_file: Annotated[
        Path | None, typer.Option(help="File with the secret of that id (0600); without it, a public client.")
    ] = None,
    oidc_role_claim: Annotated[
        str, typer.Option(help="Claim of the identity token that --oidc-roles gives roles by.")
    ] = "groups",
    oidc_roles: Annotated[
        Path | None,
        typer.Option(help='JSON file of roles by value of that claim: {"alcove-operators": "operator"}.'),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(help="Port that answers Prometheus at /metrics, without TLS; 0: any free port.")
    ] = None,
    traces: Annotated[
        str | None, typer.Option(help="OTLP collector for traces, http(s)://host:4317, or console.")
    ] = None,
    reflection: Annotated[
        bool, typer.Option("--reflection", help="Answer gRPC reflection, for callers with a token.")
    ] = False,
    calls_per_second: Annotated[
        int, typer.Option(help="Largest number of gRPC calls in a second by one caller.")
    ] = 1000,
    call_seconds: Annotated[
        float, typer.Option(help="Longest time of a gRPC call in seconds; streams are exempt.")
    ] = 120.0,
    reports_per_second: Annotated[
        int, typer.Option(help="Largest number of reports accepted in a second, from all devices.")
    ] = 100_000,
    bodies_per_second: Annotated[
        int, typer.Option(help="Largest number of report bodies read in a second, whether accepted or not.")
    ] = 5000,
    connections: Annotated[
        int, typer.Option(help="Largest number of connections from devices that are open at once.")
    ] = 2048,
    connections_per_address: Annotated[
        int, typer.Option(help="Largest number of connections from one device address that are open at once.")
    ] = 64,
    requests_per_address: Annotated[
        int, typer.Option(help="Largest number of requests in a second from one device address.")
    ] = 200,
    behind_proxy: Annotated[
        str, typer.Option(help="Addresses of your own proxies, with commas: they limit addresses in our place.")
    ] = "",
    aggregators: Annotated[
        Path | None,
        typer.Option(help="collector.json of two aggregators (made by alcove aggregator create), to collect from."),
    ] = None,
    token_issuer: Annotated[
        str | None,
        typer.Option(
            help="URL at which this server issues tokens to devices, a path of its own port, as tasks name it."
        ),
    ] = None,
    software_attestation: Annotated[
        Path | None,
        typer.Option(
            help="PEM file with an Ed25519 public key: who has its private key enrolls devices. For tests alone."
        ),
    ] = None,
    alerts: Annotated[
        Path | None,
        typer.Option(help="TOML file of webhooks and mailboxes that hear of halts, decisions and expiring keys."),
    ] = None,
    only: Annotated[
        Part | None, typer.Option(help="Serve teams and operators alone (grpc), or devices alone (ingress, no keys).")
    ] = None,
) -> None:
    """Run the server; prints one line of JSON with its addresses when it answers.

    Devices are answered by a process of their own, which the first one starts, watches and ends.
    """
    from alcove.platform.ingress.serve import serve_ingress  # noqa: PLC0415
    from alcove.platform.ingress.settings import IngressSettings  # noqa: PLC0415
    from alcove.platform.server.serve import serve  # noqa: PLC0415 - other verbs need no database and no web server
    from alcove.platform.server.settings import Settings, is_loopback  # noqa: PLC0415

    common: dict[str, Any] = {
        "data_dir": data_dir,
        "database_url": None if database is None else SecretStr(database),
        "blobs": blobs,
        "host": host,
        "http_port": http_port,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
        "metrics_port": metrics_port,
        "reports_per_second": reports_per_second,
        "bodies_per_second": bodies_per_second,
        "connections": connections,
        "connections_per_address": connections_per_address,
        "requests_per_address": requests_per_address,
        "behind_proxy": behind_proxy,
        "token_issuer": token_issuer,
        "software_attestation": software_attestation,
    }
    if only is Part.INGRESS:
        asyncio.run(serve_ingress(IngressSettings(**common)))
        return
    keys = keys or online_folder(data_dir)
    if not keys.is_dir():
        problem = f"{keys} is not there: name the folder of the four online keys (alcove keys create makes it)"
        raise typer.BadParameter(problem, param_hint="--keys")
    settings = Settings(
        **common,
        online_keys=keys,
        grpc_port=grpc_port,
        client_ca=client_ca,
        client_certificates=client_certificates,
        mtls_port=mtls_port,
        traces=traces,
        reflection=reflection,
        calls_per_second=calls_per_second,
        call_s_max=call_seconds,
        console=is_loopback(host) if console is None else console,
        console_port=console_port,
        console_url=console_url,
        console_certificates=console_certificates,
        session_idle_minutes=session_idle_minutes,
        oidc_issuer=oidc_issuer,
        oidc_client_id=oidc_client_id,
        oidc_client_secret_file=oidc_client_secret_file,
        oidc_role_claim=oidc_role_claim,
        oidc_roles=oidc_roles,
        aggregators=aggregators,
        alerts=alerts,
        only=None if only is None else "grpc",
    )
    asyncio.run(serve(settings))
