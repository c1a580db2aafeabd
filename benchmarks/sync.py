"""How many bytes does a device move?  A real server, a real client, loopback."""

from __future__ import annotations

import tempfile
from pathlib import Path

from alcove.features.language_id.contract import program_path
from alcove.platform.cli.demo.world import APP, FEATURE, TEAM, Places, Server, prepare
from alcove.platform.client import push_package
from alcove.platform.client.models import Arm
from alcove.registry.keys import load_signer
from alcove.registry.package import create_package
from alcove.sdk import Client

from benchmarks.figures import Figure

VERSIONS = ("1.0.0", "2.0.0")


def measure() -> list[Figure]:
    """Return the bytes of a device's first and second sync in an experiment of two versions."""
    with tempfile.TemporaryDirectory(prefix="alcove-bench-") as folder:
        places = Places(Path(folder))
        tokens = prepare(places)
        with Server(places) as server:
            signer = load_signer(places.team_key)
            with server.client(tokens.team) as team:
                for version in VERSIONS:
                    programs = {"int8": program_path(version).read_bytes()}
                    package = create_package(
                        feature=FEATURE, team=TEAM, version=version, programs=programs, card="# Card\n"
                    )
                    push_package(team, package, signer)
            arms = [Arm(name=version, version=version, share_permyriad=5_000) for version in VERSIONS]
            with server.client(tokens.operator) as operator:
                operator.start_experiment(operator.create_experiment(APP, FEATURE, arms).experiment_id)
            with Client(APP, places.device(1), server.http, places.root) as client:
                first, second = client.sync(), client.sync()
    programs_bytes = sum(program_path(version).stat().st_size for version in VERSIONS)
    return [
        Figure("first sync: received", first.bytes_received, "bytes", "metadata and both arms' programs"),
        Figure("first sync: metadata alone", first.bytes_received - programs_bytes, "bytes", "without the programs"),
        Figure("first sync: sent", first.bytes_sent, "bytes", "requests, headers included"),
        Figure("second sync: received", second.bytes_received, "bytes", "nothing had changed"),
        Figure("second sync: sent", second.bytes_sent, "bytes", "requests, headers included"),
    ]
