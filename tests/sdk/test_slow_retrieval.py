"""Slow retrieval: a server that answers, but too slowly ever to end.  The device gives it up and loses nothing."""

import itertools
from pathlib import Path

import pytest
from alcove.registry.client import RepositoryClient
from alcove.registry.errors import FetchError
from alcove.sdk.egress import Egress, TufFetcher

from tests.sdk.conftest import TreeServer


def test_slow_retrieval_attack_is_given_up_and_costs_nothing(server: TreeServer, tmp_path: Path) -> None:
    """Below the least pace, by a clock that is set by hand; the same device is right at its next check-in."""
    root = (server.folder / "metadata" / "1.root.json").read_bytes()

    def device(seconds_a_look: int) -> tuple[RepositoryClient, Egress]:
        ticks = itertools.count(0, seconds_a_look)
        egress = Egress(server.url, monotonic_s=lambda: float(next(ticks)))
        return RepositoryClient(tmp_path / "device", TufFetcher(egress, server.url), server.url, root), egress

    client, egress = device(0)
    client.refresh()
    egress.close()
    before = {path.name: path.read_bytes() for path in (tmp_path / "device").rglob("*.json")}
    client, egress = device(100_000)
    with pytest.raises(FetchError, match="a second are due"):
        client.refresh()
    egress.close()
    assert {path.name: path.read_bytes() for path in (tmp_path / "device").rglob("*.json")} == before
    client, egress = device(0)
    client.refresh()
    egress.close()
