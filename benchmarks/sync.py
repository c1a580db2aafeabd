"""Measures the bytes that a device moves in its first and second sync: a real server, a real client, loopback."""

from __future__ import annotations

from alcove.features.language_id.contract import program_path
from alcove.platform.cli.demo.environment import APP
from alcove.platform.cli.demo.testing import VERSIONS, running_experiment
from alcove.sdk import Client

from benchmarks.figures import Figure


def measure() -> list[Figure]:
    """Return the bytes of a device's first and second sync in an experiment of two versions."""
    with running_experiment() as world:
        places = world.places
        with Client(APP, places.device(1), world.server.http, places.root) as client:
            first, second = client.sync(), client.sync()
    programs_bytes = sum(program_path(version).stat().st_size for version in VERSIONS)
    return [
        Figure("first sync: received", first.bytes_received, "bytes", "metadata and both arms' programs"),
        Figure("first sync: metadata alone", first.bytes_received - programs_bytes, "bytes", "without the programs"),
        Figure("first sync: sent", first.bytes_sent, "bytes", "requests, headers included"),
        Figure("second sync: received", second.bytes_received, "bytes", "nothing had changed"),
        Figure("second sync: sent", second.bytes_sent, "bytes", "requests, headers included"),
    ]
