"""Fixtures that all attacks share: a registry in a folder, with every key in the attacker's reach if a test says so."""

import os
from pathlib import Path

import pytest
from alcove.registry.testing import TreeWorld

from tests.sdk.conftest import closing, device, make_device, released, server, template

__all__ = ["closing", "device", "make_device", "released", "server", "template"]


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes need not last: no attack here stages a power cut."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def tree_world(tmp_path: Path, unsynced: None) -> TreeWorld:
    """An empty tree of two teams, with all of its keys at hand."""
    return TreeWorld(tmp_path / "tree")


@pytest.fixture
def published(tree_world: TreeWorld) -> TreeWorld:
    """The same with language_id 1.0.0 and policy 1 of the app "messenger"."""
    tree_world.push(tree_world.package())
    tree_world.tree.publish_policy("messenger", tree_world.policy(1).to_bytes())
    return tree_world
