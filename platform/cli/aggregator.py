"""`alcove aggregator`: makes and runs the two aggregators of private telemetry."""

import asyncio
import base64
import shlex
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer
from alcove.platform.aggregator.config import Seat
from alcove.platform.aggregator.keys import ADVERTISE_AFTER_S, read_keys, rotate_key
from alcove.platform.aggregator.provisioning import create_pair
from alcove.platform.aggregator.serve import USUAL_PORTS, serve_aggregator
from alcove.platform.aggregator.settings import AggregatorSettings
from alcove.platform.cli.connection import Database
from alcove.platform.cli.options import CommandGroup
from alcove.platform.cli.output import AsJson, print_json, say
from alcove.platform.domain.errors import AggregatorFileError
from alcove.privacy.dap.rules import MIN_BATCH_SIZE, MIN_WINDOW_S
from alcove.privacy.ohttp import KeyConfig
from pydantic import SecretStr

__all__ = ["app"]

app = CommandGroup(no_args_is_help=True, help="Make and run the two aggregators of private telemetry.")

DataDir = Annotated[Path, typer.Option(help="Database, HPKE keys and aggregator.json of this aggregator alone.")]
Config = Annotated[
    Path | None, typer.Option(help="Configuration, mode 0600; DATA_DIR/aggregator.json if it is not given.")
]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Certificate = Annotated[Path | None, typer.Option(help="PEM file with the TLS certificate chain.")]
Key = Annotated[Path | None, typer.Option(help="PEM file with the private key of the TLS certificate.")]
MetricsPort = Annotated[
    int | None, typer.Option(help="Port that answers Prometheus at /metrics, without TLS; 0: any free port.")
]
Connections = Annotated[int, typer.Option(help="Largest number of connections that are open at once.")]
PerAddress = Annotated[int, typer.Option(help="Largest number of connections from one address that are open at once.")]
Requests = Annotated[int, typer.Option(help="Largest number of requests in a second from one address.")]
Proxies = Annotated[
    str,
    typer.Option(help="Addresses of your own proxies and of the other aggregator, with commas: not limited singly."),
]


@app.command("create")
def create(
    *,
    folder: Annotated[Path, typer.Argument(help="Folder in which leader/, helper/ and collector/ are made.")],
    leader_url: Annotated[str, typer.Option(help="URL below which the leader will answer; no slash at its end.")],
    helper_url: Annotated[str, typer.Option(help="URL below which the helper will answer; no slash at its end.")],
    min_batch_size: Annotated[
        int, typer.Option(help=f"Fewest reports that are released together, {MIN_BATCH_SIZE} or more.")
    ] = MIN_BATCH_SIZE,
    min_window_s: Annotated[
        int, typer.Option(help=f"Shortest window of a task in seconds, {MIN_WINDOW_S} or more.")
    ] = MIN_WINDOW_S,
    max_epsilon: Annotated[str, typer.Option(help="Largest privacy loss of one window, a fraction like 1/2.")] = "2",
    token_issuer: Annotated[
        str | None,
        typer.Option(
            help="URL below which the issuer answers whose tokens reports must carry; not given: anybody reports."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make the configurations of both aggregators and of their collector, files of mode 0600.

    Give leader/ and helper/ to two operators who do not answer to each other, over a channel that both trust, and keep
    collector/ for `alcove serve`. The HPKE keys are made by each aggregator itself when it starts.
    """
    try:
        epsilon = Fraction(max_epsilon)
    except (ValueError, ZeroDivisionError):
        raise typer.BadParameter("a fraction like 1/2, or an integer", param_hint="--max-epsilon") from None
    paths = create_pair(
        folder,
        leader_url,
        helper_url,
        min_batch_size=min_batch_size,
        min_window_s=min_window_s,
        max_epsilon=epsilon,
        token_issuer=token_issuer,
    )
    if as_json:
        print_json({party: str(path) for party, path in paths.items()})
        return
    for party, path in paths.items():
        say(f"{party}: {path}")
    for seat in Seat:
        say(f"next: alcove aggregator {seat} --data-dir {shlex.quote(str(paths[seat].parent))}")


def _make_serve(seat: Seat, asks: str) -> Callable[..., None]:
    """Return the command that runs one of the aggregators."""

    def serve(
        *,
        data_dir: DataDir,
        config: Config = None,
        database: Database = None,
        host: Host = "127.0.0.1",
        port: Annotated[
            int | None,
            typer.Option(
                help=f"Port for {asks}; 0: any free port. If it is not given: that of its own URL where the URL is"
                f" http:// (of this machine), else {USUAL_PORTS[seat]}."
            ),
        ] = None,
        tls_certificate: Certificate = None,
        tls_key: Key = None,
        metrics_port: MetricsPort = None,
        connections: Connections = 2048,
        connections_per_address: PerAddress = 64,
        requests_per_address: Requests = 200,
        behind_proxy: Proxies = "",
    ) -> None:
        settings = AggregatorSettings(
            data_dir=data_dir,
            config=config,
            database_url=None if database is None else SecretStr(database),
            host=host,
            port=port,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            metrics_port=metrics_port,
            connections=connections,
            connections_per_address=connections_per_address,
            requests_per_address=requests_per_address,
            behind_proxy=behind_proxy,
        )
        asyncio.run(serve_aggregator(settings, seat))

    return serve


_leader = _make_serve(Seat.LEADER, "devices and the collector")
_leader.__doc__ = """Run the leader: it takes reports, verifies them with the helper, and releases batches.

Prints one line of JSON with its address when it answers.
"""
app.command("leader")(_leader)
_helper = _make_serve(Seat.HELPER, "the leader, and for devices that ask for its key")
_helper.__doc__ = """Run the helper: it verifies reports with the leader, and refuses batches that are too small.

Prints one line of JSON with its address when it answers.
"""
app.command("helper")(_helper)


@app.command("rotate-key")
def rotate(
    *,
    data_dir: DataDir,
    as_json: AsJson = False,
) -> None:
    """Make a new HPKE key for devices, and one for the gateway; those before are still opened for two days.

    Running aggregators read it within a minute, and tell devices of it a minute later.
    """
    settings = _settings_of_keys(data_dir)
    config_id = rotate_key(settings.keys_folder, int(time.time()))
    rotate_key(settings.gateway_keys_folder, int(time.time()))
    if as_json:
        print_json({"config_id": config_id})
    else:
        say(f"devices are given key {config_id} in {ADVERTISE_AFTER_S // 60} minutes, when every process has read it")


@app.command("gateway-key")
def show_gateway_key(
    *,
    data_dir: DataDir,
    as_json: AsJson = False,
) -> None:
    """Print the public key of an aggregator's gateway, which apps name for a relay (RFC 9458), in base64."""
    settings = _settings_of_keys(data_dir)
    (config,) = read_keys(settings.gateway_keys_folder, int(time.time())).configs.configs
    key_config = base64.b64encode(KeyConfig(config.config_id, config.public_key).to_bytes()).decode()
    if as_json:
        print_json({"key_config": key_config})
    else:
        say(key_config)


def _settings_of_keys(data_dir: Path) -> AggregatorSettings:
    """Return the settings of an aggregator's folder, where keys may be made.

    Raises:
        AggregatorFileError: no aggregator has this folder, so that a key in it would open nothing.
    """
    settings = AggregatorSettings(data_dir=data_dir)
    if not (settings.config_path.exists() or settings.keys_folder.exists()):
        raise AggregatorFileError(settings.config_path, "there is none: name the folder of one aggregator")
    return settings
