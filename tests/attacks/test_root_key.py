"""The root key: it is everything, which shows that the attacks are."""

from alcove.registry.testing import TreeWorld

from tests.attacks.attacker import possible


def test_root_key_alone_gives_everything(published: TreeWorld) -> None:
    """The control of all tests beside: with this key every attack succeeds."""
    assert possible(published, ["root"]) == {"forge", "choose", "halt", "freeze"}
