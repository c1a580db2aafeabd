"""The `timestamp` key for a while: its version is run up and left to expire; new keys bring devices back."""

import pytest
from alcove.registry import layout
from alcove.registry.errors import RegistryError
from alcove.registry.signed_time import utc
from alcove.registry.testing import RepositoryFixture

from tests.attacks.attacker import Attacker, read_everything, replace_keys


@pytest.mark.parametrize("number", [50, 2**31, 2**53])
@pytest.mark.parametrize("is_seen_expired", [False, True])
def test_devices_come_back_with_new_keys(
    published_repository: RepositoryFixture, number: int, is_seen_expired: bool
) -> None:
    """A device that took it, and one that only saw it after its date: held, until root names another key."""
    read_everything(published_repository, "device")
    attacker = Attacker(published_repository, {"timestamp": published_repository.keys.online.timestamp})
    attacker.expires = utc(published_repository.clock.now_s() + 600)
    attacker.publish({}, timestamp=number)
    published_repository.clock.time_s += 601 if is_seen_expired else 10
    try:
        read_everything(published_repository, "device")
    except RegistryError:
        assert is_seen_expired
    published_repository.fetcher.replaced = {}
    published_repository.tree.refresh()
    with pytest.raises(RegistryError):
        read_everything(published_repository, "device")
    replace_keys(published_repository, {"timestamp"})
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")
    published_repository.clock.time_s += layout.LIFETIMES_S["timestamp"] // 2 + 1
    published_repository.tree.refresh()
    assert read_everything(published_repository, "device") == (1, 0, "1.0.0")
