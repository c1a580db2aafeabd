"""The `timestamp` key alone: it freezes for as long as the snapshot lives, and new keys leave its numbers behind."""

import pytest
from alcove.registry import layout
from alcove.registry._tuf import (
    Targets,
)
from alcove.registry.errors import (
    ExpiredMetadata,
    RollbackError,
)
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.testing import TreeWorld

from tests.attacks.attacker import SERVER, Attacker, possible, read_everything, replace_keys


def test_timestamp_key_alone_freezes_and_no_more(published: TreeWorld) -> None:
    """It forges, chooses and halts nothing."""
    assert possible(published, ["timestamp"]) == {"freeze"}


@pytest.mark.parametrize("forwarded", ["timestamp", "snapshot", "policy", "halt"])
def test_fast_forward_attack_is_recovered_from_by_new_keys(published: TreeWorld, forwarded: str) -> None:
    """A thief of the server runs a number up to where none follows; new keys leave it behind, and devices follow."""
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    attacker = Attacker(published, {role: getattr(published.keys.online, role) for role in ONLINE_ROLES})
    state = published.tree.state()
    roles: dict[str, Targets] = {}
    if forwarded in ("policy", "halt"):
        roles[forwarded] = Targets(
            version=2**40, expires=attacker.expires, targets=dict(state.roles[forwarded].targets)
        )
    numbers = {role: 2**40 if role == forwarded else None for role in SERVER}
    attacker.publish(roles, snapshot=numbers["snapshot"], timestamp=numbers["timestamp"])
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    published.fetcher.replaced = {}
    with pytest.raises(RollbackError):
        published.client("device").refresh()
    replace_keys(published, {"timestamp", "snapshot", forwarded})
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    published.tree.publish_policy("messenger", published.policy(2).to_bytes())
    assert read_everything(published, "device")[0] == 2


def test_stolen_timestamp_key_freezes_for_as_long_as_the_snapshot_lives(published: TreeWorld) -> None:
    """Seven days; a new key of the root's naming ends it at once."""
    attacker = Attacker(published, {"timestamp": published.keys.online.timestamp})
    attacker.publish({})
    published.clock.time_s += layout.LIFETIMES_S["snapshot"] - 1
    assert read_everything(published, "device") == (1, 0, "1.0.0")
    published.clock.time_s += 1
    with pytest.raises(ExpiredMetadata) as caught:
        read_everything(published, "device")
    assert caught.value.role == "snapshot"
    published.fetcher.replaced = {}
    replace_keys(published, {"timestamp"})
    published.tree.refresh()
    assert read_everything(published, "device") == (1, 0, "1.0.0")
