"""What do the registry's tests share?  A registry in a temporary folder."""

from pathlib import Path

import pytest
from alcove.registry.testing import TreeWorld


@pytest.fixture
def world(tmp_path: Path) -> TreeWorld:
    """An empty tree of two teams."""
    return TreeWorld(tmp_path)


@pytest.fixture
def published(world: TreeWorld) -> TreeWorld:
    """The same with language_id 1.0.0 and policy 1 of the app "messenger"."""
    world.push(world.package())
    world.tree.publish_policy("messenger", world.policy(1).to_bytes())
    return world
