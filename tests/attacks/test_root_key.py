"""The root key: it is everything, which shows that the attacks are."""

from alcove.registry.testing import RepositoryFixture

from tests.attacks.attacker import possible


def test_root_key_alone_gives_everything(published_repository: RepositoryFixture) -> None:
    """The control of all tests beside: with this key every attack succeeds."""
    assert possible(published_repository, ["root"]) == {"forge", "choose", "halt", "freeze"}
