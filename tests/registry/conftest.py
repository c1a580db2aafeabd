"""Fixtures of the registry tests: a registry in a temporary folder, empty or with a version and a policy."""

import os
from pathlib import Path

import pytest
from alcove.registry.testing import RepositoryFixture


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut is not staged here (`test_files.py` shows that and when files are synced), so nothing need last."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def world(tmp_path: Path) -> RepositoryFixture:
    """An empty tree of two teams."""
    return RepositoryFixture(tmp_path)


@pytest.fixture
def published_repository(world: RepositoryFixture) -> RepositoryFixture:
    """The same with language_id 1.0.0 and policy 1 of the app "messenger"."""
    world.push(world.package())
    world.tree.publish_policy("messenger", world.policy(1).to_bytes())
    return world
