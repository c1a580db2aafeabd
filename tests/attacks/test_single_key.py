"""One key alone, and the network: it gives nothing, for each needs those that date a tree besides."""

import pytest
from alcove.registry.testing import RepositoryFixture

from tests.attacks.attacker import possible


@pytest.mark.parametrize("role", ["targets", "snapshot", "policy", "halt", "team-text"])
def test_key_compromise_alone_gives_nothing(published_repository: RepositoryFixture, role: str) -> None:
    """Each single key in turn, with the network: forge, choose, halt, freeze; on devices old and new."""
    assert possible(published_repository, [role]) == set()
