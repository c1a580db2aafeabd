"""Fixtures that all attacks share: a registry in a folder, with every key in the attacker's reach if a test says so."""

import json
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.server.serve import Running, run
from alcove.platform.server.settings import Settings
from alcove.platform.testing import Served, ServerWorld
from alcove.registry.testing import RepositoryFixture

from tests.sdk.conftest import client_stack, device, make_device, released_world, server, template

__all__ = ["client_stack", "device", "make_device", "released_world", "server", "template"]

FEATURES = tuple(f"text_{number:02d}" for number in range(8))
RunServer = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes need not last: no attack here stages a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def tree_world(tmp_path: Path, unsynced: None) -> RepositoryFixture:
    """An empty tree of two teams, with all of its keys at hand."""
    return RepositoryFixture(tmp_path / "tree")


@pytest.fixture
def published_repository(tree_world: RepositoryFixture) -> RepositoryFixture:
    """The same with language_id 1.0.0 and policy 1 of the app "messenger"."""
    tree_world.push(tree_world.package())
    tree_world.tree.publish_policy("messenger", tree_world.policy(1).to_bytes())
    return tree_world


@pytest.fixture(scope="session")
def server_world(tmp_path_factory: pytest.TempPathFactory) -> ServerWorld:
    """Keys, tree and tokens of the attacked server; each attack takes an app and features of its own."""
    return ServerWorld(
        tmp_path_factory.mktemp("attacked") / "world", teams={"text": FEATURES, "speech": ("speech_00",)}
    )


@pytest.fixture(scope="session")
def attacked(server_world: ServerWorld) -> Iterator[Served]:
    """A server in a process of its own; it must outlive every attack, end cleanly, and have logged JSON alone."""
    server = server_world.start()
    yield server
    assert server.stop() == 0
    for line in server.log.read_text(encoding="utf-8").splitlines():
        assert isinstance(json.loads(line), dict)


@asynccontextmanager
async def serving_here(world: ServerWorld, **more: Any) -> AsyncIterator[Running]:
    """A server in this process that answers no devices, whose limits a test may lower."""
    keys = world.online_keys
    argument = {"data_dir": world.data_dir, "online_keys": keys, "grpc_port": 0, "only": "grpc", **more}
    async with run(Settings.model_validate(argument)) as running:
        yield running


@pytest.fixture
def run_server() -> RunServer:
    """Gives servers in this process that answer no devices."""
    return serving_here


@pytest.fixture
def own_world(tmp_path: Path) -> ServerWorld:
    """A world for one such server."""
    return ServerWorld(tmp_path / "own", teams={"text": ("text_00",)})
