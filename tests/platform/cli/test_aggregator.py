"""`alcove aggregator`: what is wrong with folders and ports is said in a sentence that names them."""

import socket
from pathlib import Path

import pytest
from alcove.platform.cli.failures import explain
from alcove.platform.listening.http import listen_http

from tests.platform.cli.terminal import alcove

URLS = ("--leader-url", "http://127.0.0.1:7491", "--helper-url", "http://127.0.0.1:7492")


@pytest.mark.parametrize("command", ["gateway-key", "rotate-key"])
def test_no_key_is_made_in_a_folder_of_no_aggregator(tmp_path: Path, command: str) -> None:
    """The folder above both seats has none: a key that apps would name would open nothing."""
    pair = tmp_path / "pair"
    assert alcove("aggregator", "create", str(pair), *URLS).code == 0
    refused = alcove("aggregator", command, "--data-dir", str(pair))
    assert refused.code == 1
    assert f"{pair}/aggregator.json: there is none" in refused.err
    assert sorted(path.name for path in pair.iterdir()) == ["collector", "helper", "leader"]
    assert alcove("aggregator", command, "--data-dir", str(pair / "helper")).code == 0


def test_port_that_is_taken_is_named() -> None:
    """Host and port are in the one line that a command says."""
    with socket.create_server(("127.0.0.1", 0)) as occupied:
        port = occupied.getsockname()[1]
        with pytest.raises(OSError, match="Address already in use") as refused:
            listen_http("127.0.0.1", port)
    assert explain(refused.value) == (f"127.0.0.1:{port}: Address already in use", 1)
